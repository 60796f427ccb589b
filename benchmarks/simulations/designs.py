"""Boards whose truth is known: how their votes come about, and what endless votes would say.

A vote on a pair is a tie with the chance `TIES`, and else goes by the logistic of the gap between
the two strengths plus an effect: of the prompt and pair, or of what each candidate makes of the
prompt. Such votes do not follow Bradley-Terry in the generating strengths, which is why the truth
is not these but the fit to endlessly many votes on endlessly many prompts: to the expected score
of each pair, by Gauss-Hermite quadrature over the effects' distribution.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TIES = 0.25
EFFECT = 1.0  # deviation of the effects, in natural log-odds; a gap of 1 is odds of 2.7 to 1
NODES = 60  # of the quadrature


@dataclass(frozen=True)
class Design:
    """How a board comes about.

    `effect`: "none", "unit" (of prompt and pair) or "prompt" (of candidate and prompt); `cluster`:
    "vote", "unit" or "prompt"; `popular`: how often each candidate is shown, relative to others;
    `these_prompts`: the truth is about the prompts at hand, in place of all prompts like them.
    """

    name: str
    effect: str
    n_prompts: int
    cluster: str
    strengths: tuple[float, ...]
    popular: tuple[float, ...]
    n_votes: int = 1200
    these_prompts: bool = False

    @cached_property
    def strength(self) -> Floats:
        return np.array(self.strengths)

    @cached_property
    def pairs(self) -> tuple[Ints, Ints]:
        """(P,) each: the candidates of every pair."""
        return np.triu_indices(len(self.strengths), 1)

    @cached_property
    def chance(self) -> Floats:
        """(P,): with which each pair is drawn."""
        shown = np.array(self.popular)
        product: Floats = shown[self.pairs[0]] * shown[self.pairs[1]]
        return product / product.sum()

    @cached_property
    def gap(self) -> Floats:
        """(P,): the first's strength above the second's."""
        gap: Floats = self.strength[self.pairs[0]] - self.strength[self.pairs[1]]
        return gap

    @cached_property
    def truth(self) -> Floats:
        """(K,) Elo: the fit to endlessly many votes on endlessly many prompts."""
        spread = EFFECT * {"none": 0.0, "unit": 1.0, "prompt": 2**0.5}[self.effect]
        node, share = np.polynomial.hermite_e.hermegauss(NODES)
        wins = sigmoid(self.gap[:, None] + spread * node) @ share / share.sum()
        return self.fitted_to(wins)

    def fitted_to(self, wins: Floats) -> Floats:
        """(K,) Elo by the (P,) chances with which the first wins what is no tie."""
        score = TIES / 2 + (1 - TIES) * wins
        votes = Battles.from_arrays(*self.pairs, score, self.chance)
        return BradleyTerry().fit(votes).ratings_


@dataclass(frozen=True)
class Drawn:
    """One board: its votes by their clusters, and the truth about them, (K,) Elo."""

    left: Ints
    right: Ints
    score: Floats
    cluster: Ints | None
    truth: Floats

    def battles(self, *, clustered: bool) -> Battles:
        cluster = self.cluster if clustered else None
        size = len(self.truth)
        return Battles.from_arrays(self.left, self.right, self.score, None, cluster, size)


def draw(design: Design, rng: np.random.Generator) -> Drawn:
    """One board of a design: new prompts, new votes."""
    pair = rng.choice(len(design.gap), design.n_votes, p=design.chance)
    prompt = rng.integers(0, design.n_prompts, design.n_votes)
    odds = design.gap + _effects(design, rng)  # (prompts, P)
    score = (rng.random(design.n_votes) < sigmoid(odds[prompt, pair])).astype(np.float64)
    score[rng.random(design.n_votes) < TIES] = 0.5
    cluster = {"vote": None, "unit": prompt * len(design.gap) + pair, "prompt": prompt}
    left, right = (side[pair] for side in design.pairs)
    truth = design.fitted_to(sigmoid(odds).mean(axis=0)) if design.these_prompts else design.truth
    return Drawn(left, right, score, cluster[design.cluster], truth)


def _effects(design: Design, rng: np.random.Generator) -> Floats:
    """(prompts, P), in log-odds for the first of each pair."""
    if design.effect == "none":
        return np.zeros((design.n_prompts, len(design.gap)))
    if design.effect == "unit":
        return rng.normal(0, EFFECT, (design.n_prompts, len(design.gap)))
    made = rng.normal(0, EFFECT, (design.n_prompts, len(design.strengths)))
    difference: Floats = made[:, design.pairs[0]] - made[:, design.pairs[1]]
    return difference


def sigmoid(gap: Floats) -> Floats:
    """The chance to win at these log-odds."""
    return 1 / (1 + np.exp(-gap))


# -- The designs -----------------------------------------------------------------------------------

SIX = (0.6, 0.36, 0.12, -0.12, -0.36, -0.6)
SHOWN = (1.0, 1.2, 1.4, 1.6, 1.8, 2.0)  # the best is shown half as often as the last
ALIKE = (1.0,) * 6
COVERAGE = (
    Design("independent votes", "none", 1, "vote", SIX, SHOWN),
    Design("(prompt, pair) effects, 20 prompts", "unit", 20, "unit", SIX, SHOWN),
    Design("prompt effects, 40 prompts", "prompt", 40, "prompt", SIX, SHOWN),
    Design("prompt effects, 100 prompts", "prompt", 100, "prompt", SIX, SHOWN),
    Design(
        "prompt effects, 20 prompts, results for these prompts only",
        "prompt",
        20,
        "unit",
        SIX,
        SHOWN,
        these_prompts=True,
    ),
)
TWO_LEAD = (0.4, 0.4, 0.1, 0.0, -0.3, -0.6)
LEADERS = (
    Design("two of six, independent votes", "none", 1, "vote", TWO_LEAD, ALIKE),
    Design("two of six, (prompt, pair) effects", "unit", 20, "unit", TWO_LEAD, ALIKE),
    Design("two of six, prompt effects, 40 prompts", "prompt", 40, "prompt", TWO_LEAD, ALIKE),
    Design("all six, independent votes", "none", 1, "vote", ALIKE, ALIKE),
    Design("all six, prompt effects, 40 prompts", "prompt", 40, "prompt", ALIKE, ALIKE),
    Design("two alone, independent votes", "none", 1, "vote", (0.0, 0.0), (1.0, 1.0)),
    Design("two alone, prompt effects, 40", "prompt", 40, "prompt", (0.0, 0.0), (1.0, 1.0)),
)
