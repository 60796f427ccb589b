"""When a run, or one asker of it, stops asking; and how it goes on."""

from datetime import datetime

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q

from arena.calls.models import MAX_REQUESTS, Call, RunAsker
from arena.calls.models.calls import CallQuerySet
from arena.models import Run
from arena.models.runs import RunQuerySet

IN_A_ROW = 10
LONGEST_REASON = 300
# Pages of runs are read by others than the team, so they name no account.
BY_AN_OPERATOR, BY_THE_TEAM = "Paused by an operator.", "Paused by the team."

# -- Stopping --------------------------------------------------------------------------------------


def pause_run(*, run_id: int, reason: str) -> bool:
    """Stop claiming calls of an open run; calls that are under way end as they will."""
    run = Run.objects.filter(pk=run_id, state=Run.State.OPEN)
    return bool(run.update(state=Run.State.PAUSED, pause_reason=reason[:LONGEST_REASON]))


@transaction.atomic
def pause_asker(*, run_id: int, asker: str, reason: str, now: datetime) -> None:
    """Stop one asker of a run; the run stops with it where no other one can go on."""
    askers = RunAsker.objects.filter(run=run_id)
    askers.filter(asker=asker, paused_at=None).update(
        paused_at=now, pause_reason=reason[:LONGEST_REASON]
    )
    if not askers.filter(asker=asker).exists():
        pause_run(run_id=run_id, reason=reason)  # ordered before askers had rows
    elif not askers.filter(paused_at=None).exists() or _stuck().filter(pk=run_id).exists():
        pause_run(run_id=run_id, reason=_reasons(run_id))


def pause_if_failing(*, run_id: int, asker: str, now: datetime) -> bool:
    """Pause an asker whose last ten calls in a run all failed.

    Calls that failed without a request, because another one did, say nothing of their own.
    """
    asked = Call.objects.filter(run=run_id, asker=asker, finished_at__isnull=False, requests__gt=0)
    last = list(asked.order_by("-finished_at").values_list("state", "error")[:IN_A_ROW])
    if len(last) < IN_A_ROW or any(state != Call.State.FAILED for state, _ in last):
        return False
    reason = f"{IN_A_ROW} calls in a row failed. The last one: {last[0][1]}"
    pause_asker(run_id=run_id, asker=asker, reason=reason, now=now)
    return True


def pause_stuck_runs() -> int:
    """Pause open runs of which only paused askers have calls left; return how many there were."""
    ids = list(_stuck().values_list("pk", flat=True))
    return sum(pause_run(run_id=run_id, reason=_reasons(run_id)) for run_id in ids)


def _stuck() -> RunQuerySet:
    calls = Call.objects.filter(run=OuterRef("pk"))
    # Of calls that need one another, the first that has not ended stands for all.
    can_go_on = calls.in_progress().filter(Q(needs=None) | Q(needs__state=Call.State.DONE))
    return Run.objects.filter(
        Exists(RunAsker.objects.filter(run=OuterRef("pk"), paused_at__isnull=False)),
        Exists(calls.filter(state__in=Call.GOING_ON)),
        ~Exists(can_go_on),
        state=Run.State.OPEN,
    )


def _reasons(run_id: int) -> str:
    paused = RunAsker.objects.filter(run=run_id, paused_at__isnull=False).order_by("paused_at")
    return "; ".join(f"{one.endpoint}:{one.model}: {one.pause_reason}" for one in paused)


@transaction.atomic
def cancel_run(*, run_id: int, now: datetime) -> bool:
    """End a run as it is. Calls under way end as they will, and are booked all the same."""
    unfinished = [Run.State.ORDERED, Run.State.OPEN, Run.State.PAUSED]
    run = Run.objects.filter(pk=run_id, state__in=unfinished)
    return bool(run.update(state=Run.State.CANCELLED, closed_at=now))


def why_not(run: Run, done: str) -> str:
    """Say that a run cannot be `done` ("paused") in the state that it has by now."""
    run.refresh_from_db(fields=["state"])
    return f"This run is {run.get_state_display().lower()}: it cannot be {done}."


# -- Going on --------------------------------------------------------------------------------------


@transaction.atomic
def resume_run(*, run_id: int, now: datetime) -> bool:
    """Let a run and all its askers go on: what waits is due, what failed may be tried as often.

    False for a run that is neither paused nor open.
    """
    # Calls first and the run last, as a worker locks them: the other way round they could meet.
    calls = Call.objects.filter(run=run_id, run__state__in=[Run.State.OPEN, Run.State.PAUSED])
    wake_failed(calls, now)
    calls.filter(state=Call.State.WAITING).update(due_at=now, ring_after=now, rings=0)
    RunAsker.objects.filter(run=run_id).update(paused_at=None, pause_reason="")
    return _open(run_id, [Run.State.OPEN, Run.State.PAUSED])


@transaction.atomic
def reopen_run(*, run_id: int, now: datetime) -> bool:
    """Let a run that is through go on with its calls that failed, and no others.

    False for a run that is not through.
    """
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
        rings=0,
    )


def _open(run_id: int, states: list[Run.State]) -> bool:
    run = Run.objects.filter(pk=run_id, state__in=states)
    return bool(run.update(state=Run.State.OPEN, pause_reason="", closed_at=None))
