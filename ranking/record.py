"""The record of an arena: a candidate's votes (against each opponent, as a list, and singly), who
entered which candidates, and a leaderboard as it stood at earlier checks.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from django.core.paginator import Page, Paginator
from django.db.models import (
    Case,
    Count,
    ExpressionWrapper,
    F,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    When,
)
from django.db.models.functions import Coalesce

from arena.models import Candidate, Outcome, Pair, Team, Vote
from arena.outcomes import COUNTED
from arena.services.candidates import votes_so_far
from ranking.board_data import parse_id
from ranking.comparison import DifferenceBoard, PublishedPairs
from ranking.intervals import group_settings, groups_met
from ranking.models import BothBad, Counted, Raters, Snapshot, SnapshotMatrices, Standing
from ranking.question import Evidence
from ranking.services.votes import cast_by, question_of, read
from ranking.stats.bradley_terry import NotConvergedError
from ranking.stats.intervals import Sandwich
from ranking.votes import RATERS, PairCounts

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


@dataclass
class InCategory(Results):
    """The results on a category's prompts; '' for prompts without one."""

    category: str = field(kw_only=True)


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


def count_categories(candidate: Candidate, raters: str) -> list[InCategory]:
    """The same record by the category of the prompt, the best win rate first."""
    by_category: dict[str, InCategory] = {}
    for category, *result in _count(candidate, raters, "prompt__category"):
        name = category or ""
        by_category.setdefault(name, InCategory(category=name)).add(*result)
    return sorted(by_category.values(), key=lambda row: (-(row.win_rate or 0.0), row.category))


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


def list_votes(candidate: Candidate, filters: VoteFilters, page: str) -> Page[Any]:
    """One page of the votes that match, newest first."""
    votes: Page[Any] = Paginator(find_votes(candidate, filters), PER_PAGE).get_page(page)
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


# -- A single comparison ---------------------------------------------------------------------------


@dataclass(frozen=True)
class RaterAgreement:
    """Of the `others` who voted on the same two answers, how many chose the same outcome."""

    same: int
    others: int

    @property
    def percent(self) -> int:
        return round(100 * self.same / self.others) if self.others else 0


def count_agreement(vote: Vote) -> RaterAgreement:
    """Compare a person's vote with those of other people on the same two answers; one query."""
    comparison = vote.comparison
    answers = [comparison.left_response_id, comparison.right_response_id]
    votes = Vote.objects.live().of_people().exclude(rater=vote.rater_id)
    rows = (
        votes.filter(comparison__left_response__in=answers, comparison__right_response__in=answers)
        .order_by()
        .values_list("comparison__left", "outcome")
        .annotate(n=Count("pk"))
    )
    same = others = 0
    for left, outcome, n in rows:
        results = ON_THE_LEFT if left == comparison.left_id else ON_THE_RIGHT
        others += n
        same += n if results[outcome] == ON_THE_LEFT[Outcome(vote.outcome)] else 0
    return RaterAgreement(same, others)


DATE_FORMAT = "%-d %B %Y, %H:%M UTC"


def _weight(end: str) -> Coalesce:
    """The total weight of drawn pairs with the candidate as their `low` or `high` one."""
    active = Pair.objects.filter(low__retired_at=None, high__retired_at=None)
    drawn = active.filter(**{end: OuterRef("pk")}, shared_prompts__gt=0)
    total = drawn.order_by().values(end).annotate(sum=Sum("weight")).values("sum")
    return Coalesce(Subquery(total), 0.0)


def _votes_before() -> Coalesce:
    """How many votes people had cast when a candidate was entered."""
    board = {"board__raters": Raters.PEOPLE, "board__category": ""}
    earlier = Snapshot.objects.filter(
        **board, board__arena=OuterRef("arena"), published_at__lte=OuterRef("created_at")
    ).exclude(digest="")  # computed afterwards: candidates that were imported had these votes
    # A snapshot's own number of votes leaves out "both bad", unless that is a tie.
    separate = Case(
        When(settings__both_bad=BothBad.TIE.value, then=0),
        default=F("n_both_bad"),
        output_field=IntegerField(),
    )
    before = earlier.order_by("-published_at").annotate(
        total=ExpressionWrapper(F("n_votes") + separate, IntegerField())
    )
    return Coalesce(Subquery(before.values("total")[:1]), 0)


# What `list_entrants` reads from candidates and snapshots (people's votes per pair).
CANDIDATE_COLUMNS = {
    "weight": _weight("low") + _weight("high"),
    "votes_before": _votes_before(),
    "so_far": votes_so_far(),
}
SNAPSHOT_COLUMNS = {
    "cells": Subquery(
        SnapshotMatrices.objects.filter(
            snapshot=OuterRef("pk"),
            snapshot__board__raters=Raters.PEOPLE,
            snapshot__board__category="",
        ).values("cells")
    )
}


@dataclass(frozen=True)
class CandidateEntry:
    """A candidate, and its share of human comparisons: of all, of those since it was entered, and
    of those drawn now. None if there are none."""

    candidate: Candidate
    ever: float | None
    since: float | None
    now: float | None

    @property
    def undisclosed_until(self) -> str:
        return disclosure_rule(self.candidate)


@dataclass(frozen=True)
class Entrant:
    """A team, or None for the site's administrators, with all candidates that it has entered."""

    team: Team | None
    entries: list[CandidateEntry]

    @property
    def names(self) -> int:
        """The number of different candidates; each version of a candidate is an entry."""
        return len({entry.candidate.name for entry in self.entries})

    @property
    def undisclosed(self) -> list[CandidateEntry]:
        return [entry for entry in self.entries if entry.candidate.disclosed_at is None]

    @property
    def retired(self) -> int:
        return sum(entry.candidate.retired_at is not None for entry in self.entries)


def list_entrants(candidates: Sequence[Any], snapshots: Iterable[Any]) -> list[Entrant]:
    """Every team's entries, by the team's name, the administrators' own last.

    The candidates must have `CANDIDATE_COLUMNS`, the arena's current snapshots `SNAPSHOT_COLUMNS`.
    """
    cells = next((snapshot.cells for snapshot in snapshots if snapshot.cells), None)
    counts = PairCounts.of_bytes(cells) if cells else PairCounts.none()
    votes, all_votes = _count_votes(counts), int(counts.votes.sum())
    weights = sum(candidate.weight for candidate in candidates) / 2
    entries = [
        CandidateEntry(
            candidate,
            _share(votes[candidate.pk], all_votes),
            _share(votes[candidate.pk], all_votes - min(candidate.votes_before, all_votes)),
            _share(candidate.weight, weights),
        )
        for candidate in candidates
    ]
    return _by_team(entries)


def _share(part: float, whole: float) -> float | None:
    return min(part / whole, 1.0) if whole else None


def _by_team(entries: Sequence[CandidateEntry]) -> list[Entrant]:
    """Group entries by team, and sort them by displayed name."""
    ordered = sorted(
        entries, key=lambda entry: (str(entry.candidate).casefold(), entry.candidate.pk)
    )
    teams = {entry.candidate.team_id: entry.candidate.team for entry in ordered}
    entrants = [
        Entrant(team, [entry for entry in ordered if entry.candidate.team_id == pk])
        for pk, team in teams.items()
    ]
    return sorted(entrants, key=lambda row: (row.team is None, str(row.team or "").casefold()))


def _count_votes(counts: PairCounts) -> Mapping[int, int]:
    """How many votes each candidate took part in, "both bad" included."""
    by_candidate: Counter[int] = Counter()
    for end in (counts.first, counts.second):
        for pk, votes in zip(end.tolist(), counts.votes.tolist(), strict=True):
            by_candidate[pk] += votes
    return by_candidate


def disclosure_rule(candidate: Candidate) -> str:
    """When a candidate is disclosed: after a number of votes, at a date, or whichever is first."""
    parts = []
    if candidate.private_until_votes is not None:
        so_far = getattr(candidate, "so_far", None)
        progress = "" if so_far is None else f" ({so_far:,} so far)"
        parts.append(f"it has {candidate.private_until_votes:,} votes{progress}")
    if candidate.private_until is not None:
        parts.append(candidate.private_until.strftime(DATE_FORMAT))
    return ", or ".join(parts) + (", whichever is first" if len(parts) > 1 else "")


CHECKS = 20


def replay(board: DifferenceBoard, candidate: int, baseline: int) -> Iterator[DifferenceBoard]:
    """Yield the board as it was after each of at most CHECKS parts of the votes between the two.

    The last one is `board` itself. A combined board yields only that one, because it is not stored
    which judges were trusted when.
    """
    if board.raters != Counted.COMBINED:
        yield from _earlier(board.snapshot, candidate, baseline)
    yield board


def _earlier(snapshot: Snapshot, candidate: int, baseline: int) -> Iterator[DifferenceBoard]:
    board = snapshot.board
    evidence = Evidence.of(read(board.arena), question_of(board, board.arena))
    ids = evidence.votes.pk
    pair = [candidate, baseline]
    direct = np.isin(evidence.votes.left, pair) & np.isin(evidence.votes.right, pair)
    between = ids[direct & (ids <= snapshot.last_vote_id)]
    step = max(1, -(-len(between) // CHECKS))
    for end in between[step - 1 :: step][: CHECKS - 1].tolist():
        with suppress(NotConvergedError):
            yield fit_board(snapshot, evidence.up_to(ids <= end))


def fit_board(snapshot: Snapshot, evidence: Evidence) -> DifferenceBoard:
    """A board of these votes, not saved. Raises NotConvergedError."""
    candidates, is_tie = evidence.candidates, evidence.question.both_bad_is_tie
    sandwich = Sandwich(evidence.question.confidence, jackknifed=True)
    sandwich.fit(*evidence.groups.groupings)
    model, settings, counts = sandwich.model_, snapshot.settings, evidence.pairs
    earlier = Snapshot(
        board=snapshot.board,
        n_votes=evidence.n_votes,
        settings=settings
        | group_settings(evidence, sandwich.n_clusters_, groups_met(evidence))
        | {"prompts_met": []},
    )
    votes = evidence.grouped(None, weighted=False).votes_per_candidate()
    standings = {
        pk: Standing(
            candidate_id=pk,
            score=None if np.isnan(model.theta_[i]) else float(model.ratings_[i]),
            reason=model.status_[i].reason,
            votes=int(votes[i]),
        )
        for i, pk in enumerate(candidates.tolist())
    }
    pairs = PublishedPairs(
        candidates=candidates,
        theta=model.theta_,
        covariance=sandwich.covariance_,
        counts=counts,
        both_bad_is_tie=is_tie,
        scale=settings["scale"],
        weight=evidence.mean_weight,
    )
    return DifferenceBoard(earlier, standings, pairs)
