"""Votes as arrays: checked, then folded once to distinct rows with a count.

After the fold nothing walks the votes again: an estimator reads rows, pairs or the win matrix.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranking.stats import columns
from ranking.stats.columns import Bools, Floats, Ints
from ranking.stats.folding import fold_outcomes, fold_rows
from ranking.stats.pairs import Pairs


@dataclass(frozen=True, eq=False)
class Battles:
    """Votes between ``n_candidates`` candidates, folded to R rows.

    Build one with `from_arrays` or `from_names`; the constructor checks nothing.

    Attributes
    ----------
    first, second : (R,) int64, the two candidates, ``first < second``
    score : (R,) float64, what each of these votes gives to ``first``: 1, 0, a half, or soft
    weight : (R,) float64, the weight of each one of them
    count : (R,) int64, how many votes the row stands for
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
        weight : (n,) floats, finite and not negative; a vote of weight 0 is no vote
        cluster : (n,) integers of any value; votes with the same one are not independent
        n_candidates : how many candidates there are; needed when there are no votes
        count : (n,) integers, how many equal votes each row stands for (rows from tallies)

        Raises
        ------
        ValueError
            naming the argument and its first row at fault.
        """
        a, b = columns.integers("left", left), columns.integers("right", right)
        s = columns.floats("score", score)
        n_candidates = columns.count_candidates(a, b, n_candidates)
        plain = weight is None and cluster is None and count is None
        rows = fold_outcomes(n_candidates, a, b, s) if plain else None
        if rows is not None:
            return cls(n_candidates, **vars(rows))
        columns.check_votes(a, b, s, n_candidates)
        w = None if weight is None else columns.weights("weight", weight, len(a))
        g = None if cluster is None else columns.integers("cluster", cluster, len(a))
        c = None if count is None else columns.counts("count", count, len(a))
        return cls(n_candidates, **vars(fold_rows(n_candidates, a, b, s, w, g, c)))

    @classmethod
    def from_names(
        cls,
        left: Sequence[str] | NDArray[Any],
        right: Sequence[str] | NDArray[Any],
        score: ArrayLike,
        weight: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
    ) -> tuple["Battles", list[str]]:
        """`from_arrays` for candidates given by name; the names come back sorted.

        Raises ValueError where a name is empty or no string, and as `from_arrays` does.
        """
        left, right = columns.listed(left), columns.listed(right)
        found = set(left) | set(right)
        if not all(isinstance(name, str) and name for name in found):
            raise ValueError("left and right must hold names that are not empty")
        names = sorted(found)
        index = {name: code for code, name in enumerate(names)}
        a = np.fromiter(map(index.__getitem__, left), np.int64, len(left))
        b = np.fromiter(map(index.__getitem__, right), np.int64, len(right))
        return cls.from_arrays(a, b, score, weight, cluster, len(names)), names

    @property
    def n_votes(self) -> int:
        """Votes of any weight above 0."""
        return int(self.count.sum())

    @cached_property
    def n_clusters(self) -> int:
        """Distinct clusters; without clusters, votes."""
        if self.cluster is None:
            return self.n_votes
        return int(self.cluster.max()) + 1 if len(self.cluster) else 0

    @cached_property
    def decisive(self) -> bool:
        """Whether any vote says something other than a tie."""
        return bool((self.score != 0.5).any())

    @cached_property
    def pairs(self) -> Pairs:
        """The totals per pair of candidates that have met: all that Bradley-Terry needs."""
        return Pairs.total(
            self.n_candidates, self.first, self.second, self.score, self.count * self.weight
        )

    def plus(self, more: "Battles") -> "Battles":
        """These votes and some more, by rows side by side: nothing is folded again.

        The totals per pair are those of both, so that a fit after a few more votes costs the fit
        alone. Folding again merges equal rows. Raises ValueError where the candidates differ in
        number or either has clusters, whose numbers mean nothing outside.
        """
        if more.n_candidates != self.n_candidates:
            raise ValueError(f"more must have n_candidates {self.n_candidates}")
        if self.cluster is not None or more.cluster is not None:
            raise ValueError("more and these battles must have no clusters")
        names = ("first", "second", "score", "weight", "count")
        rows = {name: np.concatenate([getattr(self, name), getattr(more, name)]) for name in names}
        both = Battles(self.n_candidates, **rows)
        vars(both)["pairs"] = self.pairs.plus(more.pairs)
        return both

    def wins(self) -> Floats:
        """(K, K) float64: what the row's candidate scored against the column's (ties as halves)."""
        return self.pairs.wins()

    def votes_per_candidate(self) -> Ints:
        """(K,) int64: the votes that each candidate takes part in."""
        both = np.concatenate([self.first, self.second])
        votes = columns.summed(both, np.tile(self.count, 2), self.n_candidates)
        return votes.astype(np.int64)

    def clusters_per_candidate(self) -> Ints:
        """(K,) int64: the distinct clusters that each candidate has votes in."""
        if self.cluster is None:
            return self.votes_per_candidate()
        both = np.concatenate([self.first, self.second])
        met = np.unique(both * self.n_clusters + np.tile(self.cluster, 2))
        return np.bincount(met // max(self.n_clusters, 1), minlength=self.n_candidates)

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
            cluster=None if self.cluster is None else columns.codes(self.cluster[keep])[0],
        )
