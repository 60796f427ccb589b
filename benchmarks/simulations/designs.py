"""Designs of simulated boards, which generate votes and know the true ratings.

A vote on a pair is a tie with probability `TIES`; otherwise its probability is logistic in the gap
between the two strengths plus an effect, of the prompt and pair or of each candidate on the prompt.
Such votes do not follow Bradley-Terry with the generating strengths, so the truth is not these
strengths but the fit to infinitely many votes on infinitely many prompts: to the expected score of
each pair, by Gauss-Hermite quadrature over the distribution of effects.
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
EFFECT = 1.0  # standard deviation of effects, natural log-odds; a gap of 1 is odds of 2.7 to 1
NODES = 60  # of the quadrature


@dataclass(frozen=True)
class Design:
    """How a board's votes are generated.

    `effect`: "none", "unit" (of prompt and pair) or "prompt" (of candidate and prompt); `cluster`:
    "vote", "unit" or "prompt"; `popular`: how often each candidate is shown, relative to others;
    `these_prompts`: the truth is about the drawn prompts only, not about all similar prompts.
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
        """(P,): the probability of drawing each pair."""
        shown = np.array(self.popular)
        product: Floats = shown[self.pairs[0]] * shown[self.pairs[1]]
        return product / product.sum()

    @cached_property
    def gap(self) -> Floats:
        """(P,): the strength of the first minus that of the second."""
        gap: Floats = self.strength[self.pairs[0]] - self.strength[self.pairs[1]]
        return gap

    @cached_property
    def truth(self) -> Floats:
        """(K,) Elo: the fit to infinitely many votes on infinitely many prompts."""
        spread = EFFECT * {"none": 0.0, "unit": 1.0, "prompt": 2**0.5}[self.effect]
        node, share = np.polynomial.hermite_e.hermegauss(NODES)
        wins = sigmoid(self.gap[:, None] + spread * node) @ share / share.sum()
        return self.fitted_to(wins)

    def fitted_to(self, wins: Floats) -> Floats:
        """(K,) Elo, given the (P,) probabilities that the first wins a vote that is not a tie."""
        score = TIES / 2 + (1 - TIES) * wins
        votes = Battles.from_arrays(*self.pairs, score, self.chance)
        return BradleyTerry().fit(votes).ratings_


@dataclass(frozen=True)
class Drawn:
    """One simulated board: its votes with their clusters, and the true ratings, (K,) Elo."""

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
    """Draw one board of a design, with new prompts and votes."""
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
    """(prompts, P) effects, in log-odds for the first of each pair."""
    if design.effect == "none":
        return np.zeros((design.n_prompts, len(design.gap)))
    if design.effect == "unit":
        return rng.normal(0, EFFECT, (design.n_prompts, len(design.gap)))
    made = rng.normal(0, EFFECT, (design.n_prompts, len(design.strengths)))
    difference: Floats = made[:, design.pairs[0]] - made[:, design.pairs[1]]
    return difference


def sigmoid(gap: Floats) -> Floats:
    """The win probability at these log-odds."""
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
