"""Prompts leave as the test sets of other tools, and come back as the same prompts."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from arena.models import Arena
from arena.services.imports import import_files
from tests.arena.rest import token_of
from tests.factories import make_arena, make_team

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]
TURNS = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Why?"}]
FACTS = ("external_id", "text", "messages", "category", "reference", "variables")


@pytest.fixture
def arena() -> Arena:
    return make_arena(0, 0, slug="mine", team=make_team())


def bring(path: Path, slug: str) -> Arena:
    import_files(slug=slug, paths=[path], now=timezone.now())
    return Arena.objects.get(slug=slug)


def facts(arena: Arena, *more: str) -> list[tuple[Any, ...]]:
    return list(arena.prompts.order_by("pk").values_list(*FACTS, *more))


def in_order(assertions: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(assertion, sort_keys=True) for assertion in assertions)


def rules(arena: Arena) -> list[tuple[Any, ...]]:
    fields = ("prompt__external_id", "kind", "expected", "negated", "name")
    return list(arena.checks.order_by("pk").values_list(*fields))


def test_prompts_of_promptfoo_go_back_and_forth(tmp_path: Path) -> None:
    given = [
        {
            "vars": {"question": "Why?", "tone": "dry"},
            "assert": [{"type": "equals", "value": "So"}],
        },
        {
            "vars": {"question": "What?"},
            "assert": [
                {"type": "contains", "value": '"that"'},
                {"type": "equals", "value": {"a": 1}},
                {"type": "equals", "value": "two\n\nlines"},
                {"type": "factuality", "value": "This."},
                {"type": "similar", "value": "[That]", "threshold": 0.8},
                {"type": "cost", "threshold": 0.01},
                {"type": "is-json", "value": {"type": "object"}},
            ],
        },
        {"vars": {"q": "4"}, "assert": [{"type": "factuality", "value": "5"}]},
        {"vars": {"prompt": "How?"}, "metadata": {"category": "x"}},
        {
            "vars": {"a": "1", "b": "2"},
            "assert": [
                {"type": "not-contains", "value": "3"},
                {"type": "llm-rubric", "value": "Is kind.\nIs brief."},
                {"type": "contains-any", "value": ["4", "5"]},
                {"type": "is-json"},
            ],
        },
        {"vars": {"q": "6"}, "assert": [{"type": "javascript", "value": "output === 7"}]},
        {"vars": {"q": "7"}, "assert": [{"type": "contains", "value": "file://run.js"}]},
        {"vars": {"prompt": json.dumps(TURNS), "extra": "y"}},
        {"vars": {"prompt": '[{"role": "owl", "content": "Hu?"}]'}},  # no chat of ours: a text
    ]
    path = tmp_path / "given.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in given))
    first = bring(path, "first")
    assert first.prompts.get(variables={"extra": "y"}).messages == TURNS
    file = tmp_path / "promptfoo-tests.jsonl"
    call_command("export", "first", str(file), verbosity=0)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row["vars"] for row in rows] == [row["vars"] for row in given]
    # Checks first: their place among the others says nothing.
    assert [in_order(row["assert"]) for row in rows[:5]] == [
        in_order(row.get("assert", [])) for row in given[:5]
    ]
    assert [row["assert"][0]["type"] for row in rows[:5] if row["assert"]] == [
        *("equals", "contains", "factuality", "not-contains")
    ]
    # An arena's rubric may be anybody's: nothing in it runs.
    assert [row["assert"] for row in rows[5:7]] == [
        [{"type": "llm-rubric", "value": "javascript: output === 7"}],
        [{"type": "llm-rubric", "value": "contains: file://run.js"}],
    ]
    second = bring(file, "second")
    assert facts(second, "rubric") == facts(first, "rubric")
    assert rules(second) == rules(first)
    assert len(rules(first)) == 9


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_prompts_go_back_and_forth_as_items_of_langfuse(
    arena: Arena, tmp_path: Path, ending: str
) -> None:
    arena.prompts.create(external_id="1", text="Why?", reference="So", category="why")
    arena.prompts.create(external_id="2", text="x", messages=TURNS, rubric="Be kind.")
    arena.prompts.create(external_id="3", text="Old?", retired_at=timezone.now())
    file = tmp_path / f"langfuse-items.{ending}"
    call_command("export", "mine", str(file), verbosity=0)
    back = bring(file, "back")
    assert [bool(time) for *_, time in facts(back, "retired_at")] == [False, False, True]
    told = [(fact[3], fact[4], fact[6]) for fact in facts(back, "rubric")]
    assert told == [("why", "So", ""), ("", "", "Be kind."), ("", "", "")]
    texts = [(text, messages) for _, text, messages, *_ in facts(back)]
    assert texts[0] == ("Why?", None)
    assert texts[1][1] == TURNS
    assert texts[2] == ("Old?", None)
    assert [prompt.external_id for prompt in back.prompts.order_by("pk")] == ["1", "2", "3"]


def test_items_of_langfuse_leave_as_they_came(tmp_path: Path) -> None:
    given = Path(__file__).parent.parent / "files" / "langfuse-items.json"
    bring(given, "there")
    call_command("export", "there", str(tmp_path / "langfuse-items.jsonl"), verbosity=0)
    lines = (tmp_path / "langfuse-items.jsonl").read_text().splitlines()
    first, second = map(json.loads, lines)
    came = json.loads(given.read_text())
    for row, before in ((first, came[0]), (second, came[1])):
        assert (row["id"], row["status"]) == (before["id"], before["status"])
    # An object that is one text leaves as that text.
    assert (first["input"], first["expectedOutput"]) == (
        came[0]["input"]["question"],
        came[0]["expectedOutput"]["answer"],
    )
    assert second["input"]["messages"] == came[1]["input"]
    assert second["expectedOutput"] == came[1]["expectedOutput"]


def test_only_the_team_gets_references(arena: Arena, client: Client) -> None:
    arena.prompts.create(external_id="1", text="Why?", reference="So", rubric="Be brief.")
    arena.visibility = "public"
    arena.save()
    path = f"arenas/{arena.slug}/prompt-exports/promptfoo-tests.jsonl"
    sent = token_of(arena.team).get(path)
    assert json.loads(sent.getvalue())["assert"][1] == {"type": "llm-rubric", "value": "Be brief."}
    assert token_of(make_team()).get(path).status_code in (403, 404)
    assert client.get(f"/api/v1/{path}").status_code in (401, 403, 404)
    page = client.get(f"/a/{arena.slug}/about/").text
    assert "Only the arena’s team can open these" in page
    assert "prompt-exports/langfuse-items.csv" in page
