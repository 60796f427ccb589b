"""Prompts: uploaded once each, changed until they are used, archived after that."""

from datetime import UTC, datetime
from typing import Any

import pytest

from arena.actors import Actor
from arena.files.rows import PromptRow
from arena.files.tables import Problem
from arena.models import Arena, AuditEntry, Call, Candidate, Pair, Prompt
from arena.services.prompts import (
    PromptError,
    bring_back_prompt,
    retire_prompt,
    revise_prompt,
    upsert_prompts,
)
from arena.services.responses import UploadReport
from tests.factories import make_arena, make_team, make_vote

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 5, 1, tzinfo=UTC)
MANY = {f"v{n}": "x" for n in range(101)}


def upsert(arena: Arena, *rows: PromptRow, **options: Any) -> UploadReport:
    return upsert_prompts(arena=arena, rows=rows, by=Actor(), **options)


def texts(arena: Arena) -> dict[str, str]:
    return dict(arena.prompts.order_by("pk").values_list("external_id", "text"))


def test_prompts_come_with_their_ids_or_get_the_next_free_ones(empty_arena: Arena) -> None:
    row = PromptRow(
        3, "B?", "own", category="c", reference="r", rubric="strict", variables={"who": "Ada"}
    )
    report = upsert(
        empty_arena, PromptRow(1, "A?", "p2"), PromptRow(2, "First?"), row, PromptRow(4, "C?")
    )
    assert (report.added, report.problems) == (4, [])
    assert texts(empty_arena) == {"p2": "A?", "p1": "First?", "own": "B?", "p3": "C?"}
    own = empty_arena.prompts.get(external_id="own")
    assert (own.category, own.reference, own.rubric) == ("c", "r", "strict")
    assert own.variables == {"who": "Ada"}
    assert AuditEntry.objects.latest("pk").details["added"] == 4


def test_unchanged_prompts_are_reported_and_not_doubled(empty_arena: Arena) -> None:
    rows = [PromptRow(1, "A?"), PromptRow(2, "B?", "own")]
    upsert(empty_arena, *rows)
    count = AuditEntry.objects.count()
    report = upsert(empty_arena, *rows)
    assert (report.added, report.changed, report.unchanged) == (0, 0, 2)
    assert (len(texts(empty_arena)), AuditEntry.objects.count()) == (2, count)


def test_one_text_under_another_id_is_refused(empty_arena: Arena) -> None:
    upsert(empty_arena, PromptRow(1, "A?", "one"))
    report = upsert(empty_arena, PromptRow(1, "A?", "two"), PromptRow(2, "B?", "three"))
    assert report.refused[0].sentence == "Prompt 'one' already has this text."
    assert texts(empty_arena) == {"one": "A?", "three": "B?"}


def test_one_text_with_other_variables_is_another_prompt(empty_arena: Arena) -> None:
    report = upsert(
        empty_arena,
        PromptRow(1, "Hi {{ who }}", variables={"who": "Ada"}),
        PromptRow(2, "Hi {{ who }}", variables={"who": "Bob"}),
    )
    assert (report.added, len(texts(empty_arena))) == (2, 2)


def test_what_a_row_leaves_empty_stays(empty_arena: Arena) -> None:
    upsert(empty_arena, PromptRow(1, "A?", "one", category="c", reference="r"))
    Prompt.objects.update(html="<p>A?</p>", html_version=3)
    report = upsert(empty_arena, PromptRow(1, "A, really?", "one", category="d"))
    prompt = empty_arena.prompts.get()
    assert (report.changed, prompt.text, prompt.category) == (1, "A, really?", "d")
    assert (prompt.reference, prompt.html) == ("r", None)


@pytest.mark.parametrize("made_with", ["answers", "comparisons", "calls"])
def test_a_prompt_that_something_was_made_with_is_not_changed(made_with: str) -> None:
    arena = make_arena(2, 1 if made_with == "answers" else 0, team=make_team())
    first, second = arena.candidates.all()
    if made_with == "answers":
        prompt = arena.prompts.get()
    else:
        prompt = Prompt.objects.create(arena=arena, external_id="p0", text="Question 0?")
    if made_with == "comparisons":
        make_vote(arena, first, second, "left", prompt)
    if made_with == "calls":
        Candidate.objects.filter(pk=first.pk).update(endpoint="scripted", model="m")
        Call.objects.create(
            requester=first.requester, subject=f"prompt:{prompt.pk}", endpoint="scripted", model="m"
        )
    report = upsert(arena, PromptRow(1, "Other?", "p0"), PromptRow(2, "New?"))
    assert (report.added, report.changed) == (1, 0)
    assert "Prompt 'p0' already has answers or comparisons" in report.refused[0].sentence
    with pytest.raises(PromptError, match="only its document can be changed"):
        revise_prompt(prompt=prompt, by=Actor(), category="other")
    prompt.refresh_from_db()
    assert (prompt.text, prompt.category) in [("Question 0?", "category-0"), ("Question 0?", "")]
    assert revise_prompt(prompt=prompt, by=Actor(), text="Question 0?").pk == prompt.pk


def test_the_document_of_a_used_or_archived_prompt_is_changed() -> None:
    arena = make_arena(2, 2, team=make_team())
    used, archived = arena.prompts.order_by("pk")
    retire_prompt(prompt=archived, by=Actor(), now=NOW)
    rows = [PromptRow(n, "", name, document="guide") for n, name in ((1, "p0"), (2, "p1"))]
    assert upsert(arena, *rows).changed == 2
    assert set(arena.prompts.values_list("document", "text")) == {
        ("guide", "Question 0?"),
        ("guide", "Question 1?"),
    }
    report = upsert(arena, PromptRow(1, "", "p0", category="new", document="manual"))
    assert (report.changed, len(report.refused)) == (0, 1)
    assert revise_prompt(prompt=used, by=Actor(), document=" manual ").document == "manual"
    with pytest.raises(PromptError):
        revise_prompt(prompt=used, by=Actor(), document="guide", text="Other?")
    used.refresh_from_db()
    assert (used.document, used.text) == ("manual", "Question 0?")


def test_one_bad_row_keeps_all_out_where_that_is_wanted(empty_arena: Arena) -> None:
    upsert(empty_arena, PromptRow(1, "A?", "one"))
    report = upsert(empty_arena, PromptRow(1, "B?"), PromptRow(2, "A?", "two"), atomic=True)
    assert (report.written, report.added, len(report.problems)) == (False, 0, 1)
    assert texts(empty_arena) == {"one": "A?"}


def test_a_row_that_could_not_be_read_is_a_bad_row(empty_arena: Arena) -> None:
    unread = [Problem(2, "text", "The column 'text' is empty.")]
    report = upsert(empty_arena, PromptRow(1, "A?"), unread=unread, atomic=True)
    assert (report.written, report.added, report.problems) == (False, 0, unread)
    report = upsert(empty_arena, PromptRow(1, "A?"), unread=unread)
    assert (report.written, report.added, report.problems) == (True, 1, unread)


def test_a_retired_prompt_is_not_changed_by_a_file(empty_arena: Arena) -> None:
    upsert(empty_arena, PromptRow(1, "A?", "one"))
    retire_prompt(prompt=empty_arena.prompts.get(), by=Actor(), now=NOW)
    report = upsert(empty_arena, PromptRow(1, "B?", "one"))
    assert "is archived" in report.refused[0].sentence


def test_a_prompt_is_revised(empty_arena: Arena) -> None:
    upsert(empty_arena, PromptRow(1, "A?", "one"))
    prompt = empty_arena.prompts.get()
    revise_prompt(prompt=prompt, by=Actor(), text=" A, really?\r\n", variables={"who": "Ada"})
    prompt.refresh_from_db()
    assert (prompt.text, prompt.variables) == ("A, really?", {"who": "Ada"})


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"text": " "}, "text", "is empty"),
        ({"text": "B?"}, "text", "'two' already has this text"),
        ({"text": "a\0"}, "text", "NUL"),
        ({"category": "x" * 101}, "category", "101 characters"),
        ({"variables": []}, "variables", "not an object"),
        ({"variables": {"prompt": "x"}}, "variables", "other than prompt"),
        ({"variables": {"two words": "x"}}, "variables", "one word"),
        ({"variables": {"n": 1}}, "variables", "a number, not text"),
        ({"variables": MANY}, "variables", "101 variables; a prompt can have at most 100"),
    ],
)
def test_what_cannot_be_is_reported_at_its_field(
    empty_arena: Arena, changes: dict[str, Any], field: str, words: str
) -> None:
    upsert(empty_arena, PromptRow(1, "A?", "one"), PromptRow(2, "B?", "two"))
    prompt = empty_arena.prompts.get(external_id="one")
    with pytest.raises(PromptError) as refused:
        revise_prompt(prompt=prompt, by=Actor(), **changes)
    assert (refused.value.field, words in refused.value.message) == (field, True)
    assert texts(empty_arena)["one"] == "A?"


def test_a_prompt_cannot_be_made_too_long(empty_arena: Arena) -> None:
    upsert(empty_arena, PromptRow(1, "A?", "one"))
    with pytest.raises(PromptError, match="100,001 characters long"):
        revise_prompt(
            prompt=empty_arena.prompts.get(external_id="one"), by=Actor(), text="x" * 100_001
        )


def test_retired_prompts_leave_the_pairs_and_can_come_back() -> None:
    arena = make_arena(2, 3, team=make_team())
    prompt = arena.prompts.earliest("pk")
    retire_prompt(prompt=prompt, by=Actor(), now=NOW)
    assert Pair.objects.get(arena=arena).shared_prompts == 2
    assert Prompt.objects.get(pk=prompt.pk).retired_at == NOW
    bring_back_prompt(prompt=prompt, by=Actor())
    bring_back_prompt(prompt=prompt, by=Actor())
    assert Pair.objects.get(arena=arena).shared_prompts == 3
    actions = AuditEntry.objects.order_by("pk").values_list("action", flat=True)
    assert list(actions)[-2:] == ["retired a prompt", "brought back a prompt"]
