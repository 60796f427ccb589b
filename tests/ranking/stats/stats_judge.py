"""Votes of people and of a judge, as columns, for the tests of the combined board."""

import numpy as np

from ranking.stats.ppi import Labelled, PredictionPowered, Unlabelled

K = 5


def sigmoid(gap):
    return 1 / (1 + np.exp(-gap))


def arena(n=250, n_judge=900, seed=0, echo=1.0, clusters=30):
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


def fit(people, judge, **settings):
    labelled = Labelled.from_arrays(**people, n_candidates=K)
    return PredictionPowered(**settings).fit(labelled, Unlabelled.from_arrays(**judge))


def bare(columns):
    return {key: value for key, value in columns.items() if key not in ("weight", "cluster")}
