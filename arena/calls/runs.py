"""Creates the calls of a run, and pauses, resumes and cancels runs and their askers."""

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q

from arena.calls import leases
from arena.calls.models import MAX_REQUESTS, Call, CallQuerySet, RunAsker
from arena.models import Run
from arena.models.runs import RunQuerySet
from arena.signals import run_cancelled

BATCH = 500


@transaction.atomic
def create_calls(*, drafts: Sequence[Call], now: datetime) -> dict[str, Call]:
    """Insert a run's `drafts`, all of one asker and sample; return its calls by subject.

    Calls that the run has already stay. What another run was answered is copied at once.
    """
    if not drafts:
        return {}
    run, asker, sample = drafts[0].run, drafts[0].asker, drafts[0].sample
    subjects = [draft.subject for draft in drafts]
    same = Call.objects.filter(asker=asker, sample=sample, subject__in=subjects)
    answered = same.filter(state__in=Call.ANSWERED).exclude(run=run).order_by("-copied", "-pk")
    sources = {call.subject: call for call in answered}
    for draft in drafts:
        if source := sources.get(draft.subject):
            leases.assign(draft, leases.copy_of(source, now))
    Call.objects.bulk_create(drafts, batch_size=BATCH, ignore_conflicts=True)
    return {call.subject: call for call in same.filter(run=run)}


IN_A_ROW = 10
LONGEST_REASON = 300
# A run's page is public, so the reason names no account.
BY_AN_OPERATOR, BY_THE_TEAM = "Paused by an administrator.", "Paused by the team."

# -- Pausing and cancelling ------------------------------------------------------------------------


def pause_run(*, run_id: int, reason: str) -> bool:
    """Stop claiming calls of an open run; calls under way finish."""
    run = Run.objects.filter(pk=run_id, state=Run.State.OPEN)
    return bool(run.update(state=Run.State.PAUSED, pause_reason=reason[:LONGEST_REASON]))


@transaction.atomic
def pause_asker(*, run_id: int, asker: str, reason: str, now: datetime) -> None:
    """Pause one asker of a run; pause the run too if no other asker can continue."""
    askers = RunAsker.objects.filter(run=run_id)
    askers.filter(asker=asker, paused_at=None).update(
        paused_at=now, pause_reason=reason[:LONGEST_REASON]
    )
    if not askers.filter(asker=asker).exists():
        pause_run(run_id=run_id, reason=reason)  # a run older than the table of askers
    elif not askers.filter(paused_at=None).exists() or _stuck().filter(pk=run_id).exists():
        pause_run(run_id=run_id, reason=_reasons(run_id))


def pause_if_failing(*, run_id: int, asker: str, now: datetime) -> bool:
    """Pause an asker whose last ten calls in a run all failed.

    Calls that failed only because another one did are not counted.
    """
    asked = Call.objects.filter(run=run_id, asker=asker, finished_at__isnull=False, requests__gt=0)
    last = list(asked.order_by("-finished_at").values_list("state", "error")[:IN_A_ROW])
    if len(last) < IN_A_ROW or any(state != Call.State.FAILED for state, _ in last):
        return False
    reason = f"{IN_A_ROW} calls in a row failed. The last one: {last[0][1]}"
    pause_asker(run_id=run_id, asker=asker, reason=reason, now=now)
    return True


def pause_stuck_runs() -> int:
    """Pause open runs in which only paused askers have calls left; return their number."""
    ids = list(_stuck().values_list("pk", flat=True))
    return sum(pause_run(run_id=run_id, reason=_reasons(run_id)) for run_id in ids)


def _stuck() -> RunQuerySet:
    calls = Call.objects.filter(run=OuterRef("pk"))
    # Of calls that need one another, the first unfinished one decides.
    can_continue = calls.in_progress().filter(Q(needs=None) | Q(needs__state=Call.State.DONE))
    return Run.objects.filter(
        Exists(RunAsker.objects.filter(run=OuterRef("pk"), paused_at__isnull=False)),
        Exists(calls.filter(state__in=Call.GOING_ON)),
        ~Exists(can_continue),
        state=Run.State.OPEN,
    )


def _reasons(run_id: int) -> str:
    paused = RunAsker.objects.filter(run=run_id, paused_at__isnull=False).order_by("paused_at")
    return "; ".join(f"{one.endpoint}:{one.model}: {one.pause_reason}" for one in paused)


@transaction.atomic
def cancel_run(*, run_id: int, now: datetime) -> bool:
    """Cancel an unfinished run, and what waits in it. Calls under way finish and are booked."""
    unfinished = [Run.State.ORDERED, Run.State.OPEN, Run.State.PAUSED]
    run = Run.objects.filter(pk=run_id, state__in=unfinished)
    if not run.exists():
        return False
    # Calls first and the run last, in the order in which workers lock them.
    cancel_calls(Call.objects.filter(run=run_id), now)
    run_cancelled.send(sender=Run, run_id=run_id, now=now)
    is_cancelled = bool(run.update(state=Run.State.CANCELLED, closed_at=now))
    if not is_cancelled:
        transaction.set_rollback(True)
    return is_cancelled


def cancel_calls(calls: CallQuerySet, now: datetime) -> int:
    """End those of `calls` that wait; return how many."""
    waiting = calls.filter(state=Call.State.WAITING)
    return waiting.update(state=Call.State.CANCELLED, finished_at=now)


def why_not(run: Run, done: str) -> str:
    """Explain why a run cannot be `done` ("paused") in its present state."""
    run.refresh_from_db(fields=["state"])
    return f"This run is {run.get_state_display().lower()}: it cannot be {done}."


# -- Resuming --------------------------------------------------------------------------------------


@transaction.atomic
def resume_run(*, run_id: int, now: datetime) -> bool:
    """Resume a run and its askers: waiting calls become due, failed ones get as many new tries.

    Returns False if the run is neither paused nor open.
    """
    # Calls first and the run last, in the order in which workers lock them.
    calls = Call.objects.filter(run=run_id, run__state__in=[Run.State.OPEN, Run.State.PAUSED])
    wake_failed(calls, now)
    calls.filter(state=Call.State.WAITING).update(due_at=now, ring_after=now)
    RunAsker.objects.filter(run=run_id).update(paused_at=None, pause_reason="")
    return _open(run_id, [Run.State.OPEN, Run.State.PAUSED])


@transaction.atomic
def reopen_run(*, run_id: int, now: datetime) -> bool:
    """Reopen a finished run for its failed calls alone. Returns False if it is not finished."""
    wake_failed(Call.objects.filter(run=run_id, run__state=Run.State.DONE), now)
    return _open(run_id, [Run.State.DONE])


def wake_failed(failed: CallQuerySet, now: datetime) -> int:
    """Let calls that failed wait again, due at once and for as many requests; return how many."""
    return failed.filter(state=Call.State.FAILED).update(
        state=Call.State.WAITING,
        finished_at=None,
        requests_allowed=F("requests") + MAX_REQUESTS,
        due_at=now,
        ring_after=now,
    )


def _open(run_id: int, states: list[Run.State]) -> bool:
    run = Run.objects.filter(pk=run_id, state__in=states)
    return bool(run.update(state=Run.State.OPEN, pause_reason="", closed_at=None, counted_at=None))
