"""Ordering runs and working them off without a queue."""

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from arena.calls.models import Call
from arena.models import Arena, Run
from judges.models import DriftCheck
from judges.services.calls import judge_call, settle_ready
from judges.services.drift import run_drift_checks
from judges.services.planning import OrderOptions, Which, prepare_order
from judges.services.registry import DEFAULT_SWITCHES, Switches, spec_named
from judges.services.runs import order_run

LOCAL = "local:judge-7b-2024-07-01"


def order(
    arena: Arena,
    *judges: str,
    per_pair: int = 2,
    cap: int | None = None,
    switches: Switches = DEFAULT_SWITCHES,
    pairs: Which = "all",
    like_run: Run | None = None,
    **fields: Any,
) -> Run:
    """Order a run of these judges; several are a jury."""
    specs = [spec_named(name, switches) for name in judges or (LOCAL,)]
    wanted = OrderOptions(per_pair, pairs, like_run=like_run)
    prepared = prepare_order(arena=arena, specs=specs, options=wanted, **fields)
    return order_run(order=prepared, cap=cap, now=timezone.now())


def work_off(run: Run, rounds: int = 20) -> Run:
    """Make every call of a run, and those that are to be tried again as if their time had come."""
    for _ in range(rounds):
        calls = Call.objects.filter(run=run).in_progress()
        for call_id in calls.order_by("pk").values_list("pk", flat=True):
            judge_call(call_id=call_id)
        if not calls.exists():
            break
        Call.objects.filter(run=run, state="waiting").update(due_at=timezone.now())
    settle_ready(now=timezone.now())
    run.refresh_from_db()
    return run


def beat(now: datetime) -> DriftCheck:
    """Begin the canary's check that is due, work it off, and evaluate it with the next beat."""
    run_drift_checks(now=now)
    check = DriftCheck.objects.order_by("pk").last()
    assert check is not None
    work_off(check.run)
    run_drift_checks(now=now)
    check.refresh_from_db()
    return check


def expire_leases(run: Run) -> None:
    past = timezone.now() - timedelta(seconds=1)
    Call.objects.filter(run=run, state="running").update(lease_expires_at=past, ring_after=past)
