"""Which pairs of candidates exist, how likely each is drawn, and which side each one takes."""

import random
from collections.abc import Mapping
from itertools import combinations

from django.db import transaction
from django.db.models import Count, Q

from arena.models import Arena, Candidate, Pair, Response
from arena.models.catalog import CatalogQuerySet
from arena.services import statements
from arena.services.deadlocks import hold_arena
from arena.signals import announce, answers_changed

BATCH = 1000
draw = random.SystemRandom()


@transaction.atomic
def sync_pairs(*, arena: Arena, touched: Candidate | None = None) -> None:
    """Make a Pair for every two candidates that answer a prompt in common; recount those prompts.

    Where nothing but the answers of one candidate has changed, or whether it is retired, that one
    is `touched` and its pairs alone are counted. Pairs that share no prompt any more keep their
    history and are never drawn. Whoever adds answers calls this after it, so it is what announces
    them.
    """
    _lock_pairs(arena)
    if touched is None:
        shared, pairs = _shared_prompts(arena), arena.pairs.all()
    else:
        shared, pairs = _shared_with(touched), arena.pairs.filter(Q(low=touched) | Q(high=touched))
    known = {
        (low, high): (pk, count)
        for pk, low, high, count in pairs.values_list("pk", "low", "high", "shared_prompts")
    }
    _correct({pk: (count, shared.get(ids, 0)) for ids, (pk, count) in known.items()})
    Pair.objects.bulk_create(
        [
            Pair(arena=arena, low_id=low, high_id=high, shared_prompts=count)
            for (low, high), count in shared.items()
            if (low, high) not in known
        ],
        batch_size=BATCH,
        ignore_conflicts=True,
    )
    announce(answers_changed, arena_id=arena.pk)


def _lock_pairs(arena: Arena) -> None:
    """Have those who write many pairs of `arena` take turns, until the transaction's end.

    What is counted after this lock sees all that was counted before it, so no older count
    overwrites a newer one; and no two of them wait for each other's rows.
    """
    # NO KEY: a vote that is just being written refers to the arena's row.
    hold_arena(arena.pk)


def _correct(counts: Mapping[int, tuple[int, int]]) -> None:
    """Write the counts that differ; `counts` are the old and the new one of each pair, by its id.

    One statement for all pairs of one count: a CASE with a line per pair takes quadratic time.
    """
    wrong: dict[int, list[int]] = {}
    for pk, (old, new) in counts.items():
        if old != new:
            wrong.setdefault(new, []).append(pk)
    for count, ids in wrong.items():
        for start in range(0, len(ids), BATCH):
            some = Pair.objects.filter(pk__in=ids[start : start + BATCH])
            some.update(shared_prompts=count)


def _shared_with(touched: Candidate) -> dict[tuple[int, int], int]:
    """Count, for each candidate that shares prompts with `touched`, how many those are."""
    answers = _countable(touched.arena_id)
    own = answers.filter(candidate=touched).values("prompt")
    others = answers.filter(prompt__in=own).exclude(candidate=touched)
    counts = others.order_by().values_list("candidate").annotate(Count("pk"))
    return {(min(pk, touched.pk), max(pk, touched.pk)): count for pk, count in counts}


def _shared_prompts(arena: Arena) -> dict[tuple[int, int], int]:
    """Count, for each two candidates, the prompts that both have answered.

    Sets, rather than a join of responses with themselves: right after an import PostgreSQL knows
    nothing of the tables yet, and its plan for that join took minutes.
    """
    answered: dict[int, set[int]] = {}
    rows = _countable(arena.pk).values_list("candidate", "prompt")
    for candidate, prompt in rows.iterator():
        answered.setdefault(candidate, set()).add(prompt)
    counts = {
        (low, high): len(answered[low] & answered[high])
        for low, high in combinations(sorted(answered), 2)
    }
    return {ids: count for ids, count in counts.items() if count}


def _countable(arena_id: int) -> CatalogQuerySet:
    """Answers that may be shown, of candidates and to prompts that may."""
    return Response.objects.revealed().filter(
        candidate__arena=arena_id, candidate__retired_at=None, prompt__retired_at=None
    )


@transaction.atomic
def publish_pair_weights(*, arena: Arena, weights: Mapping[tuple[int, int], float]) -> None:
    """Take the weights that ranking computed; pairs it does not name keep theirs."""
    _lock_pairs(arena)
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
