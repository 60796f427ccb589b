"""What may be done to a run of judges: pause it, let it go on, cancel it, ask failures again.

The rules of money and of calls are the ledger's; here stands who may, in which state.
"""

from datetime import datetime

from django.core.exceptions import ValidationError
from django.db import transaction

from arena.access import Ability, Actor
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
from arena.models import Arena, Run
from arena.services import audit
from arena.services.budgets import BudgetRefused, reserve_budget, reserve_new_cap
from judges.services.going_on import go_on, has_failures
from judges.services.registering import JudgeRefused

State = Run.State


def may_steer(actor: Actor, arena: Arena | None) -> bool:
    """May `actor` order runs in `arena` and steer them? Without an arena they are the operators'.

    They spend the money of the arena's team, or of the operators where it has none.
    """
    return actor.may(Ability.JUDGE, arena.team_id if arena else None)


@transaction.atomic
def pause(*, run: Run, by: Actor) -> None:
    """Stop making calls; those under way end as they will. Raises JudgeRefused."""
    reason = BY_AN_OPERATOR if by.is_operator else BY_THE_TEAM
    if not pause_run(run_id=run.pk, reason=reason):
        raise JudgeRefused(why_not(run, "paused"))
    _record(run, by, "paused a run of judges")


@transaction.atomic
def resume(*, run: Run, by: Actor, now: datetime, cap: int | None = None) -> None:
    """Let a run go on, with a new cap in nano-dollars where one is given. Raises JudgeRefused."""
    if not run.can_be_resumed:
        raise JudgeRefused(why_not(run, "resumed"))
    if cap is not None:
        set_cap(run=run, cap=cap)
    go_on(run=run, now=now)
    _record(run, by, "resumed a run of judges", cap=dollars(run.cap if cap is None else cap))


@transaction.atomic
def set_cap(*, run: Run, cap: int) -> None:
    """Give a run another cap, as far as its team's budget goes. Raises JudgeRefused."""
    try:
        reserve_new_cap(run=run, cap=cap)
        raise_cap(run_id=run.pk, cap=cap)
    except BudgetRefused as refusal:
        raise JudgeRefused(str(refusal), field=refusal.field) from None
    except ValidationError as error:
        raise JudgeRefused(" ".join(error.messages)) from None


@transaction.atomic
def cancel(*, run: Run, by: Actor, now: datetime) -> None:
    """End a run as it is: its verdicts stay, what was not asked is not. Raises JudgeRefused."""
    if not cancel_run(run_id=run.pk, now=now):
        raise JudgeRefused(why_not(run, "cancelled"))
    _record(run, by, "cancelled a run of judges")


@transaction.atomic
def ask_failures_again(*, run: Run, by: Actor, now: datetime) -> None:
    """Make the failed calls of a run that is through once more. Raises JudgeRefused."""
    if run.state != State.DONE:
        raise JudgeRefused("Failures are asked again once the run is through.")
    if not has_failures(run):
        raise JudgeRefused("Nothing in this run has failed.")
    # While it was over, only what it had cost counted against the budget.
    try:
        reserve_budget(team=run.team, cap=max(0, (run.cap or 0) - committed(run)))
    except BudgetRefused as refusal:
        raise JudgeRefused(str(refusal), field=refusal.field) from None
    go_on(run=run, now=now)
    _record(run, by, "asked failed verdicts again")


def _record(run: Run, by: Actor, action: str, **details: object) -> None:
    audit.record(
        team=run.team, by=by, action=action, subject=run.arena or "", run=run.pk, **details
    )
