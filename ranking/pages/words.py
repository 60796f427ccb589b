"""What a board says in sentences: who is first, how sure that is, and who cannot be ranked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ranking.cadence import due_at
from ranking.models import Snapshot, Standing
from ranking.pages.findings import Findings
from ranking.pages.reading import Row

CLUSTER_SENTENCES = {
    "prompt": "Votes on the same prompt are taken as dependent, so each prompt counts as one"
    " piece of evidence, however many votes it has.",
    "prompt_pair": "Votes on the same prompt and the same two candidates are taken as dependent.",
    "rater": "Votes of the same rater are taken as dependent.",
    "vote": "Every vote is taken as a piece of evidence of its own.",
}
# Those nearest the top first.
GROUPS = {
    "above": (
        "A group that beats all others",
        "They, and those they trade wins with, have never lost to the ranked candidates.",
    ),
    "undefeated": (
        "Never lost or tied",
        "No finite score describes that: any higher one would fit as well.",
    ),
    "disconnected": (
        "Apart from the others",
        "No chain of results leads both ways between them and the others.",
    ),
    "below": (
        "A group that all others beat",
        "They, and those they trade wins with, have never beaten the ranked candidates.",
    ),
    "winless": (
        "Never won or tied",
        "No finite score describes that: any lower one would fit as well.",
    ),
    "no_votes": ("No votes yet", "Nobody has compared their answers."),
    "only_candidate": ("Alone", "There is no other candidate to compare it with."),
}
CLEAR = (
    "Its lead over each of the others is more than chance explains, even with all comparisons of"
    " the board taken together."
)
COINS = 0.75  # of triads that coin tosses leave without a circle


@dataclass(frozen=True)
class Lead:
    """Who is in front, whether `clear`ly, and a sentence that `says` what is known of that."""

    candidate: int
    name: str
    clear: bool
    says: str


@dataclass(frozen=True)
class Group:
    """Candidates that cannot be ranked for the same reason."""

    title: str
    reason: str
    rows: list[Row]


@dataclass(frozen=True)
class Freshness:
    """Of how many votes the intervals have seen fewer, and when they are made again."""

    seen: int
    of: int
    again_at: datetime


def lead(rows: Sequence[Row], leader: int | None) -> Lead | None:
    """What the simultaneous rank intervals say of the first place; None where there are none."""
    ranked = sorted(rows, key=lambda row: (row.standing.rank or 0, row.name))
    known = [row for row in ranked if row.standing.sure_rank_low is not None]
    if len(known) < 2:
        return None
    first = ranked[0]
    clear = first.standing.candidate_id == leader
    says = CLEAR if clear else f"No clear number one yet: {_open(ranked, leader)}."
    return Lead(first.standing.candidate_id, first.name, clear, says)


def _could_be_first(standing: Standing) -> bool:
    """Whoever has a score, and too few votes for an interval, could be anywhere."""
    return standing.score is not None and standing.sure_rank_low in (1, None)


def _open(ranked: Sequence[Row], leader: int | None) -> str:
    """Why nobody is the clear number one."""
    could = [_could_be_first(row.standing) for row in ranked]
    n = sum(could)
    if leader is not None:
        return "the newest votes have put somebody else in front, which the intervals have not seen"
    if n < 2:
        return f"not every lead of {ranked[0].name} is beyond doubt"
    return f"the first {n} could each be first" if all(could[:n]) else f"{n} could each be first"


def freshness(snapshot: Snapshot | None) -> Freshness | None:
    """None where the intervals have seen every vote, or there are none."""
    if snapshot is None or not snapshot.measured_at or snapshot.interval_reason:
        return None
    if snapshot.measured_votes >= snapshot.n_votes:
        return None
    return Freshness(snapshot.measured_votes, snapshot.n_votes, due_at(snapshot))


def fragility(findings: Findings, names: Mapping[int, str]) -> str:
    """How few votes would change number one, and who would be first; '' where nobody is."""
    found = findings.fragility
    if found.get("top") is None:
        return ""
    if found["votes"] is None:
        return (
            f"No set of up to half of the {found['of']:,} votes was found without which somebody"
            " else would be first."
        )
    rival = names.get(found.get("rival") or 0)
    if not found["votes"] or not rival:
        return f"{found['words'].rstrip('.')}."
    return f"{found['words']}: without them, {rival} would be first."


def groups(rows: Iterable[Row]) -> list[Group]:
    """The unranked, each with those of the same reason."""
    by_status: dict[str, list[Row]] = {}
    for row in rows:
        by_status.setdefault(row.standing.status, []).append(row)
    order = [*(status for status in GROUPS if status in by_status), *(by_status.keys() - GROUPS)]
    return [
        Group(*GROUPS.get(status, ("Not comparable", "")), by_status[status]) for status in order
    ]


def agreement(findings: Findings, raters: str) -> str:
    """How often two raters said the same; '' where no two have judged the same."""
    found = findings.agreement
    if not found.get("n_pairs"):
        return ""
    who = "people" if raters == "combined" else raters
    sentence = (
        f"Of each two votes of {who} on the same prompt and the same two answers,"
        f" {_share(found['share'])} say the same ({found['n_pairs']:,} such pairs of votes)."
    )
    if found.get("decisive_n_pairs"):
        sentence += (
            f" Where both name a better answer, {_share(found['decisive_share'])} name the same"
            f" one ({found['decisive_n_pairs']:,}); coin tosses would do so in 50 %."
        )
    if found.get("alpha") is not None:
        sentence += f" Krippendorff’s alpha is {found['alpha']:.2f}: 0 is chance, 1 is full accord."
    return sentence


def transitivity(findings: Findings) -> str:
    """How far the majorities follow one order; '' where no three have met."""
    found = findings.transitivity
    if not found.get("triads"):
        return ""
    share = found["transitive"] / found["triads"]
    return (
        f"Three candidates go round in a circle where A beats B, B beats C, and yet C beats A."
        f" Of the {found['triads']:,} sets of three in which each pair has a winner,"
        f" {_share(share)} are free of that. One clear order gives 100 %, coin tosses"
        f" {_share(COINS)}."
    )


def _share(value: Any) -> str:
    return f"{100 * value:.0f} %"
