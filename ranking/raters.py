"""A rater's own results (agreement with others, pairs they helped to settle, a ranking), and how
two groups of raters order the same candidates.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.special import ndtri

from arena.models import Arena, Rater, Vote
from arena.outcomes import VOTES_PER_CANDIDATE, mirror
from ranking.comparison import DifferenceBoard, load_difference_boards
from ranking.models import Raters, Snapshot
from ranking.services.votes import read_only
from ranking.stats.battles import Pairs
from ranking.stats.bradley_terry import maximise, pseudo_inverse
from ranking.stats.claim import Verdict
from ranking.votes import Floats, Ints, PairCounts

VOTES_READ = 300  # the latest votes that agreement and settled pairs are read from
FEWEST = 30  # votes before a ranking is shown, with few candidates
FEWEST_OTHERS = 5  # who voted on the same two answers, to say whether they agree
# Every candidate begins with two ties against the others, so one lucky vote hardly moves it.
TIES_AT_FIRST = 2.0
ELO_PER_THETA = 400 / np.log(10)
Z_95 = float(ndtri(0.975))


@dataclass(frozen=True)
class OwnPlace:
    """A candidate in a rater's own ranking: the ranks that it could have, and its score with its
    interval; `everybody`: the ranks that it could have on the leaderboard, '' without any."""

    candidate: str
    ranks: str
    score: float
    low: float
    high: float
    everybody: str

    @property
    def width(self) -> float:
        return self.high - self.low


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
    """A rater's votes in an arena, and how they agree with those of others.

    `to_go`: how many more votes a ranking of the rater's own needs; until then it has no `places`.
    """

    votes: int
    settled: list[Settled]
    places: list[OwnPlace]
    to_go: int

    @property
    def lowest(self) -> float:
        """The lower end of the scale that all intervals fit on."""
        return min(place.low for place in self.places)

    @property
    def span(self) -> float:
        return max(place.high for place in self.places) - self.lowest


def summarise(arena: Arena, rater: Rater) -> RaterSummary:
    own = Vote.objects.live().known_to_rater().filter(arena=arena, rater=rater)
    latest = list(own.order_by("-pk").select_related("comparison")[:VOTES_READ])
    of_others = {
        vote: counts
        for vote, counts in count_others(latest, rater).items()
        if counts.total() >= FEWEST_OTHERS
    }
    names = {c.pk: str(c) for c in arena.candidates.revealed()}
    snapshot = Snapshot.objects.current().of_arena(arena)
    snapshot = snapshot.filter(board__raters=Raters.PEOPLE, board__category="")
    counts = read_only(arena, own).pairs()
    boards = load_difference_boards(arena, snapshot, counts.candidates.tolist())
    board = next(iter(boards.values()), None)
    to_go = votes_to_own_ranking(counts)
    return RaterSummary(
        votes=int(counts.votes.sum()),
        same=sum(of_others[vote.pk][vote.outcome] for vote in latest if vote.pk in of_others),
        others=sum(counts.total() for counts in of_others.values()),
        settled=_settled_pairs(latest, board, names) if board else [],
        places=[] if to_go else _own_places(counts, board, names),
        to_go=to_go,
    )


def votes_to_own_ranking(counts: PairCounts) -> int:
    """How many more votes a rater's own ranking needs.

    As many for each candidate met as a leaderboard needs, and at least FEWEST. With fewer, in
    simulations of candidates 100 Elo apart, the order has little to do with the true one: its
    Kendall correlation with it is 0.5 for 5 candidates and 30 votes, and 0.3 for 10 votes.
    """
    needed = max(FEWEST, VOTES_PER_CANDIDATE * len(counts.candidates) // 2)
    return max(needed - int(counts.decided.sum()), 0)


def count_others(votes: Iterable[Vote], rater: Rater) -> dict[int, Counter[str]]:
    """For the votes of a rater, by id, the outcomes of other people on the same two answers, seen
    from the vote's sides; one query. Of several votes on the same answers, only the last counts."""
    own: dict[frozenset[int | None], Vote] = {}
    for vote in votes:
        comparison = vote.comparison
        answers = frozenset((comparison.left_response_id, comparison.right_response_id))
        if None not in answers:
            own[answers] = vote
    counts: dict[int, Counter[str]] = {vote.pk: Counter() for vote in own.values()}
    ids = set().union(*own) if own else set()
    of_others = Vote.objects.live().of_people().exclude(rater=rater)
    rows = of_others.filter(
        comparison__left_response__in=ids, comparison__right_response__in=ids
    ).values_list("comparison__left_response", "comparison__right_response", "outcome")
    for left, right, outcome in rows:
        if cast := own.get(frozenset((left, right))):
            is_flipped = left != cast.comparison.left_response_id
            counts[cast.pk][mirror(outcome) if is_flipped else outcome] += 1
    return counts


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
    fitted = fit_shrunk(counts, met)
    standings = board.standings if board and not board.snapshot.lacks_votes else {}
    places = []
    for at in np.argsort(-fitted.scores, kind="stable").tolist():
        pk, score, reach = int(met[at]), float(fitted.scores[at]), Z_95 * float(fitted.errors[at])
        if pk not in names:
            continue
        everybody = standings.get(pk)
        ranks = everybody and (everybody.sure_rank_low, everybody.sure_rank_high)
        places.append(
            OwnPlace(
                names[pk],
                rank_range(int(fitted.best[at]), int(fitted.worst[at])),
                score,
                score - reach,
                score + reach,
                rank_range(*ranks) if ranks and ranks[0] else "",
            )
        )
    return places


def rank_range(best: int | None, worst: int | None) -> str:
    """As in a table: "1–4", or "2"."""
    return f"{best}" if best == worst else f"{best}–{worst}"


@dataclass(frozen=True, eq=False)
class ShrunkScores:
    """(K,) each: scores in Elo, their standard errors, and the best and the worst possible rank."""

    scores: Floats
    errors: Floats
    best: Ints
    worst: Ints


def fit_shrunk(counts: PairCounts, candidates: Ints) -> ShrunkScores:
    """Elo from few votes, by Bradley-Terry with ties added between all candidates.

    The ties weigh TIES_AT_FIRST per candidate. They connect all candidates, so that every score is
    finite, and pull the scores towards one another, the more the fewer votes there are.

    The ties are a prior, and the errors those of the posterior's normal approximation (Laplace):
    the inverse of the information at the maximum, for strengths of mean 0 and votes that are
    independent. A rank is possible unless a difference excludes it, at 95 % for all differences
    together (Bonferroni).
    """
    size = len(candidates)
    battles = counts.battles(candidates, both_bad_is_tie=False)
    pairs = np.array(list(combinations(range(size), 2)), np.int64).reshape(-1, 2)
    weight = np.full(len(pairs), TIES_AT_FIRST / max(size - 1, 1))
    total = Pairs.total(
        size,
        np.concatenate([battles.first, pairs[:, 0]]),
        np.concatenate([battles.second, pairs[:, 1]]),
        np.concatenate([battles.score, np.full(len(pairs), 0.5)]),
        np.concatenate([battles.weight * battles.count, weight]),
    )
    theta, _ = maximise(total)
    covariance = pseudo_inverse(total.information(theta))
    variance = covariance.diagonal()
    reach = -float(ndtri(0.025 / max(len(pairs), 1)))
    of_gap = (variance[:, None] + variance - 2 * covariance).clip(min=0)
    is_ahead = theta[:, None] - theta > reach * np.sqrt(of_gap)
    return ShrunkScores(
        1000 + ELO_PER_THETA * theta,
        ELO_PER_THETA * np.sqrt(variance),
        1 + is_ahead.sum(axis=0),
        size - is_ahead.sum(axis=1),
    )
