"""The votes that all contests use: seeded, with ties and a skewed popularity of candidates."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

N_VOTES, N_CANDIDATES, N_PROMPTS, N_FEATURES = 2_000_000, 200, 20_000, 4
TIES, SKEW, SPREAD, STYLE, SEED = 0.3, 0.7, 0.6, 0.5, 3


@dataclass(frozen=True)
class Votes:
    """(n,) columns; ``score`` is 1, 0 or a half for left; ``prompt`` from 0."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    score: NDArray[np.float64]
    prompt: NDArray[np.int64]

    def names(self) -> tuple[list[str], list[str], list[str]]:
        """Left, right and winner as strings, in the words of LMArena's files."""
        candidates = [f"candidate-{number:03d}" for number in range(N_CANDIDATES)]
        winners = ["model_b", "tie", "model_a"]
        outcome = (2 * self.score).astype(int).tolist()
        return (
            [candidates[a] for a in self.left.tolist()],
            [candidates[b] for b in self.right.tolist()],
            [winners[o] for o in outcome],
        )


@cache
def votes(n: int = N_VOTES) -> Votes:
    """n votes: popularity falls as rank^-0.7, 30 % are ties, the others follow Bradley-Terry."""
    draw = np.random.default_rng(SEED)
    popularity = 1 / np.arange(1, N_CANDIDATES + 1) ** SKEW
    popularity /= popularity.sum()
    left, right = (draw.choice(N_CANDIDATES, n, p=popularity) for _ in range(2))
    step = draw.integers(1, N_CANDIDATES, n)
    right = np.where(left == right, (right + step) % N_CANDIDATES, right)
    strength = draw.permutation(np.linspace(-2 * SPREAD, 2 * SPREAD, N_CANDIDATES))
    chance = 1 / (1 + np.exp(strength[right] - strength[left]))
    won = (draw.random(n) < chance).astype(float)
    score = np.where(draw.random(n) < TIES, 0.5, won)
    return Votes(left, right, score, draw.integers(0, N_PROMPTS, n))


def features(v: Votes) -> NDArray[np.float64]:
    """(n, 4) style differences; the preferred answer tends to have more of each feature."""
    draw = np.random.default_rng(SEED + 1)
    liked = np.linspace(0, STYLE, N_FEATURES)
    return draw.standard_normal((len(v.score), N_FEATURES)) + np.outer(v.score - 0.5, liked)
