"""The sentences of ranking's pages: who leads and how certain that is, and how two compare."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext, gettext_noop

from arena.outcomes import UNCOUNTED_VOTES
from arena.validation import join_names, numbered, percent
from ranking import wording
from ranking.anchor import MEAN
from ranking.board_data import BoardStanding, BoardView, Findings
from ranking.models import BothBad, Raters, Snapshot, Standing
from ranking.reasons import NamedReason
from ranking.stats.intervals import capped_note
from ranking.stats.ranks import CLEAR_AT, least_error
from ranking.templatetags.ranking_tags import grouped, signed

BOTH_BAD_SENTENCES = {
    BothBad.SEPARATE: "“Both bad” does not affect scores; its rate is shown separately.",
    BothBad.TIE: "“Both bad” counts as a tie on this leaderboard.",
}
# Why candidates are unranked, by status; those nearest the top first.
GROUPS = {
    "above": (
        "Group that beats all others",
        "Neither they nor those they trade wins with have ever lost to a ranked candidate.",
    ),
    "undefeated": (
        "Never lost or tied",
        "Unbeaten: no finite score. After wins on 8 prompts they rank above the others.",
    ),
    "disconnected": (
        "Not connected to the rest",
        "No chain of results connects them with the others in both directions.",
    ),
    "below": (
        "Group that all others beat",
        "Neither they nor those they trade wins with have ever beaten a ranked candidate.",
    ),
    "winless": (
        "Never won or tied",
        "Winless: no finite score. After losses on 8 prompts they rank below the others.",
    ),
    "no_votes": ("No votes yet", "Nobody has compared their answers yet."),
    "only_candidate": ("Only candidate", "There is no other candidate to compare it with."),
}
MOST_CHANGES = 5  # of ranks that one sentence names
PLACE = ("rank", "score", "low", "high")
CLEAR = gettext_noop("Its lead over every other ranked candidate{} holds at every look, for {}.")
AHEAD = gettext_noop(
    "At this count its lead over every other ranked candidate{} is statistically significant,"
    " corrected for multiple comparisons, for {}; at every look it is not clear yet."
)
WITHOUT_SCORE = gettext_noop("It has never lost, on enough prompts to rule out chance, for {}.")
BOARD_SCOPES = {
    "judges": gettext_noop("these judges and prompts like these"),
    "juries": gettext_noop("these juries and prompts like these"),
}
OPEN_SCOPE = gettext_noop("raters and prompts like these")
TRANSITIVE_BY_CHANCE = 0.75  # share of triads without a cycle if each winner is a coin toss
LEAST_GAIN = 1.05  # the smallest gain from judges' votes that is stated as a number
NO_TRUSTED_JUDGE = (
    "No judge is trusted yet, so this leaderboard is identical to the human one. Votes by LLM"
    " judges and juries have leaderboards of their own; they count here once their agreement with"
    " people has been measured and is good enough."
)
TWICE_AS_MUCH = 2.0
LEAST_TIMES = 1.2  # how much more the first must cost for the story to say so
TWICE = 1 / 3  # (a - b) / (a + b) if one answer has twice as many as the other
ANY = 1.0  # the same if one has some and the other has none
# An answer with the trait, the answer it is compared with, and their difference.
TRAIT_EXAMPLES = {
    "words": ("An answer twice as long", "the other", TWICE),
    "headings": ("An answer with headings", "one without", ANY),
    "list_items": ("An answer with a list", "one without", ANY),
    "bold": ("An answer with bold words", "one without", ANY),
}


def capped(settings: Mapping[str, Any]) -> str:
    """Which raters and networks weigh less per vote; '' if none does."""
    note = capped_note(settings.get("capped_raters", 0), settings.get("capped_at", 1.0))
    if not (n_networks := settings.get("capped_networks", 0)):
        return note
    share = percent(settings["network_share"])
    whose = "1 network" if n_networks == 1 else f"each of {n_networks:,} networks"
    return f"{note} Anonymous votes from {whose} are capped at {share} of the weight.".strip()


@dataclass(frozen=True)
class Collecting:
    """A leaderboard with too few votes or prompts for a ranking."""

    headline: str
    says: str


def collecting(snapshot: Snapshot | None) -> Collecting | None:
    """What a leaderboard says in place of a ranking; None if there is enough for one."""
    if snapshot is None or not snapshot.lacks_votes:
        return None
    n, evidence = snapshot.n_votes, snapshot.settings["evidence"]
    text = gettext("Collecting votes: {n} of {needed}.")
    if not n or n >= evidence["needed"]:  # the number needed depends on the candidates
        text = gettext("Collecting votes: {n} so far.")
    headline = text.format(n=f"{n:,}", needed=f"{evidence['needed']:,}")
    units = "prompts of at least 5 documents" if snapshot.settings.get("documents") else ""
    where = f" votes on {units or 'at least 5 prompts'}." if evidence["few_prompts"] else "."
    return Collecting(headline, gettext("A ranking follows once there are enough") + where)


def description(
    question: str, snapshot: Snapshot | None, verdict: "Collecting | LeadSummary | None"
) -> str:
    """What search engines and chats show for a leaderboard."""
    parts = [question]
    if verdict:
        parts += [verdict.headline, verdict.says]
    if snapshot and snapshot.n_votes:
        parts.append(f"{numbered(snapshot.n_votes, 'blind vote')}.")
    return " ".join(filter(None, parts))


UNDER_REVIEW = gettext_noop("{name} has the highest score.")
PROVISIONAL = gettext_noop(
    "{name} is ahead, but not without the few networks whose votes help it most."
)


@dataclass(frozen=True)
class LeadSummary:
    """Who is first, whether the lead is `clear` at every look, or significant at this count
    (`is_ahead`), and a sentence about it. `sharing`: how many could be first, if that is known to
    be several. `beyond_votes`: a sentence if no votes alone can settle it. `is_provisional`: few
    networks carry it. `is_under_review`: its raters look rigged."""

    candidate: int
    name: str
    clear: bool
    says: str
    is_ahead: bool = False
    sharing: int = 0
    beyond_votes: str = ""
    is_provisional: bool = False
    is_under_review: bool = False

    @property
    def headline(self) -> str:
        if self.is_under_review:
            return gettext("No leader while votes are under review.")
        if self.is_provisional:
            return gettext("Provisional: few networks carry this lead.")
        if self.clear:
            return gettext("{name} is the clear leader.").format(name=self.name)
        if self.is_ahead:
            return gettext("{name} is ahead for now.").format(name=self.name)
        if self.sharing:
            return gettext("{number} candidates share the lead.").format(
                number=count_words(self.sharing).capitalize()
            )
        return gettext("No clear leader yet.")


def lead(
    rows: Sequence[BoardStanding],
    findings: Findings,
    raters: str,
    settings: Mapping[str, Any],
) -> LeadSummary | None:
    """What the simultaneous rank intervals say about the first place; None without intervals.

    `raters`: whose votes these are. `settings`: of the snapshot.
    """
    ranked = sorted(rows, key=lambda row: (row.standing.rank or 0, row.name))
    measured = sum(row.standing.sure_rank_low is not None for row in ranked)
    if measured < 2:
        return None
    first = ranked[0]
    pk = first.standing.candidate_id
    if pk in (findings.leader, findings.ahead):
        scope = gettext(BOARD_SCOPES.get(raters, OPEN_SCOPE))
        words = CLEAR if pk == findings.leader else AHEAD
        if first.standing.score is None:
            words = gettext(WITHOUT_SCORE).format(scope)
        else:
            measured_ones = gettext(" with an interval") if measured < len(ranked) else ""
            words = gettext(words).format(measured_ones, scope)
        return LeadSummary(pk, first.name, pk == findings.leader, words, is_ahead=True)
    if findings.is_under_review or pk == findings.provisional:
        return _doubtful_lead(first, findings.is_under_review)
    reason = _why_no_leader(ranked, len(findings.apart))
    these_raters = settings.get("these_raters", 0)
    if these_raters:
        reason = gettext("one rater is too few to say what others would prefer")
        if these_raters > 1:
            reason = gettext("{n} raters are too few to say what others would prefer")
        reason = reason.format(n=f"{these_raters:,}")
    says = gettext("{name} is ahead, but {reason}.").format(name=first.name, reason=reason)
    level = sum(row.standing.rank == 1 for row in ranked)
    possible = sum(row.standing.sure_rank_low == 1 for row in ranked)
    is_of_few = these_raters > 0 and level == 1
    is_known = measured == len(ranked) and not is_of_few and possible > 1
    is_known &= not findings.apart and not first.standing.candidate.retired_at
    if level > 1:
        says = gettext("{n} candidates share first place.").format(n=f"{level:,}")
        if is_known and level == possible:
            says = ""  # the headline says the same
    beyond_votes = ""
    if not these_raters and _is_beyond_votes(ranked, settings.get("effective", {})):
        beyond_votes = gettext(
            "More votes alone won’t settle it: it takes more raters and prompts."
        )
        says = f"{says} {beyond_votes}".strip()
    return LeadSummary(
        first.standing.candidate_id,
        first.name,
        False,
        says,
        sharing=possible if is_known else 0,
        beyond_votes=beyond_votes,
    )


def _doubtful_lead(first: BoardStanding, is_under_review: bool) -> LeadSummary:
    """What is said of the first place where nobody is named because of who voted."""
    says = gettext(UNDER_REVIEW if is_under_review else PROVISIONAL)
    return LeadSummary(
        first.standing.candidate_id,
        first.name,
        False,
        says.format(name=first.name),
        is_provisional=not is_under_review,
        is_under_review=is_under_review,
    )


def _is_beyond_votes(ranked: Sequence[BoardStanding], effective: Mapping[str, int]) -> bool:
    """Whether no number of votes by as many people on as many prompts would make a clear leader."""
    first, second = (row.standing.score for row in ranked[:2])
    if first is None or second is None or not {"raters", "prompts"} <= effective.keys():
        return False
    return first - second < CLEAR_AT * least_error(effective["raters"], effective["prompts"])


def count_words(n: int) -> str:
    """A small count in words."""
    words = (
        *("", "", gettext("two"), gettext("three"), gettext("four"), gettext("five")),
        *(gettext("six"), gettext("seven"), gettext("eight"), gettext("nine"), gettext("ten")),
    )
    return str(words[n]) if 1 < n < len(words) else f"{n:,}"


@dataclass(frozen=True)
class Story:
    """The headline of a leaderboard, and what else is known about the lead; `about_style`: who
    leads among answers of equal style, where somebody else does."""

    headline: str
    sentences: list[str]
    about_style: str = ""


def story(
    lead: LeadSummary,
    ranked: Sequence[BoardStanding],
    reasons: Iterable[NamedReason],
    styled: Sequence[BoardStanding],
) -> Story:
    """Who leads, what raters praise it for, and what it costs.

    `ranked`: with an interval or not. `styled`: ranked by style-controlled scores; may be empty.
    """
    by_id = {row.standing.candidate_id: row for row in ranked}
    first, sentences = by_id[lead.candidate], [lead.says] if lead.says else []
    if lead.sharing and sum(row.standing.rank == 1 for row in ranked) == 1:
        sentences = [gettext("{name} is ahead on points.").format(name=lead.name)]
    for reason in reasons:
        is_own = reason.candidate == lead.candidate and reason.is_strength and not reason.category
        if is_own and reason.stands_out and (reason.percent_elsewhere or 0) < reason.percent:
            sentences.insert(1, _praise(reason))
            break
    contenders = [row for row in ranked if row.standing.sure_rank_low == 1]
    sentences += _price_of(first, contenders)
    return Story(lead.headline, sentences, _style_contrast(first, styled))


def _praise(reason: NamedReason) -> str:
    if not reason.percent_elsewhere:
        text = gettext("Raters name “{tag}” in {share}% of its explained wins and ties.")
    else:
        text = gettext(
            "Raters name “{tag}” in {share}% of its explained wins and ties,"
            " {others}% of the others’."
        )
    return text.format(share=reason.percent, tag=reason.tag, others=reason.percent_elsewhere)


def _price_of(first: BoardStanding, contenders: Sequence[BoardStanding]) -> list[str]:
    """How the price of the first compares with the cheapest that could be first too."""
    priced = [row for row in contenders if row.value.n_priced and row.value.dollars]
    if first not in priced or len(priced) < 2:
        return []
    others = [row for row in priced if row is not first]
    cheapest = min(others, key=lambda row: row.value.dollars or 0.0)
    times = (first.value.dollars or 0.0) / (cheapest.value.dollars or 1.0)
    if times * LEAST_TIMES <= 1:
        return [gettext("Of those that could be first, it costs least.")]
    if times < LEAST_TIMES:
        return []
    text = gettext("It costs {times} times as much as {other}.")
    if round(times, 1) == TWICE_AS_MUCH:
        text = gettext("It costs twice as much as {other}.")
    shown = f"{times:.0f}" if times >= 2 else f"{times:.1f}"
    return [text.format(times=shown, other=cheapest.name)]


def _style_contrast(first: BoardStanding, styled: Sequence[BoardStanding]) -> str:
    """Who scores highest among answers of equal style, if that is somebody else."""
    best = next((row for row in styled if row.standing.rank == 1), None)
    if best is None or best.standing.candidate_id == first.standing.candidate_id:
        return ""
    if best.standing.sure_rank_high == 1:
        text = gettext("Between answers of equal style, {name} leads.")
    else:
        text = gettext("Between answers of equal style, {name} scores highest.")
    return text.format(name=best.name)


def style_story(
    plain: Sequence[BoardStanding], styled: Sequence[BoardStanding], matters: bool = True
) -> Story:
    """The headline of the view that controls for style, whether style `matters`, and who has no
    score in it."""
    ranked = sorted(styled, key=lambda row: (row.standing.rank or 10**9, row.name))
    possible = [row for row in ranked if row.standing.sure_rank_low == 1]
    sentences = []
    if len(possible) > 1:
        text = gettext("Between answers of equal style, {number} candidates share the lead.")
        headline = text.format(number=count_words(len(possible)))
        text = gettext("{name} is ahead on points.")
    else:
        headline = gettext("Between answers of equal style, {name} scores highest.")
        headline = headline.format(name=ranked[0].name)
        text = ""
    if text:
        sentences.append(text.format(name=ranked[0].name))
    if not matters:
        sentences.append(gettext("No feature of style has a significant effect here."))
    without = len(plain) - sum(row.standing.score is not None for row in styled)
    if without:
        text = gettext("{n} candidates have no style-controlled score.")
        if without == 1:
            text = gettext("1 candidate has no style-controlled score.")
        sentences.append(text.format(n=f"{without:,}"))
    return Story(headline, sentences)


def _why_no_leader(ranked: Sequence[BoardStanding], n_apart: int) -> str:
    if ranked[0].standing.candidate.retired_at:
        return gettext("it is archived")
    if n_apart:
        reason = gettext("{n} other candidates with enough votes cannot be compared with it yet")
        if n_apart == 1:
            reason = gettext("1 other candidate with enough votes cannot be compared with it yet")
        return reason.format(n=f"{n_apart:,}")
    # With a place but no interval, any rank is possible.
    could_be_first = [row.standing.sure_rank_low in (1, None) for row in ranked]
    n = sum(could_be_first)
    if ranked[0].standing.score is None and n > 1:
        return gettext("too few of its votes are against the best of the others")
    if n < 2:
        return gettext("not all of its leads are statistically significant")
    if not all(could_be_first[:n]):
        return gettext("{n} candidates could be first").format(n=n)
    reason = gettext("any of the top {n} could be first")
    if n == 2:
        reason = gettext("either of the top two could be first")
    return reason.format(n=n)


def robustness(findings: Findings, names: Mapping[int, str]) -> str:
    """How few votes would change number one, and who would be first; '' without a number one."""
    stored = findings.robustness
    if stored.get("top") is None:
        return ""
    if stored["votes"] is None:
        return (
            f"We found no set of up to half of the {stored['of']:,} votes whose removal would "
            "change number one."
        )
    rival = names.get(stored.get("rival") or 0)
    if not stored["votes"] or not rival:
        return f"{stored['words'].rstrip('.')}."
    return f"Removing just {stored['votes']:,} of {stored['of']:,} votes would put {rival} first."


def without_one(findings: Findings, names: Mapping[int, str]) -> list[str]:
    """Whether number one stays so without any one rater, and without any one prompt."""
    says = []
    for group, stored in (findings.robustness.get("without_one") or {}).items():
        noun = group.removesuffix("s")
        rival = names.get(stored.get("rival") or 0)
        if not stored["changes"]:
            says.append(f"Number one stays first whichever {noun} is left out.")
        elif rival:
            says.append(
                f"Leaving out one {noun} of {stored['of']:,} can put another candidate first:"
                f" without the most influential one, {rival} is first."
            )
    return says


@dataclass(frozen=True)
class Group:
    """Candidates that cannot be ranked for the same reason."""

    title: str
    reason: str
    rows: list[BoardStanding]


@dataclass(frozen=True)
class Freshness:
    """How many of the votes the intervals include, and when they are updated."""

    seen: int
    of: int
    again_at: datetime


def groups(rows: Iterable[BoardStanding]) -> list[Group]:
    """The unranked candidates, grouped by reason."""
    by_status: dict[str, list[BoardStanding]] = {}
    for row in rows:
        by_status.setdefault(row.standing.status, []).append(row)
    order = [*(status for status in GROUPS if status in by_status), *(by_status.keys() - GROUPS)]
    return [
        Group(*GROUPS.get(status, ("Not comparable", "")), by_status[status]) for status in order
    ]


@dataclass(frozen=True)
class GroupPlace:
    """A candidate's place in a group that is ranked on its own, with the score on its own scale."""

    row: BoardStanding
    rank: int
    score: float
    low: float | None
    high: float | None


def rankings(findings: Findings, unranked: Iterable[BoardStanding]) -> list[list[GroupPlace]]:
    """The rankings of groups not connected to the rest, for candidates without a rank."""
    rows = {row.standing.candidate_id: row for row in unranked}
    groups = [
        [
            GroupPlace(rows[place["candidate"]], *(place[name] for name in PLACE))
            for place in group
            if place["candidate"] in rows
        ]
        for group in findings.groups
    ]
    return [group for group in groups if len(group) > 1]


def no_ranking(view: BoardView, rankings: Collection[Any]) -> str:
    """Why no candidate has a rank. `rankings`: of groups that cannot be compared."""
    if len(view.rows) == 1:
        return "This arena has one candidate. A ranking needs at least two."
    if view.snapshot is None or not view.snapshot.n_votes:
        return "No ranking yet: there are no votes to score."
    if not rankings:
        return (
            "No ranking yet: no two candidates are connected by both wins and losses, directly or"
            " through others."
        )
    return (
        "No ranking of all candidates yet: the largest groups are equally large, and wins and"
        " losses do not connect them. Each is ranked on its own below."
    )


def elo_note(n_votes: int | None) -> str:
    """What Elo's intervals lack; `n_votes`: how many votes they include, None for all."""
    if n_votes is None:
        return ""
    if not n_votes:
        return "Elo intervals are being computed."
    seen = f"the first {grouped(n_votes)} of these votes"
    return f"Elo intervals include {seen}; they are being updated."


def interval_notes(view: BoardView) -> list[str]:
    """Why some scores or all have no interval."""
    notes = []
    if view.has_unmeasured:
        notes.append(
            "A score without an interval has too few independent groups of votes (fewer than five),"
            " or they are still being counted; its rank could be anything, and the possible ranks"
            " of the others leave it out."
        )
    if view.snapshot and view.snapshot.interval_reason and view.has_scores:
        notes.append(f"No score intervals yet: {view.snapshot.interval_reason}")
    return notes


def freshness(snapshot: Snapshot | None) -> Freshness | None:
    """How up to date the intervals are; None if they include every vote or do not exist."""
    if snapshot is None or not snapshot.measured_at or snapshot.interval_reason:
        return None
    if snapshot.measured_votes >= snapshot.n_votes:
        return None
    return Freshness(snapshot.measured_votes, snapshot.n_votes, snapshot.intervals_due_at)


def agreement(findings: Findings, raters: str) -> str:
    """How often two raters agree; '' if no two judged the same two answers."""
    stored = findings.agreement
    if not stored.get("n_pairs"):
        return ""
    votes = {"judges": "LLM-judge votes", "juries": "Jury votes"}.get(raters, "Human votes")
    sentence = (
        f"{votes} on the same prompt and the same two answers agree in {percent(stored['share'])}"
        f" of cases ({numbered(stored['n_pairs'], 'pair')} of votes)."
    )
    if stored.get("decisive_n_pairs"):
        sentence += (
            " When both prefer an answer, they prefer the same one in "
            f"{percent(stored['decisive_share'])} of cases ({stored['decisive_n_pairs']:,}); "
            "chance would give 50%."
        )
    if stored.get("alpha") is not None:
        alpha = f"{stored['alpha']:.2f}"
        sentence += f" Krippendorff’s alpha is {alpha}: 0 is chance, 1 is perfect agreement."
    return sentence


def transitivity(findings: Findings) -> str:
    """How consistent the majorities are with a single order; '' without any triads."""
    stored = findings.transitivity
    if not stored.get("triads"):
        return ""
    share = percent(stored["transitive"] / stored["triads"])
    return (
        "Three candidates form a cycle if A beats B, B beats C, and yet C beats A. Of the "
        f"{stored['triads']:,} sets of three with a winner in each pair, {share} have no cycle. "
        f"One clear order would give 100%, and coin tosses {percent(TRANSITIVE_BY_CHANCE)}."
    )


def combined(findings: Findings) -> str:
    """What judges' votes add to a combined board; '' for other boards."""
    stored = findings.combined
    if not stored:
        return ""
    if not _is_trusted(stored):
        return NO_TRUSTED_JUDGE
    n = stored["n_judge_votes"]
    votes = f"{numbered(n, 'vote')} by trusted {_raters(stored)}"
    adds, narrows = ("adds", "narrows") if n == 1 else ("add", "narrow")
    if stored.get("reason") or stored.get("gain") is None:
        why = stored.get("reason", "")
        return f"Human votes decide here; the {votes} {adds} nothing. {why}".strip()
    if stored["gain"] < LEAST_GAIN:
        return f"Human votes decide here; the {votes} barely {narrows} the intervals."
    return (
        f"Human votes decide here; the {votes} {narrows} the intervals as much as"
        f" {stored['gain']:.1f} times as many human votes would."
    )


def rank_changes(findings: Findings, names: Mapping[int, str]) -> str:
    """What differs from human votes alone: widths, scores, lambda and more; '' if nothing does."""
    stored = findings.combined
    if not stored or not _is_trusted(stored) or stored.get("gain") is None or stored.get("reason"):
        return ""
    sentences = []
    if (share := stored.get("narrower")) is not None:
        by = percent(max(share, 0))
        sentences.append(f"Intervals are {by} narrower on average than with human votes alone.")
    moved, name = stored.get("moved_by"), names.get(stored.get("moved_most") or 0)
    if moved is not None and name:
        sentences.append(
            "No score changed by a whole point."
            if abs(moved) < 0.5
            else f"Largest change in score: {name}, {signed(moved)} Elo."
        )
    raters = _raters(stored)
    if left_out := [names[pk] for pk in stored.get("left_out", []) if pk in names]:
        about = f"Left out: verdicts about {join_names(left_out)} on prompts that only the {raters}"
        sentences.append(f"{about} saw, because those prompts seem to help or hurt them.")
    last = f"λ is {stored['lambda']:.2f}: 0 would ignore the {raters}, 1 would follow them fully."
    return " ".join([*sentences, last])


def trusted_raters(findings: Findings) -> str:
    """Which judges or juries count, by name; '' if none does."""
    stored = findings.combined
    if not stored.get("names"):
        return ""
    return f"Trusted {_raters(stored)} counted here: {', '.join(stored['names'])}."


def _is_trusted(stored: Mapping[str, Any]) -> bool:
    """Whether only trusted raters count; older snapshots counted every judge."""
    return bool(stored.get("trusted", True))


def _raters(stored: Mapping[str, Any]) -> str:
    return str(stored.get("raters", Raters.JUDGES.value))


@dataclass(frozen=True)
class Trait:
    """One feature of style, with its effect in words and in Elo."""

    label: str
    says: str
    elo: float | None
    low: float | None
    high: float | None


def traits(findings: Findings) -> list[Trait]:
    """The features of a board's style column, in the order in which they were fitted.

    Empty if no trait differs between answers: then there is no style to control for.
    """
    rows = [_trait(feature) for feature in findings.style.get("features") or []]
    has_effects = findings.style_scores and any(trait.elo is not None for trait in rows)
    return rows if has_effects else []


def style_matters(findings: Findings) -> bool:
    """Whether any feature of style has a significant effect on this leaderboard's votes."""
    ends = [(trait.low, trait.high) for trait in traits(findings)]
    return any(low is not None and high is not None and not low <= 0 <= high for low, high in ends)


def _trait(feature: Mapping[str, Any]) -> Trait:
    """Convert a coefficient (per standard deviation of the differences) to the effect in Elo
    between two answers that are easy to imagine."""
    label, deviation = feature["label"], feature.get("deviation")
    answer, other, gap = TRAIT_EXAMPLES.get(feature["name"], (label, "half as much", TWICE))

    def effect(name: str) -> float | None:
        value = feature.get(name)
        return value * gap / deviation if value is not None and deviation else None

    elo, low, high = effect("coefficient"), effect("low"), effect("high")
    if elo is None:
        says = f"Unknown. {feature.get('reason') or ''}".strip()
    elif low is not None and high is not None and low <= 0 <= high:
        says = "No significant effect."
    else:
        side = "higher" if elo > 0 else "lower"
        says = f"{answer} scores about {abs(elo):.0f} Elo {side} than {other}"
        says += "." if low is not None else "; the uncertainty is unknown."
    return Trait(label, says, elo, low, high)


def uncounted_votes(settings: Mapping[str, Any]) -> str:
    """How many votes do not count, and why; empty if all count."""
    counts = settings.get("left_out") or {}
    if not (total := sum(counts.values())):
        return ""
    reasons = [
        f"{counts[reason]:,} {words}"
        for reason, words in UNCOUNTED_VOTES.items()
        if counts.get(reason)
    ]
    return f"{numbered(total, 'vote')} not counted: {join_names(reasons)}."


def self_identified(settings: Mapping[str, Any], names: Mapping[int, str]) -> str:
    """How many votes count on answers that reveal their author, and what they decide."""
    stored = settings.get("named") or {}
    if not stored.get("votes"):
        return ""
    votes = numbered(stored["votes"], "vote")
    text = f"{votes} counted on pairs in which an answer reveals its author."
    places = sorted(stored["without"], key=lambda row: (row[1] is None, row[1]))
    move = settings.get("center", MEAN) - MEAN
    changes = [
        f"{names[pk]} would rank {rank} ({score + move:,.0f})"
        if rank is not None
        else f"{names[pk]} would have no score"
        for pk, rank, score in places[:MOST_CHANGES]
        if pk in names
    ]
    if not changes:
        return f"{text} Without them every rank would be the same."
    if len(places) > MOST_CHANGES:
        changes.append(f"{len(places) - MOST_CHANGES:,} more would have a different rank")
    return f"{text} Without them, {join_names(changes)}."


def badge_message(standing: Standing | None) -> str:
    """The possible ranks, the score, and its interval: "#1–2, 1043 (1025–1061)"."""
    if standing is None or standing.rank is None:
        return _unranked(standing)
    ranks = possible_ranks(standing, "–")
    place = f"#{ranks}, " if ranks else ""
    if standing.score is None:
        return f"{place}{_why_no_score(standing)}"
    interval = _interval_ends(standing)
    certainty = ", no interval yet" if interval is None else f" ({'–'.join(interval)})"
    return f"{place}{standing.score:.0f}{certainty}"


def describe_standing(standing: Standing | None) -> str:
    """For screen readers and search engines: the possible ranks, the score, and its interval."""
    collecting = wording.collecting(standing.snapshot) if standing else None
    if collecting:
        return collecting.headline.rstrip(".").lower()
    if standing is None or standing.rank is None:
        return _unranked(standing)
    ranks = possible_ranks(standing, " to ")
    place = f"rank {ranks}, " if ranks else ""
    if standing.score is None:
        return f"{place}{_why_no_score(standing)}"
    interval = _interval_ends(standing)
    certainty = "no interval yet"
    if interval is not None:
        certainty = f"between {' and '.join(interval)} with 95% confidence"
    return f"{place}score {standing.score:.0f}, {certainty}"


def _unranked(standing: Standing | None) -> str:
    has_votes = standing is not None and standing.votes > 0
    return "not comparable yet" if has_votes else "no votes yet"


def _why_no_score(standing: Standing) -> str:
    """Why there is no score, in a few words."""
    if standing.losses + standing.ties == 0:
        return "never lost"
    return "never won" if standing.wins + standing.ties == 0 else "no score"


def possible_ranks(standing: Standing, to: str) -> str:
    """A single rank if only one is possible, otherwise from the best to the worst; '' without an
    interval: any rank is possible then."""
    low, high = standing.sure_rank_low, standing.sure_rank_high
    if low is None:
        return ""
    return str(low) if low == high else f"{low}{to}{high}"


def _interval_ends(standing: Standing) -> tuple[str, str] | None:
    """Both ends of the interval, which is rarely symmetric around the score."""
    if standing.low is None or standing.high is None:
        return None
    return f"{standing.low:.0f}", f"{standing.high:.0f}"
