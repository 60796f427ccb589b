"""Which pairs the raters should see next: near-uniform, those with fewer votes preferred."""

import numpy as np

from arena.models import Arena
from arena.services import pairing
from ranking.models import Raters, Tally
from ranking.tallies import Cells

NOTICEABLE = 0.05  # a weight that moves by less than this part of itself is left alone


def publish(*, arena: Arena) -> None:
    """Hand the arena the weights that have changed noticeably: 1 / sqrt(people's votes + 1)."""
    pairs = arena.pairs.filter(shared_prompts__gt=0).values_list("low", "high", "weight")
    counts = _votes_per_pair(arena)
    wanted = {
        (low, high): (weight, 1 / np.sqrt(counts.get((low, high), 0) + 1))
        for low, high, weight in pairs
    }
    changed = {
        pair: float(new) for pair, (old, new) in wanted.items() if abs(new - old) > NOTICEABLE * new
    }
    if changed:
        pairing.publish_pair_weights(arena=arena, weights=changed)


def _votes_per_pair(arena: Arena) -> dict[tuple[int, int], int]:
    tally = Tally.objects.filter(arena=arena, raters=Raters.PEOPLE, category="").first()
    if tally is None:
        return {}
    cells = Cells.of_bytes(tally.cells)
    pairs = zip(cells.key("first").tolist(), cells.key("second").tolist(), strict=True)
    return dict(zip(pairs, cells.votes.tolist(), strict=True))
