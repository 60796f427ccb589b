"""Votes as arrays, folded to distinct rows with counts, and their totals per pair.

After folding, estimators read rows, pairs or the win matrix, never single votes. The Bradley-Terry
likelihood is here because it is a sum over pairs.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranking.stats import arrays
from ranking.stats.arrays import Bools, Floats, Ints, codes, summed

# With theta the strengths on the natural scale, p = 1 / (1 + exp(theta_b - theta_a)) is the
# probability that ``first`` is preferred (Bradley and Terry 1952). A tie is half a win each way.


@dataclass(frozen=True, eq=False)
class Pairs:
    """Totals of P sorted pairs: the ``weight`` of their votes, and ``first``'s ``score`` of it."""

    n_candidates: int
    first: Ints
    second: Ints
    weight: Floats
    score: Floats

    @classmethod
    def total(
        cls, n_candidates: int, first: Ints, second: Ints, score: Floats, weight: Floats
    ) -> "Pairs":
        """Sum rows of (first, second, score, weight) per pair."""
        code = first * n_candidates + second
        cells = n_candidates**2
        met: Ints = np.arange(cells)
        if cells > 16 * len(code):  # few rows: count only the pairs that occur
            met, code = np.unique(code, return_inverse=True)
        totals = summed(code, weight, len(met))
        scored = summed(code, weight * score, len(met))
        used = np.flatnonzero(totals)
        first, second = np.divmod(met[used], max(n_candidates, 1))
        return cls(n_candidates, first, second, totals[used], scored[used])

    def locate(self, first: Ints, second: Ints) -> Ints:
        """The index of each (first, second) in these pairs; if missing, where it would be."""
        pair_codes = self.first * self.n_candidates + self.second
        wanted: Ints = first * self.n_candidates + second
        if self.n_candidates**2 <= len(wanted):  # look places up, rather than search for each
            pair_codes = np.searchsorted(pair_codes, np.arange(self.n_candidates**2))
            return pair_codes[wanted].astype(np.int64, copy=False)
        return np.searchsorted(pair_codes, wanted).astype(np.int64)

    def wins(self) -> Floats:
        """(K, K): the score of the row's candidate against the column's."""
        size = self.n_candidates
        matrix = np.zeros(size * size)
        matrix[self.first * size + self.second] = self.score
        matrix[self.second * size + self.first] = self.weight - self.score
        return matrix.reshape(size, size)

    def win_probability(self, theta: Floats) -> Floats:
        """(P,) probabilities that ``first`` is preferred; (P, B) for theta of shape (K, B)."""
        return expected_score(theta[self.first] - theta[self.second])

    def log_likelihood(self, theta: Floats) -> float:
        """Sum of score * log p + (weight - score) * log(1 - p), in nats."""
        gap = theta[self.first] - theta[self.second]
        return float(self.score @ gap - self.weight @ np.logaddexp(0.0, gap))

    def gradient(self, theta: Floats) -> Floats:
        """(K,): the derivative of the log-likelihood, observed minus expected scores."""
        return self.gradient_where(self.win_probability(theta))

    def gradient_where(self, probability: Floats) -> Floats:
        """`gradient`, given the (P,) probabilities that ``first`` is preferred."""
        residual = self.weight * probability
        np.subtract(self.score, residual, out=residual)
        return self._per_first(residual) - summed(self.second, residual, self.n_candidates)

    def _per_first(self, values: Floats) -> Floats:
        """(K,): the sum over the pairs of each ``first``, which are adjacent in sorted order."""
        starts = np.searchsorted(self.first, np.arange(self.n_candidates + 1))
        has_pairs = starts[:-1] < starts[1:]
        total = np.zeros(self.n_candidates)
        if has_pairs.any():
            total[has_pairs] = np.add.reduceat(values, starts[:-1][has_pairs])
        return total

    def information(self, theta: Floats) -> Floats:
        """(K, K): minus the second derivative, a Laplacian with weights n p (1 - p)."""
        return self.information_where(self.win_probability(theta))

    def information_where(self, probability: Floats) -> Floats:
        """`information`, given the (P,) probabilities that ``first`` is preferred."""
        curvature = 1 - probability
        curvature *= probability
        curvature *= self.weight
        return self.laplacian(curvature)

    def laplacian(self, weight: Floats) -> Floats:
        """(K, K): the sum over pairs of weight * (e_first - e_second)(e_first - e_second)'."""
        size = self.n_candidates
        matrix = np.zeros(size * size)
        matrix[self.first * size + self.second] = -weight
        matrix[self.second * size + self.first] = -weight
        matrix[:: size + 1] = -matrix.reshape(size, size).sum(axis=1)
        return matrix.reshape(size, size)


def expected_score(gap: Floats) -> Floats:
    """1 / (1 + exp(-gap)), computed so that no gap overflows."""
    score: Floats = np.tanh(0.5 * gap)
    score *= 0.5
    score += 0.5
    return score


@dataclass(frozen=True, eq=False)
class Battles:
    """Votes between ``n_candidates`` candidates, folded to R distinct rows.

    Built by `from_arrays`; the constructor checks nothing.

    Attributes
    ----------
    first, second : (R,) int64, the two candidates, ``first < second``
    score : (R,) float64, the score of ``first`` in each of these votes: 1, 0, a half, or soft
    weight : (R,) float64, the weight of each of these votes
    count : (R,) int64, how many votes the row represents
    cluster : (R,) int64 from 0 to ``n_clusters - 1``, or None: every vote is its own cluster
    """

    n_candidates: int
    first: Ints
    second: Ints
    score: Floats
    weight: Floats
    count: Ints
    cluster: Ints | None = None

    @classmethod
    def from_arrays(
        cls,
        left: ArrayLike,
        right: ArrayLike,
        score: ArrayLike,
        weight: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        n_candidates: int | None = None,
        count: ArrayLike | None = None,
    ) -> "Battles":
        """Check and fold n votes.

        Parameters
        ----------
        left, right : (n,) integers from 0, the candidates on the two sides
        score : (n,) floats, 1 where left wins, 0 where right wins, 0.5 for a tie, soft between
        weight : (n,) floats, finite and not negative; votes of weight 0 are ignored
        cluster : (n,) integers of any value; votes in the same cluster are dependent
        n_candidates : the number of candidates; required if there are no votes
        count : (n,) integers, how many equal votes each row represents

        Raises
        ------
        ValueError
            naming the argument and its first invalid row.
        """
        a, b = arrays.integers("left", left), arrays.integers("right", right)
        s = arrays.floats("score", score)
        n_candidates = arrays.count_candidates(a, b, n_candidates)
        plain = weight is None and cluster is None and count is None
        rows = fold_outcomes(n_candidates, a, b, s) if plain else None
        if rows is not None:
            return cls(n_candidates, *rows)
        arrays.check_votes(a, b, s, n_candidates)
        w = None if weight is None else arrays.weights("weight", weight, len(a))
        g = None if cluster is None else arrays.integers("cluster", cluster, len(a))
        c = None if count is None else arrays.counts("count", count, len(a))
        return cls(n_candidates, *fold_rows(n_candidates, a, b, s, w, g, c))

    @property
    def n_votes(self) -> int:
        """The number of votes with a weight above 0."""
        return int(self.count.sum())

    @cached_property
    def n_clusters(self) -> int:
        """The number of distinct clusters, or of votes if there are no clusters."""
        if self.cluster is None:
            return self.n_votes
        return int(self.cluster.max()) + 1 if len(self.cluster) else 0

    @cached_property
    def effective_clusters(self) -> int:
        """(sum w)^2 / sum w^2 over the clusters' weights (Kish 1965), rounded."""
        if self.cluster is None or not len(self.cluster):
            return self.n_clusters
        weight = np.bincount(self.cluster, self.count * self.weight)
        return round(float(weight.sum() ** 2 / (weight**2).sum()))

    @cached_property
    def decisive(self) -> bool:
        """Whether any vote is not a tie."""
        return bool((self.score != 0.5).any())

    @cached_property
    def pairs(self) -> Pairs:
        """The totals per pair, which are all that Bradley-Terry needs."""
        return Pairs.total(
            self.n_candidates, self.first, self.second, self.score, self.count * self.weight
        )

    @cached_property
    def pair_of_row(self) -> Ints:
        """(R,): the index in ``pairs`` of each row's pair."""
        return self.pairs.locate(self.first, self.second)

    def wins(self, *, weighted: bool = True) -> Floats:
        """(K, K) float64: the score of the row's candidate against the column's (a tie is 0.5).

        Without weights, who has won a vote has won it, however little it weighs.
        """
        if weighted or (self.weight == 1).all():
            return self.pairs.wins()
        columns = (self.first, self.second, self.score, self.count.astype(np.float64))
        return Pairs.total(self.n_candidates, *columns).wins()

    def votes_per_candidate(self) -> Ints:
        """(K,) int64: the number of votes on each candidate."""
        both = np.concatenate([self.first, self.second])
        votes = arrays.summed(both, np.tile(self.count, 2), self.n_candidates)
        return votes.astype(np.int64)

    def clusters_per_candidate(self) -> Ints:
        """(K,) int64: the number of clusters with votes on each candidate."""
        if self.cluster is None:
            return self.votes_per_candidate()
        return self._clusters_met.copy()

    @cached_property
    def _clusters_met(self) -> Ints:
        assert self.cluster is not None
        columns = (self.first, self.second, self.cluster)
        return arrays.clusters_met(*columns, self.n_candidates, self.n_clusters)

    def among(self, chosen: Bools) -> "Battles":
        """The battles between chosen candidates ((K,) mask), renumbered in their order."""
        if chosen.all():
            return self
        keep = chosen[self.first] & chosen[self.second]
        place = np.cumsum(chosen) - 1
        return Battles(
            n_candidates=int(chosen.sum()),
            first=place[self.first[keep]],
            second=place[self.second[keep]],
            score=self.score[keep],
            weight=self.weight[keep],
            count=self.count[keep],
            cluster=None if self.cluster is None else arrays.codes(self.cluster[keep])[0],
        )


CHUNK = 1 << 17  # votes; the temporaries of one chunk stay in the processor's cache
HALVES = np.array([0.0, 0.5, 1.0])
# Columns of distinct rows with first < second: first, second, score, weight, count, cluster.
FoldedRows = tuple[Ints, Ints, Floats, Floats, Ints, Ints | None]


def fold_outcomes(
    n_candidates: int, left: NDArray[Any], right: NDArray[Any], score: NDArray[Any]
) -> FoldedRows | None:
    """The fast path, for valid votes with scores of 0, a half and 1; None for any others.

    Counts (left, right, outcome) chunk by chunk, checking each chunk while it is in the cache, and
    orients the few distinct rows instead of the votes.
    """
    cells = 3 * n_candidates**2
    if cells > _table_room(len(left)) or not len(left) == len(right) == len(score):
        return None
    counts = np.zeros(cells, np.int64)
    space = np.empty(min(CHUNK, len(left)), np.int64)
    for start in range(0, len(left), CHUNK):
        part = slice(start, start + CHUNK)
        outcome = _outcomes(score[part])
        if outcome is None or not _all_below(n_candidates, left[part], right[part]):
            return None
        code = space[: len(outcome)]
        np.multiply(left[part], n_candidates, out=code, dtype=np.int64, casting="unsafe")
        np.add(code, right[part], out=code, dtype=np.int64, casting="unsafe")
        code *= 3
        code += outcome
        counts += np.bincount(code, minlength=cells)
    return _unordered(counts.reshape(n_candidates, n_candidates, 3))


def _unordered(cube: Ints) -> FoldedRows | None:
    """Rows from counts of (left, right, outcome); None if a candidate met itself."""
    if cube.diagonal().any():
        return None
    first, second = np.nonzero(np.tri(len(cube), k=-1, dtype=np.bool_).T)
    both = cube[first, second] + cube[second, first, ::-1]
    seen = np.flatnonzero(both)
    pair, outcome = np.divmod(seen, 3)
    first, second, count = first[pair], second[pair], both.reshape(-1)[seen]
    return (first, second, HALVES[outcome], np.ones(len(first)), count, None)


def fold_rows(
    n_candidates: int,
    left: NDArray[Any],
    right: NDArray[Any],
    score: Floats,
    weight: Floats | None,
    cluster: NDArray[Any] | None,
    count: NDArray[Any] | None,
) -> FoldedRows:
    """The general path, for checked votes; those of weight or count 0 are left out."""
    count = None if count is None else count.astype(np.int64)
    live = np.ones(len(left), np.bool_)
    for column in (weight, count):
        if column is not None:
            live &= column > 0
    if not live.all():
        left, right, score = left[live], right[live], score[live]
        weight = None if weight is None else weight[live]
        cluster = None if cluster is None else cluster[live]
        count = None if count is None else count[live]
    return _fold_live(n_candidates, left, right, score, weight, cluster, count)


def _fold_live(
    n_candidates: int,
    left: NDArray[Any],
    right: NDArray[Any],
    score: Floats,
    weight: Floats | None,
    cluster: NDArray[Any] | None,
    count: Ints | None,
) -> FoldedRows:
    """Give equal votes equal integer codes, then count each code, with few arrays of all votes."""
    first = np.minimum(left, right).astype(np.int64, copy=False)
    second = np.maximum(left, right).astype(np.int64, copy=False)
    score = score - (left > right)
    np.abs(score, out=score)
    clusters, n_clusters = (np.zeros(1, np.int64), 1) if cluster is None else codes(cluster)
    score_code, scores = _coded(score)
    weight_code, weights = _coded(np.ones(1) if weight is None else weight)
    dims: tuple[int, ...] = (n_candidates, n_candidates, len(scores), len(weights), n_clusters)
    powers = tuple(1 << (size - 1).bit_length() for size in dims)
    if math.prod(dims) > _table_room(len(score)) and math.prod(powers) < 2**62:
        dims = powers  # in the same order, and quicker to take apart
    grouped = None if cluster is None else clusters
    if math.prod(dims) >= 2**62:  # codes would overflow: equal votes stay separate rows
        weight = np.ones(len(score)) if weight is None else weight
        count = np.ones(len(score), np.int64) if count is None else count
        return (first, second, score, weight, count, grouped)
    code = first
    for size, more in zip(dims[1:], (second, score_code, weight_code, clusters), strict=True):
        if size > 1:
            code *= size
            code += more
    del second, score, score_code, clusters, grouped
    distinct, count = _tally(code, math.prod(dims), count)
    a, b, s, w, g = _unravel_rows(distinct, dims)
    grouped = None if cluster is None else np.ascontiguousarray(g)
    return (a, b, scores[s], weights[w], count, grouped)


def _unravel_rows(code: Ints, dims: tuple[int, ...]) -> list[Ints]:
    """The parts of each code, in the order of ``dims``."""
    parts = []
    for size in reversed(dims[1:]):
        rest, part = code, np.zeros(1, np.int64)
        if size.bit_count() > 1:
            rest = code // size
            part = code - rest * size
        elif size > 1:
            rest, part = code >> (size.bit_length() - 1), code & (size - 1)
        parts.append(np.broadcast_to(part, code.shape))
        code = rest
    return [code, *reversed(parts)]


def _tally(code: Ints, size: int, count: Ints | None) -> tuple[Ints, Ints]:
    """The distinct codes in order, and the sum of the counts of each; of how many, if None."""
    if size <= _table_room(len(code)):
        total = np.bincount(code, count, size).astype(np.int64, copy=False)
        distinct = np.flatnonzero(total)
        return distinct, total[distinct]
    if count is None or (count == 1).all():  # sorting values is several times faster than argsort
        code.sort()
        starts = _starts(code)
        return code[starts], np.diff(starts, append=len(code))
    code = code[order := np.argsort(code)]
    starts = _starts(code)
    return code[starts], np.add.reduceat(count[order], starts) if len(starts) else count


def _starts(ordered: Ints) -> Ints:
    """Where each run of equal codes begins."""
    is_new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return np.flatnonzero(is_new)


def _coded(values: Floats) -> tuple[NDArray[Any], Floats]:
    """Codes of the values, and the table that the codes index."""
    if len(values) and (values == values[0]).all():
        return np.zeros(1, np.int64), values[:1]
    outcome = _outcomes(values)
    if outcome is not None:
        return outcome, HALVES
    table, code = np.unique(values, return_inverse=True)
    return code.astype(np.int64, copy=False), table


def _outcomes(score: NDArray[Any]) -> NDArray[np.uint8] | None:
    """0, 1 and 2 for the scores 0, a half and 1; None if there is any other."""
    won, tied = score == 1, score == 0.5
    n_plain = sum(map(np.count_nonzero, (won, tied, score == 0)))
    outcome = won.view(np.uint8)
    outcome += outcome
    outcome += tied.view(np.uint8)
    return outcome if n_plain == len(score) else None


def _all_below(limit: int, *arrays: NDArray[Any]) -> bool:
    """Whether all integers are from 0 to limit - 1; negative ones are huge when unsigned."""
    return all(
        not array.size or int(array.view(f"u{array.itemsize}").max()) < limit for array in arrays
    )


def _table_room(n_votes: int) -> int:
    """The largest number of cells for which counting is faster than sorting the votes."""
    return 4 * n_votes + 1024
