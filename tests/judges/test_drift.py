"""Drift checks find a changed judge: a baseline, checks when due, an alarm, a new epoch."""

from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError
from django.utils import timezone

from arena.calls.models import Call
from arena.calls.prices import set_price
from arena.models import Run
from judges import tasks
from judges.models import DriftCheck, DriftCheckSet, Epoch, LabelSet
from judges.services.drift import (
    begin_drift_check_if_due,
    drift_check_items,
    run_drift_checks,
    start_drift_checks,
    stop_drift_checks,
)
from judges.services.registry import JudgeError
from tests.judges.fake_server import FakeServer, prefers
from tests.judges.helpers import (
    LOCAL,
    add_endpoint,
    answer_verdicts,
    ask_about,
    check_drift,
    drift_reasons,
    epoch_of,
    pair_row,
    run_command,
    store_labels,
    work_off,
    write_labels,
)

pytestmark = [pytest.mark.slow, pytest.mark.django_db]
NOW = timezone.now()


@pytest.fixture
def checked_judge(thirty_pairs: LabelSet) -> DriftCheckSet:
    """Drift checks whose baseline is asked and evaluated; the judge is right on all pairs."""
    made = start_drift_checks(epoch=epoch_of(), labels_in=thirty_pairs, cap=10**9, now=NOW)
    check_drift(NOW)
    return made


def test_baseline_is_asked_at_once_outside_of_repeats(checked_judge: DriftCheckSet) -> None:
    check = DriftCheck.objects.get()
    assert (check.why, check.sample, check.n, check.alarm) == ("baseline", 1000, 30, False)
    assert check.evaluated_at is not None
    assert check.run.cap == 10**9
    assert set(Call.objects.values_list("sample", flat=True)) == {1000}
    epoch = Epoch.objects.get()
    assert (epoch.model_returned, epoch.fingerprint) == ("judge-7b-2024-07-01", "fp_1")


def test_the_same_day_nothing_more_is_asked(checked_judge: DriftCheckSet) -> None:
    for hours in range(3):
        run_drift_checks(now=NOW.replace(hour=20) + timedelta(hours=hours))
    assert drift_reasons() == ["baseline"]


def test_later_days_ask_other_samples_of_twenty(checked_judge: DriftCheckSet) -> None:
    first = check_drift(NOW + timedelta(days=1))
    second = check_drift(NOW + timedelta(days=2))
    assert drift_reasons() == ["baseline", "daily", "daily"]
    assert [one.run.judgements.count() for one in (first, second)] == [20, 20]
    drawn = [set(one.run.judgements.values_list("item", flat=True)) for one in (first, second)]
    assert drawn[0] != drawn[1]
    assert (first.n, first.p, first.alarm, first.changed) == (20, 1, False, 0)


def test_all_is_retried_after_a_week(checked_judge: DriftCheckSet) -> None:
    check_drift(NOW + timedelta(days=1))
    weekly = check_drift(NOW + timedelta(days=7))
    assert (weekly.why, weekly.n) == ("weekly", 30)


def test_another_fingerprint_is_checked_at_once_and_only_once(
    checked_judge: DriftCheckSet, tmp_path: Path, local: FakeServer
) -> None:
    labels_in = store_labels(tmp_path, [pair_row(i) for i in range(100, 103)])
    ask_about(epoch_of(), labels_in)
    run_drift_checks(now=NOW)
    assert drift_reasons() == ["baseline"]
    local.otherwise = answer_verdicts(renamed(prefers("GOOD"), "judge-7b-2024-08-01"))
    ask_about(epoch_of(), labels_in, samples=(1,))
    check = check_drift(NOW)
    assert (check.why, check.n, check.alarm) == ("changed", 30, False)
    run_drift_checks(now=NOW)
    assert drift_reasons() == ["baseline", "changed"]


def renamed(answer: Any, model: str) -> Any:
    """The same answers, from a server that names another model."""

    def other(body: dict[str, Any]) -> Any:
        sent = answer(body)
        sent.body.model = model
        return sent

    return other


def test_two_beats_make_one_check(checked_judge: DriftCheckSet) -> None:
    later = NOW + timedelta(days=1)
    assert begin_drift_check_if_due(check_set_id=checked_judge.pk, now=later) is not None
    assert begin_drift_check_if_due(check_set_id=checked_judge.pk, now=later) is None
    assert drift_reasons() == ["baseline", "daily"]


def test_a_beat_that_is_killed_leaves_nothing_half_done(
    checked_judge: DriftCheckSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(**facts: Any) -> None:
        raise KeyboardInterrupt

    before = (Run.objects.count(), Call.objects.count())
    with monkeypatch.context() as patched:
        patched.setattr(DriftCheck.objects, "create", killed)
        with pytest.raises(KeyboardInterrupt):
            run_drift_checks(now=NOW + timedelta(days=1))
    assert (Run.objects.count(), Call.objects.count()) == before
    assert check_drift(NOW + timedelta(days=1)).n == 20


def test_a_check_under_way_holds_back_the_next_one(checked_judge: DriftCheckSet) -> None:
    run_drift_checks(now=NOW + timedelta(days=1))
    run_drift_checks(now=NOW + timedelta(days=9))
    assert drift_reasons() == ["baseline", "daily"]


def test_a_check_that_reaches_its_cap_pauses_and_says_so(
    checked_judge: DriftCheckSet, local: FakeServer, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    set_price(
        endpoint="local",
        model="judge-7b-2024-07-01",
        input_usd=Decimal(1000),
        output_usd=Decimal(1000),
        now=NOW,
    )
    run_drift_checks(now=NOW + timedelta(days=1))
    run = DriftCheck.objects.order_by("pk").last().run
    work_off(run)
    run.refresh_from_db()
    assert run.state == "paused"
    assert "cap" in run.pause_reason
    run_drift_checks(now=NOW + timedelta(days=2))
    assert "its run paused. The cap" in caplog.text
    assert drift_reasons() == ["baseline", "daily"]
    assert "paused: The cap" in run_command("canary")


def test_without_a_price_the_beat_continues_and_the_log_says_why(
    checked_judge: DriftCheckSet, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    add_endpoint(settings, "local")
    run_drift_checks(now=NOW + timedelta(days=1))
    assert "judge-7b-2024-07-01 at local has no " in caplog.text
    assert drift_reasons() == ["baseline"]


def test_a_large_set_is_frozen_to_two_hundred_of_its_pairs(
    tmp_path: Path, local: FakeServer
) -> None:
    labels_in = store_labels(tmp_path, [pair_row(i) for i in range(230)])
    made = start_drift_checks(epoch=epoch_of(), labels_in=labels_in, cap=0, now=NOW)
    assert DriftCheck.objects.get().run.judgements.count() == 200
    assert [one.pk for one in drift_check_items(made)] == [
        one.pk for one in drift_check_items(made)
    ]


def test_scores_make_no_drift_check_set(tmp_path: Path, local: FakeServer) -> None:
    labels_in = store_labels(tmp_path, [{"prompt": "Why?", "response": "So.", "score": 3}])
    with pytest.raises(JudgeError, match="labelled pairs"):
        start_drift_checks(epoch=epoch_of(), labels_in=labels_in, cap=0, now=NOW)
    assert not DriftCheckSet.objects.exists()


def test_setting_it_again_changes_the_cap_and_keeps_the_baseline(
    checked_judge: DriftCheckSet,
) -> None:
    same = start_drift_checks(epoch=epoch_of(), labels_in=checked_judge.label_set, cap=7, now=NOW)
    assert (same.pk, same.cap) == (checked_judge.pk, 7)
    assert drift_reasons() == ["baseline"]


def test_another_set_has_a_baseline_of_its_own(
    checked_judge: DriftCheckSet, tmp_path: Path
) -> None:
    other = store_labels(tmp_path, [pair_row(i) for i in range(50, 60)])
    later = NOW + timedelta(hours=1)
    start_drift_checks(epoch=epoch_of(), labels_in=other, cap=7, now=later)
    check = check_drift(later)
    assert (check.why, check.sample, check.n) == ("baseline", 1001, 10)
    assert check_drift(NOW + timedelta(days=1, hours=1)).n == 10


def test_stopped_checks_stay_silent_until_set_again(checked_judge: DriftCheckSet) -> None:
    run_drift_checks(now=NOW + timedelta(days=1))
    assert stop_drift_checks(judge=checked_judge.judge, now=NOW)
    assert not stop_drift_checks(judge=checked_judge.judge, now=NOW)
    assert DriftCheck.objects.order_by("pk").last().run.state == "cancelled"
    run_drift_checks(now=NOW + timedelta(days=8))
    assert drift_reasons() == ["baseline", "daily"]
    start_drift_checks(epoch=epoch_of(), labels_in=checked_judge.label_set, cap=10**9, now=NOW)
    assert check_drift(NOW + timedelta(days=8)).why == "weekly"


@pytest.mark.usefixtures("no_worker")
def test_the_command_sets_lists_and_stops(
    tmp_path: Path, local: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    local.otherwise = answer_verdicts(prefers("GOOD"))
    assert "No judge has drift checks" in run_command("canary")
    path = write_labels(tmp_path, [pair_row(i) for i in range(10)])
    said = run_command("canary", LOCAL, "--labels", path, "--cap", "0.50", "--no-wait")
    assert "10 pairs of labels.jsonl, $0.50 per check; last check on" in said
    assert "(baseline), in progress" in said
    work_off(Run.objects.get())
    begun_at = DriftCheck.objects.get().begun_at  # after midnight, the next check would be due
    monkeypatch.setattr(tasks.timezone, "now", lambda: begun_at)
    tasks.watch_canaries()
    assert "(baseline), 10 verdicts" in run_command("canary")
    assert "Drift checks of" in run_command("canary", LOCAL, "--stop")
    assert "stopped on" in run_command("canary")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([LOCAL], "need --labels FILE and --cap"),
        ([LOCAL, "--labels", "x"], "need --labels FILE and --cap"),
        ([LOCAL, "--labels", "/nowhere", "--cap", "1"], "There is no file or folder"),
        ([LOCAL, "--stop"], "no drift checks to stop"),
        (["nobody", "--stop"], "no judge called 'nobody'"),
    ],
)
@pytest.mark.usefixtures("local")
def test_what_cannot_be_done_is_reported(arguments: list[str], says: str) -> None:
    with pytest.raises(CommandError, match=says):
        run_command("canary", *arguments)


def test_the_beat_knows_the_watch(settings: Any) -> None:
    assert settings.CELERY_BEAT_SCHEDULE["judges.tasks.watch_canaries"]["schedule"] == 120
    assert tasks.watch_canaries.name == "judges.tasks.watch_canaries"
