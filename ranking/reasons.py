"""The reasons that raters named for and against candidates, of which some stand out."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db.models import Count

from arena.models import Arena, Reason
from arena.outcomes import LEFT, RIGHT, TIE
from ranking.stats.agreement import over_named

FALSE_DISCOVERIES = 0.1  # the share of findings that may be chance
FEWEST_NAMED = 3  # a reason named by fewer votes is not a finding
ANY = ""  # all categories
Group = tuple[int, str, bool]  # candidate, category, whether it speaks for the candidate


@dataclass(frozen=True)
class NamedReason:
    """How often a reason was named about a candidate.

    `explained` votes with reasons could have named it: for a strength those that the candidate did
    not lose, for a fault those that it did not win. `elsewhere` is the share among the other
    candidates' votes in the same category, None if there are none. `q` is the false discovery rate
    at which the difference is found.
    """

    candidate: int
    category: str
    tag: str
    is_strength: bool
    named: int
    explained: int
    elsewhere: float | None
    odds: float
    q: float

    @property
    def stands_out(self) -> bool:
        return self.q <= FALSE_DISCOVERIES and self.named >= FEWEST_NAMED

    @property
    def percent(self) -> int:
        return round(100 * self.named / self.explained)

    @property
    def percent_elsewhere(self) -> int | None:
        return None if self.elsewhere is None else round(100 * self.elsewhere)


def count_reasons(arena: Arena) -> list[NamedReason]:
    """All reasons that people named about the arena's candidates, the most striking first."""
    strengths, faults = set(arena.strengths.splitlines()), set(arena.faults.splitlines())
    live = Reason.objects.exclude(tag="").filter(
        vote__arena=arena,
        vote__voided_at=None,
        vote__uncounted=None,
        vote__rater__kind="person",
    )
    keys = (
        "vote__comparison__left",
        "vote__comparison__right",
        "vote__comparison__prompt__category",
    )
    rows = (
        live.order_by().values_list(*keys, "vote__outcome", "side", "tag").annotate(n=Count("pk"))
    )
    named: Counter[tuple[Group, str]] = Counter()
    for left, right, category, _, side, tag, n in rows:
        candidate = left if side == LEFT else right
        is_strength = tag in strengths or tag not in faults
        for place in {ANY, category or ANY}:
            named[(candidate, place, is_strength), tag] += n
    votes = (
        live.order_by().values_list(*keys, "vote__outcome").annotate(n=Count("vote", distinct=True))
    )
    explained = _count_explained(votes)
    return _compare_with_others(named, explained)


def _count_explained(votes: Any) -> Counter[Group]:
    """How many votes with reasons could name a strength, or a fault, of each candidate."""
    explained: Counter[Group] = Counter()
    for left, right, category, outcome, n in votes:
        for candidate, side in ((left, LEFT), (right, RIGHT)):
            for place in {ANY, category or ANY}:
                if outcome in (side, TIE):
                    explained[candidate, place, True] += n
                if outcome != side:
                    explained[candidate, place, False] += n
    return explained


def _compare_with_others(
    named: Counter[tuple[Group, str]], explained: Counter[Group]
) -> list[NamedReason]:
    in_category: Counter[tuple[str, bool, str]] = Counter()
    total: Counter[tuple[str, bool]] = Counter()
    for ((_, category, is_strength), tag), n in named.items():
        in_category[category, is_strength, tag] += n
    for (_, category, is_strength), n in explained.items():
        total[category, is_strength] += n
    cells = sorted(named)
    own = np.array([named[cell] for cell in cells], np.int64)
    votes = np.array([explained[group] for group, _ in cells], np.int64)
    others = np.array([in_category[(*group[1:], tag)] for group, tag in cells], np.int64) - own
    their_votes = np.array([total[group[1:]] for group, _ in cells], np.int64) - votes
    result = over_named(own, votes, others, their_votes)
    reasons = [
        NamedReason(
            candidate=group[0],
            category=group[1],
            tag=tag,
            is_strength=group[2],
            named=int(own[place]),
            explained=int(votes[place]),
            elsewhere=others[place] / their_votes[place] if their_votes[place] else None,
            odds=float(np.exp(result.log_odds[place])),
            q=float(result.q[place]),
        )
        for place, (group, tag) in enumerate(cells)
    ]
    return sorted(reasons, key=lambda reason: (reason.q, -reason.named, reason.tag))
