"""Random votes: for property tests, and of people and a judge, as columns."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from ranking.stats.judged import Labelled, Unlabelled
from ranking.stats.ppi import PredictionPowered

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


K = 5


def sigmoid(gap):
    return 1 / (1 + np.exp(-gap))


def judged_votes(n=250, n_judge=900, seed=0, echo=1.0, clusters=30):
    """Columns of both samples; ``echo`` is how much of the comparison's own odds the judge sees."""
    rng = np.random.default_rng(seed)
    strength = np.linspace(-1, 1, K)

    def draw(size):
        left = rng.integers(0, K, size)
        right = (left + rng.integers(1, K, size)) % K
        gap = strength[left] - strength[right] + rng.normal(0, 1.5, size)
        predicted = sigmoid(echo * gap + rng.normal(0, 1, size))
        return left, right, gap, predicted, rng.integers(0, clusters, size)

    left, right, gap, predicted, cluster = draw(n)
    score = rng.choice([0.0, 0.5, 1.0], n) * 0.2 + 0.8 * (rng.random(n) < sigmoid(gap))
    predicted[rng.random(n) < 0.2] = np.nan
    people = {"left": left, "right": right, "score": score, "predicted": predicted}
    people |= {"weight": rng.uniform(0.5, 2, n), "cluster": cluster}
    left, right, _, predicted, cluster = draw(n_judge)
    judge = {"left": left, "right": right, "predicted": predicted}
    return people, judge | {"weight": rng.uniform(0.5, 2, n_judge), "cluster": cluster}


def fit_combined(people, judge, **settings):
    labelled = Labelled.from_arrays(**people, n_candidates=K)
    return PredictionPowered(**settings).fit(labelled, Unlabelled.from_arrays(**judge))


def without_weights(columns):
    return {key: value for key, value in columns.items() if key not in ("weight", "cluster")}
