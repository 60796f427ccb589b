"""The judges' leaderboard and a judge's page: their content, and the number of queries."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from arena.calls.models import Call
from judges.judge_reports import JudgeStanding, count_replies, list_standings, report_on_judge
from judges.models import Calibration, DriftCheck, Epoch
from judges.services.calibration import measure_labels
from judges.services.drift import start_drift_checks
from judges.services.feedback import give_feedback
from judges.services.honeypots import make_honeypots, measure_honeypots
from judges.services.registry import begin_next_epoch
from tests.factories import make_arena
from tests.judges.fake_server import FakeServer, better_is, prefers, says
from tests.judges.helpers import LOCAL, ask_about, epoch_of, order, pair_row, store_labels, work_off

pytestmark = [pytest.mark.any_database, pytest.mark.slow, pytest.mark.django_db]
NOW = timezone.now()


def calibrated(folder: Path, judge: str, n: int = 40) -> Any:
    labels_in, epoch = store_labels(folder, [pair_row(i) for i in range(n)]), epoch_of(judge)
    ask_about(epoch, labels_in)
    return measure_labels(epoch=epoch, labels_in=labels_in, now=NOW, everywhere=True)


def row_of(judge: str) -> JudgeStanding:
    return next(row for row in list_standings() if row.judge.name == judge)


def test_a_row_says_all_that_was_measured(tmp_path: Path, local: FakeServer) -> None:
    local.otherwise = prefers("GOOD")
    calibration = calibrated(tmp_path, LOCAL)
    epoch = calibration.epoch
    made = make_honeypots(arena=make_arena(2, 6), seed="1")
    local.otherwise = prefers("of somebody.")
    ask_about(epoch, made)
    traps = measure_honeypots(epoch=epoch, labels_in=made, now=NOW)
    judgement = epoch.judgements.first()
    ann = User.objects.create_user("ann")
    give_feedback(judgement=judgement, user=ann, kind="coherent", holds=True, now=NOW)
    row = row_of(epoch.judge.name)
    assert row.is_trusted
    assert (row.calibration, row.honeypots) == (calibration, traps)
    assert (row.agreement, row.coverage) == (calibration.report["on_all"], 1)
    assert row.against_length == calibration.report["against_length"]
    assert row.false_wins == traps.report["false_wins"]
    assert (row.verdicts, row.flip_rate, row.first_position_rate) == (100, 0, 0.5)
    assert (row.cost_per_verdict, row.seconds_per_call is not None) == (0, True)
    assert [mark.share for mark in row.marks] == [1, None, None]


def test_a_judge_that_nobody_measured_has_a_row_too() -> None:
    work_off(order(make_arena(2, 2), "scripted"))
    (row,) = list_standings()
    assert (row.is_trusted, row.agreement, row.against_length, row.false_wins) == (
        False,
        None,
        None,
        None,
    )
    assert row.verdicts > 0


def test_trusted_judges_stand_first_and_juries_elsewhere(tmp_path: Path, local: FakeServer) -> None:
    work_off(order(make_arena(2, 2), "scripted", "scripted:scripted-2"))
    local.otherwise = prefers("GOOD")
    epoch = calibrated(tmp_path, LOCAL).epoch
    rows = list_standings()
    assert len(rows) == 3
    assert rows[0].epoch == epoch


def test_only_the_open_epoch_stands_on_the_board(tmp_path: Path, local: FakeServer) -> None:
    local.otherwise = better_is("A")
    epoch = calibrated(tmp_path, LOCAL, n=6).epoch
    then = begin_next_epoch(epoch=epoch, reason="It changed.", now=NOW)
    (row,) = list_standings()
    assert (row.epoch, row.calibration, row.verdicts) == (then, None, 0)


def test_board_queries_do_not_grow_with_judges(
    tmp_path: Path, local: FakeServer, django_assert_num_queries: Any
) -> None:
    for judge in ("scripted", "scripted:scripted-2", LOCAL):
        calibrated(tmp_path, judge, n=6)
        with django_assert_num_queries(5):
            list_standings()


def test_a_page_holds_every_epoch_with_what_was_measured_in_it(
    tmp_path: Path, local: FakeServer
) -> None:
    local.otherwise = prefers("GOOD")
    first = calibrated(tmp_path, LOCAL)
    start_drift_checks(epoch=first.epoch, labels_in=first.label_set, cap=5, now=NOW)
    then = begin_next_epoch(epoch=first.epoch, reason="It changed.", now=NOW)
    second = calibrated(tmp_path, LOCAL)
    page = report_on_judge(first.epoch.judge)
    assert [part.epoch for part in page.epochs] == [then, first.epoch]
    assert [part.calibrations for part in page.epochs] == [[second], [first]]
    assert [part.checks for part in page.epochs] == [[], [DriftCheck.objects.get()]]
    assert page.epochs[0].problems == []
    assert page.epochs[1].problems == ["This epoch has ended."]
    assert page.standing is not None
    assert page.standing.epoch == then
    assert page.drift_checks is not None
    assert page.drift_checks.cap == 5
    assert NOW - page.drift_checks.set_at < timedelta(seconds=1)


def test_newest_measurement_of_any_kind_is_on_the_board(tmp_path: Path, local: FakeServer) -> None:
    local.otherwise = prefers("GOOD")
    first = calibrated(tmp_path, LOCAL, n=6)
    pearson = {"value": 0.5, "low": 0.4, "high": 0.6, "n": 9, "n_clusters": 9, "reason": ""}
    against_length = pearson | {"value": 0.9}
    report = {"against_all": {"pearson": pearson}, "against_length": against_length}
    scores = Calibration.objects.create(
        epoch=first.epoch,
        label_set=first.label_set,
        kind="scores",
        report=report,
        made_at=NOW + timedelta(hours=1),
    )
    row = row_of(first.epoch.judge.name)
    assert row.calibration == scores
    assert row.agreement == pearson
    assert row.against_length == against_length


def test_replies_that_were_read_late_or_against_their_reasons_are_counted(
    local: FakeServer,
) -> None:
    run = order(make_arena(2, 2), per_pair=2)
    local.script.extend([says("Well."), better_is("A"), says("Well."), says("Well.")])
    local.otherwise = prefers("-0 of")
    work_off(run)
    calls = list(Call.objects.filter(state="done", turn=0))
    Call.objects.filter(pk=calls[0].pk).update(reply="Answer A is better.\nVERDICT-0: A")
    Call.objects.filter(pk=calls[1].pk).update(reply="Answer B is better.\nVERDICT-0: A")
    for call in calls[:2]:
        Call.objects.filter(pk=call.pk).update(verdict={"outcome": "left"})
    figures = count_replies(Epoch.objects.get())
    assert (figures.answered, figures.at_first, figures.repaired) == (4, 2, 1)
    assert (figures.named, figures.against) == (2, 1)
    assert (figures.share_at_first, figures.share_in_the_end) == (0.5, 0.75)
