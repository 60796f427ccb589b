"""Calls written down before any is made; each identity is created once."""

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import Sum

from arena.calls import booking
from arena.calls.models import Call
from arena.calls.models.calls import CallQuerySet
from arena.calls.pausing import wake_failed

BATCH = 500


@transaction.atomic
def create_calls(*, drafts: Sequence[Call]) -> dict[tuple[str, str, int], Call]:
    """Write `drafts`, keep those that are there already; return all of them by their identity."""
    Call.objects.bulk_create(drafts, batch_size=BATCH, ignore_conflicts=True)
    if not drafts:
        return {}
    wanted = {(draft.asker, draft.subject, draft.sample) for draft in drafts}
    askers, subjects, samples = (set(part) for part in zip(*wanted, strict=True))
    found = Call.objects.filter(asker__in=askers, subject__in=subjects, sample__in=samples)
    by_identity = {(call.asker, call.subject, call.sample): call for call in found}
    return {identity: by_identity[identity] for identity in wanted}


@transaction.atomic
def move_calls(*, call_ids: Sequence[int], run_id: int, now: datetime) -> None:
    """Give calls to another run, with the money they have cost and hold; failed ones wait again.

    A worker may hold one at this moment: what it brings is booked in the new run.
    """
    calls = Call.objects.filter(pk__in=call_ids).exclude(run=run_id)
    ids = list(calls.order_by("pk").select_for_update(of=("self",)).values_list("pk", flat=True))
    moved = Call.objects.filter(pk__in=ids)
    _move_money(moved, run_id)
    moved.update(run=run_id)
    wake_failed(Call.objects.filter(pk__in=call_ids), now)


def _move_money(moved: CallQuerySet, run_id: int) -> None:
    """Take what the calls have cost and hold from their runs, and count it in the new one."""
    by_run = moved.order_by("run").values_list("run")
    for old, *amounts in by_run.annotate(Sum("reserved"), Sum("cost"), Sum("uncertain")):
        reserved, cost, uncertain = map(int, amounts)
        if old is not None:
            booking.move(old, reserved=-reserved, cost=-cost, uncertain=-uncertain)
        booking.move(run_id, reserved=reserved, cost=cost, uncertain=uncertain)
