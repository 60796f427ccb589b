"""Letting a run go on that was left unfinished, or whose failures are worth another try."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime

from django.db import transaction
from django.db.models import Q, QuerySet

from arena.calls.models import Call
from arena.calls.services import move_calls, reopen_run, resume_run, why_not
from arena.models import Arena, Run
from arena.services.steering import RunRefused
from judges.models import Judgement, JuryVerdict
from judges.services.ordering import one_order_at_a_time, open_run
from judges.services.trials import one_trial_at_a_time

State = Run.State
UNFINISHED = [State.ORDERED, State.OPEN, State.PAUSED]


def unfinished_run(*, arena: Arena, digests: Sequence[str]) -> Run | None:
    """Return the newest run of just these judges in the arena that has not come to its end."""
    runs = Run.objects.filter(arena=arena, kind=Run.Kind.JUDGE, state__in=UNFINISHED)
    for run in runs.order_by("-pk"):
        asked = run.run_judges.exclude(epoch__judge__protocol="jury")
        if set(asked.values_list("epoch__judge__digest", flat=True)) == set(digests):
            return run
    return None


def go_on(*, run: Run, now: datetime) -> Run:
    """Let a run go on: one that paused, whose ordering was cut short, or that has failures.

    What failed is asked again; what was answered is not. Raises JudgeRefused while the run is
    still being written, and RunRefused where it was cancelled, or closed, since it was read.
    """
    if run.state == State.ORDERED:
        with _nobody_writing(run):
            open_run(run=run)
        if run.state != State.OPEN:
            raise RunRefused(why_not(run, "resumed"))
    elif run.state == State.PAUSED:
        _resume(run, now)
    elif run.state == State.DONE and has_failures(run):
        _reopen(run, now)
    run.refresh_from_db()
    return run


def _nobody_writing(run: Run) -> AbstractContextManager[None]:
    """Hold the lock that whoever writes the run down holds; raises JudgeRefused if it is taken."""
    if run.arena is not None:
        return one_order_at_a_time(arena=run.arena)
    return one_trial_at_a_time(epoch_id=run.run_judges.get().epoch_id)


def has_failures(run: Run) -> bool:
    return _failed(run).exists()


@transaction.atomic
def _resume(run: Run, now: datetime) -> None:
    _wait_again(run, now)
    if not resume_run(run_id=run.pk, now=now):
        raise RunRefused(why_not(run, "resumed"))


@transaction.atomic
def _reopen(run: Run, now: datetime) -> None:
    _wait_again(run, now)
    if not reopen_run(run_id=run.pk, now=now):
        raise RunRefused(why_not(run, "reopened"))


def _wait_again(run: Run, now: datetime) -> None:
    """Put back to waiting what failed; calls of other runs that it failed for become the run's."""
    failed = _failed(run)
    again = list(failed.values_list("pk", flat=True))
    JuryVerdict.objects.filter(judgements__in=failed).exclude(state=JuryVerdict.State.VOTED).update(
        state=JuryVerdict.State.WAITING, settled_at=None, counts={}
    )
    failed.update(state=Judgement.State.WAITING, settled_at=None)
    move_calls(call_ids=_failed_calls(again), run_id=run.pk, now=now)


def _failed(run: Run) -> QuerySet[Judgement]:
    return Judgement.objects.filter(run=run, state=Judgement.State.FAILED)


def _failed_calls(judgements: Sequence[int]) -> list[int]:
    """The calls for want of which judgements failed, whichever run they were made for."""
    theirs = Q(forward_of__in=judgements) | Q(reverse_of__in=judgements)
    direct = Call.objects.filter(theirs)
    needed = direct.exclude(needs=None).values("needs")
    failed = Call.objects.filter(Q(pk__in=direct.values("pk")) | Q(pk__in=needed))
    return list(failed.filter(state=Call.State.FAILED).values_list("pk", flat=True))
