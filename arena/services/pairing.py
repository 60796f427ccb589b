"""Which pairs of candidates exist, how likely each is drawn, and which side each one takes."""

import random
from collections.abc import Mapping
from itertools import combinations

from django.db import transaction

from arena.models import Arena, Pair, Response
from arena.services import statements
from arena.signals import announce, answers_changed

BATCH = 1000
draw = random.SystemRandom()


@transaction.atomic
def sync_pairs(*, arena: Arena) -> None:
    """Make a Pair for every two candidates that answer a prompt in common; recount those prompts.

    Pairs that share no prompt any more keep their history and are never drawn. Whoever adds answers
    calls this after it, so it is what announces them.
    """
    # One after the other: what is counted after this lock is not overwritten by older counts.
    # NO KEY: a vote that is just being written refers to the arena's row.
    Arena.objects.select_for_update(no_key=True).get(pk=arena.pk)
    shared = _shared_prompts(arena)
    known = {(pair.low_id, pair.high_id): pair for pair in arena.pairs.all()}
    for ids, pair in known.items():
        pair.shared_prompts = shared.pop(ids, 0)
    Pair.objects.bulk_update(known.values(), ["shared_prompts"], batch_size=BATCH)
    Pair.objects.bulk_create(
        [
            Pair(arena=arena, low_id=low, high_id=high, shared_prompts=count)
            for (low, high), count in shared.items()
        ],
        batch_size=BATCH,
        ignore_conflicts=True,
    )
    announce(answers_changed, arena_id=arena.pk)


def _shared_prompts(arena: Arena) -> dict[tuple[int, int], int]:
    """Count, for each two candidates, the prompts that both have answered.

    Sets, rather than a join of responses with themselves: right after an import PostgreSQL knows
    nothing of the tables yet, and its plan for that join took minutes.
    """
    answered: dict[int, set[int]] = {}
    rows = Response.objects.revealed().filter(
        candidate__arena=arena, candidate__retired_at=None, prompt__retired_at=None
    )
    for candidate, prompt in rows.values_list("candidate", "prompt").iterator():
        answered.setdefault(candidate, set()).add(prompt)
    counts = {
        (low, high): len(answered[low] & answered[high])
        for low, high in combinations(sorted(answered), 2)
    }
    return {ids: count for ids, count in counts.items() if count}


@transaction.atomic
def publish_pair_weights(*, arena: Arena, weights: Mapping[tuple[int, int], float]) -> None:
    """Take the weights that ranking computed; pairs it does not name keep theirs."""
    pairs = [pair for pair in arena.pairs.all() if (pair.low_id, pair.high_id) in weights]
    for pair in pairs:
        pair.weight = weights[pair.low_id, pair.high_id]
    Pair.objects.bulk_update(pairs, ["weight"], batch_size=BATCH)


def take_side(*, pair: Pair) -> bool:
    """Count one more showing of `pair`; say whether its lower id goes left.

    Runs inside the caller's transaction: the row stays locked until the comparison is written,
    so the two counts never differ by more than one. Where they are equal a coin decides: who has
    seen the names of one showing must not know the sides of the next.
    """
    coin = bool(draw.getrandbits(1))
    ((low_went_left,),) = statements.rows(statements.TAKE_SIDE, coin, coin, coin, pair.pk)
    return bool(low_went_left)
