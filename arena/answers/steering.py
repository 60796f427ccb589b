"""What a person may do to a run of answers: pause it, let it go on, cancel it, ask failures again.

The rules of money and of calls are the ledger's; here stands what may be done in which state.
"""

from datetime import datetime

from django.core.exceptions import ValidationError
from django.db import transaction

from arena.access import Actor
from arena.answers.ordering import one_order_at_a_time, open_run
from arena.answers.refusals import AnswersRefused
from arena.calls.booking import committed
from arena.calls.money import dollars
from arena.calls.services import (
    BY_AN_OPERATOR,
    BY_THE_TEAM,
    cancel_run,
    pause_run,
    raise_cap,
    resume_run,
    retry_failures,
    why_not,
)
from arena.models import Run
from arena.services import audit
from arena.services.budgets import reserve_budget, reserve_new_cap

State = Run.State


@transaction.atomic
def pause(*, run: Run, by: Actor) -> None:
    """Stop asking; calls under way end as they will. Raises AnswersRefused."""
    reason = BY_AN_OPERATOR if by.is_operator else BY_THE_TEAM
    if not pause_run(run_id=run.pk, reason=reason):
        raise AnswersRefused(why_not(run, "paused"))
    _record(run, by, "paused a run of answers")


def resume(*, run: Run, by: Actor, now: datetime, cap: int | None = None) -> None:
    """Let a run go on, what failed is asked again; with a new cap in nano-dollars if one is given.

    Raises AnswersRefused, or BudgetRefused where the team's budget does not cover the new cap.
    """
    if not run.can_be_resumed:
        raise AnswersRefused(why_not(run, "resumed"))
    if run.state == State.ORDERED:
        _finish_ordering(run)
    with transaction.atomic():
        if cap is not None:
            reserve_new_cap(run=run, cap=cap)
        if not resume_run(run_id=run.pk, now=now):
            raise AnswersRefused(why_not(run, "resumed"))
        if cap is not None:
            _raise_cap(run, cap)  # once the calls are woken: a worker locks them before their run
        said = {} if cap is None else {"cap": dollars(cap)}
        _record(run, by, "resumed a run of answers", **said)


@transaction.atomic
def cancel(*, run: Run, by: Actor, now: datetime) -> None:
    """End a run as it is: its answers stay, what was not asked is not. Raises AnswersRefused."""
    if not cancel_run(run_id=run.pk, now=now):
        raise AnswersRefused(why_not(run, "cancelled"))
    _record(run, by, "cancelled a run of answers")


@transaction.atomic
def ask_failures_again(*, run: Run, by: Actor, now: datetime) -> None:
    """Ask what failed in a run that is through once more. Raises AnswersRefused, BudgetRefused."""
    if run.state != State.DONE:
        raise AnswersRefused("Failures are asked again once the run is through.")
    if run.cap is not None:
        # While it was over, only what it had cost counted against the budget.
        reserve_budget(team=run.team, cap=max(0, run.cap - committed(run)))
    if not retry_failures(run_id=run.pk, now=now):
        raise AnswersRefused("Nothing in this run has failed.")
    _record(run, by, "asked failed answers again")


def _finish_ordering(run: Run) -> None:
    """Open a run whose ordering was cut short; its caller has checked that nobody is at it."""
    assert run.candidate is not None, "the database refuses a run of answers without"
    with one_order_at_a_time(candidate=run.candidate):
        open_run(run=run)


def _raise_cap(run: Run, cap: int) -> None:
    try:
        raise_cap(run_id=run.pk, cap=cap)
    except ValidationError as error:
        raise AnswersRefused(" ".join(error.messages), field="cap") from None


def _record(run: Run, by: Actor, action: str, **details: object) -> None:
    said = run.candidate.own_name if run.candidate else ""
    audit.record(team=run.team, by=by, action=action, subject=said, run=run.pk, **details)
