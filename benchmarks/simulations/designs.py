"""Designs of simulated boards, which generate votes and know the true ratings.

A vote on a pair is a tie with probability `ties`; otherwise its probability is logistic in the gap
between the two strengths plus effects: of the prompt and pair, or of each candidate on the prompt;
and of each rater's taste for each candidate.
Such votes do not follow Bradley-Terry with the generating strengths, so the truth is not these
strengths but the fit to infinitely many votes on infinitely many prompts: to the expected score of
each pair, by Gauss-Hermite quadrature over the distribution of effects.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranking.question import Evidence, Question
from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry
from ranking.votes import KIND_OF, LEFT, RIGHT, TIE, VoteTable

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TIES = 0.25
EFFECT = 1.0  # standard deviation of effects, natural log-odds; a gap of 1 is odds of 2.7 to 1
PUBLISHED = 100  # votes between two publications of the weights of pairs
ELO = math.log(10) / 400  # natural log-odds
NODES = 60  # of the quadrature


@dataclass(frozen=True)
class Design:
    """How a board's votes are generated.

    `effect`: "none", "unit" (of prompt and pair) or "prompt" (of candidate and prompt); `cluster`:
    "vote", "unit" or "prompt"; `popular`: how often each candidate is shown, relative to others;
    `these_prompts`, `these_raters`: the truth is about those drawn, not about all similar ones.
    `n_raters`: 0 if raters do not matter; `taste`: standard deviation of their tastes; `largest`:
    the share of votes by one of them; `zipf`: prompts get votes by Zipf's law; `known`: whether
    prompts are known; `soft`: verdicts are the win probability itself; `ties`: their share.
    """

    name: str
    effect: str
    n_prompts: int
    cluster: str
    strengths: tuple[float, ...]
    popular: tuple[float, ...]
    n_votes: int = 1200
    these_prompts: bool = False
    these_raters: bool = False
    n_raters: int = 0
    taste: float = 0.0
    prompt_effect: float = EFFECT
    largest: float = 0.0
    zipf: bool = False
    known: bool = True
    soft: bool = False
    ties: float = TIES

    @cached_property
    def strength(self) -> Floats:
        return np.array(self.strengths)

    @property
    def n_groups(self) -> int:
        """How many groups of votes, of the kind with fewer groups: by prompt, or by rater."""
        units = self.n_prompts * len(self.pairs[0])
        n_groups = {"vote": self.n_votes, "unit": units, "prompt": self.n_prompts}[self.cluster]
        return min(n_groups, self.n_raters or n_groups)

    @cached_property
    def pairs(self) -> tuple[Ints, Ints]:
        """(P,) each: the candidates of every pair."""
        return np.triu_indices(len(self.strengths), 1)

    @cached_property
    def chance(self) -> Floats:
        """(P,): the probability of drawing each pair."""
        popularity = np.array(self.popular)
        product: Floats = popularity[self.pairs[0]] * popularity[self.pairs[1]]
        return product / product.sum()

    @cached_property
    def gap(self) -> Floats:
        """(P,): the strength of the first minus that of the second."""
        gap: Floats = self.strength[self.pairs[0]] - self.strength[self.pairs[1]]
        return gap

    @cached_property
    def truth(self) -> Floats:
        """(K,) Elo: the fit to infinitely many votes by all raters on infinitely many prompts."""
        return self.fitted_to(self.wins(self.gap, 2**0.5 * self.taste))

    def wins(self, gap: Floats, tastes: float = 0.0) -> Floats:
        """The shares won at these gaps, over all prompts and over tastes with these deviations."""
        of_prompts = {"none": 0.0, "unit": EFFECT, "prompt": 2**0.5 * self.prompt_effect}
        node, share = np.polynomial.hermite_e.hermegauss(NODES)
        spread = math.hypot(of_prompts[self.effect], tastes)
        wins: Floats = sigmoid(gap[..., None] + spread * node) @ share / share.sum()
        return wins

    def fitted_to(self, wins: Floats) -> Floats:
        """(K,) Elo, given the (P,) probabilities that the first wins a vote that is not a tie."""
        score = self.ties / 2 + (1 - self.ties) * wins
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
    rater: Ints | None = None

    def first(self, n: int) -> "Drawn":
        """The board after its first n votes."""
        columns = (self.left, self.right, self.score, self.cluster, self.rater)
        left, right, score, cluster, rater = (c if c is None else c[:n] for c in columns)
        assert left is not None
        assert right is not None
        assert score is not None
        return Drawn(left, right, score, cluster, self.truth, rater)

    @property
    def evidence(self) -> Evidence:
        """The votes as people's leaderboards see them; raters are unknown if they do not matter."""
        return self.evidence_for(Question())

    def evidence_for(self, question: Question) -> Evidence:
        """The same for another question."""
        size, none = len(self.left), np.zeros_like(self.left)
        plain = np.isin(self.score, (0.0, 0.5, 1.0))
        table = VoteTable(
            pk=np.arange(1, size + 1),
            left=self.left,
            right=self.right,
            prompt=none if self.cluster is None else self.cluster + 1,
            rater=none if self.rater is None else self.rater + 1,
            outcome=np.select([self.score > 0.5, self.score < 0.5], [LEFT, RIGHT], TIE),
            preference=np.where(plain, np.nan, self.score),
            kind=none + KIND_OF[question.scored],
            verified=np.zeros(size, np.bool_),
            network=none,
            uncounted=none,
            named=np.zeros(size, np.bool_),
            names={pk: str(pk) for pk in range(len(self.truth))},
        )
        return Evidence.of(table, question)

    def battles(self, *, clustered: bool) -> Battles:
        cluster = self.cluster if clustered else None
        size = len(self.truth)
        return Battles.from_arrays(self.left, self.right, self.score, None, cluster, size)


Choice = Callable[["Drawn", Ints], Ints]


def draw(design: Design, rng: np.random.Generator, choose: Choice | None = None) -> Drawn:
    """Draw one board of a design, with new prompts and votes.

    ``choose``: who meets instead, given the votes so far and the raters of the next PUBLISHED ones.
    """
    pair = rng.choice(len(design.gap), design.n_votes, p=design.chance)
    prompt = rng.integers(0, design.n_prompts, design.n_votes)
    if design.zipf:
        often = 1 / np.arange(1, design.n_prompts + 1)
        prompt = rng.choice(design.n_prompts, design.n_votes, p=often / often.sum())
    odds = design.gap + _effects(design, rng)  # (prompts, P)
    rater, liked = _tastes(design, rng) if design.n_raters else (None, np.zeros((1, len(odds.T))))
    by = np.zeros_like(prompt) if rater is None else rater
    chance, is_tie = rng.random(design.n_votes), rng.random(design.n_votes) < design.ties
    truth = _truth(design, odds, liked)

    def voted() -> Drawn:
        cluster = {"vote": None, "unit": prompt * len(design.gap) + pair, "prompt": prompt}
        known = cluster[design.cluster] if design.known else None
        score = sigmoid(odds[prompt, pair] + liked[by, pair])
        if not design.soft:
            score = (chance < score).astype(np.float64)
        left, right = (side[pair] for side in design.pairs)
        return Drawn(left, right, np.where(is_tie, 0.5, score), known, truth, rater)

    if choose:
        for n in range(0, design.n_votes, PUBLISHED):
            pair[n : n + PUBLISHED] = choose(voted().first(n), by[n : n + PUBLISHED])
    return voted()


def _truth(design: Design, odds: Floats, liked: Floats) -> Floats:
    """(K,) Elo: what this board's votes would say if there were infinitely many of them."""
    if design.these_prompts:
        return design.fitted_to(sigmoid(odds).mean(axis=0))
    if design.these_raters:
        return design.fitted_to(design.wins(design.gap + liked).mean(axis=0))
    return design.truth


def _tastes(design: Design, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """(N,) the rater of each vote, and (raters, P) their tastes, in log-odds for the first."""
    share = np.full(design.n_raters, (1 - design.largest) / (design.n_raters - 1))
    share[0] = design.largest or share[0]
    rater = rng.choice(design.n_raters, design.n_votes, p=share / share.sum())
    taste = rng.normal(0, design.taste, (design.n_raters, len(design.strengths)))
    return rater, taste[:, design.pairs[0]] - taste[:, design.pairs[1]]


def _effects(design: Design, rng: np.random.Generator) -> Floats:
    """(prompts, P) effects, in log-odds for the first of each pair."""
    if design.effect == "none":
        return np.zeros((design.n_prompts, len(design.gap)))
    if design.effect == "unit":
        return rng.normal(0, EFFECT, (design.n_prompts, len(design.gap)))
    made = rng.normal(0, design.prompt_effect, (design.n_prompts, len(design.strengths)))
    difference: Floats = made[:, design.pairs[0]] - made[:, design.pairs[1]]
    return difference


def sigmoid(gap: Floats) -> Floats:
    """The win probability at these log-odds."""
    return 1 / (1 + np.exp(-gap))


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


def crowd(name: str, n_raters: int, n_prompts: int = 200, **fields: Any) -> Design:
    """A board of people who differ in taste, on prompts that differ too; six candidates."""
    values = {
        "effect": "prompt",
        "cluster": "prompt",
        "strengths": SIX,
        "popular": ALIKE,
        "n_votes": 3000,
        "taste": 0.7,
        "prompt_effect": 0.5,
    }
    return Design(name, n_prompts=n_prompts, n_raters=n_raters, **values | fields)


NEWCOMERS = tuple(
    crowd(f"50 raters, a newcomer with {n} votes", 50, popular=(1,) * 5 + (n / 600,), taste=0.35)
    for n in (12, 25)
)
CROWDS = (
    crowd("10 raters", 10),
    crowd("50 raters", 50),
    crowd("30 raters, one casts 40 %", 30, largest=0.4),
    crowd("30 raters, one casts 40 %, prompts unknown", 30, largest=0.4, known=False),
    crowd("20 raters, prompts unknown", 20, known=False),
    crowd("50 raters, 60 prompts by Zipf's law", 50, 60, zipf=True),
    crowd("50 raters, 15 prompts", 50, 15),
    crowd("50 raters, 40 prompts", 50, 40),
    crowd("50 raters, 100 prompts", 50, 100),
    crowd("20 raters, soft votes", 20, soft=True),
    crowd("20 raters, 30 % ties", 20, ties=0.3),
    crowd("4 raters, results for these raters only", 4, these_raters=True),
    *NEWCOMERS,
)
LEADERS += (
    *(replace(design, name=f"all six, {design.name}", strengths=ALIKE) for design in CROWDS),
    *(crowd(f"two of six, {n} raters", n, strengths=TWO_LEAD) for n in (10, 50)),
    crowd("two alone, 10 raters", 10, strengths=(0.0, 0.0), popular=(1.0, 1.0)),
)


def stepped(step: float) -> tuple[float, ...]:
    return (step, step, 0.0, 0.0, -step, -step)


# Two candidates of each strength, so far apart that a tier ends about once on a board if the true
# covariance is known: where none ever ends, or all do, the covariance makes no difference.
TIERED = (
    Design("independent votes", "none", 1, "vote", stepped(0.6), ALIKE),
    Design("(prompt, pair) effects, 20 prompts", "unit", 20, "unit", stepped(0.9), ALIKE),
    Design("prompt effects, 40 prompts", "prompt", 40, "prompt", stepped(1.2), ALIKE),
    crowd("10 raters", 10, strengths=stepped(1.2)),
    crowd("50 raters", 50, strengths=stepped(0.7)),
)


def sparse(n_candidates: int, votes_each: int, n_raters: int) -> Design:
    """A board with few votes, about two a prompt, whose candidates span 240 Elo."""
    n_votes = n_candidates * votes_each // 2
    by = f"{n_raters} raters" if n_raters else "a judge"
    return crowd(
        f"{n_candidates} candidates, {votes_each} votes each, {by}",
        n_raters,
        max(n_votes // 2, 10),
        strengths=tuple(np.linspace(0.7, -0.7, n_candidates).tolist()),
        popular=(1.0,) * n_candidates,
        n_votes=n_votes,
        taste=0.3 if n_raters else 0.0,
    )


SPARSE = (
    *(sparse(k, n, 0) for k in (2, 6, 10, 30) for n in (10, 20, 60)),
    *(sparse(k, n, 12) for k in (2, 6, 10, 30) for n in (20, 60)),
    replace(sparse(30, 29, 0), name="30 candidates, most pairs met once"),
    *(replace(sparse(6, 100, n), name=f"6 candidates, {n} raters") for n in (5, 6, 8, 10)),
    *(
        replace(sparse(6, 100, n), name=f"6 candidates, these {n} raters", these_raters=True)
        for n in (3, 4)
    ),
)
