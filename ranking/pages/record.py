"""A candidate's votes: its record against each opponent, and the list of its comparisons."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Count, Q, QuerySet, Sum

from arena.models import Candidate, Outcome, Vote
from ranking.models import Raters
from ranking.votes import KINDS

PER_PAGE = 25
RESULTS = {"won": "Won", "lost": "Lost", "tie": "Tie", "both_bad": "Both bad"}
ON_THE_LEFT = {
    Outcome.LEFT: "won",
    Outcome.RIGHT: "lost",
    Outcome.TIE: "tie",
    Outcome.BOTH_BAD: "both_bad",
}
ON_THE_RIGHT = ON_THE_LEFT | {Outcome.LEFT: "lost", Outcome.RIGHT: "won"}


@dataclass
class Against:
    """How often a candidate won, lost, tied against one opponent, and both were bad."""

    opponent: Candidate
    won: int = 0
    lost: int = 0
    tie: int = 0
    both_bad: int = 0
    soft_points: float = 0.0

    @property
    def votes(self) -> int:
        return self.won + self.lost + self.tie

    @property
    def win_rate(self) -> float | None:
        """Points per vote: a win 1, a tie a half, a soft verdict what it says."""
        return self._points / self.votes if self.votes else None

    @property
    def _points(self) -> float:
        return self.won + self.tie / 2 + self.soft_points


@dataclass(frozen=True)
class Filters:
    """Which of a candidate's votes are listed; whatever the address says besides is ignored."""

    raters: str
    result: str
    opponent: int | None
    category: str = ""

    @classmethod
    def of(cls, parameters: Mapping[str, str], kinds: Iterable[str]) -> "Filters":
        kinds = list(kinds)
        raters, result = parameters.get("raters", ""), parameters.get("result", "")
        opponent = parameters.get("opponent", "")
        return cls(
            raters if raters in kinds else kinds[0],
            result if result in RESULTS else "",
            int(opponent)
            if opponent.isascii() and opponent.isdigit() and len(opponent) < 19
            else None,
            parameters.get("category", "").replace("\0", ""),
        )


@dataclass(frozen=True)
class Listed:
    """One vote, seen from the candidate's side."""

    vote: Vote
    opponent: Candidate
    result: str


def kinds_that_voted(candidate: Candidate) -> list[str]:
    """People, judges, juries, as far as they voted; people where nobody has."""
    found = set(_votes(candidate).order_by().values_list("rater__kind", flat=True).distinct())
    return [raters for raters, kind in KINDS.items() if kind in found] or [Raters.PEOPLE.value]


def record(candidate: Candidate, raters: str) -> list[Against]:
    """The candidate's record by these raters, those it met most often first."""
    others = Candidate.objects.revealed().filter(arena=candidate.arena_id).in_bulk()
    found: dict[int, Against] = {}
    for side, other_side, results in (
        ("left", "right", ON_THE_LEFT),
        ("right", "left", ON_THE_RIGHT),
    ):
        rows = (
            _of_kind(raters)
            .filter(**{f"comparison__{side}": candidate})
            .values_list(f"comparison__{other_side}", "outcome")
            .annotate(n=Count("pk"), soft=Count("preference"), points=Sum("preference"))
            .order_by()
        )
        for opponent, outcome, n, soft, points in rows:
            if opponent not in others:  # of an import that is still hidden
                continue
            against = found.setdefault(opponent, Against(others[opponent]))
            _add(against, results[outcome], n)
            if soft and outcome != Outcome.BOTH_BAD:
                _soften(
                    against, results[outcome], soft, points if side == "left" else soft - points
                )
    return sorted(found.values(), key=lambda against: (-against.votes, str(against.opponent)))


def _add(against: Against, result: str, n: int) -> None:
    setattr(against, result, getattr(against, result) + n)


def _soften(against: Against, result: str, votes: int, points: float) -> None:
    """Replace what these votes would have counted as by what they said."""
    counted_as = {"won": 1.0, "lost": 0.0, "tie": 0.5}[result]
    against.soft_points += points - counted_as * votes


def listed(candidate: Candidate, filters: Filters, page: str) -> Page[Any]:
    """One page of the votes that the filters leave, newest first."""
    found: Page[Any] = Paginator(votes_of(candidate, filters), PER_PAGE).get_page(page)
    found.object_list = [_listed(candidate, vote) for vote in found.object_list]
    return found


def votes_of(candidate: Candidate, filters: Filters) -> QuerySet[Vote]:
    """The candidate's votes that the filters leave, newest first, with all that a list shows."""
    votes = _of_kind(filters.raters).filter(_matches(candidate, filters))
    return votes.select_related(
        "rater", "comparison__prompt", "comparison__left", "comparison__right"
    ).order_by("-pk")


def _listed(candidate: Candidate, vote: Vote) -> Listed:
    left, right = vote.comparison.left, vote.comparison.right
    if left.pk == candidate.pk:
        return Listed(vote, right, RESULTS[ON_THE_LEFT[Outcome(vote.outcome)]])
    return Listed(vote, left, RESULTS[ON_THE_RIGHT[Outcome(vote.outcome)]])


def _matches(candidate: Candidate, filters: Filters) -> Q:
    return _on_side("left", "right", candidate, filters, ON_THE_LEFT) | _on_side(
        "right", "left", candidate, filters, ON_THE_RIGHT
    )


def _on_side(
    side: str, other: str, candidate: Candidate, filters: Filters, results: Mapping[Outcome, str]
) -> Q:
    found = Q(**{f"comparison__{side}": candidate})
    if filters.opponent is not None:
        found &= Q(**{f"comparison__{other}": filters.opponent})
    if filters.result:
        found &= Q(outcome__in=[o for o, result in results.items() if result == filters.result])
    if filters.category:
        found &= Q(comparison__prompt__category=filters.category)
    return found


def _votes(candidate: Candidate) -> QuerySet[Vote]:
    return Vote.objects.live().filter(
        Q(comparison__left=candidate) | Q(comparison__right=candidate)
    )


def _of_kind(raters: str) -> QuerySet[Vote]:
    return Vote.objects.live().filter(rater__kind=KINDS[raters])
