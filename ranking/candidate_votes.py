"""A candidate's votes: against each opponent, by category, and as a list."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Count, Q, QuerySet, Sum

from arena.actors import ANONYMOUS, Actor
from arena.models import Candidate, Outcome, Vote
from arena.outcomes import COUNTED
from arena.permissions import readable_votes
from ranking.board_data import parse_id
from ranking.models import Raters
from ranking.services.votes import cast_by
from ranking.votes import RATERS

PER_PAGE = 25
POINTS = {"won": 1.0, "lost": 0.0, "tie": 0.5}
RESULTS = {"won": "Won", "lost": "Lost", "tie": "Tie", "both_bad": "Both bad"}
ON_THE_LEFT = {outcome: outcome.value for outcome in Outcome} | {
    Outcome.LEFT: "won",
    Outcome.RIGHT: "lost",
}
ON_THE_RIGHT = ON_THE_LEFT | {Outcome.LEFT: "lost", Outcome.RIGHT: "won"}


@dataclass
class Results:
    """A candidate's results in some votes. `soft_points`: the points of soft verdicts beyond the
    win, loss or tie that they count as."""

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
        """Points per vote: a win 1, a tie a half, a soft verdict its preference."""
        points = self.won + self.tie / 2 + self.soft_points
        return points / self.votes if self.votes else None

    def add(self, result: str, n: int, soft: int, points: float | None) -> None:
        """Add `n` votes of one result, `soft` of which have a preference: in total `points`."""
        setattr(self, result, getattr(self, result) + n)
        if soft and result in POINTS:
            self.soft_points += (points or 0.0) - POINTS[result] * soft


@dataclass
class Against(Results):
    """The results against one opponent."""

    opponent: Candidate = field(kw_only=True)


@dataclass(frozen=True)
class VoteFilters:
    """Which of a candidate's votes are listed; invalid parameters of the address are ignored."""

    raters: str
    result: str
    opponent: int | None
    category: str = ""

    @classmethod
    def of(cls, parameters: Mapping[str, str], kinds: Iterable[str]) -> "VoteFilters":
        kinds = list(kinds)
        raters, result = parameters.get("raters", ""), parameters.get("result", "")
        return cls(
            raters if raters in kinds else kinds[0],
            result if result in RESULTS else "",
            parse_id(parameters.get("opponent", "")),
            parameters.get("category", "").replace("\0", ""),
        )


@dataclass(frozen=True)
class ListedVote:
    """One vote, seen from the candidate's side."""

    vote: Vote
    opponent: Candidate
    result: str


def list_voters(candidate: Candidate) -> list[str]:
    """The kinds of raters that voted on a candidate; people if nobody did."""
    votes = Vote.objects.live().filter(
        Q(comparison__left=candidate) | Q(comparison__right=candidate)
    )
    kinds = set(votes.order_by().values_list("rater__kind", flat=True).distinct())
    return [raters for raters, kind in RATERS.items() if kind in kinds] or [Raters.PEOPLE.value]


def count_record(candidate: Candidate, raters: str) -> list[Against]:
    """The candidate's record in votes by these raters, its most frequent opponents first."""
    others = Candidate.objects.revealed().filter(arena=candidate.arena_id).in_bulk()
    by_opponent: dict[int, Against] = {}
    for opponent, *result in _count(candidate, raters, "other"):
        if opponent in others:  # or it belongs to an import that is still hidden
            against = by_opponent.setdefault(opponent, Against(opponent=others[opponent]))
            against.add(*result)
    return sorted(by_opponent.values(), key=lambda against: (-against.votes, str(against.opponent)))


def _count(candidate: Candidate, raters: str, by: str) -> Iterator[tuple[Any, str, int, int, Any]]:
    """The candidate's votes grouped by a column of the comparison, or by the `other` side: the
    group, the result, how many votes, how many of them soft, and the points of these."""
    for side, other, results in (("left", "right", ON_THE_LEFT), ("right", "left", ON_THE_RIGHT)):
        group = f"comparison__{other if by == 'other' else by}"
        rows = (
            _votes_by(raters)
            .filter(**{f"comparison__{side}": candidate}, outcome__in=COUNTED)
            .values_list(group, "outcome")
            .annotate(n=Count("pk"), soft=Count("preference"), points=Sum("preference"))
            .order_by()
        )
        for value, outcome, n, soft, points in rows:
            own_points = points if side == "left" or not soft else soft - points
            yield value, results[outcome], n, soft, own_points


def list_votes(
    candidate: Candidate, filters: VoteFilters, page: str, actor: Actor = ANONYMOUS
) -> Page[Any]:
    """One page of the votes that match, newest first: those whose answers `actor` can read."""
    found = find_votes(candidate, filters).filter(readable_votes(actor, candidate.arena))
    votes: Page[Any] = Paginator(found, PER_PAGE).get_page(page)
    votes.object_list = [_seen_from(candidate, vote) for vote in votes.object_list]
    return votes


def _seen_from(candidate: Candidate, vote: Vote) -> ListedVote:
    left, right = vote.comparison.left, vote.comparison.right
    if left.pk == candidate.pk:
        return ListedVote(vote, right, RESULTS[ON_THE_LEFT[Outcome(vote.outcome)]])
    return ListedVote(vote, left, RESULTS[ON_THE_RIGHT[Outcome(vote.outcome)]])


def find_votes(candidate: Candidate, filters: VoteFilters) -> QuerySet[Vote]:
    """The candidate's votes that match, newest first, with all that a list shows."""
    matches = _on_side("left", "right", candidate, filters, ON_THE_LEFT) | _on_side(
        "right", "left", candidate, filters, ON_THE_RIGHT
    )
    votes = _votes_by(filters.raters).filter(matches)
    return votes.select_related(
        "rater", "comparison__prompt", "comparison__left", "comparison__right"
    ).order_by("-pk")


def _on_side(
    side: str,
    other: str,
    candidate: Candidate,
    filters: VoteFilters,
    results: Mapping[Outcome, str],
) -> Q:
    matches = Q(**{f"comparison__{side}": candidate})
    if filters.opponent is not None:
        matches &= Q(**{f"comparison__{other}": filters.opponent})
    if filters.result:
        matches &= Q(outcome__in=[o for o, result in results.items() if result == filters.result])
    if filters.category:
        matches &= Q(comparison__prompt__category=filters.category)
    return matches


def _votes_by(raters: str) -> QuerySet[Vote]:
    return Vote.objects.live().listed().filter(cast_by(raters))
