"""`manage.py calibrate`, with a stand-in for the worker."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError

from arena.actors import CLI, Actor
from arena.calls.models import Call
from arena.models import Arena, Run, Team, Vote
from judges.models import Calibration, Judge, Judgement, Label, LabelSet
from judges.permissions import listed_calibrations
from judges.services.label_files import read_labels
from judges.services.labels import upload_labels
from judges.services.quotes import MEASURED
from tests.factories import make_arena, make_person
from tests.judges.fake_server import FakeServer, Sent, completion, fails, nonce_of, prefers
from tests.judges.helpers import (
    LOCAL,
    answer_verdicts,
    is_verdict_request,
    issue_pair,
    make_member,
    pair_row,
    run_command,
    vote_on,
    write_labels,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quick")]


def calibrate(*arguments: Any, judge: str = "scripted") -> str:
    return run_command("calibrate", judge, *arguments)


def labels(folder: Path, n: int = 20) -> Path:
    return write_labels(folder, [pair_row(i) for i in range(n)])


def score_by_number(body: dict[str, Any]) -> Sent:
    number = int(re.findall(r"Why (\d+)", body["messages"][1]["content"])[0])
    return completion(f"Reasons.\nVERDICT-{nonce_of(body)}: {number % 4 + 1}")


@pytest.mark.usefixtures("worker")
def test_labels_that_a_team_has_uploaded(tmp_path: Path, local: FakeServer, team: Team) -> None:
    local.otherwise = answer_verdicts(prefers("GOOD"))
    file = read_labels(Path(labels(tmp_path)))
    uploaded = upload_labels(team=team, name="ours", file=file, by=CLI)
    said = calibrate("--uploaded", f"{team.slug}/ours", judge=LOCAL)
    assert "20 verdicts, 40 calls" in said
    calibration = Calibration.objects.get()
    assert calibration.label_set == LabelSet.objects.get() == uploaded
    # What is measured on a team's labels is shown to the team alone.
    insider = Actor(user=make_member(team))
    assert list(listed_calibrations(insider)) == [calibration]
    assert not listed_calibrations(Actor())
    with pytest.raises(CommandError, match=f"Uploaded: {team.slug}/ours"):
        calibrate("--uploaded", f"{team.slug}/theirs", judge=LOCAL)


@pytest.mark.usefixtures("worker")
def test_labels_are_quoted_asked_measured_and_told(tmp_path: Path, local: FakeServer) -> None:
    local.otherwise = answer_verdicts(prefers("GOOD"))
    said = calibrate("--labels", labels(tmp_path), judge=LOCAL)
    assert "20 items with 20 labels." in said
    assert "20 verdicts, 40 calls" in said
    assert "Agreement with people where both choose a side: 100.0% (" in said
    assert "People with each other: " in said
    assert "People prefer the longer answer: 50.0%" in said
    assert "is not trusted in arenas where it is not measured" in said
    assert "let an administrator calibrate it with --everywhere" in said
    assert Calibration.objects.get().label_set == LabelSet.objects.get()
    assert Calibration.objects.get().label_set.name == "labels.jsonl"
    said = calibrate("--labels", labels(tmp_path), "--everywhere", judge=LOCAL)
    assert "is trusted in arenas where it is not measured" in said


@pytest.mark.usefixtures("worker")
def test_a_second_call_only_measures_again(tmp_path: Path, local: FakeServer) -> None:
    local.otherwise = answer_verdicts(prefers("GOOD"))
    path = labels(tmp_path, 6)
    calibrate("--labels", path, judge=LOCAL)
    said = calibrate("--labels", path, judge=LOCAL)
    assert "There is nothing new to judge." in said
    asked = sum(map(is_verdict_request, local.requests)) - MEASURED
    assert asked == Call.objects.count() == 12
    assert (Calibration.objects.count(), Run.objects.count(), Label.objects.count()) == (2, 1, 6)


@pytest.mark.usefixtures("worker")
def test_repeats_and_a_drawn_limit_are_asked(tmp_path: Path, local: FakeServer) -> None:
    local.otherwise = answer_verdicts(prefers("GOOD"))
    path = labels(tmp_path, 10)
    said = calibrate("--labels", path, "--limit=4", "--repeat=2", judge=LOCAL)
    assert "12 verdicts, 24 calls" in said
    assert "Krippendorff's alpha over repeated runs: 1.0000" in said
    same = calibrate("--labels", path, "--limit=4", "--repeat=2", judge=LOCAL)
    assert "nothing new to judge" in same


@pytest.mark.usefixtures("no_worker")
def test_a_dry_run_quotes_and_writes_nothing(tmp_path: Path) -> None:
    arena = make_arena(2, 3)
    for against in (
        ["--labels", labels(tmp_path)],
        ["--arena", arena.slug],
        ["--honeypots", arena.slug],
    ):
        assert "No run was started" in calibrate(*against, "--dry-run")
    for table in (Run, Judge, Call, LabelSet, Calibration):
        assert not table.objects.exists()


@pytest.mark.usefixtures("no_worker")
def test_a_quote_of_a_model_without_a_price_says_so(
    tmp_path: Path, local: FakeServer, settings: Any
) -> None:
    endpoint = replace(settings.MODEL_ENDPOINTS["local"], prices={})
    settings.MODEL_ENDPOINTS = settings.MODEL_ENDPOINTS | {"local": endpoint}
    said = calibrate("--labels", labels(tmp_path), "--dry-run", judge=LOCAL)
    assert "Cost: unknown: judge-7b-2024-07-01 at local has no price." in said


@pytest.mark.usefixtures("no_worker")
def test_no_wait_orders_and_measures_another_time(tmp_path: Path) -> None:
    assert "Run started." in calibrate("--labels", labels(tmp_path), "--no-wait")
    assert Run.objects.get().state == "open"
    assert not Calibration.objects.exists()


@pytest.mark.usefixtures("no_worker")
def test_without_a_worker_it_says_so_and_the_run_is_kept(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="No worker is answering"):
        calibrate("--labels", labels(tmp_path))
    assert Run.objects.get().state == "open"


@pytest.mark.usefixtures("worker")
def test_a_paused_run_resumes_with_the_same_command(tmp_path: Path, local: FakeServer) -> None:
    path = labels(tmp_path, 4)
    local.otherwise = answer_verdicts(prefers("GOOD"))
    calibrate("--labels", path, "--limit=1", judge=LOCAL)
    local.otherwise = fails(401, "who are you")
    with pytest.raises(CommandError, match=r"paused: .*401"):
        calibrate("--labels", path, judge=LOCAL)
    local.otherwise = answer_verdicts(prefers("GOOD"))
    said = calibrate("--labels", path, judge=LOCAL)
    assert "is unfinished (paused)" in said
    assert "4 pairs with 4 labels: voted 4." in said


@pytest.mark.usefixtures("worker")
def test_a_judge_is_measured_by_the_arenas_votes(local: FakeServer) -> None:
    arena, ann = make_arena(2, 6), make_person()
    for number in range(5):
        vote_on(issue_pair(arena, ann, number), ann, "left")
    local.otherwise = answer_verdicts(prefers("-0 of"))
    said = calibrate("--arena", arena.slug, judge=LOCAL)
    assert "5 verdicts, 10 calls" in said
    assert "Agreement with people where both choose a side: 100.0%" in said
    assert "Its votes count on the judges' leaderboard" in said
    assert "already" not in said
    assert Calibration.objects.get().arena == arena
    again = calibrate("--arena", arena.slug, judge=LOCAL)
    assert "5 pairs with 5 labels" in again
    assert "It has already judged 5 of the pairs with human votes." in again
    assert "Its votes count" not in again
    assert Call.objects.count() == 10


@pytest.mark.usefixtures("worker")
def test_self_preference_is_measured_without_a_vote(local: FakeServer) -> None:
    arena, ann = make_arena(2, 6), make_person()
    arena.candidates.filter(name="candidate-0").update(model="judge-7b-2024")
    for number in range(5):
        vote_on(issue_pair(arena, ann, number), ann, "right")
    local.otherwise = answer_verdicts(prefers("-0 of"))
    said = calibrate("--arena", arena.slug, "--no-votes", judge=LOCAL)
    assert "5 verdicts, 10 calls" in said
    assert "Its votes count on the judges' leaderboard" not in said
    assert not Vote.objects.filter(rater__kind="judge").exists()
    calibration = Calibration.objects.get()
    assert (calibration.arena, calibration.label_set.name) == (
        None,
        f"Human votes in {arena.slug}",
    )
    own = calibration.report["own_family"]
    assert (own["judge"]["value"], own["people"]["value"]) == (1, 0)


@pytest.mark.usefixtures("worker")
def test_scores_are_converted_to_the_scale_of_people(tmp_path: Path, local: FakeServer) -> None:
    rows = [
        {"prompt": f"Why {i}?", "response": f"So {i}.", "score": 10 * (i % 4) + 10}
        for i in range(8)
    ]

    local.otherwise = answer_verdicts(score_by_number)
    path, judge = write_labels(tmp_path, rows), f"{LOCAL}@score-1-4"
    calibrate("--labels", path, judge=judge)
    calibrate("--labels", path, "--scale", "10", "40", judge=judge)
    before, after = Calibration.objects.order_by("pk").values_list("report", flat=True)
    assert before["against_all"]["mean_absolute_error"] > 20
    assert after["against_all"]["mean_absolute_error"] == pytest.approx(0)
    assert after["scale"] == {"judge": [1.0, 4.0], "people": [10.0, 40.0]}
    assert "scale" not in before


@pytest.mark.usefixtures("worker")
def test_a_judge_is_measured_on_what_two_raters_agree_on(tmp_path: Path, local: FakeServer) -> None:
    rows = [
        {"prompt": f"Why {i}?", "response": f"So {i}.", "rater": rater, "score": score}
        for i in range(24)
        for rater, score in (("ann", 1 + i % 4), ("bob", 1 + (i + (i % 6 == 0)) % 4))
    ]

    local.otherwise = answer_verdicts(score_by_number)
    path, judge = write_labels(tmp_path, rows), f"{LOCAL}@score-1-4"
    said = calibrate("--labels", path, "--agreed", "--per-score=3", judge=judge)
    assert re.search(r"People with each other, on all items: Pearson 0\.\d+ \(", said)
    assert "12 items with 24 labels." in said
    calibration = Calibration.objects.get()
    assert str(calibration.label_set) == "labels.jsonl, agreed, 3 per score"
    assert calibration.report["n_items"] == calibration.report["states"]["done"] == 12
    assert calibration.report["against_all"]["pearson"]["value"] == pytest.approx(1)
    for option, why in (
        ("--everywhere", "items on which people agree are easier"),
        ("--per-score=0", "--per-score must be at least 1"),
    ):
        with pytest.raises(CommandError, match=why):
            calibrate("--labels", path, "--agreed", option, judge=judge)


@pytest.mark.usefixtures("worker")
def test_switches_make_another_judge(tmp_path: Path, local: FakeServer) -> None:
    local.otherwise = answer_verdicts(prefers("GOOD"))
    calibrate("--labels", labels(tmp_path, 6), judge=LOCAL)
    examples = ("--examples=2", "--examples-from=labels.jsonl", "--order-policy=tie", "--soft")
    said = calibrate("--labels", labels(tmp_path, 6), *examples, judge=LOCAL)
    assert "4 verdicts, 8 calls" in said
    assert "2 items can't be judged by this judge and are left out." in said
    judge = Judge.objects.order_by("pk").last()
    assert (len(judge.examples), judge.order_policy, judge.soft) == (2, "tie", True)


@pytest.mark.usefixtures("worker")
def test_honeypots_are_made_and_counted() -> None:
    said = calibrate("--honeypots", make_arena(2, 6).slug, "--limit=5")
    assert "50 honeypots" in said
    assert "Honeypot failures: " in said
    assert "is not trusted" in said
    assert "not a real model" in said


def test_an_arena_without_votes_says_that_there_is_nothing() -> None:
    with pytest.raises(CommandError, match="nothing to measure"):
        calibrate("--arena", make_arena(2, 2).slug)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--labels", "/nowhere/labels.csv"], "There is no file"),
        (["--arena", "nowhere"], "no arena 'nowhere'"),
        (["--honeypots", "nowhere"], "no arena 'nowhere'"),
        (["--arena", "x", "--repeat=2"], "judged once"),
        (["--arena", "x", "--limit=0"], "at least 1"),
        (["--arena", "x", "--repeat=-1"], "between 0 and 100"),
        (["--arena", "x", "--cap=much"], "must be an amount of dollars"),
        (["--arena", "x", "--cap=-1"], "must be an amount of dollars"),
        (["--labels", "x", "--no-votes"], "--no-votes works only with --arena"),
        (["--arena", "x", "--everywhere"], "--everywhere works only with --labels"),
        (["--arena", "x", "--scale", "1", "5"], "--scale works only with labels"),
        (["--labels", "x", "--scale", "1", "inf"], "two finite numbers"),
        (["--labels", "x", "--scale", "5", "1"], "the lowest and the highest"),
        (["--arena", "x", "--examples=2"], "--examples needs --examples-from"),
        (["--arena", "x", "--examples=2", "--seed=a"], "--seed must be a whole number"),
        ([], "one of the arguments"),
    ],
)
def test_what_cannot_be_done_is_reported(arguments: list[str], says: str) -> None:
    with pytest.raises(CommandError, match=says):
        calibrate(*arguments)


def test_a_bad_label_stops_before_anything_is_written(tmp_path: Path) -> None:
    path = write_labels(tmp_path, [pair_row(0), pair_row(1, label="the best")])
    with pytest.raises(CommandError, match="line 2, label: is 'the best'"):
        calibrate("--labels", path)
    assert not LabelSet.objects.exists()
    assert not Judge.objects.exists()


@pytest.mark.usefixtures("no_worker")
def test_a_judge_that_cannot_read_these_labels_is_refused(tmp_path: Path) -> None:
    single = write_labels(tmp_path, [{"prompt": "Why?", "response": "So.", "score": 3}])
    with pytest.raises(CommandError, match="compares two answers"):
        calibrate("--labels", single)
    with pytest.raises(CommandError, match="compares two answers"):
        calibrate("--labels", single, judge="scripted@listwise")
    with pytest.raises(CommandError, match="needs a reference"):
        calibrate("--labels", labels(tmp_path), judge="scripted@pairwise-reference")


@pytest.mark.usefixtures("worker")
def test_a_listwise_judge_puts_the_two_answers_of_a_label_in_order(tmp_path: Path) -> None:
    calibrate("--labels", labels(tmp_path), judge="scripted@listwise")
    calls = Call.objects.order_by("pk")
    orders = [call.verdict["order"] for call in calls if call.verdict]
    assert len(orders) > len(calls) / 2
    assert all(sorted(place for group in order for place in group) == [0, 1] for order in orders)
    decided = Judgement.objects.exclude(outcome="")
    assert decided.exists()
    assert Calibration.objects.get().report["n_items"] > 0


@pytest.mark.usefixtures("worker")
def test_a_listwise_judge_is_measured_in_an_arena_on_its_lists_or_without_votes() -> None:
    arena = make_arena(3, 4)
    for number in range(4):
        rater = make_person()
        vote_on(issue_pair(arena, rater, number), rater, "left")
    with pytest.raises(CommandError, match=r"Measure it on these pairs without votes \(--no-votes"):
        calibrate("--arena", arena.slug, judge="scripted@listwise")
    assert "Agreement" in calibrate("--arena", arena.slug, "--no-votes", judge="scripted@listwise")
    run_command("judge", arena.slug, "--judges=scripted@listwise", "--per-pair=4")
    n_calls = Call.objects.count()
    said = calibrate("--arena", arena.slug, judge="scripted@listwise")
    assert "It has already judged" in said
    assert Calibration.objects.filter(arena=arena).exists()
    assert Call.objects.count() == n_calls


def test_a_hidden_arena_is_not_found() -> None:
    arena: Arena = make_arena(2, 2)
    with pytest.raises(CommandError, match="no arena"):
        calibrate("--arena", f"{arena.slug}-x")
