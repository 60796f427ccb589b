"""Drift checks: whether a judge is still the one that was calibrated. It judges the same labelled
pairs again.

A frozen set of labelled pairs is judged once as the baseline. All of it is judged again when the
server names a model or fingerprint that no earlier check saw (once a day at most), and weekly
otherwise; on other days a sample of 20 is. A baseline that was cancelled, or that has no verdict,
is retried the next day, because checks need one. If McNemar's test says that the judge now agrees
with people on different items, its epoch ends, and so does trust in it; the next epoch starts with
a baseline of its own.

Everything is derived from rows, so two schedulers at once start one check, and a killed one none.
"""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q, QuerySet

from arena.calls.models import Call
from arena.errors import ServiceError
from arena.models import Run
from arena.outcomes import BOTH_BAD, TIE
from arena.services.runs import cancel_run
from judges.core.calibration.items import majority
from judges.core.calibration.trust import DriftMonitor, count_changed, drift_alarm
from judges.core.rubric import RubricError
from judges.core.spec import SpecError
from judges.models import DriftCheck, DriftCheckSet, Epoch, Judge, Judgement, LabelItem, LabelSet
from judges.services.calibration_items import DRIFT_CHECK_SAMPLES, labels_of, settled_judgements
from judges.services.label_runs import order_label_run
from judges.services.labels import drawn
from judges.services.registry import JudgeError, begin_next_epoch
from judges.services.trust import settle_juries_with, settle_trust

MOST_ITEMS = 200
DAILY_ITEMS = 20
WEEK = timedelta(days=7)
Why = DriftCheck.Why
PAIRS_ONLY = "Drift checks need labelled pairs; these labels are scores of single answers."
SERVER = ("model_returned", "fingerprint")
CANNOT_BE_ASKED = (ServiceError, RubricError, SpecError)
logger = logging.getLogger(__name__)


@transaction.atomic
def start_drift_checks(
    *, epoch: Epoch, labels_in: LabelSet, cap: int, now: datetime
) -> DriftCheckSet:
    """Freeze a set of labelled pairs for a judge's drift checks, and order the baseline.

    `cap` is what each check may cost, in nano-dollars. If the judge already has checks on the same
    set, only the cap changes, and they continue with their baseline. Raises JudgeError.
    """
    if labels_in.kind != LabelSet.Kind.PAIRS:
        raise JudgeError(PAIRS_ONLY)
    check_set = DriftCheckSet.objects.select_for_update().filter(judge=epoch.judge).first()
    if check_set is None:
        check_set = DriftCheckSet(judge=epoch.judge, label_set=labels_in, set_at=now)
    elif check_set.label_set_id != labels_in.pk:
        check_set.label_set, check_set.set_at = labels_in, now
    check_set.cap, check_set.stopped_at = cap, None
    check_set.save()
    if not any(_is_or_becomes_baseline(check) for check in _checks_of_epoch(check_set, epoch)):
        _begin_check(check_set, epoch, Why.BASELINE, now)
    return check_set


@transaction.atomic
def stop_drift_checks(*, judge: Judge, now: datetime) -> bool:
    """Stop a judge's drift checks and cancel the one under way; False if there are none."""
    active = DriftCheckSet.objects.filter(judge=judge, stopped_at=None)
    if not active.update(stopped_at=now):
        return False
    for check in DriftCheck.objects.filter(canary__judge=judge, evaluated_at=None):
        cancel_run(run_id=check.run_id, now=now)
    return True


def drift_check_items(check_set: DriftCheckSet) -> list[LabelItem]:
    """Return the frozen items: at most 200 of the set, drawn by seed, the same ones every time."""
    return drawn(list(check_set.label_set.items.all()), MOST_ITEMS, "canary")


def run_drift_checks(*, now: datetime) -> None:
    """Evaluate the checks that are complete, and begin those that are due.

    A judge that cannot be asked is logged and does not delay others.
    """
    active = DriftCheckSet.objects.filter(stopped_at=None).order_by("pk")
    for check_set_id in active.values_list("pk", flat=True):
        try:
            evaluate_drift_checks(check_set_id=check_set_id, now=now)
            begin_drift_check_if_due(check_set_id=check_set_id, now=now)
        except CANNOT_BE_ASKED as error:
            logger.warning("Drift check set %s could not be started: %s", check_set_id, error)


@transaction.atomic
def begin_drift_check_if_due(*, check_set_id: int, now: datetime) -> DriftCheck | None:
    """Begin a check in the judge's open epoch, if one is due. Raises JudgeError.

    The set's row is locked: of two schedulers, the second finds the check of the first.
    """
    check_set = DriftCheckSet.objects.select_for_update(of=("self",)).get(pk=check_set_id)
    epoch = Epoch.objects.open().select_related("judge", "rater").get(judge=check_set.judge_id)
    if check_set.stopped_at is not None:
        return None
    why = _reason_due(check_set, epoch, now)
    return None if why is None else _begin_check(check_set, epoch, why, now)


def _reason_due(check_set: DriftCheckSet, epoch: Epoch, now: datetime) -> str | None:
    checks = _checks_of_epoch(check_set, epoch)
    if pending := [check for check in checks if check.evaluated_at is None]:
        _log_paused_checks(pending)
        return None
    today = [check for check in checks if check.begun_at.date() == now.date()]
    if not any(map(_is_baseline, checks)):
        # Once a day at most: neither a cancelled baseline nor a server that is down is retried
        # sooner.
        return None if today else Why.BASELINE
    full_checks = [check for check in checks if check.why != Why.DAILY]
    if _server_changed(epoch, full_checks) and not any(check.why == Why.CHANGED for check in today):
        return Why.CHANGED
    if abs(now - full_checks[-1].begun_at) >= WEEK:  # in the future, if the clock was ahead
        return Why.WEEKLY
    return None if today else Why.DAILY


def _log_paused_checks(pending: Sequence[DriftCheck]) -> None:
    for check in pending:
        if check.run.state == Run.State.PAUSED:
            judge, reason = check.epoch, check.run.pause_reason
            logger.warning("The drift check of %s is waiting: its run paused. %s", judge, reason)


def _checks_of_epoch(check_set: DriftCheckSet, epoch: Epoch) -> list[DriftCheck]:
    """The checks of an epoch since the set was frozen, in the order in which they were begun."""
    checks = check_set.checks.filter(epoch=epoch, begun_at__gte=check_set.set_at)
    return list(checks.select_related("run", "epoch__judge").order_by("begun_at", "pk"))


def _is_baseline(check: DriftCheck) -> bool:
    """Whether others can be compared with it: not if it was cancelled, or has no verdict."""
    cancelled = check.run.state == Run.State.CANCELLED
    return check.why == Why.BASELINE and check.n > 0 and not cancelled


def _is_or_becomes_baseline(check: DriftCheck) -> bool:
    under_way = check.evaluated_at is None and check.run.state != Run.State.CANCELLED
    return _is_baseline(check) or (check.why == Why.BASELINE and under_way)


def _server_changed(epoch: Epoch, full_checks: Sequence[DriftCheck]) -> bool:
    """Whether the newest reply names a model or fingerprint that no full check of the epoch saw.

    A server that alternates between two fingerprints is checked once for each.
    """
    replied = _replied_calls(epoch)
    newest = replied.order_by("-finished_at", "-pk").values_list(*SERVER).first()
    checked = replied.filter(sample__in=[check.sample for check in full_checks])
    return newest is not None and newest not in set(checked.values_list(*SERVER).distinct())


def _replied_calls(epoch: Epoch) -> QuerySet[Call]:
    """Finished calls only: PostgreSQL would sort one that was never finished as the newest."""
    finished = Call.objects.filter(requester=epoch.requester, finished_at__isnull=False)
    return finished.exclude(model_returned="")


def _begin_check(check_set: DriftCheckSet, epoch: Epoch, why: str, now: datetime) -> DriftCheck:
    samples = check_set.checks.filter(epoch=epoch).order_by("-sample")
    last = samples.values_list("sample", flat=True).first()
    sample = DRIFT_CHECK_SAMPLES if last is None else last + 1
    items = drift_check_items(check_set)
    if why == Why.DAILY:
        today = now.date().isoformat()  # so that another sample is drawn every day
        digests = {item: hashlib.sha256(f"{today} {item.key}".encode()).digest() for item in items}
        items = sorted(items, key=digests.__getitem__)[:DAILY_ITEMS]
    run = order_label_run(epoch=epoch, items=items, cap=check_set.cap, now=now, samples=(sample,))
    return DriftCheck.objects.create(
        canary=check_set, epoch=epoch, run=run, sample=sample, why=why, begun_at=now
    )


def evaluate_drift_checks(*, check_set_id: int, now: datetime) -> None:
    """Compare the checks that are complete with the baseline of their epoch."""
    pending = DriftCheck.objects.filter(canary=check_set_id, evaluated_at=None)
    pending = pending.select_related("run", "epoch__judge", "epoch__rater", "canary__label_set")
    for check in pending.order_by("pk"):
        if _is_complete(check):
            evaluate(check=check, now=now)


def _is_complete(check: DriftCheck) -> bool:
    if check.run.state == Run.State.CANCELLED:
        return True
    asked = check.epoch.judgements.filter(sample=check.sample, item__isnull=False)
    return not asked.filter(state=Judgement.State.WAITING).exists()


@transaction.atomic
def evaluate(*, check: DriftCheck, now: datetime) -> None:
    """Store the result of a check; an alarm ends the epoch. A second call changes nothing."""
    row = DriftCheck.objects.filter(pk=check.pk)
    if not row.filter(evaluated_at=None).update(evaluated_at=now):
        return
    verdicts = _verdicts_by_item(check)
    if check.why == Why.BASELINE:
        if server := _newest_server(check):
            model, fingerprint = server
            Epoch.objects.filter(pk=check.epoch_id).update(
                model_returned=model, fingerprint=fingerprint
            )
        row.update(n=sum(verdict is not None for verdict in verdicts.values()))
        return
    baseline = next(filter(_is_baseline, _checks_of_epoch(check.canary, check.epoch)), None)
    before = _verdicts_by_item(baseline) if baseline else {}
    majorities = _majorities(check.canary.label_set)
    drift = drift_alarm(_agreements(before, majorities), _agreements(verdicts, majorities))
    row.update(
        n=drift.n,
        only_before=drift.only_before,
        only_now=drift.only_now,
        changed=count_changed(before, verdicts),
        p=drift.p,
        alarm=drift.alarm,
    )
    if drift.alarm and check.epoch.ended_at is None:
        _end_epoch(check, drift, now)


def _verdicts_by_item(check: DriftCheck) -> dict[str, str | None]:
    """Map the items that a check has settled to its verdicts; None for one without."""
    settled = settled_judgements(check.epoch, check.canary.label_set, Q(sample=check.sample))
    return {str(item): samples[check.sample].outcome for item, samples in settled.items()}


def _majorities(labels_in: LabelSet) -> dict[str, str]:
    """Map each item to the outcome that more people chose than any other, if there is one."""
    majorities = {}
    for item, labels in labels_of(labels_in, "outcome").items():
        outcomes = [TIE if outcome == BOTH_BAD else outcome for _, outcome in labels]
        if leading := majority(outcomes):
            majorities[str(item)] = leading[0]
    return majorities


def _agreements(
    verdicts: Mapping[str, str | None], majorities: Mapping[str, str]
) -> dict[str, bool]:
    return {
        item: verdict == majorities[item]
        for item, verdict in verdicts.items()
        if verdict is not None and item in majorities
    }


def _end_epoch(check: DriftCheck, drift: DriftMonitor, now: datetime) -> None:
    """Begin the judge's next epoch; neither the old nor the new one is trusted."""
    server = _newest_server(check)
    reason = (
        f"Drift alarm on {now.date().isoformat()}: of {drift.n} labelled pairs, the judge agreed "
        f"with people on {drift.only_before} only before and on {drift.only_now} only now (p = "
        f"{drift.p:.2g})."
        + (f" The server names {' '.join(filter(None, server))}." if server else "")
    )
    next_epoch = begin_next_epoch(epoch=check.epoch, reason=reason, now=now)
    check.epoch.refresh_from_db()
    settle_trust(epoch=check.epoch, now=now)
    settle_trust(epoch=next_epoch, now=now)
    settle_juries_with(judge=next_epoch.judge, now=now)


def _newest_server(check: DriftCheck) -> tuple[str, str] | None:
    """The model and the fingerprint that the newest reply of a check names."""
    replies = _replied_calls(check.epoch).filter(sample=check.sample)
    return replies.order_by("-finished_at", "-pk").values_list(*SERVER).first()
