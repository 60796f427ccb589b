"""The covariance that a snapshot keeps, as bytes and back as an array."""

import numpy as np

from ranking.models import SnapshotMatrices
from ranking.votes import Floats, Ints


def pack_covariance(candidates: Ints, covariance: Floats) -> dict[str, bytes]:
    """The fields of `SnapshotMatrices` for R candidates, ids ascending, and their (R, R)."""
    return {
        "candidates": candidates.astype("<i8").tobytes(),
        "covariance": covariance.astype("<f4").tobytes(),
    }


def unpack_covariance(matrices: SnapshotMatrices) -> tuple[Ints, Floats]:
    """The ids of those that were ranked when the intervals were made, and (R, R) in Elo squared."""
    candidates = np.frombuffer(bytes(matrices.candidates), "<i8").astype(np.int64)
    covariance = np.frombuffer(bytes(matrices.covariance), "<f4").astype(np.float64)
    return candidates, covariance.reshape(len(candidates), len(candidates))


def covariance_among(matrices: SnapshotMatrices, candidates: Ints) -> Floats:
    """(K, K) in Elo squared for K candidates, ids ascending; NaN for whom it does not know."""
    known, stored = unpack_covariance(matrices)
    kept = np.isin(known, candidates)  # the intervals may be older than who is on the board
    at = np.searchsorted(candidates, known[kept])
    wide = np.full((len(candidates),) * 2, np.nan)
    wide[np.ix_(at, at)] = stored[np.ix_(kept, kept)]
    return wide
