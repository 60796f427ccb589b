"""Online Elo ratings and their intervals, shown next to Bradley-Terry, never instead of it."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranking.stats import arrays
from ranking.stats.arrays import Floats, Ints
from ranking.stats.intervals import (
    NoInterval,
    check_confidence,
    check_resamples,
    why_none,
    widening,
)

CHUNK = 1 << 14  # votes turned into Python numbers at once


@dataclass(frozen=True, eq=False)
class EloBounds:
    """Intervals of K Elo ratings.

    Attributes
    ----------
    low, high : (K,) Elo
    samples : (n_resamples, K) final ratings, as drawn
    reason : `NoInterval` or None; if set, low and high are all NaN
    """

    low: Floats
    high: Floats
    samples: Floats
    reason: NoInterval | None


@dataclass(eq=False)
class Elo:
    """Ratings that change by k * (score - expected score) after each vote, in vote order.

    Parameters
    ----------
    k : Elo points at stake in a vote, above 0 and at most ``scale``
    start : rating of all candidates before the first vote
    scale : Elo points for odds of 10 to 1

    Attributes
    ----------
    ratings_ : (K,) Elo; their sum stays K * start
    votes_ : (K,) int, the number of votes of each candidate; without any, the rating means nothing

    Reference: Elo 1978.
    """

    k: float = 4.0
    start: float = 1000.0
    scale: float = 400.0

    def fit(
        self,
        left: ArrayLike,
        right: ArrayLike,
        score: ArrayLike,
        n_candidates: int | None = None,
    ) -> "Elo":
        """Replay n votes in order; (n,) arrays as in `Battles.from_arrays`.

        Raises ValueError naming the argument at fault.
        """
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"scale must be a positive number, not {self.scale}")
        if not 0 < self.k <= self.scale:
            raise ValueError(f"k must be above 0 and at most scale, not {self.k}")
        if not math.isfinite(self.start):
            raise ValueError(f"start must be a finite number, not {self.start}")
        a, b, s, n_candidates = _votes(left, right, score, n_candidates)
        self.ratings_: Floats = self._replay(self._starts(n_candidates), a, b, s)
        self.votes_: Ints = np.bincount(np.concatenate([a, b]), minlength=n_candidates)
        return self

    def interval(
        self,
        left: ArrayLike,
        right: ArrayLike,
        score: ArrayLike,
        cluster: ArrayLike | None = None,
        n_candidates: int | None = None,
        *,
        n_resamples: int = 100,
        confidence: float = 0.95,
        random_state: int = 0,
    ) -> EloBounds:
        """Intervals that allow for chance both in which votes were cast and in their order.

        Each replicate draws whole clusters with replacement (votes, if ``cluster`` is None) and
        shuffles their votes. The quantiles of the deviations from the replicates' median, widened
        as in `Bootstrap`, are added to the rating. NaN for a candidate without votes.
        """
        check_confidence(confidence)
        check_resamples(n_resamples)
        a, b, s, n_candidates = _votes(left, right, score, n_candidates)
        self.fit(a, b, s, n_candidates)
        group, n_clusters = _clusters(cluster, len(a))
        reason = why_none(n_clusters, bool((s != 0.5).any()))
        samples = np.full((n_resamples, n_candidates), np.nan)
        seeds = np.random.SeedSequence(random_state).spawn(n_resamples) if reason is None else []
        for i, seed in enumerate(seeds):
            # The votes of n_clusters clusters drawn with replacement, in random order.
            generator = np.random.default_rng(seed)
            copies = np.bincount(
                generator.integers(n_clusters, size=n_clusters), minlength=n_clusters
            )
            order = generator.permutation(np.repeat(np.arange(len(group)), copies[group]))
            starts = self._starts(n_candidates)
            samples[i] = self._replay(starts, a[order], b[order], s[order])
        tail = (1 - confidence) / 2
        low, middle, high = np.quantile(samples, [tail, 0.5, 1 - tail], axis=0)
        factor = np.where(np.ptp(samples, axis=0) > 0, 1.0, np.nan)
        if reason is None:
            factor *= widening(confidence, n_clusters)
        low = self.ratings_ + factor * (low - middle)
        high = self.ratings_ + factor * (high - middle)
        return EloBounds(low, high, samples, reason)

    def _starts(self, n_candidates: int) -> Floats:
        return np.full(n_candidates, float(self.start))

    def _replay(
        self, ratings: Floats, left: NDArray[Any], right: NDArray[Any], score: Floats
    ) -> Floats:
        # A plain loop, because each vote depends on the one before. Unlike exp, tanh cannot
        # overflow.
        now = ratings.tolist()
        stake, slope, tanh = self.k / 2, math.log(10) / (2 * self.scale), math.tanh
        for begin in range(0, len(left), CHUNK):
            part = slice(begin, begin + CHUNK)
            edge = ((2 * score[part] - 1) * stake).tolist()
            for a, b, gained in zip(left[part].tolist(), right[part].tolist(), edge, strict=True):
                rating_a, rating_b = now[a], now[b]
                move = gained - stake * tanh(slope * (rating_a - rating_b))
                now[a], now[b] = rating_a + move, rating_b - move
        return np.array(now)


def _votes(
    left: ArrayLike, right: ArrayLike, score: ArrayLike, n_candidates: int | None
) -> tuple[NDArray[Any], NDArray[Any], Floats, int]:
    a, b = arrays.integers("left", left), arrays.integers("right", right)
    s = arrays.floats("score", score)
    n_candidates = arrays.count_candidates(a, b, n_candidates)
    arrays.check_votes(a, b, s, n_candidates)
    return a, b, s, n_candidates


def _clusters(cluster: ArrayLike | None, n_votes: int) -> tuple[Ints, int]:
    if cluster is None:
        return np.arange(n_votes), n_votes
    return arrays.codes(arrays.integers("cluster", cluster, n_votes))
