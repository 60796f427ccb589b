"""Samples of comparisons for prediction-powered inference: with human votes, and without."""

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ranking.stats import arrays
from ranking.stats.arrays import Bools, Floats, Ints
from ranking.stats.battles import Battles

Sample = TypeVar("Sample", bound="Judged")


@dataclass(frozen=True, eq=False)
class Judged:
    """R comparisons with the judge's scores.

    Attributes
    ----------
    left, right : (R,) candidates
    predicted : (R,) the judge's score for ``left``; NaN without a verdict
    weight : (R,) above 0
    cluster : (R,) integers of any value, with the same meaning in both samples; None if each row is
        its own cluster. Votes and verdicts on one prompt are one cluster
    stratum : (R,) integers of any value, with the same meaning in both samples, such as categories
        of prompts; None for a single one. Samples are compared within strata
    """

    n_candidates: int
    left: Ints
    right: Ints
    predicted: Floats
    weight: Floats
    cluster: Ints | None
    stratum: Ints | None

    def __len__(self) -> int:
        return len(self.left)


@dataclass(frozen=True, eq=False)
class Unlabelled(Judged):
    """Comparisons that only the judge has scored, one row each."""

    @classmethod
    def from_arrays(
        cls,
        left: ArrayLike,
        right: ArrayLike,
        predicted: ArrayLike,
        weight: ArrayLike | None = None,
        cluster: ArrayLike | None = None,
        n_candidates: int | None = None,
        stratum: ArrayLike | None = None,
    ) -> "Unlabelled":
        """Check the judge's verdicts; arguments and errors as in `Labelled.from_arrays`."""
        a = arrays.integers("left", left)
        b = arrays.integers("right", right, len(a))
        f = arrays.floats("predicted", predicted, len(a))
        n_candidates = arrays.count_candidates(a, b, n_candidates)
        arrays.check_votes(a, b, np.zeros(len(a)), n_candidates)
        _check_predicted(f)
        w = _weights(weight, len(a))
        groups = _groups("cluster", cluster, len(a)), _groups("stratum", stratum, len(a))
        rows = cls(n_candidates, _wide(a), _wide(b), f, w, *groups)
        return _filtered(rows, ~np.isnan(f) & (w > 0))


@dataclass(frozen=True, eq=False)
class Labelled(Judged):
    """Human votes, each with the judge's score of the same comparison.

    ``score``: (R,) the vote's score for ``left``: 1, 0, a half, or soft.
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
        stratum: ArrayLike | None = None,
    ) -> "Labelled":
        """Check human votes and the judge's scores of the same comparisons.

        Parameters
        ----------
        left, right : (n,) integers from 0, the candidates on the two sides
        score : (n,) floats, the vote's score: 1 if left wins, 0 if right wins, soft between
        predicted : (n,) floats, the judge's score of the same comparison (the mean of several
            judges or samples); NaN for none; votes on one comparison repeat it
        weight : (n,) floats, finite and not negative; see `draw_weights`
        cluster, stratum : (n,) integers of any value, with the same meaning in both samples
        n_candidates : the number of candidates; required if there are no votes

        Raises
        ------
        ValueError
            naming the argument and its first invalid row.
        """
        a = arrays.integers("left", left)
        b = arrays.integers("right", right, len(a))
        s = arrays.floats("score", score, len(a))
        f = arrays.floats("predicted", predicted, len(a))
        n_candidates = arrays.count_candidates(a, b, n_candidates)
        arrays.check_votes(a, b, s, n_candidates)
        _check_predicted(f)
        w = _weights(weight, len(a))
        groups = _groups("cluster", cluster, len(a)), _groups("stratum", stratum, len(a))
        return _filtered(cls(n_candidates, _wide(a), _wide(b), f, w, *groups, s), w > 0)

    @cached_property
    def battles(self) -> Battles:
        """The human votes alone."""
        even = bool((self.weight == self.weight[:1]).all())
        weight = None if even else self.weight  # equal weights have no effect
        return Battles.from_arrays(
            self.left, self.right, self.score, weight, self.cluster, self.n_candidates
        )


def draw_weights(probability: ArrayLike, largest: float = 10.0) -> Floats:
    """(n,) inverse-probability weights of mean 1, as if all pairs had been drawn equally often.

    ``probability``: (n,) stored probabilities of drawing each comparison's pair, above 0 and at
    most 1. Weights are truncated at ``largest`` times the median, so that a rarely drawn pair does
    not dominate a board. Raises ValueError.

    Reference: Horvitz and Thompson 1952.
    """
    chance = arrays.floats("probability", probability)
    wrong = ~((chance > 0) & (chance <= 1))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(f"probability must be above 0 and at most 1; row {row} is {chance[row]}")
    if not (math.isfinite(largest) and largest >= 1):
        raise ValueError(f"largest must be a finite number from 1, not {largest}")
    if not len(chance):
        return chance
    middle = np.median(chance)
    weight = middle / np.maximum(chance, middle / largest)
    return np.asarray(weight / weight.mean(), np.float64)


def among(rows: Sample, chosen: Bools) -> Sample:
    """The comparisons between chosen candidates ((K,) mask), renumbered in their order."""
    if chosen.all():
        return rows
    place = np.cumsum(chosen) - 1
    kept = _filtered(rows, chosen[rows.left] & chosen[rows.right])
    return replace(
        kept, n_candidates=int(chosen.sum()), left=place[kept.left], right=place[kept.right]
    )


def _filtered(rows: Sample, keep: Bools) -> Sample:
    if keep.all():
        return rows
    shorter: dict[str, Any] = {
        field.name: value[keep]
        for field in fields(rows)
        if isinstance(value := getattr(rows, field.name), np.ndarray)
    }
    return replace(rows, **shorter)


def _weights(weight: ArrayLike | None, length: int) -> Floats:
    return np.ones(length) if weight is None else arrays.weights("weight", weight, length)


def _groups(name: str, values: ArrayLike | None, length: int) -> Ints | None:
    return None if values is None else _wide(arrays.integers(name, values, length))


def _wide(values: NDArray[Any]) -> Ints:
    return values.astype(np.int64, copy=False)


def _check_predicted(predicted: Floats) -> None:
    wrong = (predicted < 0) | (predicted > 1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(f"predicted must be from 0 to 1 or NaN; row {row} is {predicted[row]}")
