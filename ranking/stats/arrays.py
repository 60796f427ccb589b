"""Validation of array arguments; errors name the argument and the first invalid row."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def integers(name: str, values: ArrayLike, length: int | None = None) -> NDArray[Any]:
    """A one-dimensional array of any integer dtype; not copied if it is one already."""
    array = _one_dimensional(name, values, length)
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"{name} must hold integers, not {array.dtype}")
    return array if array.size else array.astype(np.int64)


def floats(name: str, values: ArrayLike, length: int | None = None) -> Floats:
    """A one-dimensional array of float64; not copied if it is one already."""
    array = _one_dimensional(name, values, length)
    if array.size and array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold numbers, not {array.dtype}")
    return array.astype(np.float64, copy=False)


def weights(name: str, values: ArrayLike, length: int) -> Floats:
    """Finite, non-negative floats."""
    array = floats(name, values, length)
    _require(name, array, np.isfinite(array) & (array >= 0), "finite and not negative")
    return array


def counts(name: str, values: ArrayLike, length: int) -> NDArray[Any]:
    """Non-negative integers."""
    array = integers(name, values, length)
    _require(name, array, array >= 0, "0 or more")
    return array


def count_candidates(left: NDArray[Any], right: NDArray[Any], n_candidates: int | None) -> int:
    """``n_candidates``; if None, one more than the largest index on either side."""
    if n_candidates is not None:
        if n_candidates < 0:
            raise ValueError(f"n_candidates must be 0 or more, not {n_candidates}")
        return n_candidates
    if not (left.size and right.size):
        raise ValueError("n_candidates must be given where there are no votes")
    return 1 + max(int(left.max()), int(right.max()), 0)


def check_votes(left: NDArray[Any], right: NDArray[Any], score: Floats, n_candidates: int) -> None:
    """Raise ValueError for unequal lengths, indices or scores out of range, or equal sides."""
    _check_length("right", right, len(left))
    _check_length("score", score, len(left))
    for name, side in (("left", left), ("right", right)):
        in_range = (side >= 0) & (side < n_candidates)
        _require(name, side, in_range, f"from 0 to {n_candidates - 1}")
    _require("left and right", left, left != right, "different candidates")
    _require("score", score, (score >= 0) & (score <= 1), "from 0 to 1")


def codes(values: NDArray[Any]) -> tuple[Ints, int]:
    """Consecutive codes from 0, in sorted order of the values, and the number of codes."""
    if len(values) and int(values.max()) - int(values.min()) < 4 * len(values) + 1024:
        wide = values if values.itemsize == 8 else values.astype(np.int64)
        low = wide.min()
        place = (wide - low if low else wide).astype(np.int64, copy=False)
        used = np.bincount(place) > 0  # integers that are close together need no sorting
        return place if used.all() else (np.cumsum(used) - 1)[place], len(used[used])
    distinct, inverse = np.unique(values, return_inverse=True)
    return inverse.astype(np.int64, copy=False), len(distinct)


def distinct(codes: Ints, size: int) -> Ints:
    """The distinct codes, sorted, of codes from 0 to ``size - 1``; much faster than `np.unique`."""
    if size <= 4 * len(codes) + 1024:
        used = np.zeros(size, np.bool_)
        used[codes] = True
        return np.flatnonzero(used)
    ordered = np.sort(codes)
    return ordered[np.flatnonzero(np.diff(ordered, prepend=-1))]


def clusters_met(first: Ints, second: Ints, cluster: Ints, size: int, n_clusters: int) -> Ints:
    """(size,): in how many clusters each candidate has rows, given the (R,) columns."""
    met = np.zeros(0, np.int64)
    for side in (first, second):
        code = side.astype(np.int64)
        code *= n_clusters
        code += cluster
        met = np.concatenate([met, distinct(code, size * n_clusters)])
    met = distinct(met, size * n_clusters)
    return np.bincount(met // max(n_clusters, 1), minlength=size)


def summed(index: Ints, values: NDArray[Any], size: int) -> Floats:
    """(size,) float64: the sum of the values at each index."""
    return np.bincount(index, values, size).astype(np.float64, copy=False)


def _one_dimensional(name: str, values: ArrayLike, length: int | None) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be one-dimensional") from error
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, not of shape {array.shape}")
    if length is not None:
        _check_length(name, array, length)
    return array


def _check_length(name: str, array: NDArray[Any], length: int) -> None:
    if len(array) != length:
        raise ValueError(f"{name} has {len(array)} entries where left has {length}")


def _require(name: str, array: NDArray[Any], valid: Bools, expected: str) -> None:
    if not valid.all():
        row = int(np.argmin(valid))
        raise ValueError(f"{name} must be {expected}; row {row} is {array[row]}")


def check_estimate(
    theta: ArrayLike, covariance: ArrayLike, name: str = "covariance"
) -> tuple[Floats, Floats]:
    """Check and return (K,) and (K, K) float64; NaN is allowed, infinity is not."""
    strength, matrix = np.asarray(theta, np.float64), np.asarray(covariance, np.float64)
    if strength.ndim != 1 or np.isinf(strength).any():
        raise ValueError("theta must be one-dimensional and hold no infinity")
    if matrix.shape != (len(strength), len(strength)):
        raise ValueError(f"{name} must be of shape (K, K) for K of theta, not {matrix.shape}")
    if np.isinf(matrix).any():
        raise ValueError(f"{name} must hold no infinity")
    return strength, matrix
