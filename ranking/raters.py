"""A rater's own results (agreement with others, pairs they helped to settle, a ranking), and how
two groups of raters order the same candidates.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from django.db.models import Count

from arena.models import Arena, Outcome, Rater, Vote
from arena.models.votes import VoteQuerySet
from arena.outcomes import mirror
from ranking.candidate_votes import ON_THE_LEFT, ON_THE_RIGHT
from ranking.comparison import DifferenceBoard, load_difference_boards
from ranking.models import Raters, Snapshot
from ranking.question import Evidence, Question
from ranking.rank_correlation import rank_correlation
from ranking.services.votes import read_only
from ranking.stats.battles import Pairs
from ranking.stats.bradley_terry import maximise
from ranking.stats.claim import Verdict, claim
from ranking.stats.intervals import Sandwich
from ranking.votes import Floats, Ints, PairCounts

VOTES_READ = 300  # the latest votes that agreement and settled pairs are read from
FEWEST = 10  # votes before a ranking is shown
# Every candidate begins with two ties against the others, so one lucky vote hardly moves it.
TIES_AT_FIRST = 2.0
ELO_PER_THETA = 400 / np.log(10)


@dataclass(frozen=True)
class OwnPlace:
    """A candidate's rank in a rater's own ranking, and in everybody's; None if it has none
    there."""

    candidate: str
    rank: int
    score: float
    everybody: int | None


@dataclass(frozen=True)
class Settled:
    """A pair that is decided, for these raters at least, and the rater's part in it."""

    better: str
    worse: str
    votes: int


@dataclass(frozen=True)
class RaterAgreement:
    """Of the `others` who voted on the same two answers, how many chose the same outcome."""

    same: int
    others: int

    @property
    def percent(self) -> int:
        return round(100 * self.same / self.others) if self.others else 0


@dataclass(frozen=True)
class RaterSummary(RaterAgreement):
    """A rater's votes in an arena, and how they agree with those of others."""

    votes: int
    settled: list[Settled]
    places: list[OwnPlace]


def summarise(arena: Arena, rater: Rater) -> RaterSummary:
    own = Vote.objects.live().listed().filter(arena=arena, rater=rater)
    latest = list(own.order_by("-pk").select_related("comparison")[:VOTES_READ])
    same, others = _count_latest_agreement(latest, rater)
    names = {c.pk: str(c) for c in arena.candidates.revealed()}
    snapshot = Snapshot.objects.current().of_arena(arena)
    snapshot = snapshot.filter(board__raters=Raters.PEOPLE, board__category="")
    counts = read_only(own).pairs()
    boards = load_difference_boards(arena, snapshot, counts.candidates.tolist())
    board = next(iter(boards.values()), None)
    return RaterSummary(
        votes=int(counts.votes.sum()),
        same=same,
        others=others,
        settled=_settled_pairs(latest, board, names) if board else [],
        places=_own_places(counts, board, names) if counts.decided.sum() >= FEWEST else [],
    )


def _count_latest_agreement(latest: list[Vote], rater: Rater) -> tuple[int, int]:
    """The number of others' votes on the same answers, and of those that agree; one query."""
    own: dict[frozenset[int | None], Vote] = {}
    for vote in latest:
        comparison = vote.comparison
        answers = frozenset((comparison.left_response_id, comparison.right_response_id))
        if None not in answers:
            own[answers] = vote
    ids = set().union(*own) if own else set()
    votes = Vote.objects.live().of_people().exclude(rater=rater)
    rows = votes.filter(
        comparison__left_response__in=ids, comparison__right_response__in=ids
    ).values_list("comparison__left_response", "comparison__right_response", "outcome")
    same = others = 0
    for left, right, outcome in rows:
        if vote_on_same := own.get(frozenset((left, right))):
            is_flipped = left != vote_on_same.comparison.left_response_id
            others += 1
            same += (mirror(outcome) if is_flipped else outcome) == vote_on_same.outcome
    return same, others


def _settled_pairs(
    latest: list[Vote], board: DifferenceBoard, names: dict[int, str]
) -> list[Settled]:
    """The pairs voted on that are decided, the most often voted on first."""
    pairs = Counter(
        (min(pair), max(pair))
        for vote in latest
        if (pair := (vote.comparison.left_id, vote.comparison.right_id))
    )
    settled = []
    for (low, high), n in pairs.most_common():
        found = board.claim(low, high)
        if found.is_decided and low in names and high in names:
            is_low = found.verdict is Verdict.BETTER
            better, worse = (low, high) if is_low else (high, low)
            settled.append(Settled(names[better], names[worse], n))
    return settled


def _own_places(
    counts: PairCounts, board: DifferenceBoard | None, names: dict[int, str]
) -> list[OwnPlace]:
    """The candidates that the rater has seen, ranked by this rater's votes only; best first."""
    met = counts.candidates
    scores = dict(zip(met.tolist(), shrunk_scores(counts, met).tolist(), strict=True))
    standings = board.standings if board else {}
    ordered = sorted((pk for pk in scores if pk in names), key=lambda pk: -scores[pk])
    return [
        OwnPlace(
            names[pk],
            1 + sum(round(scores[other]) > round(scores[pk]) for other in ordered),
            scores[pk],
            standings[pk].rank if pk in standings else None,
        )
        for pk in ordered
    ]


def shrunk_scores(counts: PairCounts, candidates: Ints) -> Floats:
    """(K,): Elo from few votes, by Bradley-Terry with ties added between all candidates.

    The ties weigh TIES_AT_FIRST per candidate. They connect all candidates, so that every score is
    finite, and pull the scores towards one another, the more the fewer votes there are.
    """
    battles = counts.battles(candidates, both_bad_is_tie=False)
    pairs = np.array(list(combinations(range(len(candidates)), 2)), np.int64).reshape(-1, 2)
    weight = np.full(len(pairs), TIES_AT_FIRST / max(len(candidates) - 1, 1))
    total = Pairs.total(
        len(candidates),
        np.concatenate([battles.first, pairs[:, 0]]),
        np.concatenate([battles.second, pairs[:, 1]]),
        np.concatenate([battles.score, np.full(len(pairs), 0.5)]),
        np.concatenate([battles.weight * battles.count, weight]),
    )
    theta, _ = maximise(total)
    scores: Floats = 1000 + ELO_PER_THETA * theta
    return scores


@dataclass(frozen=True)
class OrderAgreement:
    """How two groups of raters order the candidates that both rank.

    `kendall`: tau-b of their scores; None as for `RankCorrelation`. `certain`: pairs of candidates
    decided by both; `same`: those of them in which both have the same one ahead.
    """

    n: int
    kendall: float | None
    certain: int
    same: int


def compare_orders(first: VoteQuerySet, second: VoteQuerySet) -> OrderAgreement:
    """Fit the votes of either group and compare their orders. Raises NotConvergedError.

    A lead is clear at 95 % for one check, with votes on the same prompt as dependent.
    """
    first_leads, second_leads = _leads(first), _leads(second)
    scores = rank_correlation(first_leads.scores, second_leads.scores)
    certain = first_leads.clear.keys() & second_leads.clear.keys()
    same = sum(first_leads.clear[pair] == second_leads.clear[pair] for pair in certain)
    return OrderAgreement(scores.n, scores.kendall, len(certain), same)


@dataclass(frozen=True)
class _Leads:
    """Scores by candidate id, and for each pair that is decided whether the lower id is better."""

    scores: Mapping[int, float]
    clear: Mapping[tuple[int, int], bool]


def _leads(votes: VoteQuerySet) -> _Leads:
    table = read_only(votes)
    candidates = table.pairs().candidates
    # As of judges: what the votes say is about those who have cast them.
    evidence = Evidence(Question(Raters.JUDGES), table, table, candidates, table)
    fitted = Sandwich().fit(*evidence.groups.groupings)
    scores = {
        int(pk): float(score)
        for pk, score in zip(candidates, fitted.ratings_, strict=True)
        if not np.isnan(score)
    }
    clear = {}
    for low, high in combinations(candidates.tolist(), 2):
        found = claim(evidence.between(low, high))
        if found.is_decided:
            clear[low, high] = found.verdict is Verdict.BETTER
    return _Leads(scores, clear)


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
