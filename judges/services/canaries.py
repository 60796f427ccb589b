"""Hearing whether a judge is still the judge that was measured: the same labelled pairs, again.

A frozen set is asked once (the baseline), again when the server names another model or another
fingerprint than any check has seen, though for that reason once a day at most, and weekly
otherwise; on other days a sample of 20 is. A baseline that was cancelled, or that brought no
verdict, is asked anew on the next day, for without one nothing is ever heard. Where
McNemar's test says that the judge agrees with people on other items than it did, its epoch ends,
and with it all trust; the next one starts with a baseline of its own.

Everything is derived from rows, so two beats at once make one check, and a killed one none.
"""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q, QuerySet

from arena.calls.models import Call
from arena.calls.services import cancel_run
from arena.models import Run
from judges.core.calibration import Canary as Compared
from judges.core.calibration import canary_alarm, verdict_drift
from judges.core.calibration.items import majority
from judges.core.rubric import RubricError
from judges.core.spec import SpecError
from judges.models import Canary, CanaryCheck, Epoch, Judge, Judgement, LabelItem, LabelSet
from judges.services.labelling import drawn
from judges.services.readings import CANARY_SAMPLES, labels_of, said_of_items
from judges.services.registering import JudgeRefused, begin_next_epoch
from judges.services.trials import order_trials
from judges.services.trusting import settle_juries_with, settle_trust

MOST_ITEMS = 200
DAILY_ITEMS = 20
WEEK = timedelta(days=7)
Why = CanaryCheck.Why
PAIRS_ONLY = "A canary is made of labelled pairs; these labels are scores of single answers."
SERVER = ("model_returned", "fingerprint")
CANNOT_BE_ASKED = (JudgeRefused, RubricError, SpecError)
logger = logging.getLogger(__name__)


@transaction.atomic
def set_canary(*, epoch: Epoch, labels_in: LabelSet, cap: int, now: datetime) -> Canary:
    """Freeze a set of labelled pairs for a judge, and ask it for the first time.

    `cap` is what each check may cost, in nano-dollars. Where the same set is the judge's canary
    already, only the cap changes, and it goes on with the baseline it has, or that is under way.
    Raises JudgeRefused.
    """
    if labels_in.kind != LabelSet.Kind.PAIRS:
        raise JudgeRefused(PAIRS_ONLY)
    canary = Canary.objects.select_for_update().filter(judge=epoch.judge).first()
    if canary is None:
        canary = Canary(judge=epoch.judge, label_set=labels_in, set_at=now)
    elif canary.label_set_id != labels_in.pk:
        canary.label_set, canary.set_at = labels_in, now
    canary.cap, canary.stopped_at = cap, None
    canary.save()
    if not any(_is_or_becomes_baseline(check) for check in _checks(canary, epoch)):
        _begin(canary, epoch, Why.BASELINE, now)
    return canary


@transaction.atomic
def stop_canary(*, judge: Judge, now: datetime) -> bool:
    """Ask a judge's canary no more, and cancel the check under way; False where there is none."""
    running = Canary.objects.filter(judge=judge, stopped_at=None)
    if not running.update(stopped_at=now):
        return False
    for check in CanaryCheck.objects.filter(canary__judge=judge, evaluated_at=None):
        cancel_run(run_id=check.run_id, now=now)
    return True


def canary_items(canary: Canary) -> list[LabelItem]:
    """Return the frozen items: at most 200 of the set, drawn by seed, the same ones every time."""
    return drawn(list(canary.label_set.items.all()), MOST_ITEMS, "canary")


def watch(*, now: datetime) -> None:
    """Evaluate the checks that are through, and begin those that are due.

    A judge that cannot be asked is logged, and holds back no other.
    """
    running = Canary.objects.filter(stopped_at=None).order_by("pk")
    for canary_id in running.values_list("pk", flat=True):
        try:
            evaluate_checks(canary_id=canary_id, now=now)
            begin_check_if_due(canary_id=canary_id, now=now)
        except CANNOT_BE_ASKED as refused:
            logger.warning("Canary %s could not be asked: %s", canary_id, refused)


# -- Beginning -------------------------------------------------------------------------------------


@transaction.atomic
def begin_check_if_due(*, canary_id: int, now: datetime) -> CanaryCheck | None:
    """Begin one check in the judge's open epoch, if one is due. Raises JudgeRefused.

    The canary's row is locked: of two beats the second finds the check of the first.
    """
    canary = Canary.objects.select_for_update(of=("self",)).get(pk=canary_id)
    epoch = Epoch.objects.open().select_related("judge", "rater").get(judge=canary.judge_id)
    if canary.stopped_at is not None:
        return None
    why = _due(canary, epoch, now)
    return None if why is None else _begin(canary, epoch, why, now)


def _due(canary: Canary, epoch: Epoch, now: datetime) -> str | None:
    checks = _checks(canary, epoch)
    if pending := [check for check in checks if check.evaluated_at is None]:
        _tell_paused(pending)
        return None
    today = [check for check in checks if check.begun_at.date() >= now.date()]
    if not any(map(_is_baseline, checks)):
        # Once a day at most: whoever cancelled one, or whose server is out, is asked no sooner.
        return None if today else Why.BASELINE
    whole = [check for check in checks if check.why != Why.DAILY]
    if _server_changed(epoch, whole) and not any(check.why == Why.CHANGED for check in today):
        return Why.CHANGED
    if now - whole[-1].begun_at >= WEEK:
        return Why.WEEKLY
    return None if today else Why.DAILY


def _tell_paused(pending: Sequence[CanaryCheck]) -> None:
    for check in pending:
        if check.run.state == Run.State.PAUSED:
            judge, reason = check.epoch, check.run.pause_reason
            logger.warning("The canary of %s waits, its check has paused: %s", judge, reason)


def _checks(canary: Canary, epoch: Epoch) -> list[CanaryCheck]:
    """The checks of an epoch since the canary was set, in the order in which they were begun."""
    found = canary.checks.filter(epoch=epoch, begun_at__gte=canary.set_at)
    return list(found.select_related("run", "epoch__judge").order_by("begun_at", "pk"))


def _is_baseline(check: CanaryCheck) -> bool:
    """Can others be compared with it? A cancelled one, or one without a verdict, says nothing."""
    cancelled = check.run.state == Run.State.CANCELLED
    return check.why == Why.BASELINE and check.n > 0 and not cancelled


def _is_or_becomes_baseline(check: CanaryCheck) -> bool:
    under_way = check.evaluated_at is None and check.run.state != Run.State.CANCELLED
    return _is_baseline(check) or (check.why == Why.BASELINE and under_way)


def _server_changed(epoch: Epoch, whole: Sequence[CanaryCheck]) -> bool:
    """Does the newest reply name a model or fingerprint that no whole check of the epoch saw?

    A server that takes turns between two fingerprints is checked once for each.
    """
    replied = _replied(epoch)
    newest = replied.order_by("-finished_at", "-pk").values_list(*SERVER).first()
    seen = replied.filter(sample__in=[check.sample for check in whole])
    return newest is not None and newest not in set(seen.values_list(*SERVER).distinct())


def _replied(epoch: Epoch) -> QuerySet[Call]:
    """Finished calls only: PostgreSQL would sort one that was never finished as the newest."""
    replied = Call.objects.filter(asker=epoch.asker, finished_at__isnull=False)
    return replied.exclude(model_returned="")


def _begin(canary: Canary, epoch: Epoch, why: str, now: datetime) -> CanaryCheck:
    used = canary.checks.filter(epoch=epoch).order_by("-sample").values_list("sample", flat=True)
    last = used.first()
    sample = CANARY_SAMPLES if last is None else last + 1
    items = canary_items(canary)
    if why == Why.DAILY:
        items = sorted(items, key=lambda item: _draw(now, item))[:DAILY_ITEMS]
    run = order_trials(epoch=epoch, items=items, cap=canary.cap, now=now, samples=(sample,))
    return CanaryCheck.objects.create(
        canary=canary, epoch=epoch, run=run, sample=sample, why=why, begun_at=now
    )


def _draw(now: datetime, item: LabelItem) -> bytes:
    return hashlib.sha256(f"{now.date().isoformat()} {item.key}".encode()).digest()


# -- Evaluating ------------------------------------------------------------------------------------


def evaluate_checks(*, canary_id: int, now: datetime) -> None:
    """Compare the checks that are through with the baseline of their epoch."""
    waiting = CanaryCheck.objects.filter(canary=canary_id, evaluated_at=None)
    chosen = waiting.select_related("run", "epoch__judge", "epoch__rater", "canary__label_set")
    for check in chosen.order_by("pk"):
        if _is_over(check):
            evaluate(check=check, now=now)


def _is_over(check: CanaryCheck) -> bool:
    if check.run.state == Run.State.CANCELLED:
        return True
    asked = check.epoch.judgements.filter(sample=check.sample, item__isnull=False)
    return not asked.filter(state=Judgement.State.WAITING).exists()


@transaction.atomic
def evaluate(*, check: CanaryCheck, now: datetime) -> None:
    """Write down what a check found; an alarm ends the epoch. A second call changes nothing."""
    mine = CanaryCheck.objects.filter(pk=check.pk, evaluated_at=None)
    if not mine.update(evaluated_at=now):
        return
    verdicts = _verdicts(check)
    if check.why == Why.BASELINE:
        _remember_server(check)
        decided = sum(verdict is not None for verdict in verdicts.values())
        CanaryCheck.objects.filter(pk=check.pk).update(n=decided)
        return
    baseline = next(filter(_is_baseline, _checks(check.canary, check.epoch)), None)
    before = _verdicts(baseline) if baseline else {}
    right = _majorities(check.canary.label_set)
    found = canary_alarm(_agrees(before, right), _agrees(verdicts, right))
    CanaryCheck.objects.filter(pk=check.pk).update(
        n=found.n,
        only_before=found.only_before,
        only_now=found.only_now,
        changed=verdict_drift(before, verdicts).changed,
        p=found.p,
        alarm=found.alarm,
    )
    if found.alarm and check.epoch.ended_at is None:
        _end_epoch(check, found, now)


def _verdicts(check: CanaryCheck) -> dict[str, str | None]:
    """Map the items that a check has settled to its verdicts; None for one without."""
    said = said_of_items(check.epoch, check.canary.label_set, Q(sample=check.sample))
    return {str(item): runs[check.sample].outcome for item, runs in said.items()}


def _majorities(labels_in: LabelSet) -> dict[str, str]:
    """Map the items on which more people say one thing than any other to what they say."""
    found = {}
    for item, labels in labels_of(labels_in, "outcome").items():
        said = majority(["tie" if one == "both_bad" else one for _, one in labels])
        if said:
            found[str(item)] = said[0]
    return found


def _agrees(verdicts: Mapping[str, str | None], right: Mapping[str, str]) -> dict[str, bool]:
    return {
        item: verdict == right[item]
        for item, verdict in verdicts.items()
        if verdict is not None and item in right
    }


def _end_epoch(check: CanaryCheck, found: Compared, now: datetime) -> None:
    """Begin the judge's next epoch; neither the old nor the new one is trusted."""
    named = _server(check)
    reason = (
        f"The canary of {now.date().isoformat()} rang: of {found.n} labelled pairs it agreed with "
        f"people on {found.only_before} only before and on {found.only_now} only now (p = "
        f"{found.p:.2g})."
        + (f" The server names {' '.join(filter(None, named))}." if named else "")
    )
    begun = begin_next_epoch(epoch=check.epoch, reason=reason, now=now)
    check.epoch.refresh_from_db()
    settle_trust(epoch=check.epoch, now=now)
    settle_trust(epoch=begun, now=now)
    settle_juries_with(judge=begun.judge, now=now)


def _remember_server(check: CanaryCheck) -> None:
    """Note with the epoch which model its baseline was answered by."""
    if named := _server(check):
        model, fingerprint = named
        fields = {"model_returned": model, "fingerprint": fingerprint}
        Epoch.objects.filter(pk=check.epoch_id).update(**fields)


def _server(check: CanaryCheck) -> tuple[str, str] | None:
    """The model and the fingerprint that the newest reply of a check names."""
    replies = _replied(check.epoch).filter(sample=check.sample)
    return replies.order_by("-finished_at", "-pk").values_list(*SERVER).first()
