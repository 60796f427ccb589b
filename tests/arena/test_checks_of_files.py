"""Assertions of promptfoo become checks of their prompts, and checks leave and come back."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from arena.actors import CLI
from arena.checks import MOST_CHECKS
from arena.files.reader import FileError
from arena.formats.assertions import read_assertion, write_assertion
from arena.models import Arena, Import
from arena.services import imports
from arena.services.checks import add_check
from arena.services.exports import export_arena
from arena.services.imports import BadRowsError, import_files, preview_files
from tests.factories import make_arena

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]
SCHEMA = {"type": "object", "required": ["a"]}


def project(folder: Path, *assertions: Any) -> Path:
    path = folder / "tests.jsonl"
    path.write_text(json.dumps({"vars": {"q": "Why?"}, "assert": list(assertions)}))
    return path


def bring(path: Path, slug: str = "mine") -> Arena:
    import_files(slug=slug, paths=[path], now=timezone.now())
    return Arena.objects.get(slug=slug)


def rules(arena: Arena) -> list[tuple[Any, ...]]:
    fields = ("prompt__external_id", "kind", "expected", "negated", "name", "allowed")
    return list(arena.checks.order_by("prompt", "pk").values_list(*fields))


@pytest.mark.parametrize(
    ("assertion", "kind", "expected"),
    [
        ({"type": "contains", "value": '"that"'}, "contains", '"that"'),
        ({"type": "not-icontains", "value": "x"}, "icontains", "x"),
        ({"type": "contains-all", "value": ["a", "b"]}, "contains-all", '["a", "b"]'),
        ({"type": "not-contains-any", "value": ["4"]}, "contains-any", '["4"]'),
        ({"type": "icontains-any", "value": ["A, b"]}, "icontains-any", '["A, b"]'),
        ({"type": "starts-with", "value": "Dear {{ who }}"}, "starts-with", "Dear {{ who }}"),
        ({"type": "regex", "value": r"^\d{2}"}, "regex", r"^\d{2}"),
        ({"type": "equals", "value": "So"}, "equals", "So"),
        ({"type": "equals", "value": {"a": 1}}, "equals", '{"a": 1}'),
        ({"type": "is-json"}, "is-json", ""),
        ({"type": "not-is-json"}, "is-json", ""),
        ({"type": "is-json", "value": SCHEMA}, "is-json", json.dumps(SCHEMA)),
        ({"type": "latency", "threshold": 2500}, "latency", "2.5"),
        ({"type": "cost", "threshold": 0.002}, "cost", "0.002"),
        ({"type": "word-count", "value": 5}, "word-count", "exactly 5"),
        ({"type": "word-count", "value": {"min": 5, "max": 9}}, "word-count", "5 to 9"),
        ({"type": "word-count", "value": {"max": 9}}, "word-count", "at most 9"),
        ({"type": "word-count", "value": {"min": 9}}, "word-count", "at least 9"),
        ({"type": "javascript", "value": "output.length <= 9"}, "length", "at most 9"),
        (
            {"type": "javascript", "value": "output.length >= 3 && output.length <= 9"},
            *("length", "3 to 9"),
        ),
        ({"type": "contains", "value": "x", "metric": "Tone"}, "contains", "x"),
    ],
)
def test_what_needs_no_model_is_a_check_and_an_assertion_again(
    assertion: dict[str, Any], kind: str, expected: str
) -> None:
    check = read_assertion(assertion)
    assert check is not None
    assert (check["kind"], check["expected"]) == (kind, expected)
    assert check["negated"] is assertion["type"].startswith("not-")
    assert (check["name"] == "Tone") is ("metric" in assertion)
    stored = check if "metric" in assertion else check | {"name": ""}
    assert write_assertion(stored) == assertion


def test_values_in_a_table_are_texts() -> None:
    for assertion, expected in (
        ({"type": "contains-any", "value": "a, b"}, '["a", "b"]'),
        ({"type": "is-json", "value": '{"type": "object"}'}, '{"type": "object"}'),
        ({"type": "contains", "value": 12}, "12"),
    ):
        check = read_assertion(assertion)
        assert check is not None
        assert check["expected"] == expected


@pytest.mark.parametrize(
    "assertion",
    [
        {"type": "llm-rubric", "value": "is polite"},
        {"type": "similar", "value": "x", "threshold": 0.8},
        {"type": "javascript", "value": "output.length <= 9 || fetch('x')"},
        {"type": "python", "value": "True"},
        {"type": "contains", "value": "file://x.txt"},
        {"type": "contains", "value": "{{ a | upper }}"},
        {"type": "contains", "value": "{% if a %}x{% endif %}"},
        {"type": "contains", "value": ["x"]},
        {"type": "contains", "value": ""},
        {"type": "contains", "value": "x", "transform": "output.trim()"},
        {"type": "contains-any", "value": [{"a": 1}]},
        {"type": "contains-json", "value": {}},
        {"type": "regex", "value": "(?!x)"},
        {"type": "is-json", "value": "file://schema.json"},
        {"type": "is-json", "value": {"$ref": "http://a.example/"}},
        {"type": "not-latency", "threshold": 5},
        {"type": "latency"},
        {"type": "cost", "threshold": "much"},
        {"type": "cost", "threshold": 1e-12},
        {"type": "word-count", "value": "file://x"},
        {"type": None},
        {},
    ],
)
def test_what_needs_a_model_or_a_program_is_no_check(assertion: dict[str, Any]) -> None:
    assert read_assertion(assertion) is None


def test_checks_are_counted_before_and_added_once(tmp_path: Path) -> None:
    given = [
        {"type": "contains", "value": "x"},
        {"type": "contains", "value": "x"},
        {"type": "cost", "threshold": 0.1},
        {"type": "javascript", "value": "output === 7"},
        {"type": "llm-rubric", "value": "is kind"},
    ]
    path = project(tmp_path, *given)
    preview = preview_files(slug="mine", paths=[path])
    assert preview.rows == {"prompts": 1, "checks": 2}
    assert preview.files[0].unread == ["'javascript as a check'"]
    out = StringIO()
    call_command("import_arena", "mine", path, stdout=out)
    assert "1 prompt with 2 checks added" in out.getvalue()
    assert "not used: 'javascript as a check'" in out.getvalue()
    arena = Arena.objects.get()
    assert arena.prompts.get().rubric == "javascript: output === 7\nis kind"
    before = rules(arena)
    assert [rule[1] for rule in before] == ["contains", "cost"]
    bring(path)
    assert rules(arena) == before
    # A longer list of the same test adds what is new.
    longer = project(tmp_path, *given, {"type": "equals", "value": "y"})
    with pytest.raises(BadRowsError, match="with other content"):  # its reference
        bring(longer)
    longer = project(tmp_path, *given, {"type": "starts-with", "value": "y"})
    bring(longer)
    assert [rule[1] for rule in rules(arena)] == ["contains", "cost", "starts-with"]


def test_a_hundred_assertions_are_checks_and_the_rest_stays_in_the_rubric(tmp_path: Path) -> None:
    given = [{"type": "contains", "value": f"x{n}"} for n in range(MOST_CHECKS + 1)]
    arena = bring(project(tmp_path, *given))
    assert arena.checks.count() == MOST_CHECKS
    assert arena.prompts.get().rubric == f"contains: x{MOST_CHECKS}"


def test_checks_of_an_import_are_hidden_until_it_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project(tmp_path, {"type": "contains", "value": "x"})

    def killed(*_: Any) -> None:
        raise FileError("The power is cut.")

    with monkeypatch.context() as patch:
        patch.setattr(imports, "_reveal_imports", killed)
        with pytest.raises(FileError):
            bring(path)
    arena = Arena.objects.get()
    assert (arena.checks.count(), arena.checks.revealed().count()) == (1, 0)
    bring(path)
    assert arena.checks.revealed().count() == 1
    # Another file discards what an abandoned one has left.
    Import.objects.update(revealed_at=None)
    path.write_text('{"vars": {"q": "How?"}, "assert": []}')
    bring(path)
    assert not arena.checks.exists()


@pytest.mark.parametrize("packed", [False, True])
def test_checks_leave_with_an_export_and_come_back(tmp_path: Path, packed: bool) -> None:
    arena = make_arena(2, 2, slug="mine")
    prompt = arena.prompts.order_by("pk")[0]
    add_check(arena=arena, by=CLI, kind="guard", prompt=prompt, name="Refunds")
    add_check(arena=arena, by=CLI, kind="contains", expected="x", prompt=prompt, negated=True)
    add_check(arena=arena, by=CLI, kind="length", expected="9", allowed=2)
    target = tmp_path / ("all.zip" if packed else "all")
    export_arena(arena=arena, target=target)
    if not packed:
        assert json.loads((target / "arena.json").read_text())["checks"] == [
            {"kind": "length", "expected": "at most 9", "allowed": 2}
        ]
        first, second = (target / "prompts.jsonl").read_text().splitlines()
        assert json.loads(first)["checks"][0] == {"kind": "guard", "name": "Refunds"}
        assert "checks" not in json.loads(second)
    assert rules(bring(target, "back")) == rules(arena)
    assert len(rules(arena)) == 3


def test_bad_checks_in_files_are_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "prompts.jsonl").write_text(
        '{"id": "1", "text": "Why?", "checks": [{"kind": "regex", "expected": "("}]}\n'
    )
    with pytest.raises(BadRowsError, match="column checks: has a check whose expected is not a"):
        bring(tmp_path)
    (tmp_path / "prompts.jsonl").write_text('{"id": "1", "text": "Why?"}\n')
    (tmp_path / "arena.json").write_text('{"ringside": 1, "checks": [{"kind": "like"}]}')
    with pytest.raises(FileError, match=r"arena\.json has a check whose kind is 'like'"):
        bring(tmp_path)
