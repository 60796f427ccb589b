"""What an operator lets a team spend on models.

Of a run that is not over its cap counts, for it may be spent; of one that is over, what it cost.
"""

from django.db import transaction
from django.db.models import BigIntegerField, Case, F, Q, QuerySet, Sum, When
from django.db.models.functions import Coalesce

from arena.calls.money import dollars
from arena.models import Run, Team
from arena.services.refusals import Refused

OVER = Q(state__in=[Run.State.DONE, Run.State.CANCELLED])
# A call that was under way when its run was cancelled still holds money.
COST = F("settled") + F("uncertain") + F("reserved")


class BudgetRefused(Refused):
    """An order that the team's budget does not cover."""


def reserve_budget(*, team: Team | None, cap: int | None) -> None:
    """Refuse to let `team` spend `cap` nano-dollars more than it may; raises BudgetRefused.

    The team's row stays locked until the caller's transaction ends, which is to write the run with
    that cap: so of two orders at once the second one sees what the first has taken. What costs
    nothing needs no budget, and what belongs to no team is the operator's own.
    """
    if team is None or not cap:
        return
    team = Team.objects.select_for_update(no_key=True).get(pk=team.pk)
    left = budget_left(team)
    if cap > left:
        raise BudgetRefused(_too_much(team, cap, team.budget, left), field="cap")


def reserve_new_cap(*, run: Run, cap: int) -> None:
    """Refuse to let a run that is not over spend up to `cap` from now on; raises BudgetRefused.

    What it might before is read once the team's row is locked: a cap that was lowered since the
    caller read the run has given its part back.
    """
    if run.team is None:
        return
    Team.objects.select_for_update(no_key=True).get(pk=run.team.pk)
    before = Run.objects.values_list("cap", flat=True).get(pk=run.pk)
    reserve_budget(team=run.team, cap=max(0, cap - (before or 0)))


@transaction.atomic
def take_spent(*, runs: QuerySet[Run]) -> None:
    """Take what ended runs cost from the budgets of their teams, before the runs are deleted."""
    spent_by = runs.exclude(team=None).order_by().values_list("team").annotate(spent=Sum(COST))
    for team_id, spent in spent_by:
        # Not within the statement: PostgreSQL takes an amount beside a column for a short integer.
        team = Team.objects.select_for_update(no_key=True).get(pk=team_id)
        team.budget = max(0, team.budget - int(spent))
        team.save(update_fields=["budget"])


def budget_left(team: Team) -> int:
    """Return what of the team's budget may still be given to runs; below 0 where it was cut."""
    return team.budget - committed_by(team)


def committed_by(team: Team) -> int:
    """Return what of the team's budget is spent, or may be by its unfinished runs."""
    share = Case(
        When(OVER, then=COST),
        default=Coalesce(F("cap"), 0, output_field=BigIntegerField()),
        output_field=BigIntegerField(),
    )
    return int(Run.objects.filter(team=team).aggregate(total=Sum(share, default=0))["total"])


def _too_much(team: Team, cap: int, budget: int, left: int) -> str:
    if not budget:
        return (
            f"{team} has no budget yet, and this may cost up to {dollars(cap)}. An operator gives "
            "teams a budget."
        )
    return (
        f"This may cost up to {dollars(cap)}, and {team} has {dollars(max(0, left))} left of its "
        f"budget of {dollars(budget)}. Set a lower cap, or ask an operator for a larger budget."
    )
