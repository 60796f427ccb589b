"""What people and a judge said of comparisons: the two samples of prediction-powered inference."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranking.stats import columns
from ranking.stats.battles import Battles
from ranking.stats.columns import Bools, Floats, Ints

Sample = TypeVar("Sample", bound="Judged")


@dataclass(frozen=True, eq=False)
class Judged:
    """R comparisons with the judge's score for ``left``; NaN where it gave no verdict.

    ``weight``: (R,) above 0. ``cluster``: (R,) any integers, or None: each row is its own. The
    integers mean the same in both samples: what people and the judge said of one prompt is one
    cluster.
    """

    n_candidates: int
    left: Ints
    right: Ints
    predicted: Floats
    weight: Floats
    cluster: Ints | None

    def __len__(self) -> int:
        return len(self.left)


@dataclass(frozen=True, eq=False)
class Unlabelled(Judged):
    """Comparisons that the judge alone has scored, one row each; people's are not among them."""

    @classmethod
    def from_arrays(
        cls,
        left: ArrayLike,
        right: ArrayLike,
        predicted: ArrayLike,
        weight: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        n_candidates: int | None = None,
    ) -> "Unlabelled":
        """Check the judge's verdicts; arguments and errors as in `Labelled.from_arrays`."""
        a = columns.integers("left", left)
        b = columns.integers("right", right, len(a))
        f = columns.floats("predicted", predicted, len(a))
        n_candidates = columns.count_candidates(a, b, n_candidates)
        columns.check_votes(a, b, np.zeros(len(a)), n_candidates)
        _check_predicted(f)
        w, g = _weights(weight, len(a)), _clusters(cluster, len(a))
        return _live(cls(n_candidates, _wide(a), _wide(b), f, w, g), ~np.isnan(f) & (w > 0))


@dataclass(frozen=True, eq=False)
class Labelled(Judged):
    """People's votes, each with the judge's score of the same comparison.

    ``score``: (R,) what the vote gives to ``left``: 1, 0, a half, or soft.
    """

    score: Floats

    @classmethod
    def from_arrays(
        cls,
        left: ArrayLike,
        right: ArrayLike,
        score: ArrayLike,
        predicted: ArrayLike,
        weight: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        n_candidates: int | None = None,
    ) -> "Labelled":
        """Check people's votes and the judge's scores beside them.

        Parameters
        ----------
        left, right : (n,) integers from 0, the candidates on the two sides
        score : (n,) floats, people's: 1 where left wins, 0 where right wins, soft between
        predicted : (n,) floats, the judge's score on the same comparison (the mean of several
            judges or samples), NaN where it has none; votes on one comparison repeat it
        weight : (n,) floats, finite and not negative; see `draw_weights`
        cluster : (n,) integers of any value, the same ones in both samples
        n_candidates : how many candidates there are; needed when there are no votes

        Raises
        ------
        ValueError
            naming the argument and its first row at fault.
        """
        a = columns.integers("left", left)
        b = columns.integers("right", right, len(a))
        s = columns.floats("score", score, len(a))
        f = columns.floats("predicted", predicted, len(a))
        n_candidates = columns.count_candidates(a, b, n_candidates)
        columns.check_votes(a, b, s, n_candidates)
        _check_predicted(f)
        w, g = _weights(weight, len(a)), _clusters(cluster, len(a))
        return _live(cls(n_candidates, _wide(a), _wide(b), f, w, g, s), w > 0)

    @cached_property
    def battles(self) -> Battles:
        """What people said, without the judge."""
        even = bool((self.weight == self.weight[:1]).all())
        weight = None if even else self.weight  # equal weights say nothing
        return Battles.from_arrays(
            self.left, self.right, self.score, weight, self.cluster, self.n_candidates
        )


def draw_weights(probability: ArrayLike, largest: float = 10.0) -> Floats:
    """(n,) inverse probability weights of mean 1: as if all pairs had been drawn alike.

    ``probability``: (n,) the stored chance with which each comparison's pair was drawn, above 0
    and up to 1. Weights above ``largest`` times the median are cut to that: a pair that was all
    but never drawn would otherwise speak for a whole board. Raises ValueError.

    Reference: Horvitz and Thompson 1952.
    """
    chance = columns.floats("probability", probability)
    wrong = ~((chance > 0) & (chance <= 1))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(f"probability must be above 0 and up to 1; row {row} is {chance[row]}")
    if not (math.isfinite(largest) and largest >= 1):
        raise ValueError(f"largest must be a finite number from 1, not {largest}")
    if not len(chance):
        return chance
    middle = np.median(chance)
    weight = middle / np.maximum(chance, middle / largest)
    return np.asarray(weight / weight.mean(), np.float64)


def among(rows: Sample, chosen: Bools) -> Sample:
    """The comparisons between chosen candidates ((K,) mask), renumbered in their order."""
    place = np.cumsum(chosen) - 1
    kept = _live(rows, chosen[rows.left] & chosen[rows.right])
    return replace(
        kept, n_candidates=int(chosen.sum()), left=place[kept.left], right=place[kept.right]
    )


def _live(rows: Sample, keep: Bools) -> Sample:
    if keep.all():
        return rows
    shorter: dict[str, Any] = {
        name: value[keep] for name, value in vars(rows).items() if isinstance(value, np.ndarray)
    }
    return replace(rows, **shorter)


def _weights(weight: ArrayLike | None, length: int) -> Floats:
    return np.ones(length) if weight is None else columns.weights("weight", weight, length)


def _clusters(cluster: ArrayLike | None, length: int) -> Ints | None:
    return None if cluster is None else _wide(columns.integers("cluster", cluster, length))


def _wide(values: NDArray[Any]) -> Ints:
    return values.astype(np.int64, copy=False)


def _check_predicted(predicted: Floats) -> None:
    wrong = (predicted < 0) | (predicted > 1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(f"predicted must be from 0 to 1 or NaN; row {row} is {predicted[row]}")
