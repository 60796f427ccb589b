"""Errors of an order are reported before any money is spent."""

from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError

from arena.calls.models import Call
from arena.endpoints import Endpoint
from arena.models import Arena, Rater, Response, Run
from judges.core.rubric import RubricError, load_rubric
from tests.factories import make_arena
from tests.judges.fake_server import FakeServer, fails
from tests.judges.helpers import order, run_command, work_off

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]
MODEL = "judge-7b-2024-07-01"


def order_by_command(arena: Arena, *extra: str, name: str = "scripted") -> str:
    return run_command("judge", arena.slug, f"--judges={name}", "--per-pair=2", "--no-wait", *extra)


def expect_refusal(arena: Arena, *extra: str, says: str, **named: str) -> None:
    with pytest.raises(CommandError, match=says):
        order_by_command(arena, *extra, **named)
    assert not Run.objects.exists()
    assert not Call.objects.exists()


def use_paid_endpoint(settings: Any, base_url: str, **fields: Any) -> None:
    endpoint = Endpoint("paid", "openai", base_url, timeout=1.0, **fields)
    settings.MODEL_ENDPOINTS = {"paid": endpoint}


def set_price(name: str, dollars: str = "1") -> None:
    run_command("price", "paid", name, "--input", dollars, "--output", dollars)


def test_an_unknown_rubric_is_named_with_those_that_there_are() -> None:
    expect_refusal(
        make_arena(2, 2), name="scripted:scripted-1@best", says="no rubric called 'best'.*pairwise"
    )


def test_a_typo_in_a_placeholder_is_named_with_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "rubric.toml").write_text('title = "Mine"\nprotocol = "pairwise"\n')
    (folder / "system.md").write_text("Judge. {how_to_reply}")
    (folder / "user.md").write_text("{prompt} {answer_a} {anwser_b}")
    with pytest.raises(RubricError, match=r"mine.*user\.md.*anwser_b"):
        load_rubric("mine", tmp_path)


def test_an_endpoint_that_is_down_is_reported_before_the_order(settings: Any) -> None:
    use_paid_endpoint(settings, "http://127.0.0.1:9/v1")
    set_price(MODEL, "0")
    expect_refusal(make_arena(2, 2), name=f"paid:{MODEL}", says=r"cannot be asked: .*[Cc]onnect")


def test_a_wrong_key_is_reported_before_the_order(server: FakeServer, settings: Any) -> None:
    use_paid_endpoint(settings, server.base_url)
    set_price(MODEL, "0")
    server.otherwise = fails(401, "no such key")
    expect_refusal(make_arena(2, 2), name=f"paid:{MODEL}", says="cannot be asked: .*no such key")


def test_a_missing_price_is_reported_with_the_command_to_enter_it(
    server: FakeServer, settings: Any
) -> None:
    use_paid_endpoint(settings, server.base_url)
    expect_refusal(
        make_arena(2, 2), "--cap=1", name=f"paid:{MODEL}", says=f"manage.py price paid {MODEL}"
    )
    said = order_by_command(make_arena(2, 2), "--dry-run", name=f"paid:{MODEL}")
    assert "has no price" in said


@pytest.mark.parametrize(
    ("cap", "says"),
    [
        ("0", "enter a cap above"),
        ("-1", "must be an amount of dollars"),
        ("five", "must be an amount of dollars"),
        ("NaN", "must be an amount of dollars"),
        ("1e12", "must be an amount of dollars"),
        (None, "spending cap"),
    ],
)
def test_a_cap_that_buys_nothing_is_refused(
    server: FakeServer, settings: Any, cap: str | None, says: str
) -> None:
    use_paid_endpoint(settings, server.base_url)
    set_price(MODEL)
    extra = [] if cap is None else [f"--cap={cap}"]
    expect_refusal(make_arena(2, 2), *extra, name=f"paid:{MODEL}", says=says)


def test_an_arena_with_one_candidate_has_nothing_to_compare() -> None:
    expect_refusal(make_arena(1, 3), says="only one candidate: there is nothing to compare")


def test_candidates_without_answers_to_some_prompts_are_named() -> None:
    arena = make_arena(3, 4)
    lazy = arena.candidates.latest("pk")
    Response.objects.filter(candidate=lazy, prompt__external_id__in=["p0", "p1"]).delete()
    said = order_by_command(arena, "--dry-run")
    assert f"{lazy.name} has no answer to 2 of 4 prompts" in said


def test_a_huge_answer_is_announced() -> None:
    arena = make_arena(2, 2)
    Response.objects.filter(pk=Response.objects.earliest("pk").pk).update(text="x" * 200_000)
    assert "1 answer is longer than 100,000 characters" in order_by_command(arena, "--dry-run")


@pytest.mark.parametrize("text", ["", "   ", "\n\t \u3000\n" * 20])
def test_a_blank_answer_is_skipped_and_reported(text: str) -> None:
    arena = make_arena(2, 3)
    Response.objects.filter(pk=Response.objects.earliest("pk").pk).update(text=text)
    said = order_by_command(arena, "--dry-run")
    assert "1 answer is blank" in said
    assert "2 comparisons" in said


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        (["--quorum=4"], "cannot have a quorum of 4"),
        (["--like-run=77"], "no judge run 77"),
        (["--examples=2"], "needs --examples-from"),
        (["--examples=2", "--examples-from=none"], "no labels called 'none'"),
    ],
)
def test_other_slips_get_a_sentence_too(extra: list[str], says: str) -> None:
    name = "scripted:scripted-1,scripted:scripted-2"
    expect_refusal(make_arena(2, 2), *extra, name=name, says=says)


def test_a_judge_named_twice_does_not_form_a_jury() -> None:
    expect_refusal(make_arena(2, 2), name="scripted,scripted:scripted-1", says="named twice")


def test_votes_of_scripts_beside_a_real_judge_are_announced(
    server: FakeServer, settings: Any
) -> None:
    arena = make_arena(3, 4)
    assert "scripted judges" not in order_by_command(arena, "--dry-run")
    work_off(order(arena, "scripted", per_pair=2))
    use_paid_endpoint(settings, server.base_url)
    set_price(MODEL, "0")
    said = order_by_command(arena, "--dry-run", name=f"paid:{MODEL}")
    assert "votes by scripted judges, which do not really judge" in said
    assert f"(ID: {Rater.objects.get(kind='judge').pk})" in said
