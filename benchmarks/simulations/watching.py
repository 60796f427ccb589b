"""Simulation of repeated checks: how often two equal candidates are called different."""

import math
from collections.abc import Callable

import numpy as np

from benchmarks.simulations.designs import Design, Drawn, Floats, crowd, draw
from judges.services.decisions import compare_family
from ranking.comparison import DifferenceBoard
from ranking.models import Board, Raters, Snapshot
from ranking.replay import fit_board
from ranking.stats.bradley_terry import BradleyTerry
from ranking.stats.differences import Lead, SequentialTest
from ranking.stats.intervals import MIN_CLUSTERS, Sandwich, critical_value

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
# The first is the baseline of the nine others. All are equal, so any conclusive result is false.
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
Looks = list[tuple[bool, bool]]  # whether a 95 % interval excludes 0, and the test decides


def simulate_watching(design: Design, n_repeats: int, seed: int) -> dict[str, float]:
    """Shares of repeats in which the two were called different at any look: ``interval``, by a
    95 % interval that excludes 0, and ``known``, by the sequential test.
    """
    return _simulate(_looks, design, n_repeats, seed)


def simulate_family(design: Design, n_repeats: int, seed: int) -> dict[str, float]:
    """The same of any of the candidates against the first, by the decisions of a team.

    As all are equal, ``known`` is the false discovery rate, however often one looks.
    """
    return _simulate(_family_looks, design, n_repeats, seed)


def _simulate(
    look: Callable[[Drawn, Design], Looks], design: Design, n_repeats: int, seed: int
) -> dict[str, float]:
    called = []
    for child in np.random.SeedSequence(seed).spawn(n_repeats):
        looks = look(draw(design, np.random.default_rng(child)), design)
        called.append(np.any(looks, axis=0) if looks else (False, False))
    interval, known = np.mean(called, axis=0)
    return {"interval": float(interval), "known": float(known)}


def _ends(design: Design) -> list[int]:
    """The numbers of votes at the looks."""
    ends: list[int] = np.linspace(0, design.n_votes, LOOKS + 1).astype(int)[1:].tolist()
    return ends


def _family_looks(votes: Drawn, design: Design) -> Looks:
    """At each look, the result for any of the candidates against the first."""
    looks, others = [], range(1, len(design.strengths))
    for n in _ends(design):
        board = _board(votes.first(n))
        once = (board.difference(i, 0, forecast=False, once=True).lead for i in others)
        beyond = any(lead in (Lead.AHEAD, Lead.BEHIND) for lead in once)
        family = compare_family(board, others, 0, forecast=False)
        looks.append((beyond, any(difference.is_decided for difference in family.values())))
    return looks


def _board(votes: Drawn) -> DifferenceBoard:
    """The board of these votes, as pages of decisions read it."""
    evidence = votes.evidence
    settings = {
        "confidence": evidence.question.confidence,
        "scale": BradleyTerry.scale,
        "center": BradleyTerry.center,
        "both_bad": evidence.question.both_bad,
    }
    board = Board(raters=Raters.JUDGES if votes.rater is None else Raters.PEOPLE)
    return fit_board(Snapshot(board=board, settings=settings), evidence)


def _looks(votes: Drawn, design: Design) -> Looks:
    """The results at each look with a known error."""
    looks = []
    for n in _ends(design):
        groups = votes.first(n).evidence.groups
        if groups.n_raters and not design.these_raters:
            continue  # a claim about these raters alone, for whom the two may differ
        fit = Sandwich(jackknifed=True).fit(*groups.groupings)
        gap = float(fit.model_.theta_[0] - fit.model_.theta_[1])
        variance, naive = _variance(fit.covariance_), _variance(fit.model_.covariance_)
        own = int(min(fit.n_clusters_, *groups.clusters_per_candidate[:2]))
        if not math.isnan(gap) and variance > 0 and own >= MIN_CLUSTERS:
            error = math.sqrt(variance)
            beyond = abs(gap) > critical_value(0.95, fit.n_clusters_) * error
            looks.append((beyond, SequentialTest.measured(gap, error, naive, own).is_decided))
    return looks


def _variance(covariance: Floats) -> float:
    """The variance of the difference between the first two."""
    return float(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
