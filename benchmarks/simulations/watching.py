"""Simulation of repeated checks: how often two equal candidates are called different."""

import math

import numpy as np

from benchmarks.simulations.designs import Design, Drawn, Floats, crowd, draw
from ranking.stats.intervals import MIN_CLUSTERS, critical_value
from ranking.stats.sandwich import Sandwich
from ranking.stats.sequential import SequentialTest

LOOKS = 50
ALIKE = (1.0, 1.0)
LEVEL = (0.0, 0.0)
SIX = (0.0, 0.0, 0.3, -0.3, 0.1, -0.1)
NEWCOMER = (0.0, 0.0, 0.86)  # the third is 150 Elo ahead, with many votes
# In each design, the first two candidates are equal, and are checked after every 50 votes.
WATCHED = (
    *(
        crowd(
            f"{name}, {kind}",
            0,
            strengths=strengths,
            popular=(1.0,) * len(strengths),
            n_votes=2500,
            taste=0.0,
            prompt_effect=1.0,
            **fields,
        )
        for name, strengths in (("two", LEVEL), ("two of six", SIX))
        for kind, fields in (
            ("independent votes", {"effect": "none", "cluster": "vote"}),
            ("prompt effects, 15 prompts", {"n_prompts": 15}),
            ("prompt effects, 60 prompts", {"n_prompts": 60}),
        )
    ),
    Design("two, (prompt, pair) effects, 20 prompts", "unit", 20, "unit", LEVEL, ALIKE, 2500),
    Design("two, (prompt, pair) effects, 8 prompts", "unit", 8, "unit", LEVEL, ALIKE, 2500),
    Design("one of them new, few votes", "none", 1, "vote", NEWCOMER, (1.0, 0.03, 1.0), 2500),
    Design("one of them new, 40 prompts", "prompt", 40, "prompt", NEWCOMER, (1.0, 0.03, 1.0), 2500),
    *(
        crowd(
            f"{name}, {n_raters} raters of taste {taste:g}, {n_prompts} prompts",
            n_raters,
            n_prompts,
            strengths=strengths,
            popular=(1.0,) * len(strengths),
            n_votes=2500,
            taste=taste,
        )
        for name, strengths in (("two", LEVEL), ("two of six", SIX))
        for n_raters in (10, 20)
        for taste in (0.25, 0.5)
        for n_prompts in (15, 60)
    ),
    *(
        crowd(
            f"two, equal to these 4 raters of taste {taste:g}, 60 prompts",
            4,
            60,
            strengths=LEVEL,
            popular=ALIKE,
            n_votes=2500,
            taste=taste,
            these_raters=True,
            opposed=True,
        )
        for taste in (0.25, 0.5)
    ),
)


def simulate_watching(design: Design, n_repeats: int, seed: int) -> dict[str, float]:
    """Shares of repeats in which the two were called different at any look: ``interval``, by a
    95 % interval that excludes 0, and ``known``, by the sequential test.
    """
    called = []
    for one in np.random.SeedSequence(seed).spawn(n_repeats):
        looks = _looks(draw(design, np.random.default_rng(one)), design)
        called.append(np.any(looks, axis=0) if looks else (False, False))
    interval, known = np.mean(called, axis=0)
    return {"interval": float(interval), "known": float(known)}


def _looks(votes: Drawn, design: Design) -> list[tuple[bool, bool]]:
    """At each look with a known error: whether the interval excludes 0, and the test decides."""
    found = []
    for n in np.linspace(0, design.n_votes, LOOKS + 1).astype(int)[1:]:
        groups = votes.first(n).dependence()
        if groups.n_raters and not design.these_raters:
            continue  # a claim about these raters, to whom the two need not be equal
        fit = Sandwich(jackknifed=True).fit(*groups.groupings)
        gap = float(fit.model_.theta_[0] - fit.model_.theta_[1])
        variance, naive = _variance(fit.covariance_), _variance(fit.model_.covariance_)
        own = int(min(fit.n_clusters_, *groups.clusters_per_candidate[:2]))
        if not math.isnan(gap) and variance > 0 and own >= MIN_CLUSTERS:
            error = math.sqrt(variance)
            beyond = abs(gap) > critical_value(0.95, fit.n_clusters_) * error
            found.append((beyond, SequentialTest.measured(gap, error, naive, own).is_decided))
    return found


def _variance(covariance: Floats) -> float:
    """The variance of the difference between the first two."""
    return float(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
