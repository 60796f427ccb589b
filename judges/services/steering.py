"""What a person may do to a run of judges: pause it, let it go on, cancel it, ask failures again.

The rules of money and of calls are the ledger's; here stands who may, in which state.
"""

from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from arena.calls.services import cancel_run, pause_run, raise_cap
from arena.models import Run
from judges.services.ordering import go_on
from judges.services.registering import JudgeRefused

State = Run.State
BY_HAND = "Paused by {name}."


def may_steer(user: Any) -> bool:
    """May this person order runs and steer them? They spend the operator's money."""
    return bool(user.is_active and user.is_staff)


def may_pause(run: Run) -> bool:
    return run.state == State.OPEN


def may_resume(run: Run) -> bool:
    """A run whose ordering was cut short goes on with what was written."""
    return run.state in (State.PAUSED, State.ORDERED)


def may_cancel(run: Run) -> bool:
    return run.state in (State.ORDERED, State.OPEN, State.PAUSED)


def pause(*, run: Run, by: str) -> None:
    """Stop making calls; those under way end as they will. Raises JudgeRefused."""
    if not pause_run(run_id=run.pk, reason=BY_HAND.format(name=by)):
        raise JudgeRefused(_not_now("paused", run))


@transaction.atomic
def resume(*, run: Run, now: datetime, cap: int | None = None) -> None:
    """Let a run go on, with a new cap in nano-dollars where one is given. Raises JudgeRefused."""
    if not may_resume(run):
        raise JudgeRefused(_not_now("resumed", run))
    if cap is not None:
        _set_cap(run, cap)
    go_on(run=run, now=now)


def _set_cap(run: Run, cap: int) -> None:
    try:
        raise_cap(run_id=run.pk, cap=cap)
    except ValidationError as error:
        raise JudgeRefused(" ".join(error.messages)) from None


def cancel(*, run: Run, now: datetime) -> None:
    """End a run as it is: its verdicts stay, what was not asked is not. Raises JudgeRefused."""
    if not cancel_run(run_id=run.pk, now=now):
        raise JudgeRefused(_not_now("cancelled", run))


def ask_failures_again(*, run: Run, now: datetime) -> None:
    """Make the failed calls of a run that is through once more. Raises JudgeRefused."""
    if run.state != State.DONE:
        raise JudgeRefused("Failures are asked again once the run is through.")
    go_on(run=run, now=now)


def _not_now(what: str, run: Run) -> str:
    run.refresh_from_db(fields=["state"])
    return f"This run is {run.get_state_display().lower()}: it cannot be {what}."
