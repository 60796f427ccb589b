"""Simulation of repeated checks: how often two equal candidates are called different."""

import math
from collections.abc import Callable

import numpy as np

from benchmarks.simulations.designs import Design, Drawn, crowd, draw
from ranking.stats.arrays import codes
from ranking.stats.claim import DirectVotes, Means, Scope, claim, decided_together
from ranking.stats.intervals import MIN_CLUSTERS, critical_value

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
# The first is the baseline of the nine others. All are equal, so any claim is false.
FAMILIES = tuple(
    crowd(
        f"one against nine, {name}",
        n_raters,
        n_prompts,
        strengths=(0.0,) * 10,
        popular=(9.0, *(1.0,) * 9),
        n_votes=2500,
        **fields,
    )
    for name, n_raters, n_prompts, fields in (
        ("prompt effects, 15 prompts", 0, 15, {"taste": 0.0, "prompt_effect": 1.0}),
        ("prompt effects, 60 prompts", 0, 60, {"taste": 0.0, "prompt_effect": 1.0}),
        ("20 raters of taste 0.5, 60 prompts", 20, 60, {"taste": 0.5}),
    )
)
Looks = list[tuple[bool, bool]]  # whether a 95 % interval excludes 0, and the claim decides


def simulate_watching(design: Design, n_repeats: int, seed: int) -> dict[str, float]:
    """Shares of repeats in which the two were called different at any look: ``interval``, by a t
    interval that excludes 0, and ``known``, by the claim about raters like these; about these ones
    where the design says so, or raters do not matter.
    """
    return _simulate(lambda votes: _look(votes, design, [1]), design, n_repeats, seed)


def simulate_family(design: Design, n_repeats: int, seed: int) -> dict[str, float]:
    """The same of any of the candidates against the first, taken together.

    As all are equal, ``known`` is the false discovery rate, however often one looks.
    """
    others = list(range(1, len(design.strengths)))
    return _simulate(lambda votes: _look(votes, design, others), design, n_repeats, seed)


def _simulate(
    look: Callable[[Drawn], tuple[bool, bool]], design: Design, n_repeats: int, seed: int
) -> dict[str, float]:
    called = []
    ends = np.linspace(0, design.n_votes, LOOKS + 1).astype(int)[1:].tolist()
    for child in np.random.SeedSequence(seed).spawn(n_repeats):
        votes = draw(design, np.random.default_rng(child))
        called.append(np.any([look(votes.first(n)) for n in ends], axis=0))
    interval, known = np.mean(called, axis=0)
    return {"interval": float(interval), "known": float(known)}


def _look(votes: Drawn, design: Design, others: list[int]) -> tuple[bool, bool]:
    """The result for any of these candidates against the first."""
    evidence = votes.evidence
    ids = evidence.candidates.tolist()
    pairs = [evidence.between(ids[i], ids[0]) for i in others]
    claims = [claim(pair) for pair in pairs]
    if design.n_raters and not design.these_raters:
        claims = [
            found if found.scope is Scope.RATERS else found.wider or found for found in claims
        ]
    known = np.array(decided_together(claims)) & [found.is_decided for found in claims]
    return any(map(_is_beyond, pairs)), bool(known.any())


def _is_beyond(votes: DirectVotes) -> bool:
    """Whether a t interval over raters, or else prompts, excludes 0."""
    group = votes.prompt if votes.rater is None else votes.rater
    if group is None or len(group) < MIN_CLUSTERS:
        return False
    group, n_groups = codes(group)
    means = Means.of(votes.score, np.ones(len(group)), group, n_groups)
    if n_groups < MIN_CLUSTERS or not means.variance:
        return False
    return abs(means.mean) > critical_value(0.95, n_groups) * math.sqrt(means.variance)
