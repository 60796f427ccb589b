"""What teams may spend on models, and what their runs have committed of it."""

from django.db import transaction
from django.db.models import BigIntegerField, Case, F, Q, QuerySet, Sum, When
from django.db.models.functions import Coalesce

from arena.actors import Actor
from arena.calls.money import dollars
from arena.errors import ServiceError
from arena.models import Run, Team
from arena.services.audit import record
from arena.services.teams import TeamError
from arena.validation import MOST, NANO

OVER = Q(state__in=[Run.State.DONE, Run.State.CANCELLED])
# Calls that were running when their run was cancelled still reserve money.
COST = F("settled") + F("uncertain") + F("reserved")


class BudgetError(ServiceError):
    """A run that the team's budget does not cover."""


def reserve_budget(*, team: Team | None, cap: int | None) -> None:
    """Check that the budget of `team` covers another `cap` nano-dollars; raise BudgetError if not.

    The team's row stays locked until the end of the caller's transaction, which must write the run
    with that cap: of two concurrent orders, the second sees what the first has reserved. Free runs
    need no budget, and runs without a team are the operator's own.
    """
    if team is None or not cap:
        return
    team = Team.objects.select_for_update(no_key=True).get(pk=team.pk)
    left = budget_left(team)
    if cap > left:
        if team.budget:
            message = (
                f"This may cost up to {dollars(cap)}, but {team} has {dollars(max(0, left))} left "
                f"of its budget of {dollars(team.budget)}. Set a lower cap, or ask an "
                "administrator for a larger budget."
            )
        else:
            message = (
                f"{team} has no budget yet, and this may cost up to {dollars(cap)}. Ask an "
                "administrator for a budget."
            )
        raise BudgetError(message, field="cap")


def reserve_new_cap(run: Run, cap: int) -> None:
    """Check that the budget covers a new cap for an unfinished run; raise BudgetError if not.

    The old cap is read once the team's row is locked, because it may have been lowered since the
    caller read the run.
    """
    if run.team is None:
        return
    Team.objects.select_for_update(no_key=True).get(pk=run.team.pk)
    before = Run.objects.values_list("cap", flat=True).get(pk=run.pk)
    reserve_budget(team=run.team, cap=max(0, cap - (before or 0)))


@transaction.atomic
def deduct_spent(*, runs: QuerySet[Run]) -> None:
    """Deduct the cost of finished runs from their teams' budgets, before the runs are deleted."""
    spent_by = runs.exclude(team=None).order_by().values_list("team").annotate(amount=Sum(COST))
    for team_id, spent in spent_by:
        # Added here and not in the statement, where PostgreSQL would take an amount next to a
        # column for a short integer.
        team = Team.objects.select_for_update(no_key=True).get(pk=team_id)
        team.budget = max(0, team.budget - int(spent))
        team.save(update_fields=["budget"])


def budget_left(team: Team) -> int:
    """Return the uncommitted part of the team's budget; negative if the budget was cut."""
    return team.budget - committed_by(team)


def committed_by(team: Team) -> int:
    """Return what the team has spent or may have been billed, and what its unfinished runs may
    still spend."""
    return committed_in(Run.objects.filter(team=team))


def committed_in(runs: QuerySet[Run]) -> int:
    """Return what `runs` have cost or may have, and what the unfinished ones may still cost."""
    share = Case(
        When(OVER, then=COST),
        default=Coalesce(F("cap"), 0, output_field=BigIntegerField()),
        output_field=BigIntegerField(),
    )
    return int(runs.aggregate(total=Sum(share, default=0))["total"])


def uncertain_of(team: Team) -> int:
    """Return the part of `committed_by` that finished runs may have been billed."""
    over = Run.objects.filter(OVER, team=team)
    return int(over.aggregate(total=Sum("uncertain", default=0))["total"])


MOST_BUDGET = MOST * NANO


@transaction.atomic
def set_budget(*, team: Team, budget: int, by: Actor) -> Team:
    """Set what `team` may spend on models in total, in nano-dollars. Raises TeamError."""
    if not 0 <= budget <= MOST_BUDGET:
        raise TeamError(f"The budget must be between $0 and ${MOST:,}.")
    team = Team.objects.select_for_update(no_key=True).get(pk=team.pk)
    before, team.budget = team.budget, budget
    team.save(update_fields=["budget"])
    record(
        team=team, by=by, action="set the budget", budget=dollars(budget), before=dollars(before)
    )
    return team
