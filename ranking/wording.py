"""The sentences of ranking's pages: who leads and how certain that is, and how two compare."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext

from arena.outcomes import UNCOUNTED_VOTES
from arena.validation import join_names, numbered, percent
from ranking import wording
from ranking.board_data import BoardStanding, BoardView, Findings
from ranking.models import BothBad, Raters, Snapshot, Standing
from ranking.stats.intervals import capped_note
from ranking.templatetags.ranking_tags import grouped, signed

BOTH_BAD_SENTENCES = {
    BothBad.SEPARATE: "“Both bad” does not affect scores; its rate is shown separately.",
    BothBad.TIE: "“Both bad” counts as a tie on this leaderboard.",
}
CLUSTER_SENTENCES = {
    "prompt_rater": "Votes on {same} are treated as dependent, and so are votes by the"
    " same rater: ten votes by one person say less than ten votes by ten.",
    "prompt": "Votes on {same} are treated as dependent, so each {unit} counts as one"
    " piece of evidence, however many votes it has.",
    "prompt_pair": "Votes on the same prompt and the same two candidates are treated as dependent.",
    "rater": "Votes by the same rater are treated as dependent.",
    "vote": "Each vote is treated as independent.",
}
JUDGES_ALONE = "These results apply to these judges only; others may judge differently."
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
CLEAR = "Its lead over every other ranked candidate{} holds at every look, for {}."
AHEAD = (
    "At this count its lead over every other ranked candidate{} is statistically significant,"
    " corrected for multiple comparisons, for {}; at every look it is not clear yet."
)
WITHOUT_SCORE = "It has never lost, on enough prompts to rule out chance, for {}."
BOARD_SCOPES = {"judges": "these judges", "juries": "these juries"}
TRANSITIVE_BY_CHANCE = 0.75  # share of triads without a cycle if each winner is a coin toss
LEAST_GAIN = 1.05  # the smallest gain from judges' votes that is stated as a number
NO_TRUSTED_JUDGE = (
    "No judge is trusted yet, so this leaderboard is identical to the human one. Votes by LLM"
    " judges and juries have leaderboards of their own; they count here once their agreement with"
    " people has been measured and is good enough."
)
TWICE = 1 / 3  # (a - b) / (a + b) if one answer has twice as many as the other
ANY = 1.0  # the same if one has some and the other has none
# An answer with the trait, the answer it is compared with, and their difference.
TRAIT_EXAMPLES = {
    "words": ("An answer twice as long", "the other", TWICE),
    "headings": ("An answer with headings", "one without", ANY),
    "list_items": ("An answer with a list", "one without", ANY),
    "bold": ("An answer with bold words", "one without", ANY),
}


def cluster_sentence(settings: Mapping[str, Any], raters: str) -> str:
    """Which votes a snapshot treats as dependent; '' without a snapshot."""
    same, unit = "the same prompt", "prompt"
    if settings.get("documents"):
        same, unit = "prompts of the same document", "document"
    sentence = CLUSTER_SENTENCES.get(settings.get("clusters", ""), "").format(same=same, unit=unit)
    alone = sentence and raters in (Raters.JUDGES, Raters.JURIES)
    return f"{sentence} {JUDGES_ALONE}" if alone else sentence


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
    return Collecting(headline, "A ranking follows once there are enough" + where)


def description(
    question: str, snapshot: Snapshot | None, verdict: "Collecting | LeadSummary | None"
) -> str:
    """What search engines and chats show for a leaderboard."""
    parts = [question]
    if verdict:
        parts += [verdict.headline, verdict.says]
    if snapshot and snapshot.n_votes:
        parts.append(f"{numbered(snapshot.n_votes, 'blind vote')}.")
    return " ".join(parts)


@dataclass(frozen=True)
class LeadSummary:
    """Who is first, whether the lead is `clear` at every look, or significant at this count
    (`is_ahead`), and a sentence about it, which says so if the results are about these few raters
    only."""

    candidate: int
    name: str
    clear: bool
    says: str
    is_of_few: bool = False
    is_ahead: bool = False

    @property
    def clear_candidate(self) -> int | None:
        return self.candidate if self.clear else None

    @property
    def headline(self) -> str:
        if self.clear:
            return f"{self.name} is the clear leader."
        return f"{self.name} is ahead for now." if self.is_ahead else "No clear leader yet."


def lead(
    rows: Sequence[BoardStanding], findings: Findings, raters: str = "", these_raters: int = 0
) -> LeadSummary | None:
    """What the simultaneous rank intervals say about the first place; None without intervals.

    `raters`: whose votes these are. `these_raters`: the number of raters, if the results are about
    them only.
    """
    ranked = sorted(rows, key=lambda row: (row.standing.rank or 0, row.name))
    measured = sum(row.standing.sure_rank_low is not None for row in ranked)
    if measured < 2:
        return None
    first = ranked[0]
    pk = first.standing.candidate_id
    if pk in (findings.leader, findings.ahead):
        scope = f"{BOARD_SCOPES.get(raters, 'raters')} and prompts like these"
        words = CLEAR if pk == findings.leader else AHEAD
        if first.standing.score is None:
            words = WITHOUT_SCORE.format(scope)
        else:
            words = words.format(" with an interval" if measured < len(ranked) else "", scope)
        return LeadSummary(pk, first.name, pk == findings.leader, words, is_ahead=True)
    reason = _why_no_leader(ranked, len(findings.apart))
    if these_raters:
        few = "one rater is" if these_raters == 1 else f"{these_raters:,} raters are"
        reason = f"{few} too few to say what others would prefer"
    says, is_of_few = f"{first.name} is ahead, but {reason}.", these_raters > 0
    if (level := sum(row.standing.rank == 1 for row in ranked)) > 1:
        says, is_of_few = f"{level:,} candidates share first place.", False
    return LeadSummary(first.standing.candidate_id, first.name, False, says, is_of_few)


def style_lead(plain: Sequence[BoardStanding], styled: Sequence[BoardStanding]) -> str:
    """Whether somebody else scores highest once style is controlled for, and who has no score."""

    def first(rows: Sequence[BoardStanding]) -> str:
        return join_names(sorted(row.name for row in rows if row.standing.rank == 1))

    before, after = first(plain), first(styled)
    if before == after:
        says = f"With style controlled for, {after} still scores highest."
    else:
        says = f"With style controlled for, {after} scores highest instead of {before}."
    if without := len(plain) - len(styled):
        has = "candidate has" if without == 1 else "candidates have"
        says += f" {without:,} {has} no style-controlled score."
    return says


def _why_no_leader(ranked: Sequence[BoardStanding], n_apart: int) -> str:
    if ranked[0].standing.candidate.retired_at:
        return "it is archived"
    if n_apart:
        others = numbered(n_apart, "other candidate")
        return f"{others} with enough votes cannot be compared with it yet"
    # With a place but no interval, any rank is possible.
    could_be_first = [row.standing.sure_rank_low in (1, None) for row in ranked]
    n = sum(could_be_first)
    if ranked[0].standing.score is None and n > 1:
        return "too few of its votes are against the best of the others"
    if n < 2:
        return "not all of its leads are statistically significant"
    if not all(could_be_first[:n]):
        return f"{n} candidates could be first"
    return f"{'either of the top two' if n == 2 else f'any of the top {n}'} could be first"


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
            "chance would give 50 %."
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
        f"One clear order would give 100 %, and coin tosses {percent(TRANSITIVE_BY_CHANCE)}."
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


@dataclass(frozen=True)
class Remark:
    """How another board's score differs: `difference` in Elo, None if either has no score;
    `is_apart`: whether the intervals do not overlap."""

    difference: float | None
    is_apart: bool
    sentence: str


def disagreement(
    reference: str, own: Standing | None, raters: str, other: Standing | None, shift: float
) -> Remark:
    """Compare a candidate's `other` standing by `raters`, whose scale is higher by `shift`, with
    its `own` standing by the `reference`."""
    if own is None or own.score is None:
        return Remark(None, False, f"No score by {reference} to compare with the one by {raters}.")
    if other is None or other.score is None:
        return Remark(None, False, f"No score by {raters} yet.")
    difference = other.score - shift - own.score
    points = round(abs(difference))
    amount = f"{points} Elo {'higher' if difference > 0 else 'lower'}" if points else "same score"
    opening = f"{raters.capitalize()}: {amount}"
    if own.low is None or own.high is None or other.low is None or other.high is None:
        return Remark(difference, False, f"{opening} (significance unknown).")
    if other.low - shift <= own.high and own.low <= other.high - shift:
        return Remark(difference, False, f"{opening} (not significant).")
    ranks = _separate_ranks(reference, own, raters, other)
    return Remark(difference, True, f"{opening} (significant{ranks}).")


def _separate_ranks(reference: str, own: Standing, raters: str, other: Standing) -> str:
    """A sentence with both rank intervals, if these do not overlap either."""
    if own.sure_rank_low is None or own.sure_rank_high is None:
        return ""
    if other.sure_rank_low is None or other.sure_rank_high is None:
        return ""
    if other.sure_rank_low <= own.sure_rank_high and own.sure_rank_low <= other.sure_rank_high:
        return ""
    return f"; rank {_rank_range(other)} by {raters}, {_rank_range(own)} by {reference}"


def _rank_range(standing: Standing) -> str:
    low, high = standing.sure_rank_low, standing.sure_rank_high
    return f"{low}" if low == high else f"{low}–{high}"


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
    changes = [
        f"{names[pk]} would rank {rank} ({score:,.0f})"
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
        certainty = f"between {' and '.join(interval)} with 95 % confidence"
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
