"""A canary hears nothing without a baseline: one that was cancelled or is empty is asked anew."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from arena.calls.runs import cancel_run
from judges.models import DriftCheck, DriftCheckSet, Epoch, LabelSet
from judges.services.calls import judge_call
from judges.services.drift import run_drift_checks, start_drift_checks, stop_drift_checks
from tests.judges.fake_server import FakeServer, prefers, says
from tests.judges.helpers import check_drift, epoch_of, judging, pair_row, store_labels

pytestmark = [pytest.mark.slow, pytest.mark.django_db]
NOW = timezone.now().replace(hour=12)
DAY = timedelta(days=1)


@pytest.fixture
def pairs(tmp_path: Path, local: FakeServer) -> LabelSet:
    """Thirty pairs, and a judge that is right on all of them."""
    local.otherwise = judging(prefers("GOOD"))
    return store_labels(tmp_path, [pair_row(i) for i in range(30)])


def set_on(pairs: LabelSet, now: datetime = NOW) -> DriftCheckSet:
    return start_drift_checks(epoch=epoch_of(), labels_in=pairs, cap=10**9, now=now)


def checks() -> list[tuple[str, int]]:
    return list(DriftCheck.objects.order_by("pk").values_list("why", "n"))


def test_a_cancelled_baseline_is_asked_anew_and_then_hears_the_change(
    pairs: LabelSet, local: FakeServer
) -> None:
    set_on(pairs)
    cancel_run(run_id=DriftCheck.objects.get().run_id, now=NOW)
    run_drift_checks(now=NOW)
    check_drift(NOW + DAY)
    assert checks() == [("baseline", 0), ("baseline", 30)]
    local.otherwise = judging(prefers(", in my view"))
    assert check_drift(NOW + 2 * DAY).alarm
    assert Epoch.objects.count() == 2


def test_a_baseline_that_was_half_asked_when_it_was_cancelled_is_none(pairs: LabelSet) -> None:
    set_on(pairs)
    run = DriftCheck.objects.get().run
    run.calls.update(due_at=timezone.now())
    for judgement in run.judgements.order_by("pk")[:10]:
        judge_call(call_id=judgement.forward_id)
        judge_call(call_id=judgement.reverse_id)
    cancel_run(run_id=run.pk, now=NOW)
    run_drift_checks(now=NOW)
    assert checks() == [("baseline", 10)]
    assert check_drift(NOW + DAY).why == "baseline"
    assert checks() == [("baseline", 10), ("baseline", 30)]


def test_setting_it_again_after_a_stop_begins_the_baseline_at_once(pairs: LabelSet) -> None:
    made = set_on(pairs)
    stop_drift_checks(judge=made.judge, now=NOW)
    set_on(pairs, NOW + timedelta(minutes=1))
    again = check_drift(NOW + timedelta(minutes=2))
    assert checks() == [("baseline", 0), ("baseline", 30)]
    assert again.run.state == "done"
    assert check_drift(NOW + DAY).why == "daily"


def test_setting_it_twice_waits_for_the_baseline_under_way(pairs: LabelSet) -> None:
    set_on(pairs)
    set_on(pairs, NOW + timedelta(minutes=1))
    assert checks() == [("baseline", 0)]


def test_a_baseline_without_any_verdict_is_asked_anew_once_a_day(
    pairs: LabelSet, local: FakeServer
) -> None:
    local.otherwise = judging(says("I would rather not."))
    set_on(pairs)
    for minutes in (0, 60, 120):
        check_drift(NOW + timedelta(minutes=minutes))
    assert checks() == [("baseline", 0)]
    local.otherwise = judging(prefers("GOOD"))
    check_drift(NOW + DAY)
    assert checks() == [("baseline", 0), ("baseline", 30)]
    assert check_drift(NOW + 8 * DAY).n == 30
