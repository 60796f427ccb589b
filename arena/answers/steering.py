"""What may be done to a run of answers: pause it, let it go on, cancel it, ask failures again."""

from datetime import datetime
from functools import partial

from arena.access import Actor
from arena.answers.ordering import one_order_at_a_time, open_run
from arena.calls.models import Call
from arena.calls.services import reopen_run, resume_run, why_not
from arena.models import Run
from arena.services.steering import RunRefused, cancel, pause, reopen_with, resume_with

__all__ = ["ask_failures_again", "cancel", "pause", "resume"]


def resume(*, run: Run, by: Actor, now: datetime, cap: int | None = None) -> None:
    """Let a run go on, what failed is asked again; with a new cap in nano-dollars if one is given.

    Raises RunRefused, BudgetRefused, and AnswersRefused while the run is still being written.
    """
    resume_with(partial(_go_on, run, now), run=run, by=by, cap=cap)


def ask_failures_again(*, run: Run, by: Actor, now: datetime) -> None:
    """Ask what failed in a run that is through once more. Raises RunRefused, BudgetRefused."""
    reopen = partial(_reopen, run, now)
    reopen_with(reopen, run=run, by=by, has_failed=_has_failures, failures="answers")


def _go_on(run: Run, now: datetime) -> None:
    if run.state == Run.State.ORDERED:
        goes_on = _finish_ordering(run)
    else:
        goes_on = resume_run(run_id=run.pk, now=now)
    if not goes_on:
        raise RunRefused(why_not(run, "resumed"))


def _finish_ordering(run: Run) -> bool:
    """Open a run whose ordering was cut short; refuses while somebody is at it."""
    assert run.candidate is not None, "the database refuses a run of answers without"
    with one_order_at_a_time(candidate=run.candidate):
        open_run(run=run)
    return run.state == Run.State.OPEN


def _reopen(run: Run, now: datetime) -> None:
    if not reopen_run(run_id=run.pk, now=now):
        raise RunRefused(why_not(run, "reopened"))


def _has_failures(run: Run) -> bool:
    return run.calls.filter(state=Call.State.FAILED).exists()
