"""What the watch does of its own accord: it looks at finished calls, spends little, goes on."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from arena.calls.models import Call
from judges.models import DriftCheck, DriftCheckSet, Epoch, Judge, LabelSet
from judges.services.drift import run_drift_checks, start_drift_checks
from tests.factories import make_arena
from tests.judges.fake_server import FakeServer, prefers
from tests.judges.helpers import LOCAL, epoch_of, judging, order, pair_row, store_labels, work_off

pytestmark = [pytest.mark.slow, pytest.mark.django_db]
NOW = timezone.now().replace(hour=12)


@pytest.fixture
def pairs(tmp_path: Path, local: FakeServer) -> LabelSet:
    local.otherwise = judging(prefers("GOOD"))
    return store_labels(tmp_path, [pair_row(i) for i in range(10)])


def watched(pairs: LabelSet, judge: str = LOCAL) -> DriftCheckSet:
    """A canary whose baseline is asked and evaluated."""
    made = start_drift_checks(epoch=epoch_of(judge), labels_in=pairs, cap=10**9, now=NOW)
    work_off(made.checks.get().run)
    run_drift_checks(now=NOW)
    return made


def whys() -> list[str]:
    return list(DriftCheck.objects.order_by("pk").values_list("why", flat=True))


def name(call: Call, fingerprint: str, finished_at: datetime | None) -> None:
    fields = {"model_returned": "judge-7b-2024-07-01", "fingerprint": fingerprint}
    Call.objects.filter(pk=call.pk).update(finished_at=finished_at, **fields)


def test_a_call_that_was_never_finished_does_not_hide_a_change(pairs: LabelSet) -> None:
    watched(pairs)
    asked, finished = order(make_arena(2, 1), LOCAL, per_pair=1).calls.order_by("pk")
    name(asked, "fp_1", None)
    name(finished, "fp_9", timezone.now())
    run_drift_checks(now=NOW)
    assert whys() == ["baseline", "changed"]


def test_a_call_that_was_never_finished_is_not_what_the_baseline_was_answered_by(
    pairs: LabelSet,
) -> None:
    made = start_drift_checks(epoch=epoch_of(), labels_in=pairs, cap=10**9, now=NOW)
    run = made.checks.get().run
    work_off(run)
    name(run.calls.order_by("pk")[0], "fp_0", None)
    run_drift_checks(now=NOW)
    assert Epoch.objects.get().fingerprint == "fp_1"


def test_a_server_that_never_names_the_same_twice_is_checked_once_a_day(pairs: LabelSet) -> None:
    watched(pairs)
    calls = order(make_arena(2, 3), LOCAL, per_pair=3).calls.order_by("pk")
    for number, call in enumerate(calls):
        name(call, f"fp_x{number}", timezone.now() + timedelta(hours=number))
        now = NOW + timedelta(hours=number)
        run_drift_checks(now=now)
        check = DriftCheck.objects.latest("pk")
        work_off(check.run)
        run_drift_checks(now=now)
    assert whys() == ["baseline", "changed"]
    run_drift_checks(now=NOW + timedelta(days=1))
    assert whys() == ["baseline", "changed", "changed"]


def test_a_judge_without_its_rubric_does_not_end_the_watch_for_others(
    pairs: LabelSet, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = watched(pairs), watched(pairs, "scripted")
    Judge.objects.filter(pk=first.judge_id).update(rubric="gone")
    run_drift_checks(now=NOW + timedelta(days=8))
    assert first.checks.count() == 1
    assert second.checks.count() == 2
    assert f"Drift check set {first.pk} could not be asked: " in caplog.text
