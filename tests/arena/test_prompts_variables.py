"""A prompt's variables and its rubric travel with an arena that is exported and imported."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from arena.models import Arena
from tests.factories import make_arena, make_candidate

pytestmark = pytest.mark.django_db


def export(slug: str, folder: Path) -> None:
    call_command("export_arena", slug, str(folder), stdout=StringIO())


def load(slug: str, folder: Path) -> None:
    call_command("import_arena", slug, str(folder), "--quiet")


def test_they_come_back_as_they_were(tmp_path: Path) -> None:
    arena = make_arena(2, 2, slug="mine")
    arena.prompts.filter(external_id="p0").update(
        variables={"who": "Ada", "größe": "{{ who }}"}, reference="R", rubric="Strict."
    )
    export("mine", tmp_path / "out")
    load("copy", tmp_path / "out")
    fields = ("external_id", "text", "category", "reference", "rubric", "variables")
    copy = Arena.objects.get(slug="copy")
    assert list(copy.prompts.order_by("pk").values(*fields)) == list(
        arena.prompts.order_by("pk").values(*fields)
    )


def test_a_file_with_other_variables_names_another_prompt(tmp_path: Path) -> None:
    make_arena(0, 1, slug="mine")
    line = {"id": "p0", "text": "Question 0?", "category": "category-0", "variables": {"who": "B"}}
    (tmp_path / "prompts.jsonl").write_text(json.dumps(line))
    with pytest.raises(CommandError, match="with other content"):
        load("mine", tmp_path)


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ([], "is a list, not an object that maps names to texts"),
        ({"prompt": "x"}, "other than prompt"),
        ({"two words": "x"}, "one word"),
        ({"n": 1}, "a number, not text"),
        ({f"v{n}": "x" for n in range(101)}, "has 101 variables; a prompt can have at most 100"),
    ],
)
def test_variables_that_cannot_be_are_reported(tmp_path: Path, variables: Any, words: str) -> None:
    line = {"id": "p0", "text": "Why?", "variables": variables}
    (tmp_path / "prompts.jsonl").write_text(json.dumps(line))
    with pytest.raises(CommandError, match=words):
        load("copy", tmp_path)


def test_a_file_knows_a_candidate_by_its_own_name(tmp_path: Path) -> None:
    arena = make_arena(0, 1, slug="mine")
    hidden = make_candidate(arena, "hidden", disclosed_at=None, private_until_votes=5)
    line = {"candidate": "hidden", "prompt": "p0", "text": "So."}
    (tmp_path / "responses.jsonl").write_text(json.dumps(line))
    load("mine", tmp_path)
    assert hidden.responses.get().text == "So."
