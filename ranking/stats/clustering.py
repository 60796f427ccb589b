"""Battles as sums over independent units: clusters, or single votes where there are none."""

import numpy as np
from scipy.sparse import csr_array

from ranking.stats.battles import Battles
from ranking.stats.columns import Floats, summed

BLOCK = 4096  # clusters whose scores are held densely at once


def totals_per_unit(battles: Battles) -> tuple[csr_array, csr_array]:
    """Two (P, U) matrices: per pair and unit the weight of votes, and what ``first`` scored.

    Units are the clusters. Without clusters they are the folded rows, per vote of the row, so
    that a sum of ``count`` independent draws takes the place of ``count`` columns.
    """
    pair = battles.pairs.locate(battles.first, battles.second)
    if battles.cluster is None:
        unit, weight = np.arange(len(pair)), battles.weight
    else:
        unit, weight = battles.cluster, battles.weight * battles.count
    n_units = len(pair) if battles.cluster is None else battles.n_clusters
    shape = (len(battles.pairs.first), n_units)
    scored = csr_array((weight * battles.score, (pair, unit)), shape=shape)
    return csr_array((weight, (pair, unit)), shape=shape), scored


def residuals(battles: Battles, theta: Floats) -> Floats:
    """(R,): weight * (score seen - score expected), for one vote of each row."""
    pairs = battles.pairs
    expected = pairs.win_probability(theta)[pairs.locate(battles.first, battles.second)]
    residual: Floats = battles.weight * (battles.score - expected)
    return residual


def meat(battles: Battles, theta: Floats) -> Floats:
    """(K, K): the sum over clusters of u u', u the cluster's share of the gradient at theta."""
    residual = residuals(battles, theta)
    if battles.cluster is None:
        pairs = battles.pairs
        place = pairs.locate(battles.first, battles.second)
        squares = summed(place, battles.count * residual**2, len(pairs.first))
        return pairs.laplacian(squares)
    return _squared(battles, battles.count * residual)


def _squared(battles: Battles, residual: Floats) -> Floats:
    assert battles.cluster is not None
    size = battles.n_candidates
    row = np.tile(battles.cluster, 2)
    column = np.concatenate([battles.first, battles.second])
    entries = (np.concatenate([residual, -residual]), (row, column))
    gradients = csr_array(entries, shape=(battles.n_clusters, size))
    total = np.zeros((size, size))
    for start in range(0, battles.n_clusters, BLOCK):
        block = gradients[start : start + BLOCK].toarray()
        total += block.T @ block
    return total
