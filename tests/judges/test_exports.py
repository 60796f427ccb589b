"""Judgements as training data: what is exported, and what stays secret."""

import io
import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from arena.actors import CLI, Actor
from arena.models import Arena, Comparison, Response, Run, Vote
from judges import exports
from judges.core.parsing import parse_prometheus_pairwise, parse_prometheus_score
from judges.services.label_files import read_labels
from judges.services.subjects import read_subject
from ranking.models import ExportFile
from tests.arena.rest import token_of
from tests.factories import make_arena, make_empty_team, make_member, make_person, make_team
from tests.judges.helpers import order, rubric_files, work_off, write_version

pytestmark = pytest.mark.django_db
PAIRWISE, DIRECT = "scripted:scripted-1", "scripted:scripted-2@prometheus-absolute"


@pytest.fixture
def arena() -> Arena:
    return make_arena(3, 6, slug="judged", team=make_team(), open_answers=False)


def rows(arena: Arena, name: str) -> list[dict[str, Any]]:
    ExportFile.objects.all().delete()  # these tests change rows without a sign
    answer = token_of(arena.team).get(f"arenas/{arena.slug}/judge-exports/{name}.jsonl")
    assert answer.status_code == 200
    return [json.loads(line) for line in answer.getvalue().decode().splitlines()]


def judge(arena: Arena, *names: str) -> list[Run]:
    return [work_off(order(arena, name, per_pair=6)) for name in names]


def vote_against(comparison: Comparison, outcome: str) -> None:
    """Two people vote on the answers of a comparison."""
    for _ in range(2):
        rater = make_person()
        copy = Comparison.objects.create(
            arena=comparison.arena,
            rater=rater,
            prompt=comparison.prompt,
            left=comparison.left,
            right=comparison.right,
            left_response=comparison.left_response,
            right_response=comparison.right_response,
        )
        Vote.objects.create(
            arena=copy.arena,
            comparison=copy,
            rater=rater,
            outcome=outcome,
            cast_at=timezone.now(),
        )


def test_examples_are_in_the_form_that_the_parsers_read(arena: Arena) -> None:
    runs = judge(arena, PAIRWISE, DIRECT)
    examples = rows(arena, "judgements")
    assert {row["format"] for row in examples} == {"pairwise", "direct"}
    for row in examples:
        assert [turn["role"] for turn in row["messages"]] == ["system", "user", "assistant"]
        assert row["messages"][1]["content"] == row["instruction"]
        assert row["messages"][2]["content"] == row["output"]
        assert row["output"] == f"Feedback: {row['feedback']} [RESULT] {row['verdict']}"
        assert row["instruction"].endswith("###Feedback: ")
        if row["format"] == "pairwise":
            told = {"A": "left", "B": "right"}[row["verdict"]]
            assert parse_prometheus_pairwise(row["output"]).outcome == told
        else:
            assert parse_prometheus_score(row["output"], tuple("12345")).label == row["verdict"]
    nonces = {call.nonce for run in runs for call in run.calls.all() if call.nonce}
    everything = json.dumps(examples)
    assert nonces
    assert not [nonce for nonce in nonces if nonce in everything]


def test_each_reply_is_one_example_and_inconsistent_ones_are_none(arena: Arena) -> None:
    [run] = judge(arena, PAIRWISE)
    consistent = [one for one in run.judgements.all() if one.state == "voted" and not one.flipped]
    decisive = [one for one in consistent if one.outcome in ("left", "right")]
    assert decisive
    assert len(rows(arena, "judgements")) == 2 * len(decisive)
    run.judgements.filter(pk=decisive[0].pk).update(flipped=True)
    assert len(rows(arena, "judgements")) == 2 * len(decisive) - 2


def test_replies_read_a_pair_at_a_time_are_the_same(arena: Arena, monkeypatch) -> None:
    [run, *_] = judge(arena, PAIRWISE, DIRECT, "scripted:scripted-2")
    for judged in run.judgements.filter(outcome__in=["left", "right"]):
        vote_against(judged.comparison, judged.outcome)
    whole = [rows(arena, name) for name in ("judgements", "judge-pairs")]
    monkeypatch.setattr(exports, "JUDGEMENTS_AT_ONCE", 1)
    with CaptureQueriesContext(connection) as queries:
        assert [rows(arena, name) for name in ("judgements", "judge-pairs")] == whole
    assert all(whole)
    assert len(queries) > 40  # the answers to each prompt make three pairs


def test_an_example_says_whom_people_prefer_and_shows_the_reference(arena: Arena) -> None:
    [run] = judge(arena, PAIRWISE)
    judged = next(one for one in run.judgements.all() if one.outcome in ("left", "right"))
    arena.prompts.filter(pk=judged.comparison.prompt_id).update(reference="The one true answer.")
    vote_against(judged.comparison, judged.outcome)
    found = [row for row in rows(arena, "judgements") if row["people"]]
    assert len(found) == 2
    assert all(row["people"] == row["verdict"] for row in found)
    assert all("###Reference Answer:\nThe one true answer." in row["instruction"] for row in found)


def test_pairs_prefer_the_reply_with_which_people_agree(arena: Arena) -> None:
    [run, other] = judge(arena, PAIRWISE, "scripted:scripted-2")
    judged = next(one for one in run.judgements.all() if one.outcome in ("left", "right"))
    same = next(one for one in other.judgements.all() if one.responses == judged.responses)
    for call in (same.forward, same.reverse):
        call.verdict = {"outcome": "tie"}
        call.save(update_fields=["verdict"])
    vote_against(judged.comparison, judged.outcome)
    assert rows(arena, "judge-pairs") == []  # the Prometheus format knows no tie
    for call in (same.forward, same.reverse):
        mine = judged.forward if judged.forward.subject == call.subject else judged.reverse
        turned = {"left": "right", "right": "left"}[mine.verdict["outcome"]]
        call.verdict = {"outcome": turned}
        call.save(update_fields=["verdict"])
    pairs = rows(arena, "judge-pairs")
    assert len(pairs) == 2
    for pair in pairs:
        assert pair["chosen"][0]["content"].endswith(f"[RESULT] {pair['people']}")
        assert not pair["rejected"][0]["content"].endswith(f"[RESULT] {pair['people']}")
        assert [turn["role"] for turn in pair["prompt"]] == ["system", "user"]
        assert pair["chosen_judge"] != pair["rejected_judge"]


def test_five_scored_answers_make_ten_pairs(tmp_path: Path) -> None:
    arena = make_arena(5, 2, slug="scored", team=make_team(), open_answers=False)
    [run] = judge(arena, DIRECT)
    places = {pk: i for i, pk in enumerate(arena.candidates.order_by("pk").values_list(flat=True))}
    answers = {answer.pk: answer for answer in Response.objects.filter(prompt__arena=arena)}
    for call in run.calls.all():
        score = 1 + places[answers[read_subject(call.subject).shown[0]].candidate_id]
        call.verdict = {"label": str(score), "score": float(score)}
        call.save(update_fields=["verdict"])
    pairs = rows(arena, "preference-collection")
    assert len(pairs) == 2 * 10
    for prompt in arena.prompts.all():
        own = [pair for pair in pairs if pair["orig_instruction"] == prompt.text]
        scores = {tuple(sorted((pair["orig_score_A"], pair["orig_score_B"]))) for pair in own}
        assert scores == set(combinations("12345", 2))
        assert [pair["orig_preference"] for pair in own].count("A") == 5
    for pair in pairs:
        better = "A" if pair["orig_score_A"] > pair["orig_score_B"] else "B"
        assert pair["orig_preference"] == better
        place = int(pair[f"orig_score_{better}"]) - 1
        answer = arena.candidates.order_by("pk")[place].responses.get(
            prompt__text=pair["orig_instruction"]
        )
        assert pair[f"orig_response_{better}"] == answer.text
    path = tmp_path / "preference-collection.jsonl"
    path.write_text("\n".join(json.dumps(pair) for pair in pairs))
    assert read_labels(path).labels == 20
    run.calls.update(verdict={"label": "3", "score": 3.0})  # the same score makes no pair
    assert rows(arena, "preference-collection") == []


def test_answers_of_another_teams_undisclosed_candidate_are_left_out(arena: Arena) -> None:
    judge(arena, PAIRWISE)
    hidden = arena.candidates.earliest("pk")
    arena.candidates.filter(pk=hidden.pk).update(
        team=make_team(), disclosed_at=None, private_until_votes=100
    )
    examples = rows(arena, "judgements")
    assert examples
    answers = Response.objects.filter(candidate=hidden).values_list("text", flat=True)
    assert not [text for text in answers if text in json.dumps(examples)]


def test_a_rubric_of_another_team_is_not_exported(arena: Arena) -> None:
    """Somebody who is in both teams has used it here."""
    toml = rubric_files()["rubric.toml"].replace("Work out what", "Secretly work out what")
    version = write_version(
        make_empty_team(slug="other"), texts=rubric_files() | {"rubric.toml": toml}
    )
    work_off(order(arena, f"scripted@{version.name}", by=CLI))
    member = Actor(user=make_member(arena.team).user)
    shown = [json.dumps(row) for row in exports.training_examples(arena, member)]
    assert shown
    assert not any("Secretly" in row for row in shown)
    assert any("Secretly" in json.dumps(row) for row in exports.training_examples(arena, CLI))


def test_only_the_team_gets_them(arena: Arena, client: Client) -> None:
    path = f"arenas/{arena.slug}/judge-exports/judgements.jsonl"
    assert client.get(f"/api/v1/{path}").status_code == 401
    assert token_of(make_team()).get(path).status_code == 403
    assert "Only the arena’s team can open these" in client.get(f"/a/{arena.slug}/about/").text


def test_the_command_writes_every_file_or_says_why_not(arena: Arena, tmp_path: Path) -> None:
    judge(arena, PAIRWISE)
    call_command("export", arena.slug, str(tmp_path / "judgements.parquet"))
    table = pq.read_table(io.BytesIO((tmp_path / "judgements.parquet").read_bytes()))
    assert table.to_pylist() == rows(arena, "judgements")
    call_command("export", arena.slug, str(tmp_path / "dataset.zip"))
    assert (tmp_path / "dataset.zip").read_bytes()[:2] == b"PK"
    for name, why in (
        ("dataset.zip", "--overwrite"),
        ("votes.xlsx", "Choose one of: battles.csv"),
        ("none/battles.csv", "No such file"),
        ("judge-pairs.parquet", "has nothing to write to judge-pairs.parquet"),
    ):
        with pytest.raises(CommandError, match=why):
            call_command("export", arena.slug, str(tmp_path / name))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dataset.zip", "judgements.parquet"]
