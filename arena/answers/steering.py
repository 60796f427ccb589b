"""What may be done to a run of answers: pause it, let it go on, cancel it, ask failures again."""

from datetime import datetime
from functools import partial

from django.db import transaction

from arena.access import Actor
from arena.answers.ordering import one_order_at_a_time, open_run
from arena.calls.models import Call
from arena.calls.services import reopen_run, resume_run, why_not
from arena.models import Candidate, Run
from arena.services.steering import RunRefused, cancel, pause, reopen_with, resume_with

__all__ = ["ask_failures_again", "cancel", "pause", "resume"]


RETIRED = "The candidate is retired, so nothing more is generated for it."


@transaction.atomic
def resume(*, run: Run, by: Actor, now: datetime, cap: int | None = None) -> None:
    """Let a run go on, what failed is asked again; with a new cap in nano-dollars if one is given.

    Raises RunRefused, BudgetRefused, and AnswersRefused while the run is still being written.
    """
    _hold_unretired(run)
    resume_with(partial(_go_on, run, now), run=run, by=by, cap=cap)


@transaction.atomic
def ask_failures_again(*, run: Run, by: Actor, now: datetime) -> None:
    """Ask what failed in a run that is through once more. Raises RunRefused, BudgetRefused."""
    _hold_unretired(run)
    reopen = partial(_reopen, run, now)
    reopen_with(reopen, run=run, by=by, has_failed=_has_failures, failures="answers")


def _hold_unretired(run: Run) -> None:
    """Refuse a run of a retired candidate, which would hold money for nothing that is asked.

    Whoever retires it waits for this transaction's end: then there is a run to cancel.
    """
    candidates = Candidate.objects.select_for_update(no_key=True)
    if candidates.get(pk=run.candidate_id).retired_at is not None:
        raise RunRefused(RETIRED)


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
