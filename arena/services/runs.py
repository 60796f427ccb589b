"""Runs of people: N votes for every pair of candidates, opened, tended and closed by Celery."""

from datetime import datetime

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Count, Q

from arena.access import Actor
from arena.models import Arena, Pair, PairDemand, Run
from arena.services import audit, steering

MOST_PER_PAIR = 10_000
Held = dict[tuple[int, int], tuple[int, int]]  # by pair: comparisons with a vote, and waiting


@transaction.atomic
def order_people_run(*, arena: Arena, per_pair: int, by: Actor) -> Run:
    """Order `per_pair` votes of people for every pair of the arena; a task opens the run."""
    pairs = arena.pairs.filter(shared_prompts__gt=0).count()
    if not pairs:
        raise ValidationError("This arena has no two candidates that answer the same prompt.")
    if not 1 <= per_pair <= MOST_PER_PAIR:
        raise ValidationError(f"Votes per pair must be between 1 and {MOST_PER_PAIR:,}.")
    run = Run.objects.create(
        arena=arena,
        kind=Run.Kind.PERSON,
        per_pair=per_pair,
        votes_wanted=pairs * per_pair,
        created_by=by.user,
    )
    audit.record(
        team=arena.team,
        by=by,
        action="ordered votes of people",
        subject=arena,
        run=run.pk,
        votes=run.votes_wanted,
    )
    return run


@transaction.atomic
def tend_run(*, run: Run, now: datetime) -> Run:
    """Bring a run's demands and progress in line with its votes; open or close it.

    What a run still wants of a pair is what neither has a vote nor waits with a rater: so a
    comparison that expired, was skipped or was undone is wanted again. Doing it twice changes
    nothing.
    """
    # NO KEY: a comparison of this run that is just being written refers to its row.
    run = Run.objects.select_for_update(of=("self",), no_key=True).get(pk=run.pk)
    if run.state not in (Run.State.ORDERED, Run.State.OPEN):
        return run
    demands = _lock_demands(run)
    held = _held(run, now)
    _ask(run, demands, held)
    run.votes_done = sum(min(done, run.per_pair) for done, _ in held.values())
    run.votes_wanted = sum(_wanted(run, demand.pair, held) for demand in demands)
    done = run.votes_done >= run.votes_wanted
    run.state = Run.State.DONE if done else Run.State.OPEN
    run.closed_at = now if done else None
    run.save(update_fields=["votes_done", "votes_wanted", "state", "closed_at"])
    return run


def _lock_demands(run: Run) -> list[PairDemand]:
    """Make the run's demands where they are missing, and lock them.

    Issuing a comparison holds its demand's lock until it commits, so what is counted after this
    lock is complete.
    """
    if not run.demands.exists():
        arena = run.in_arena
        pairs = arena.pairs.filter(shared_prompts__gt=0)
        PairDemand.objects.bulk_create(
            PairDemand(arena=arena, run=run, pair=pair, remaining=0) for pair in pairs
        )
    locked = run.demands.select_for_update(of=("self",), no_key=True).select_related("pair")
    return list(locked.order_by("pk"))


def _held(run: Run, now: datetime) -> Held:
    """Count each pair's comparisons of the run: those with a live vote, and those still open."""
    live = Q(votes__isnull=False, votes__voided_at=None)
    still_open = Q(votes__isnull=True, skipped_at=None, expires_at__gt=now)
    counted = run.comparisons.order_by().values_list("left", "right")
    held: Held = {}
    for left, right, done, waiting in counted.annotate(
        done=Count("pk", filter=live), waiting=Count("pk", filter=still_open)
    ):
        ids = (min(left, right), max(left, right))
        before = held.get(ids, (0, 0))
        held[ids] = (before[0] + done, before[1] + waiting)
    return held


def _wanted(run: Run, pair: Pair, held: Held) -> int:
    """The votes a run wants of a pair; of one that cannot be shown any more, those it has."""
    done, _ = held.get((pair.low_id, pair.high_id), (0, 0))
    return run.per_pair if pair.shared_prompts else min(done, run.per_pair)


def _ask(run: Run, demands: list[PairDemand], held: Held) -> None:
    changed = []
    for demand in demands:
        enough = sum(held.get((demand.pair.low_id, demand.pair.high_id), (0, 0)))
        missing = max(_wanted(run, demand.pair, held) - enough, 0)
        if demand.remaining != missing:
            demand.remaining = missing
            changed.append(demand)
    PairDemand.objects.bulk_update(changed, ["remaining"], batch_size=1000)


@transaction.atomic
def cancel_run(*, run: Run, by: Actor, now: datetime) -> None:
    """End a run as it is: its votes stay, nothing more is asked for. Raises RunRefused."""
    steering.cancel(run=run, by=by, now=now)
    PairDemand.objects.filter(run=run).update(remaining=0)
