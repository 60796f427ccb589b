"""Votes for property tests."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

OUTCOMES = st.sampled_from([0.0, 0.5, 1.0])
SOFT = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.8, 1.0])


@dataclass(frozen=True)
class Votes:
    n: int
    left: np.ndarray
    right: np.ndarray
    score: np.ndarray


@st.composite
def votes(draw, scores=OUTCOMES, connected=True, max_candidates=6):
    """Random votes; connected ones hold a tie between each candidate and the next."""
    n = draw(st.integers(2, max_candidates))
    pair = st.tuples(st.integers(0, n - 1), st.integers(1, n - 1), scores)
    rows = [(a, (a + step) % n, score) for a, step, score in draw(st.lists(pair, max_size=40))]
    if connected:
        rows += [(i, i + 1, 0.5) for i in range(n - 1)]
    columns = [np.array(column) for column in zip(*rows, strict=True)] or [np.zeros(0)] * 3
    return Votes(n, columns[0].astype(int), columns[1].astype(int), columns[2].astype(float))
