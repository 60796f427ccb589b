"""Which pairs the raters should see next: near-uniform, those with fewer votes preferred."""

import numpy as np

from arena.models import Arena
from arena.services import pairing
from ranking.votes import Votes

NOTICEABLE = 0.05  # a weight that moves by less than this part of itself is left alone


def publish(*, arena: Arena, votes: Votes) -> None:
    """Hand the arena the weights that have changed noticeably: 1 / sqrt(people's votes + 1)."""
    pairs = arena.pairs.filter(shared_prompts__gt=0).values_list("low", "high", "weight")
    counts = _votes_per_pair(votes.of("people", ""))
    wanted = {
        (low, high): (weight, 1 / np.sqrt(counts.get((low, high), 0) + 1))
        for low, high, weight in pairs
    }
    changed = {
        pair: float(new) for pair, (old, new) in wanted.items() if abs(new - old) > NOTICEABLE * new
    }
    if changed:
        pairing.publish_pair_weights(arena=arena, weights=changed)


def _votes_per_pair(votes: Votes) -> dict[tuple[int, int], int]:
    ids = votes.candidates[np.column_stack([votes.left, votes.right])]
    pairs, counts = np.unique(np.sort(ids, axis=1), axis=0, return_counts=True)
    return {(low, high): n for (low, high), n in zip(pairs.tolist(), counts.tolist(), strict=True)}
