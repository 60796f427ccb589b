"""Votes with the style of both answers: the Bradley-Terry likelihood with shared coefficients.

The log-odds of a vote are theta_left - theta_right + beta' f, f the vote's style differences. Each
vote has differences of its own, so nothing folds; the votes are walked in chunks that stay in the
processor's cache, and all that concerns candidates is summed per pair on the way.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from ranking.stats.clustering import BLOCK
from ranking.stats.columns import Bools, Floats, Ints, codes, integers, summed
from ranking.stats.pairs import expected_score

CHUNK = 1 << 16  # votes
DENSE = 4  # cells per vote up to which counting into all of them beats sorting


@dataclass(frozen=True, eq=False)
class StyledVotes:
    """n votes between K candidates, of P distinct (left, right).

    Attributes
    ----------
    left, right : (P,) the candidates of each ordered pair
    pair : (n,) the pair of each vote
    score : (n,) floats from 0 to 1
    features : (F, n) style differences
    weight : (n,) floats above 0, or None: 1 for each
    count : (n,) how many equal votes each stands for, or None: 1 for each
    cluster : (n,) codes from 0, or None: each vote is its own
    """

    n_candidates: int
    left: Ints
    right: Ints
    pair: Ints
    score: Floats
    features: Floats
    weight: Floats | None
    count: Ints | None
    cluster: Ints | None

    @classmethod
    def between(
        cls,
        ranked: Bools,
        left: ArrayLike,
        right: ArrayLike,
        score: ArrayLike,
        features: Floats,
        weight: ArrayLike | None = None,
        count: ArrayLike | None = None,
        cluster: Ints | None = None,
    ) -> "StyledVotes":
        """The votes between ranked candidates, renumbered; of checked columns, features (n, F)."""
        a, b = integers("left", left), integers("right", right)
        s = np.asarray(score, np.float64)
        w = None if weight is None else np.asarray(weight, np.float64)
        c = None if count is None else np.asarray(count).astype(np.int64)
        keep = _kept(ranked, a, b, w, c)
        if keep is not None:
            a, b, s, features = a[keep], b[keep], s[keep], features[keep]
            w, c = (None if w is None else w[keep]), (None if c is None else c[keep])
            cluster = None if cluster is None else cluster[keep]
        cell = a.astype(np.int64) * len(ranked) + b
        pair, n_pairs = codes(cell)
        met = np.empty(n_pairs, np.int64)
        met[pair] = cell
        first, second = np.divmod(met, max(len(ranked), 1))
        place = np.cumsum(ranked) - 1
        group = None if cluster is None else codes(cluster)[0]
        table = np.array(features.T, order="C")  # a copy always: it is standardised in place
        size = int(ranked.sum())
        return cls(size, place[first], place[second], pair, s, table, w, c, group)

    @property
    def n_clusters(self) -> int:
        """Distinct clusters; without clusters, votes."""
        if self.cluster is not None:
            return int(self.cluster.max(initial=-1)) + 1
        return len(self.pair) if self.count is None else int(self.count.sum())

    def standardise(self) -> tuple[Floats, list[int]]:
        """Divide each feature, in place, by its standard deviation about 0.

        Returns the deviations (F,), and which features are not the same in every vote.
        """
        low = self.features.min(axis=1, initial=np.inf)
        high = self.features.max(axis=1, initial=-np.inf)
        total = np.ones(len(self.pair))
        self._times(total, slice(None))
        unit = np.maximum(np.abs(low), np.abs(high))
        unit[(unit == 0) | np.isinf(unit)] = 1
        deviations = np.zeros(len(unit))
        for place, row in enumerate(self.features):
            row /= unit[place]
            deviations[place] = math.sqrt((row * row) @ total / max(float(total.sum()), 1e-300))
            row /= deviations[place] or 1
        return unit * deviations, np.flatnonzero(low < high).tolist()

    def choose(self, features: list[int]) -> "StyledVotes":
        """The same votes with some of the features only."""
        if len(features) == len(self.features):
            return self
        return replace(self, features=self.features[features])

    def derivatives(self, x: Floats) -> tuple[Floats, Floats]:
        """(K + F,) and its square: the gradient at (theta, beta), and minus its derivative."""
        total, moments = np.zeros(len(self.left)), self._moments()
        slope = np.zeros(len(self.features))
        for part, _, chance in self._walk(x):
            pair, features = self.pair[part], self.features[:, part]
            bend, residual = chance * (1 - chance), self.score[part] - chance
            for values in (bend, residual):
                self._times(values, part)
            total += np.bincount(pair, residual, len(total))
            slope += features @ residual
            moments.add(pair, bend, features)
        size = self.n_candidates
        gradient = summed(self.left, total, size) - summed(self.right, total, size)
        return np.concatenate([gradient, slope]), moments.matrix(self.left, self.right, size)

    def log_likelihood(self, x: Floats) -> float:
        """In nats."""
        total = 0.0
        for part, gap, _ in self._walk(x):
            loss = np.log1p(np.exp(-np.abs(gap))) + np.maximum(gap, 0)
            each = self.score[part] * gap - loss
            self._times(each, part)
            total += float(each.sum())
        return total

    def meat(self, x: Floats) -> Floats:
        """(K + F, K + F): the sum over clusters of u u', u a cluster's share of the gradient."""
        return self._meat_of_votes(x) if self.cluster is None else self._meat_of(x, self.cluster)

    def _meat_of_votes(self, x: Floats) -> Floats:
        moments = self._moments()
        for part, _, chance in self._walk(x):
            residual = self.score[part] - chance
            square = residual * residual
            if self.weight is not None:
                square *= self.weight[part] ** 2
            if self.count is not None:
                square *= self.count[part]
            moments.add(self.pair[part], square, self.features[:, part])
        return moments.matrix(self.left, self.right, self.n_candidates)

    def _meat_of(self, x: Floats, cluster: Ints) -> Floats:
        residual = np.empty(len(self.pair))
        for part, _, chance in self._walk(x):
            residual[part] = self.score[part] - chance
            self._times(residual[part], part)
        strengths = self._per_cluster(residual, cluster)
        shared = [np.bincount(cluster, row * residual) for row in self.features]
        styles = np.stack(shared, axis=1) if shared else np.zeros((self.n_clusters, 0))
        total = np.zeros((self.n_candidates + len(shared),) * 2)
        for start in range(0, self.n_clusters, BLOCK):
            part = slice(start, start + BLOCK)
            rows = strengths[part]
            dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
            block = np.hstack([dense, styles[part]])
            total += block.T @ block
        return total

    def _per_cluster(self, residual: Floats, cluster: Ints) -> Floats | csr_array:
        """(G, K): each cluster's share of the gradient; sparse where clusters are small."""
        shape = self.n_clusters, self.n_candidates
        if math.prod(shape) > DENSE * len(residual):
            column = np.concatenate([self.left[self.pair], self.right[self.pair]])
            entries = np.concatenate([residual, -residual]), (np.tile(cluster, 2), column)
            return csr_array(entries, shape=shape)
        total = np.zeros(math.prod(shape))
        for side, values in ((self.left, residual), (self.right, -residual)):
            cell = cluster * self.n_candidates
            cell += side[self.pair]
            total += summed(cell, values, len(total))
        return total.reshape(shape)

    def _walk(self, x: Floats) -> Iterator[tuple[slice, Floats, Floats]]:
        """Each chunk's slice, log-odds, and probabilities that left is preferred."""
        theta, beta = x[: self.n_candidates], x[self.n_candidates :]
        apart = theta[self.left] - theta[self.right]
        step = max(CHUNK, 2 * len(apart))  # so that summing per pair is not the greater work
        for start in range(0, len(self.pair), step):
            part = slice(start, start + step)
            gap = apart[self.pair[part]] + beta @ self.features[:, part]
            yield part, gap, expected_score(gap)

    def _times(self, values: Floats, part: slice) -> None:
        """Multiply by what each vote weighs, in place."""
        if self.weight is not None:
            values *= self.weight[part]
        if self.count is not None:
            values *= self.count[part]

    def _moments(self) -> "_Moments":
        return _Moments(len(self.left), len(self.features))


def _kept(
    ranked: Bools, left: Ints, right: Ints, weight: Floats | None, count: Ints | None
) -> Bools | None:
    """The votes between ranked candidates, of weight and count above 0; None where all are."""
    masks = [] if ranked.all() else [ranked[left] & ranked[right]]
    masks += [column > 0 for column in (weight, count) if column is not None]
    keep: Bools = np.logical_and.reduce(masks) if masks else np.ones(1, np.bool_)
    return None if keep.all() else keep


class _Moments:
    """The sum over votes of value * x x', x the contrast of candidates and the features."""

    def __init__(self, n_pairs: int, n_features: int) -> None:
        self._square = np.zeros(n_pairs)
        self._cross = np.zeros((n_features, n_pairs))
        self._gram = np.zeros((n_features, n_features))

    def add(self, pair: Ints, value: Floats, features: Floats) -> None:
        """A chunk: (c,) pairs and values, (F, c) features."""
        scaled = features * value
        self._square += np.bincount(pair, value, len(self._square))
        for row, own in zip(self._cross, scaled, strict=True):
            row += np.bincount(pair, own, len(row))
        self._gram += scaled @ features.T

    def matrix(self, left: Ints, right: Ints, size: int) -> Floats:
        """(K + F, K + F)."""
        whole = np.zeros((size + len(self._gram),) * 2)
        strengths = whole[:size, :size]
        strengths[left, right] = -self._square
        strengths += strengths.T.copy()
        np.fill_diagonal(strengths, -strengths.sum(axis=1))
        for place, row in enumerate(self._cross, size):
            cross = summed(left, row, size) - summed(right, row, size)
            whole[:size, place] = whole[place, :size] = cross
        whole[size:, size:] = self._gram
        return whole
