"""Folding votes to distinct rows, each with a count, by counting integer codes."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranking.stats.columns import Floats, Ints, codes

CHUNK = 1 << 17  # votes; the temporaries of one chunk stay in the processor's cache
HALVES = np.array([0.0, 0.5, 1.0])


@dataclass(frozen=True, eq=False)
class Rows:
    """Distinct rows, ``first < second``; the fields of `Battles`."""

    first: Ints
    second: Ints
    score: Floats
    weight: Floats
    count: Ints
    cluster: Ints | None


def fold_outcomes(
    n_candidates: int, left: NDArray[Any], right: NDArray[Any], score: NDArray[Any]
) -> Rows | None:
    """The fast way, for valid votes with scores of 0, a half and 1; None for any others.

    Counts (left, right, outcome) as they come, checking each chunk while it is in the cache, and
    turns the few distinct rows instead of the votes.
    """
    cells = 3 * n_candidates**2
    if cells > _room(len(left)) or not len(left) == len(right) == len(score):
        return None
    counts = np.zeros(cells, np.int64)
    for start in range(0, len(left), CHUNK):
        part = slice(start, start + CHUNK)
        outcome = _outcomes(score[part])
        if outcome is None or not _below(n_candidates, left[part], right[part]):
            return None
        code = left[part].astype(np.int64)
        code *= n_candidates
        code += right[part].astype(np.int64, copy=False)
        code *= 3
        code += outcome
        counts += np.bincount(code, minlength=cells)
    return _unordered(counts.reshape(n_candidates, n_candidates, 3))


def _unordered(cube: Ints) -> Rows | None:
    """Rows of counts of (left, right, outcome); None where a candidate has met itself."""
    if cube.diagonal().any():
        return None
    both = cube + cube.transpose(1, 0, 2)[:, :, ::-1]
    both[np.tril_indices(len(cube))] = 0
    first, second, outcome = np.nonzero(both)
    count = both[first, second, outcome]
    return Rows(first, second, HALVES[outcome], np.ones(len(first)), count, None)


def fold_rows(
    n_candidates: int,
    left: NDArray[Any],
    right: NDArray[Any],
    score: Floats,
    weight: Floats | None,
    cluster: NDArray[Any] | None,
    count: NDArray[Any] | None,
) -> Rows:
    """The general way, for checked votes; those of weight or count 0 are left out."""
    times = np.ones(len(left), np.int64) if count is None else count.astype(np.int64)
    weight = np.ones(len(left)) if weight is None else weight
    live = (times > 0) & (weight > 0)
    if not live.all():
        left, right, score = left[live], right[live], score[live]
        weight, times = weight[live], times[live]
        cluster = None if cluster is None else cluster[live]
    return _fold_live(n_candidates, left, right, score, weight, cluster, times)


def _fold_live(
    n_candidates: int,
    left: NDArray[Any],
    right: NDArray[Any],
    score: Floats,
    weight: Floats,
    cluster: NDArray[Any] | None,
    count: Ints,
) -> Rows:
    """One integer code per vote, equal for equal votes, then a count of each code."""
    first = np.minimum(left, right).astype(np.int64)
    second = np.maximum(left, right).astype(np.int64)
    score = np.where(left < right, score, 1 - score)
    clusters, n_clusters = (np.zeros(1, np.int64), 1) if cluster is None else codes(cluster)
    score_code, scores = _coded(score)
    weight_code, weights = _coded(weight)
    dims = (n_candidates, n_candidates, len(scores), len(weights), n_clusters)
    if math.prod(dims) >= 2**62:  # no room for a code: equal votes stay rows of their own
        return Rows(first, second, score, weight, count, None if cluster is None else clusters)
    code = (first * dims[1] + second) * dims[2] + score_code
    code = (code * dims[3] + weight_code) * dims[4] + clusters
    distinct, count = _tally(code, math.prod(dims), count)
    a, b, s, w, g = np.unravel_index(distinct, dims) if len(distinct) else [distinct] * 5
    return Rows(a, b, scores[s], weights[w], count, None if cluster is None else g)


def _tally(code: Ints, size: int, count: Ints) -> tuple[Ints, Ints]:
    """The distinct codes in order, and the sum of the counts of each."""
    if size <= _room(len(code)):
        total = np.bincount(code, count, size).astype(np.int64)
        distinct = np.flatnonzero(total)
        return distinct, total[distinct]
    order = np.argsort(code)
    code = code[order]
    starts = np.flatnonzero(np.diff(code, prepend=-1))
    return code[starts], np.add.reduceat(count[order], starts) if len(starts) else count


def _coded(values: Floats) -> tuple[Ints, Floats]:
    """Codes of the values, and the table that the codes point into."""
    outcome = _outcomes(values)
    if outcome is not None:
        return outcome, HALVES
    table, code = np.unique(values, return_inverse=True)
    return code.astype(np.int64, copy=False), table


def _outcomes(score: NDArray[Any]) -> Ints | None:
    """0, 1 and 2 for the scores 0, a half and 1; None where there is any other."""
    doubled = score * 2
    with np.errstate(invalid="ignore"):  # a NaN casts to something that does not equal it
        outcome = doubled.astype(np.int64)
    plain = (outcome == doubled).all() and _below(3, outcome)
    return outcome if plain else None


def _below(limit: int, *arrays: NDArray[Any]) -> bool:
    """Whether all integers are from 0 to limit - 1; as unsigned, a negative one is huge."""
    return all(
        not array.size or int(array.view(f"u{array.itemsize}").max()) < limit for array in arrays
    )


def _room(n_votes: int) -> int:
    """How many cells may be counted into before sorting the votes is the lesser work."""
    return 4 * n_votes + (1 << 18)
