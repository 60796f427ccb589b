"""Who may steer a run of judges, and how: pause it, resume it, cancel it, ask failures again."""

from datetime import datetime
from functools import partial

from arena.access import Ability, Actor
from arena.models import Arena, Run
from arena.services.steering import cancel, pause, reopen_with, resume_with, set_cap
from judges.services.going_on import go_on, has_failures

__all__ = ["ask_failures_again", "cancel", "may_steer", "pause", "resume", "set_cap"]


def may_steer(actor: Actor, arena: Arena | None) -> bool:
    """May `actor` order runs in `arena` and steer them? Without an arena they are the operators'.

    They spend the money of the arena's team, or of the operators where it has none.
    """
    return actor.may(Ability.JUDGE, arena.team_id if arena else None)


def resume(*, run: Run, by: Actor, now: datetime, cap: int | None = None) -> None:
    """Let a run go on, with a new cap in nano-dollars where one is given.

    Raises RunRefused, BudgetRefused, and JudgeRefused while the run is still being written.
    """
    resume_with(partial(go_on, run=run, now=now), run=run, by=by, cap=cap)


def ask_failures_again(*, run: Run, by: Actor, now: datetime) -> None:
    """Ask what failed in a run that is through once more. Raises RunRefused, BudgetRefused."""
    again = partial(go_on, run=run, now=now)
    reopen_with(again, run=run, by=by, has_failed=has_failures, failures="verdicts")
