"""No judge sees what a model thought, or the base64 of a picture."""

import json
from pathlib import Path

import pytest
from django.db.models import F, Value
from django.db.models.functions import Concat

from arena.actors import CLI
from arena.models import Arena, PairDemand, Prompt, Response
from judges.core.prompts import render_prompt
from judges.core.rubric import load_rubric
from judges.core.spec import JudgeSpec
from judges.exports import training_examples
from judges.models import LabelItem
from judges.services.calibration_items import arena_items, pair_items
from judges.services.examples import examples_from
from judges.services.honeypots import make_honeypots
from judges.services.subjects import CallTarget, material_for
from judges.views.verdicts import _texts_of_item
from tests.factories import make_arena, make_person
from tests.judges.fake_server import FakeServer, prefers
from tests.judges.helpers import (
    LOCAL,
    ask_about,
    epoch_of,
    issue_pair,
    order,
    pair_row,
    store_labels,
    vote_on,
    work_off,
)

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]
PICTURE = "![c](data:image/png;base64,iVBORw0KGgoAAAAN)"
THOUGHT = f"<think>A secret plan, {PICTURE}</think>\n\n"


def arena_with_thoughts() -> Arena:
    arena = make_arena(3, 2)
    Response.objects.update(text=Concat(Value(THOUGHT), F("text"), Value(f" {PICTURE}")))
    Prompt.objects.update(text=Concat(F("text"), Value(f" {PICTURE}")), reference=PICTURE)
    return arena


def assert_hides(shown: str) -> None:
    assert "secret plan" not in shown
    assert "base64" not in shown
    assert "[image, PNG, 12 B]" in shown


@pytest.mark.parametrize(
    "rubric",
    ["pairwise", "pairwise-reference", "listwise", "score-1-4", "prometheus-relative"],
)
def test_no_request_of_a_run_has_a_thought_or_base64(local: FakeServer, rubric: str) -> None:
    local.otherwise = prefers("-0 of")
    work_off(order(arena_with_thoughts(), f"{LOCAL}@{rubric}"))
    requests = [json.dumps(body["messages"]) for body in local.requests]
    about_answers = [request for request in requests if "-0 of" in request]
    assert about_answers
    for request in about_answers:
        assert_hides(request)


def test_the_steps_of_an_answer_are_shown_without_thought() -> None:
    arena = make_arena(1, 1)
    answer = Response.objects.get(candidate__arena=arena)
    answer.messages = [
        {"role": "assistant", "content": f"{THOUGHT}I look it up."},
        {"role": "tool", "content": "<think>in a file</think>"},
        {"role": "assistant", "content": "Hm.</think>It is four."},
    ]
    answer.save()
    [shown] = material_for(CallTarget(shown=(answer.pk,))).answers
    assert shown == (
        "Assistant:\nI look it up.\n\nTool result:\n<think>in a file</think>\n\n"
        "Assistant:\nIt is four."
    )


def test_labelled_answers_and_examples_are_shown_without_thought(tmp_path: Path) -> None:
    rows = [pair_row(number) for number in range(6)]
    rows = [row | {"response_1": THOUGHT + row["response_1"]} for row in rows]
    item = store_labels(tmp_path, rows).items.first()
    assert item is not None
    assert item.response_1.startswith(THOUGHT)
    assert _texts_of_item(item).left.startswith('<details class="thought">')
    material = material_for(CallTarget(shown=(1, 2), item=item.pk))
    assert "secret plan" not in material.answers[0]
    for rubric in ("pairwise", "prometheus-relative"):
        examples = examples_from(name="labels", rubric=rubric, n=2, seed=1)
        spec = JudgeSpec("local", "m-1", load_rubric(rubric), examples=examples)
        shown = render_prompt(spec, material, nonce="0" * 16)
        assert "secret plan" not in json.dumps(shown)


def test_honeypots_are_made_of_what_an_answer_says_and_shown_whole() -> None:
    arena_with_thoughts()
    items = make_honeypots(arena=Arena.objects.get(), seed="1").items
    assert not items.filter(response_1__contains="secret plan").exists()
    assert not items.filter(response_2__contains="secret plan").exists()
    forged = items.filter(trap="thought").first()
    assert forged is not None
    material = material_for(CallTarget(shown=(1, 2), item=forged.pk))
    assert material.answers == (forged.response_1, forged.response_2)


def test_training_examples_have_the_answers_as_the_judge_read_them(local: FakeServer) -> None:
    local.otherwise = prefers("-0 of")
    arena = arena_with_thoughts()
    work_off(order(arena))
    rows = [*training_examples(arena, CLI)]
    assert rows
    assert "secret plan" not in json.dumps(rows)


def test_a_thought_is_no_attempt_to_steer_the_judge(local: FakeServer) -> None:
    local.otherwise = prefers("-0 of")
    work_off(order(arena_with_thoughts()))
    assert not PairDemand.objects.exists()


def test_an_answer_is_as_long_as_the_judge_reads_it(local: FakeServer, tmp_path: Path) -> None:
    local.otherwise = prefers("-0 of")
    arena = make_arena(2, 1)
    epoch, person = epoch_of(), make_person()
    vote_on(issue_pair(arena, person, 0), person, "left")
    work_off(order(arena))
    [before] = arena_items(epoch, arena)
    Response.objects.update(text=Concat(Value(THOUGHT), F("text")))
    assert arena_items(epoch, arena) == [before]
    labels_in = store_labels(tmp_path, [pair_row(0)])
    ask_about(epoch, labels_in)
    [before] = pair_items(epoch, labels_in)
    LabelItem.objects.update(response_1=Concat(Value(THOUGHT), F("response_1")))
    assert pair_items(epoch, labels_in) == [before]
