"""Taking a whole arena away: hidden at once, then deleted a piece at a time."""

from typing import Any

from django.db import models, transaction
from django.utils import timezone

from arena.access import Actor
from arena.models import (
    Arena,
    Candidate,
    Comparison,
    Import,
    Pair,
    Prompt,
    Rater,
    Response,
    Run,
    Vote,
)
from arena.models.imports import DELETED
from arena.services import audit
from arena.services.budgets import take_spent

AT_ONCE = 500


def delete_arena(*, arena: Arena, by: Actor) -> None:
    """Delete an arena with everything in it. Killed on the way, it stays hidden; call it again."""
    _hide(arena, by)
    for rows in (
        Vote.objects.filter(arena=arena),
        Comparison.objects.filter(arena=arena),
        Response.objects.filter(prompt__arena=arena),
        Pair.objects.filter(arena=arena),
        Candidate.objects.filter(arena=arena),
        Prompt.objects.filter(arena=arena),
        Rater.objects.filter(arena=arena),
    ):
        _delete_all(rows)
    with transaction.atomic():
        Arena.objects.filter(pk=arena.pk).update(founded_by=None)
        arena.delete()


def _delete_all(rows: models.QuerySet[Any]) -> None:
    while ids := list(rows.order_by("pk").values_list("pk", flat=True)[:AT_ONCE]):
        rows.model.objects.filter(pk__in=ids).delete()


@transaction.atomic
def _hide(arena: Arena, by: Actor) -> None:
    """Put the arena under an import that is never revealed: no page shows it from now on.

    Its runs are over, so that nothing more is paid for what is being deleted; what they cost stays
    spent, and so leaves the budgets with them.
    """
    never, begins = Import.objects.get_or_create(
        arena=arena,
        sha256=DELETED,
        defaults={"file_name": "", "format": DELETED, "started_at": timezone.now()},
    )
    Arena.objects.filter(pk=arena.pk).update(founded_by=never)
    runs = Run.objects.filter(arena=arena).exclude(state__in=[Run.State.DONE, Run.State.CANCELLED])
    runs.update(state=Run.State.CANCELLED, closed_at=timezone.now())
    if begins:
        take_spent(runs=Run.objects.filter(arena=arena))
        audit.record(
            team=arena.team, by=by, action="deleted an arena", subject=arena, arena=arena.slug
        )
