"""Pairs of candidates: their creation, their weights in draws, and the sides of a comparison."""

import random
from collections.abc import Mapping
from itertools import combinations

from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from arena.db import sql
from arena.models import Arena, Candidate, Comparison, Pair, Rater, Response, Vote
from arena.models.imports import CatalogQuerySet
from arena.models.responses import ANSWER_DIGEST
from arena.services.locks import lock_arena
from arena.signals import announce, answers_changed
from arena.validation import numbered

BATCH = 1000
PARTS = ("first", "order", "newcomers")  # of a pair's weight, beside the even share
draw = random.SystemRandom()


@transaction.atomic
def sync_pairs(*, arena: Arena, touched: Candidate | None = None) -> None:
    """Create a Pair for every two candidates that share prompts; update the counts of all pairs.

    Prompts to which both gave the same answer are not counted: `sql.DIFFERENT` says which.
    If only one candidate's answers have changed, or it was archived, pass it as `touched`: then
    only its pairs are counted. Pairs that no longer share a prompt keep their history and are never
    drawn. Code that adds answers calls this afterwards, so `answers_changed` is announced here.
    """
    # Writers of many pairs take turns, so that no older count overwrites a newer one, and no two
    # writers wait for each other's rows.
    lock_arena(arena.pk)
    if arena.live_of_id is not None:
        shared, pairs = _pairs_of_active(arena), arena.pairs.all()
    elif touched is None:
        shared, pairs = _shared_prompts(arena), arena.pairs.all()
    else:
        shared, pairs = _shared_with(touched), arena.pairs.filter(Q(low=touched) | Q(high=touched))
    stored = {
        (low, high): (pk, count)
        for pk, low, high, count in pairs.values_list("pk", "low", "high", "shared_prompts")
    }
    _update_counts({pk: (count, shared.get(ids, 0)) for ids, (pk, count) in stored.items()})
    Pair.objects.bulk_create(
        [
            Pair(arena=arena, low_id=low, high_id=high, shared_prompts=count)
            for (low, high), count in shared.items()
            if (low, high) not in stored
        ],
        batch_size=BATCH,
        ignore_conflicts=True,
    )
    announce(answers_changed, arena_id=arena.pk)


def reason_to_keep(arena: Arena, comparisons: QuerySet[Comparison], what: str) -> str:
    """Return a sentence about why `what`, shown in these comparisons, cannot be deleted; '' if it
    can. The comparisons are locked, so that nobody can vote on them meanwhile."""
    ids = list(comparisons.select_for_update(of=("self",)).values_list("pk", flat=True))
    if votes := Vote.objects.filter(comparison__in=comparisons).count():
        return (
            f"This {what} has {numbered(votes, 'vote')}, which leaderboards and the vote log "
            f"are based on. Archive the {what} instead."
        )
    if ids and comparisons.exclude(rater__kind=Rater.Kind.PERSON).exists():
        return (
            f"LLM judges have been asked about this {what}, and their paid verdicts would be lost. "
            f"Archive the {what} instead."
        )
    if run := arena.runs.not_over().order_by("pk").first():
        return (
            f"Run {run.pk} is unfinished and may need this {what}. Wait until it is finished, or "
            f"cancel it, then delete the {what}."
        )
    return ""


def _update_counts(counts: Mapping[int, tuple[int, int]]) -> None:
    """Write the counts that have changed; `counts` maps pair ids to the old and the new count.

    One statement updates all pairs with the same count: a CASE with a line per pair would take
    quadratic time.
    """
    ids_by_count: dict[int, list[int]] = {}
    for pk, (old, new) in counts.items():
        if old != new:
            ids_by_count.setdefault(new, []).append(pk)
    for count, ids in ids_by_count.items():
        for start in range(0, len(ids), BATCH):
            batch = Pair.objects.filter(pk__in=ids[start : start + BATCH])
            batch.update(shared_prompts=count)


def _pairs_of_active(arena: Arena) -> dict[tuple[int, int], int]:
    """Every two active candidates can answer a live question, which counts as the one prompt that
    they share."""
    active = Candidate.objects.active().filter(arena=arena).order_by("pk")
    return dict.fromkeys(combinations(active.values_list("pk", flat=True), 2), 1)


def _shared_with(touched: Candidate) -> dict[tuple[int, int], int]:
    """Count the prompts that each other candidate shares with `touched`, by candidate ids."""
    answers = _showable_answers(touched.arena_id)
    answers_of_touched = answers.filter(candidate=touched, prompt=OuterRef("prompt"))
    different = Exists(answers_of_touched.exclude(digest=OuterRef("digest")))
    others = answers.filter(different).exclude(candidate=touched)
    counts = others.order_by().values_list("candidate").annotate(Count("pk"))
    return {(min(pk, touched.pk), max(pk, touched.pk)): count for pk, count in counts}


def _shared_prompts(arena: Arena) -> dict[tuple[int, int], int]:
    """Count the prompts that every two candidates share, by candidate ids.

    Uses dictionaries instead of a self-join of responses: right after an import PostgreSQL has no
    statistics of the tables yet, and its plan for the join took minutes.
    """
    answered: dict[int, dict[int, str]] = {}
    rows = _showable_answers(arena.pk).values_list("candidate", "prompt", "digest")
    for candidate, prompt, digest in rows.iterator():
        answered.setdefault(candidate, {})[prompt] = digest
    counts = {
        (low, high): len(answered[low].keys() & answered[high].keys())
        - len(answered[low].items() & answered[high].items())
        for low, high in combinations(sorted(answered), 2)
    }
    return {ids: count for ids, count in counts.items() if count}


def count_votable_prompts(arena: Arena, besides: int) -> int:
    """Return on how many prompts, `besides` this one, two candidates answer differently."""
    answers = _showable_answers(arena.pk).exclude(prompt=besides).order_by().values("prompt")
    return answers.annotate(n=Count("digest", distinct=True)).filter(n__gt=1).count()


def _showable_answers(arena_id: int) -> CatalogQuerySet:
    answers = Response.objects.revealed().filter(
        candidate__arena=arena_id, candidate__retired_at=None, prompt__retired_at=None
    )
    return answers.annotate(digest=ANSWER_DIGEST)


@transaction.atomic
def publish_pair_weights(
    *,
    arena: Arena,
    weights: Mapping[tuple[int, int], float],
    parts: Mapping[tuple[int, int], Mapping[str, float]] | None = None,
) -> None:
    """Store the weights computed by ranking; pairs that are not named keep theirs.

    `parts`: how much of each weight is for what (`PARTS`); by default nothing but the even share.
    """
    lock_arena(arena.pk)
    pairs = [pair for pair in arena.pairs.all() if (pair.low_id, pair.high_id) in weights]
    for pair in pairs:
        ids = (pair.low_id, pair.high_id)
        pair.weight = weights[ids]
        for name in PARTS:
            setattr(pair, name, parts[ids][name] if parts else 0.0)
    Pair.objects.bulk_update(pairs, ["weight", *PARTS], batch_size=BATCH)


def flip_coin() -> bool:
    return bool(draw.getrandbits(1))


def take_side(*, pair: Pair) -> bool:
    """Count that `pair` is shown once more; return whether its lower id goes left.

    Call this in the transaction that writes the comparison: the row stays locked until the commit,
    so the counts of the two sides never differ by more than `sql.MOST_UNEVEN`. Short of that a coin
    decides, so that the names revealed after one vote do not reveal the sides of the next
    comparison.
    """
    ((low_went_left,),) = sql.rows(sql.TAKE_SIDE, coin=flip_coin(), pair=pair.pk)
    return bool(low_went_left)
