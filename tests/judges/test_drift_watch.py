"""Drift checks need a baseline, look at other finished calls, spend little, and go on."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from arena.calls.models import Call
from arena.services.runs import cancel_run
from judges.models import DriftCheck, DriftCheckSet, Epoch, Judge, LabelSet
from judges.services.drift import run_drift_checks, start_drift_checks, stop_drift_checks
from tests.factories import make_arena
from tests.judges.fake_server import FakeServer, prefers, says
from tests.judges.helpers import (
    LOCAL,
    answer_verdicts,
    check_drift,
    drift_reasons,
    epoch_of,
    judge_call,
    order,
    pair_row,
    store_labels,
    work_off,
)

pytestmark = [pytest.mark.any_database, pytest.mark.slow, pytest.mark.django_db]
NOW = timezone.now().replace(hour=12)
DAY = timedelta(days=1)


def start_checks(thirty_pairs: LabelSet, now: datetime = NOW) -> DriftCheckSet:
    return start_drift_checks(epoch=epoch_of(), labels_in=thirty_pairs, cap=10**9, now=now)


def checks() -> list[tuple[str, int]]:
    return list(DriftCheck.objects.order_by("pk").values_list("why", "n"))


def test_a_cancelled_baseline_is_asked_again_and_detects_change(
    thirty_pairs: LabelSet, local: FakeServer
) -> None:
    start_checks(thirty_pairs)
    cancel_run(run_id=DriftCheck.objects.get().run_id, now=NOW)
    run_drift_checks(now=NOW)
    check_drift(NOW + DAY)
    assert checks() == [("baseline", 0), ("baseline", 30)]
    local.otherwise = answer_verdicts(prefers(", in my view"))
    assert check_drift(NOW + 2 * DAY).alarm
    assert Epoch.objects.count() == 2


def test_half_asked_cancelled_baseline_does_not_count(thirty_pairs: LabelSet) -> None:
    start_checks(thirty_pairs)
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


def test_setting_it_after_a_stop_begins_a_baseline(thirty_pairs: LabelSet) -> None:
    made = start_checks(thirty_pairs)
    stop_drift_checks(judge=made.judge, now=NOW)
    start_checks(thirty_pairs, NOW + timedelta(minutes=1))
    again = check_drift(NOW + timedelta(minutes=2))
    assert checks() == [("baseline", 0), ("baseline", 30)]
    assert again.run.state == "done"
    assert check_drift(NOW + DAY).why == "daily"


def test_setting_it_twice_waits_for_the_baseline_under_way(thirty_pairs: LabelSet) -> None:
    start_checks(thirty_pairs)
    start_checks(thirty_pairs, NOW + timedelta(minutes=1))
    assert checks() == [("baseline", 0)]


def test_a_baseline_without_any_verdict_is_asked_anew_once_a_day(
    thirty_pairs: LabelSet, local: FakeServer
) -> None:
    local.otherwise = answer_verdicts(says("I would rather not."))
    start_checks(thirty_pairs)
    for minutes in (0, 60, 120):
        check_drift(NOW + timedelta(minutes=minutes))
    assert checks() == [("baseline", 0)]
    local.otherwise = answer_verdicts(prefers("GOOD"))
    check_drift(NOW + DAY)
    assert checks() == [("baseline", 0), ("baseline", 30)]
    assert check_drift(NOW + 8 * DAY).n == 30


@pytest.fixture
def ten_pairs(tmp_path: Path, local: FakeServer) -> LabelSet:
    local.otherwise = answer_verdicts(prefers("GOOD"))
    return store_labels(tmp_path, [pair_row(i) for i in range(10)])


def watched(ten_pairs: LabelSet, judge: str = LOCAL) -> DriftCheckSet:
    """A canary whose baseline is asked and evaluated."""
    made = start_drift_checks(epoch=epoch_of(judge), labels_in=ten_pairs, cap=10**9, now=NOW)
    work_off(made.checks.get().run)
    run_drift_checks(now=NOW)
    return made


def name_model(call: Call, fingerprint: str, finished_at: datetime | None) -> None:
    fields = {"model_returned": "judge-7b-2024-07-01", "fingerprint": fingerprint}
    Call.objects.filter(pk=call.pk).update(finished_at=finished_at, **fields)


def test_a_call_that_was_never_finished_does_not_hide_a_change(ten_pairs: LabelSet) -> None:
    watched(ten_pairs)
    asked, finished = order(make_arena(2, 1), LOCAL, per_pair=1).calls.order_by("pk")
    name_model(asked, "fp_1", None)
    name_model(finished, "fp_9", timezone.now())
    run_drift_checks(now=NOW)
    assert drift_reasons() == ["baseline", "changed"]


def test_unfinished_call_does_not_set_the_fingerprint(ten_pairs: LabelSet) -> None:
    made = start_drift_checks(epoch=epoch_of(), labels_in=ten_pairs, cap=10**9, now=NOW)
    run = made.checks.get().run
    work_off(run)
    name_model(run.calls.order_by("pk")[0], "fp_0", None)
    run_drift_checks(now=NOW)
    assert Epoch.objects.get().fingerprint == "fp_1"


def test_ever_changing_fingerprint_is_checked_once_a_day(ten_pairs: LabelSet) -> None:
    watched(ten_pairs)
    calls = order(make_arena(2, 3), LOCAL, per_pair=3).calls.order_by("pk")
    for number, call in enumerate(calls):
        name_model(call, f"fp_x{number}", timezone.now() + timedelta(hours=number))
        now = NOW + timedelta(hours=number)
        run_drift_checks(now=now)
        check = DriftCheck.objects.latest("pk")
        work_off(check.run)
        run_drift_checks(now=now)
    assert drift_reasons() == ["baseline", "changed"]
    run_drift_checks(now=NOW + timedelta(days=1))
    assert drift_reasons() == ["baseline", "changed", "changed"]


def test_missing_rubric_does_not_stop_checks_of_others(
    ten_pairs: LabelSet, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = watched(ten_pairs), watched(ten_pairs, "scripted")
    Judge.objects.filter(pk=first.judge_id).update(rubric="gone")
    run_drift_checks(now=NOW + timedelta(days=8))
    assert first.checks.count() == 1
    assert second.checks.count() == 2
    assert f"Drift check set {first.pk} could not be started: " in caplog.text
