"""Somebody looks again and again at two equal candidates: how often are they called different?"""

import math

import numpy as np

from benchmarks.simulations.designs import Design, Drawn, draw
from ranking.stats import Battles, Sandwich, Watched
from ranking.stats.intervals import critical_value

LOOKS = 50
ALIKE = (1.0, 1.0)
LEVEL = (0.0, 0.0)
SIX = (0.0, 0.0, 0.3, -0.3, 0.1, -0.1)
# The first two of each are the equal ones.
WATCHED = (
    Design("two, independent votes", "none", 1, "vote", LEVEL, ALIKE, 2000),
    Design("two, effects of prompts, 40 prompts", "prompt", 40, "prompt", LEVEL, ALIKE, 2000),
    Design("two, effects of (prompt, pair), 20 prompts", "unit", 20, "unit", LEVEL, ALIKE, 2000),
    Design("two of six, effects of prompts, 40", "prompt", 40, "prompt", SIX, (1.0,) * 6, 3000),
)


def simulate_watching(design: Design, n_repeats: int, seed: int) -> dict[str, float]:
    """Shares of repeats in which the two were called different at any look: ``interval``, by a
    95 % interval that leaves out 0, and ``known``, by the rule that may be asked at every look.
    """
    called = []
    for one in np.random.SeedSequence(seed).spawn(n_repeats):
        looks = _looks(draw(design, np.random.default_rng(one)), design)
        called.append(np.any(looks, axis=0) if looks else (False, False))
    interval, known = np.mean(called, axis=0)
    return {"interval": float(interval), "known": float(known)}


def _looks(votes: Drawn, design: Design) -> list[tuple[bool, bool]]:
    """At each look that knows an error: whether the interval leaves out 0, whether it is known."""
    found = []
    for n in np.linspace(0, design.n_votes, LOOKS + 1).astype(int)[1:]:
        cluster = None if votes.cluster is None else votes.cluster[:n]
        columns = (votes.left[:n], votes.right[:n], votes.score[:n])
        fit = Sandwich().fit(Battles.from_arrays(*columns, None, cluster, len(votes.truth)))
        gap = float(fit.model_.theta_[0] - fit.model_.theta_[1])
        variance = float(fit.covariance_[0, 0] + fit.covariance_[1, 1] - 2 * fit.covariance_[0, 1])
        if not math.isnan(gap) and variance > 0:
            error, size = math.sqrt(variance), fit.n_clusters_
            beyond = abs(gap) > critical_value(0.95, size) * error
            found.append((beyond, Watched(gap, error, size).is_known))
    return found
