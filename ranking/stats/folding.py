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
    space = np.empty(min(CHUNK, len(left)), np.int64)
    for start in range(0, len(left), CHUNK):
        part = slice(start, start + CHUNK)
        outcome = _outcomes(score[part])
        if outcome is None or not _below(n_candidates, left[part], right[part]):
            return None
        code = space[: len(outcome)]
        np.multiply(left[part], n_candidates, out=code, dtype=np.int64, casting="unsafe")
        np.add(code, right[part], out=code, dtype=np.int64, casting="unsafe")
        code *= 3
        code += outcome
        counts += np.bincount(code, minlength=cells)
    return _unordered(counts.reshape(n_candidates, n_candidates, 3))


def _unordered(cube: Ints) -> Rows | None:
    """Rows of counts of (left, right, outcome); None where a candidate has met itself."""
    if cube.diagonal().any():
        return None
    first, second = np.nonzero(np.tri(len(cube), k=-1, dtype=np.bool_).T)
    both = cube[first, second] + cube[second, first, ::-1]
    seen = np.flatnonzero(both)
    pair, outcome = np.divmod(seen, 3)
    first, second, count = first[pair], second[pair], both.reshape(-1)[seen]
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
    code = first
    for size, more in zip(dims[1:], (second, score_code, weight_code, clusters), strict=True):
        if size > 1:
            code *= size
            code += more
    distinct, count = _tally(code, math.prod(dims), count)
    a, b, s, w, g = _unravelled(distinct, dims)
    return Rows(a, b, scores[s], weights[w], count, None if cluster is None else g)


def _unravelled(code: Ints, dims: tuple[int, ...]) -> list[Ints]:
    """The parts that a code was made of, in the order of ``dims``."""
    parts = []
    for size in reversed(dims[1:]):
        rest = code // size if size > 1 else code
        parts.append(code - rest * size if size > 1 else np.zeros(len(code), np.int64))
        code = rest
    return [code, *reversed(parts)]


def _tally(code: Ints, size: int, count: Ints) -> tuple[Ints, Ints]:
    """The distinct codes in order, and the sum of the counts of each."""
    if size <= _room(len(code)):
        total = np.bincount(code, count, size).astype(np.int64)
        distinct = np.flatnonzero(total)
        return distinct, total[distinct]
    if (count == 1).all():  # plain values sort several times faster than their places do
        code = np.sort(code)
        starts = np.flatnonzero(np.diff(code, prepend=-1))
        return code[starts], np.diff(starts, append=len(code))
    order = np.argsort(code)
    code = code[order]
    starts = np.flatnonzero(np.diff(code, prepend=-1))
    return code[starts], np.add.reduceat(count[order], starts) if len(starts) else count


def _coded(values: Floats) -> tuple[NDArray[Any], Floats]:
    """Codes of the values, and the table that the codes point into."""
    if len(values) and (values == values[0]).all():
        return np.zeros(1, np.int64), values[:1]
    outcome = _outcomes(values)
    if outcome is not None:
        return outcome, HALVES
    table, code = np.unique(values, return_inverse=True)
    return code.astype(np.int64, copy=False), table


def _outcomes(score: NDArray[Any]) -> NDArray[np.uint8] | None:
    """0, 1 and 2 for the scores 0, a half and 1; None where there is any other."""
    won, tied = score == 1, score == 0.5
    n_plain = sum(map(np.count_nonzero, (won, tied, score == 0)))
    outcome = won.view(np.uint8)
    outcome += outcome
    outcome += tied.view(np.uint8)
    return outcome if n_plain == len(score) else None


def _below(limit: int, *arrays: NDArray[Any]) -> bool:
    """Whether all integers are from 0 to limit - 1; as unsigned, a negative one is huge."""
    return all(
        not array.size or int(array.view(f"u{array.itemsize}").max()) < limit for array in arrays
    )


def _room(n_votes: int) -> int:
    """How many cells may be counted into before sorting the votes is the lesser work."""
    return 4 * n_votes + 1024
