"""What a person may do to a run: pause it, let it go on, cancel it, ask failures again.

The rules of money and of calls are the ledger's, and what going on means is said by whoever is
asked in the run; here stands what may be done in which state. A run may have changed since it was
read, so the last word is the database's: what it turns down is rolled back.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from django.core.exceptions import ValidationError
from django.db import transaction

from arena.access import Actor
from arena.calls.booking import committed
from arena.calls.money import dollars
from arena.calls.services import (
    BY_AN_OPERATOR,
    BY_THE_TEAM,
    cancel_run,
    pause_run,
    raise_cap,
    why_not,
)
from arena.models import Run
from arena.services import audit
from arena.services.budgets import reserve_budget, reserve_new_cap
from arena.services.refusals import Refused

State = Run.State


class Steering(Protocol):
    """What may be done to a run: the module of services for its kind."""

    def pause(self, *, run: Run, by: Actor) -> None: ...

    def resume(self, *, run: Run, by: Actor, now: datetime, cap: int | None = None) -> None: ...

    def cancel(self, *, run: Run, by: Actor, now: datetime) -> None: ...

    def ask_failures_again(self, *, run: Run, by: Actor, now: datetime) -> None: ...


class RunRefused(Refused):
    """Something that cannot be done to a run, in the state that it is in or with that cap."""


@transaction.atomic
def pause(*, run: Run, by: Actor) -> None:
    """Stop asking; calls under way end as they will. Raises RunRefused."""
    reason = BY_AN_OPERATOR if by.is_operator else BY_THE_TEAM
    if not pause_run(run_id=run.pk, reason=reason):
        raise RunRefused(why_not(run, "paused"))
    _record(run, by, f"paused {_called(run)}")


@transaction.atomic
def cancel(*, run: Run, by: Actor, now: datetime) -> None:
    """End a run as it is: what came of it stays, what was not asked is not. Raises RunRefused."""
    if not cancel_run(run_id=run.pk, now=now):
        raise RunRefused(why_not(run, "cancelled"))
    _record(run, by, f"cancelled {_called(run)}")


@transaction.atomic
def resume_with(go_on: Callable[[], object], *, run: Run, by: Actor, cap: int | None) -> None:
    """Have `go_on` let a run go on, under a new cap in nano-dollars where one is given.

    `go_on` refuses a run that has changed since it was read. Raises RunRefused, or BudgetRefused
    where the team's budget does not cover the new cap.
    """
    if not run.can_be_resumed:
        raise RunRefused(why_not(run, "resumed"))
    if cap is not None:
        reserve_new_cap(run=run, cap=cap)
    go_on()
    if cap is not None:
        _raise_cap(run, cap)  # once the calls are woken: a worker locks them before their run
    said = {} if cap is None else {"cap": dollars(cap)}
    _record(run, by, f"resumed {_called(run)}", **said)


@transaction.atomic
def reopen_with(
    reopen: Callable[[], object],
    *,
    run: Run,
    by: Actor,
    has_failed: Callable[[Run], bool],
    failures: str,
) -> None:
    """Have `reopen` ask once more what failed in a run that is through.

    `has_failed` says whether anything has, `failures` what the trail calls it; `reopen` refuses a
    run that is not through any more. Raises RunRefused, BudgetRefused.
    """
    run.refresh_from_db(fields=["state", "cap", "settled", "reserved", "uncertain"])
    if run.state != State.DONE:
        raise RunRefused("Failures are asked again once the run is through.")
    if not has_failed(run):
        raise RunRefused("Nothing in this run has failed.")
    # While it was over, only what it had cost counted against the budget.
    reserve_budget(team=run.team, cap=max(0, (run.cap or 0) - committed(run)))
    reopen()
    _record(run, by, f"asked failed {failures} again")


@transaction.atomic
def set_cap(*, run: Run, cap: int) -> None:
    """Give a run another cap, as far as its team's budget goes.

    Raises RunRefused, BudgetRefused.
    """
    reserve_new_cap(run=run, cap=cap)
    _raise_cap(run, cap)


def _raise_cap(run: Run, cap: int) -> None:
    try:
        raise_cap(run_id=run.pk, cap=cap)
    except ValidationError as error:
        raise RunRefused(" ".join(error.messages), field="cap") from None


def _called(run: Run) -> str:
    return f"a run of {run.get_kind_display().lower()}"


def _record(run: Run, by: Actor, action: str, **details: object) -> None:
    said = run.candidate.own_name if run.candidate else run.arena or ""
    # Nobody pays for votes of people: the arena is its team's all the same.
    team = run.team or (run.arena.team if run.arena else None)
    audit.record(team=team, by=by, action=action, subject=said, run=run.pk, **details)
