"""Runs: their budgets, runs of human votes, and how any run is paused, resumed or cancelled.

A team's budget covers the caps of its unfinished runs, which may still be spent, and the actual
cost of its finished ones.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import BigIntegerField, Case, Count, F, Q, QuerySet, Sum, When
from django.db.models.functions import Coalesce

from arena.actors import Actor
from arena.calls.money import committed, dollars, raise_cap
from arena.calls.runs import BY_AN_OPERATOR, BY_THE_TEAM, cancel_run, pause_run, why_not
from arena.errors import ServiceError
from arena.models import Arena, Pair, PairDemand, Run, Team
from arena.services import audit
from arena.services.comparisons import TIME_TO_VOTE

MAX_PER_PAIR = 10_000
OVER = Q(state__in=[Run.State.DONE, Run.State.CANCELLED])
# Calls that were running when their run was cancelled still reserve money.
COST = F("settled") + F("uncertain") + F("reserved")
State = Run.State
# The comparisons of each pair, by candidate ids: how many have a live vote, how many are open.
PairCounts = dict[tuple[int, int], tuple[int, int]]


class BudgetError(ServiceError):
    """A run that the team's budget does not cover."""


class RunError(ServiceError):
    """An action that the run's state or cap does not allow."""


# -- Budgets ---------------------------------------------------------------------------------------


def reserve_budget(*, team: Team | None, cap: int | None) -> None:
    """Check that the budget of `team` covers another `cap` nano-dollars; raise BudgetError if not.

    The team's row stays locked until the end of the caller's transaction, which must write the run
    with that cap: of two orders at once, the second sees what the first has taken. Free runs need
    no budget, and runs without a team are the operator's own.
    """
    if team is None or not cap:
        return
    team = Team.objects.select_for_update(no_key=True).get(pk=team.pk)
    left = budget_left(team)
    if cap > left:
        if team.budget:
            message = (
                f"This may cost up to {dollars(cap)}, but {team} has {dollars(max(0, left))} left "
                f"of its budget of {dollars(team.budget)}. Set a lower cap, or ask an "
                "administrator for a larger budget."
            )
        else:
            message = (
                f"{team} has no budget yet, and this may cost up to {dollars(cap)}. Ask an "
                "administrator for a budget."
            )
        raise BudgetError(message, field="cap")


def reserve_new_cap(*, run: Run, cap: int) -> None:
    """Check that the budget covers a new cap for an unfinished run; raise BudgetError if not.

    The old cap is read once the team's row is locked, because it may have been lowered since the
    caller read the run.
    """
    if run.team is None:
        return
    Team.objects.select_for_update(no_key=True).get(pk=run.team.pk)
    before = Run.objects.values_list("cap", flat=True).get(pk=run.pk)
    reserve_budget(team=run.team, cap=max(0, cap - (before or 0)))


@transaction.atomic
def deduct_spent(*, runs: QuerySet[Run]) -> None:
    """Deduct the cost of finished runs from their teams' budgets, before the runs are deleted."""
    spent_by = runs.exclude(team=None).order_by().values_list("team").annotate(spent=Sum(COST))
    for team_id, spent in spent_by:
        # Not within the statement: PostgreSQL takes an amount beside a column for a short integer.
        team = Team.objects.select_for_update(no_key=True).get(pk=team_id)
        team.budget = max(0, team.budget - int(spent))
        team.save(update_fields=["budget"])


def budget_left(team: Team) -> int:
    """Return the uncommitted part of the team's budget; negative if the budget was cut."""
    return team.budget - committed_by(team)


def committed_by(team: Team) -> int:
    """Return what the team has spent and what its unfinished runs may still spend."""
    share = Case(
        When(OVER, then=COST),
        default=Coalesce(F("cap"), 0, output_field=BigIntegerField()),
        output_field=BigIntegerField(),
    )
    return int(Run.objects.filter(team=team).aggregate(total=Sum(share, default=0))["total"])


# -- Runs of human votes ---------------------------------------------------------------------------


@transaction.atomic
def order_people_run(*, arena: Arena, per_pair: int, by: Actor) -> Run:
    """Order `per_pair` human votes for every pair of the arena; a task opens the run."""
    pairs = arena.pairs.filter(shared_prompts__gt=0).count()
    if not pairs:
        raise ValidationError("No two candidates in this arena have answered the same prompt.")
    if not 1 <= per_pair <= MAX_PER_PAIR:
        raise ValidationError(f"Votes per pair must be between 1 and {MAX_PER_PAIR:,}.")
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
def reconcile_run(*, run: Run, now: datetime) -> Run:
    """Update a run's demands and progress from its votes; open or close it. Idempotent.

    A pair's demand is the votes ordered less those cast and those still open with a rater, so
    expired, skipped and undone comparisons are demanded again.
    """
    # NO KEY: a comparison of this run that is just being written refers to its row.
    run = Run.objects.select_for_update(of=("self",), no_key=True).get(pk=run.pk)
    if run.state not in (Run.State.ORDERED, Run.State.OPEN):
        return run
    demands = _lock_demands(run)
    counts = _count_by_pair(run, now)
    _update_demands(run, demands, counts)
    run.votes_done = sum(min(done, run.per_pair) for done, _ in counts.values())
    run.votes_wanted = sum(_votes_wanted(run, demand.pair, counts) for demand in demands)
    done = run.votes_done >= run.votes_wanted
    run.state = Run.State.DONE if done else Run.State.OPEN
    run.closed_at = now if done else None
    run.save(update_fields=["votes_done", "votes_wanted", "state", "closed_at"])
    return run


def _lock_demands(run: Run) -> list[PairDemand]:
    """Create the run's demands if there are none, and lock them.

    Issuing a comparison locks its demand until it commits, so counts made under this lock are
    complete.
    """
    if not run.demands.exists():
        arena = run.in_arena
        pairs = arena.pairs.filter(shared_prompts__gt=0)
        PairDemand.objects.bulk_create(
            PairDemand(arena=arena, run=run, pair=pair, remaining=0) for pair in pairs
        )
    locked = run.demands.select_for_update(of=("self",), no_key=True).select_related("pair")
    return list(locked.order_by("pk"))


def _count_by_pair(run: Run, now: datetime) -> PairCounts:
    """Count each pair's comparisons of the run: those with a live vote, and those still open."""
    live = Q(votes__isnull=False, votes__voided_at=None)
    # Issued while the clock was ahead, a comparison would expire only when that time comes.
    in_time = Q(expires_at__gt=now, expires_at__lte=now + TIME_TO_VOTE + timedelta(minutes=1))
    still_open = Q(in_time, votes__isnull=True, skipped_at=None)
    by_sides = run.comparisons.order_by().values_list("left", "right")
    counts: PairCounts = {}
    for left, right, done, waiting in by_sides.annotate(
        done=Count("pk", filter=live), waiting=Count("pk", filter=still_open)
    ):
        ids = (min(left, right), max(left, right))
        mirrored = counts.get(ids, (0, 0))
        counts[ids] = (mirrored[0] + done, mirrored[1] + waiting)
    return counts


def _votes_wanted(run: Run, pair: Pair, counts: PairCounts) -> int:
    """Return the votes wanted for a pair; if it can no longer be shown, those that it has."""
    done, _ = counts.get((pair.low_id, pair.high_id), (0, 0))
    return run.per_pair if pair.shared_prompts else min(done, run.per_pair)


def _update_demands(run: Run, demands: list[PairDemand], counts: PairCounts) -> None:
    changed = []
    for demand in demands:
        issued = sum(counts.get((demand.pair.low_id, demand.pair.high_id), (0, 0)))
        missing = max(_votes_wanted(run, demand.pair, counts) - issued, 0)
        if demand.remaining != missing:
            demand.remaining = missing
            changed.append(demand)
    PairDemand.objects.bulk_update(changed, ["remaining"], batch_size=1000)


@transaction.atomic
def cancel_people_run(*, run: Run, by: Actor, now: datetime) -> None:
    """Cancel a run of human votes; the votes cast so far stay. Raises RunError."""
    cancel(run=run, by=by, now=now)
    PairDemand.objects.filter(run=run).update(remaining=0)


# -- Pausing, resuming, cancelling, retrying -------------------------------------------------------

# A run may have changed since it was read, so the database has the last word: an update that no
# longer applies raises an error, and the transaction is rolled back.


class RunService(Protocol):
    """The module that pauses, resumes, cancels and retries one kind of run."""

    def pause(self, *, run: Run, by: Actor) -> None: ...

    def resume(self, *, run: Run, by: Actor, now: datetime, cap: int | None = None) -> None: ...

    def cancel(self, *, run: Run, by: Actor, now: datetime) -> None: ...

    def retry_failed(self, *, run: Run, by: Actor, now: datetime) -> None: ...


@transaction.atomic
def pause(*, run: Run, by: Actor) -> None:
    """Pause a run; calls under way finish. Raises RunError."""
    reason = BY_AN_OPERATOR if by.is_operator else BY_THE_TEAM
    if not pause_run(run_id=run.pk, reason=reason):
        raise RunError(why_not(run, "paused"))
    _record(run, by, f"paused {_kind_name(run)}")


@transaction.atomic
def cancel(*, run: Run, by: Actor, now: datetime) -> None:
    """Cancel a run; its results so far stay. Raises RunError."""
    if not cancel_run(run_id=run.pk, now=now):
        raise RunError(why_not(run, "cancelled"))
    _record(run, by, f"cancelled {_kind_name(run)}")


@transaction.atomic
def resume_with(wake: Callable[[], object], *, run: Run, by: Actor, cap: int | None) -> None:
    """Resume a run by calling `wake`, under a new cap in nano-dollars if one is given.

    `wake` raises if the run has changed since it was read. Raises RunError, or BudgetError if the
    team's budget does not cover the new cap.
    """
    if not run.can_be_resumed:
        raise RunError(why_not(run, "resumed"))
    if cap is not None:
        reserve_new_cap(run=run, cap=cap)
    wake()
    if cap is not None:
        _raise_cap(run, cap)  # once the calls are woken: a worker locks them before their run
    details = {} if cap is None else {"cap": dollars(cap)}
    _record(run, by, f"resumed {_kind_name(run)}", **details)


@transaction.atomic
def reopen_with(
    reopen: Callable[[], object],
    *,
    run: Run,
    by: Actor,
    has_failed: Callable[[Run], bool],
    failures: str,
) -> None:
    """Retry the failures of a finished run by calling `reopen`.

    `has_failed` tells whether there are any, `failures` names them in the audit log; `reopen`
    raises if the run is no longer finished. Raises RunError and BudgetError.
    """
    run.refresh_from_db(fields=["state", "cap", "settled", "reserved", "uncertain"])
    if run.state != State.DONE:
        raise RunError("You can retry failures once the run is finished.")
    if not has_failed(run):
        raise RunError("This run has no failures to retry.")
    # While it was over, only what it had cost counted against the budget.
    reserve_budget(team=run.team, cap=max(0, (run.cap or 0) - committed(run)))
    reopen()
    _record(run, by, f"asked failed {failures} again")


@transaction.atomic
def set_cap(*, run: Run, cap: int) -> None:
    """Change the cap of a run. Raises RunError, or BudgetError if the team's budget is too low."""
    reserve_new_cap(run=run, cap=cap)
    _raise_cap(run, cap)


def _raise_cap(run: Run, cap: int) -> None:
    try:
        raise_cap(run_id=run.pk, cap=cap)
    except ValidationError as error:
        raise RunError(" ".join(error.messages), field="cap") from None


def _kind_name(run: Run) -> str:
    return f"a run of {run.get_kind_display().lower()}"


def _record(run: Run, by: Actor, action: str, **details: object) -> None:
    subject = run.candidate.own_name if run.candidate else run.arena or ""
    # No team pays for human votes; the arena's team reads about them all the same.
    team = run.team or (run.arena.team if run.arena else None)
    audit.record(team=team, by=by, action=action, subject=subject, run=run.pk, **details)
