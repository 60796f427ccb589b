"""Every reader accepts what the exporter writes: imports, `rank`, uploads and the API."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from unicodedata import normalize

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arena.actors import Actor
from arena.api.prompts import KIND as PROMPTS_OF_REQUESTS
from arena.api.prompts import RESPONSE_KIND as RESPONSES_OF_REQUESTS
from arena.files.tables import PROMPTS, RESPONSES, read_table
from arena.models import Arena, Prompt, Rater, Response, Team
from arena.services.arenas import create_arena
from arena.services.exports import export_arena
from arena.services.imports import BadRowsError, Options, import_files
from arena.services.prompts import upsert_prompts
from arena.services.responses import upsert_responses
from arena.validation import invisible_character
from ranking.votes import read_file
from tests.factories import make_arena, make_candidate, make_person, make_vote

pytestmark = pytest.mark.django_db
NUMBERS = count(1)

# Whatever the database takes: no NUL, no half of a character; lines end in every way there is.
TEXTS = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"])
    | st.sampled_from(list('\r\n\t"\\,;{}[]\u2028\x85\ufeff')),
    min_size=1,
    max_size=12,
).filter(str.strip)
NAMES = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"]), min_size=1, max_size=8
)
# A candidate's name is shown: composed, and nothing in it is invisible.
CANDIDATES = NAMES.filter(lambda name: not invisible_character(name)).map(
    lambda name: normalize("NFC", name)
)
VARIABLES = st.dictionaries(st.sampled_from(["tone", "größe", "id", "category", "text"]), TEXTS)
DETAILS = st.dictionaries(
    NAMES.filter(lambda name: "@" not in name and not name.endswith("_")),
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(-1e9, 1e9) | NAMES,
    max_size=3,
)
PROMPT = st.fixed_dictionaries(
    {"text": TEXTS, "category": st.just("") | NAMES, "reference": st.just("") | TEXTS},
    optional={"rubric": TEXTS, "variables": VARIABLES},
)
VOTE = st.tuples(
    st.sampled_from(["left", "right", "tie", "both_bad"]),
    st.none() | st.floats(0, 1),
    st.booleans(),
    DETAILS,
)


@contextmanager
def exported(arena: Arena) -> Iterator[Path]:
    folder = Path(mkdtemp())
    try:
        export_arena(arena=arena, target=folder / "out")
        yield folder / "out"
    finally:
        shutil.rmtree(folder)


def build(prompts: list[dict[str, Any]], names: list[str], votes: list[tuple[Any, ...]]) -> Arena:
    arena = create_arena(slug=f"round-{next(NUMBERS)}", name="Round")
    candidates = [make_candidate(arena, name) for name in names]
    for number, fields in enumerate(prompts):
        prompt = Prompt.objects.create(arena=arena, external_id=f"p{number}", **fields)
        for candidate in candidates:
            text = f"{candidate.name} answers\r\n{prompt.text}"
            Response.objects.create(candidate=candidate, prompt=prompt, text=text)
    if len(prompts) > 1:
        Prompt.objects.filter(pk=prompt.pk).update(retired_at=timezone.now())
    person, judge = (
        make_person(arena=arena, name="ann"),
        Rater.objects.create(kind="judge", name="J"),
    )
    for outcome, preference, is_judge, details in votes:
        if preference is not None:
            outcome = "tie" if preference == 0.5 else "left" if preference > 0.5 else "right"
        rater = judge if is_judge else person
        cast_at = datetime(2026, 1, 2, tzinfo=UTC)
        make_vote(
            arena,
            *candidates[:2],
            outcome,
            arena.prompts.first() if is_judge else None,
            rater,
            preference=preference,
            details=details or None,
            cast_at=cast_at,
        )
    return arena


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@given(
    st.lists(PROMPT, min_size=1, max_size=4, unique_by=lambda prompt: prompt["text"].strip()),
    st.lists(CANDIDATES, min_size=2, max_size=3, unique=True),
    st.lists(VOTE, min_size=1, max_size=5),
)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_an_export_is_read_by_every_entrance(
    prompts: list[dict[str, Any]], names: list[str], votes: list[tuple[Any, ...]]
) -> None:
    arena = build(prompts, names, votes)
    with exported(arena) as folder:
        files = {path.name: path.read_bytes() for path in folder.iterdir()}

        options = Options(visibility="public")
        report = import_files(
            slug=f"{arena.slug}-copy", paths=[folder], now=timezone.now(), options=options
        )
        copy = report.arena
        with exported(copy) as again:
            assert {path.name: path.read_bytes() for path in again.iterdir()} == files

        found, _ = read_file(folder)
        for raters in ("people", "judges"):
            assert found.counted.asked(raters, "").sum() == _count(votes, raters)

        wanted = {line["id"]: line for line in lines(folder / "prompts.jsonl")}
        uploaded = read_table(files["prompts.jsonl"], columns=PROMPTS)
        requested, refused = PROMPTS_OF_REQUESTS.read(list(wanted.values()))
        assert (uploaded.problems, refused) == ([], [])
        for rows in (uploaded.rows, requested):
            assert {row.external_id: row.text for row in rows} == {
                name: line["text"] for name, line in wanted.items()
            }
            for row in rows:
                line = wanted[row.external_id]
                assert row.variables == line.get("variables", {})
                assert row.retired == line.get("retired", False)

        answers = lines(folder / "responses.jsonl")
        uploaded_answers = read_table(files["responses.jsonl"], columns=RESPONSES)
        requested_answers, refused = RESPONSES_OF_REQUESTS.read(answers)
        assert (uploaded_answers.problems, refused) == ([], [])
        for given_rows in (uploaded_answers.rows, requested_answers):
            said = [(row.candidate, row.prompt, row.text) for row in given_rows]
            assert said == [(line["candidate"], line["prompt"], line["text"]) for line in answers]


def _count(votes: list[tuple[Any, ...]], raters: str) -> int:
    return sum(is_judge == (raters == "judges") for _, _, is_judge, _ in votes)


def test_messages_of_a_candidate_come_back_and_are_the_same_candidate() -> None:
    arena = make_arena(0, 1)
    turns = [
        {"role": "user", "content": "2 + 2"},
        {"role": "assistant", "content": "4"},
        {"role": "user", "content": "{{ prompt }}"},
    ]
    make_candidate(arena, "few-shot", messages=turns)
    with exported(arena) as folder:
        import_files(slug="back", paths=[folder], now=timezone.now(), options=Options())
        path = folder / "candidates.jsonl"
        assert json.loads(path.read_text())["messages"] == turns
        import_files(slug="back", paths=[path], now=timezone.now(), options=Options())
        path.write_text(path.read_text().replace('"4"', '"5"'))
        with pytest.raises(BadRowsError):
            import_files(slug="back", paths=[path], now=timezone.now(), options=Options())
    assert Arena.objects.get(slug="back").candidates.get().messages == turns


def test_exported_answers_fill_the_candidate_they_name(empty_team: Team) -> None:
    arena = make_arena(2, 3, team=empty_team)
    first, second = arena.candidates.order_by("pk")
    with exported(arena) as folder:
        data = (folder / "responses.jsonl").read_bytes()
    kept = list(second.responses.order_by("prompt").values_list("text", flat=True))
    second.responses.all().delete()

    table = read_table(data, columns=RESPONSES)
    report = upsert_responses(candidate=second, rows=table.rows, by=Actor())

    assert (report.added, report.missing) == (3, [])
    assert list(second.responses.order_by("prompt").values_list("text", flat=True)) == kept
    assert [problem.column for problem in report.refused] == ["candidate"] * 3
    assert f"is an answer of '{first.name}'" in report.refused[0].sentence


def test_a_column_that_never_names_the_candidate_is_ignored(empty_team: Team) -> None:
    arena = make_arena(1, 2, team=empty_team)
    ours = make_candidate(arena, "ours", team=empty_team)
    table = read_table(b"prompt_id,text,candidate\np0,a,John\np1,b,Jane\n", columns=RESPONSES)
    report = upsert_responses(candidate=ours, rows=table.rows, by=Actor())
    assert (report.added, report.refused) == (2, [])


def test_retired_prompts_are_retired_where_they_are_uploaded(empty_team: Team) -> None:
    arena = make_arena(0, 2)
    arena.prompts.filter(external_id="p1").update(retired_at=timezone.now())
    other = make_arena(0, 0, team=empty_team)
    with exported(arena) as folder:
        table = read_table((folder / "prompts.jsonl").read_bytes(), columns=PROMPTS)
    upsert_prompts(arena=other, rows=table.rows, by=Actor())
    assert [prompt.retired_at is not None for prompt in other.prompts.order_by("pk")] == [
        False,
        True,
    ]
    assert table.notices == []
