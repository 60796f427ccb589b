"""Shapes of files that other tools write today, and odd files that people bring."""

import io
import json
import shutil
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from django.utils import timezone

from arena.files.reader import FileError
from arena.formats import find_files
from arena.models import Arena, Response
from arena.services.imports import ImportPreview, import_files, preview_files

FILES = Path(__file__).parent.parent / "files"
pytestmark = [pytest.mark.any_database, pytest.mark.django_db]


def bring(path: Path) -> Arena:
    import_files(slug="mine", paths=[path], now=timezone.now())
    return Arena.objects.get(slug="mine")


def preview(path: Path) -> ImportPreview:
    return preview_files(slug="mine", paths=[path])


def write(path: Path, rows: Iterable[object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def format_of(path: Path) -> str:
    return find_files([path])[0].format.NAME


OBSERVATION = {
    "id": "o1",
    "trace_id": "t1",
    "type": "GENERATION",
    "start_time": "2025-05-29 13:46:19.000000",
    "end_time": "2025-05-29 13:46:20.500000",
    "input": '[{"role": "user", "content": "Why?"}]',
    "output": '{"role": "assistant", "content": "So."}',
    "provided_model_name": "amber-7b",
    "usage_details": {"input": 11, "output": 3},
    "total_cost": 0.003,
}


def test_enriched_observations_of_langfuse_name_their_model_time_and_tokens(tmp_path):
    answer = bring(write(tmp_path / "o.jsonl", [OBSERVATION])).candidates.get().responses.get()
    assert answer.candidate.name == "amber-7b"
    assert (answer.seconds, answer.tokens_in, answer.tokens_out) == (1.5, 11, 3)
    assert (answer.text, answer.cost) == ("So.", 3_000_000)


def test_the_milliseconds_of_an_observation_are_not_taken_for_seconds(tmp_path):
    row = {name.replace("_", ""): value for name, value in OBSERVATION.items()}
    arena = bring(write(tmp_path / "o.jsonl", [row | {"latency": 1500}]))
    assert arena.candidates.get().responses.get().seconds == 1.5


def test_an_archived_item_of_langfuse_is_an_archived_prompt(tmp_path):
    item = {"id": "i1", "input": "Why?", "expectedOutput": "So.", "status": "ARCHIVED"}
    arena = bring(write(tmp_path / "i.jsonl", [item, item | {"id": "i2", "status": "ACTIVE"}]))
    archived = arena.prompts.order_by("external_id").values_list("retired_at", flat=True)
    assert [bool(time) for time in archived] == [True, False]


def test_each_rejected_answer_of_rewardbench_2_is_a_pair(tmp_path):
    row = {
        "id": "0",
        "prompt": "Why?",
        "chosen": ["So."],
        "rejected": ["No.", "Because.", "Well."],
        "models": ["amber", "basalt", "cedar", "dune"],
        "subset": "Factuality",
    }
    arena = bring(write(tmp_path / "a.jsonl", [row, row | {"id": "1", "models": ["same"] * 4}]))
    assert arena.votes.count() == 6
    names = {str(candidate) for candidate in arena.candidates.all()}
    assert {"amber", "basalt", "cedar", "dune", "chosen 1", "rejected 3"} <= names
    assert arena.prompts.get(external_id="0").responses.count() == 4


def test_pairs_of_one_prompt_with_other_answers_are_read(tmp_path):
    """UltraFeedback and our own pairs name the prompt, and repeat it with other answers."""
    row = {"prompt": "Why?", "prompt_id": "p1", "chosen": "So.", "rejected": "No."}
    arena = bring(write(tmp_path / "a.jsonl", [row, row | {"rejected": "Well."}]))
    assert arena.votes.count() == 2


def test_a_judge_that_contradicts_itself_has_not_voted(tmp_path):
    sides = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "So."}]
    row = {"question_id": 81, "model_a": "a", "model_b": "b", "judge": "gpt4_pair", "turn": 1}
    row |= {"conversation_a": sides, "conversation_b": sides, "winner": "tie (inconsistent)"}
    arena = bring(write(tmp_path / "human.jsonl", [row, row | {"winner": "model_a", "turn": 2}]))
    assert [vote.outcome for vote in arena.votes.all()] == ["left"]


def test_grades_of_mt_bench_are_votes_where_nothing_was_judged_in_pairs(tmp_path):
    folder = shutil.copytree(FILES / "mt-bench", tmp_path / "all")
    judgments = folder / "model_judgment"
    shutil.copy(FILES / "mt-bench-grades.jsonl", judgments / "amber-judge_single.jsonl")
    assert preview(folder).rows["votes"] == 3
    (judgments / "pair.jsonl").unlink()
    votes = bring(folder).votes.order_by("pk")
    assert [
        (str(vote.comparison.left), str(vote.comparison.right), vote.outcome, vote.details)
        for vote in votes
    ] == [
        ("amber-7b", "basalt-13b", "left", {"turn": 1, "grade_a": 9.0, "grade_b": 6.0}),
        ("amber-7b", "basalt-13b", "tie", {"turn": 2, "grade_a": 7.0, "grade_b": 7.0}),
        ("amber-7b", "cedar-3b", "tie", {"turn": 1, "grade_a": 9.0, "grade_b": 9.0}),
        ("basalt-13b", "cedar-3b", "right", {"turn": 1, "grade_a": 6.0, "grade_b": 9.0}),
    ]
    assert {(vote.rater.kind, vote.rater.name) for vote in votes} == {("judge", "amber-judge")}


def test_an_experiment_is_of_the_model_that_its_file_is_named_after(tmp_path):
    phoenix = {"example_id": "e1", "input": {"question": "Why?"}, "output": "So."}
    phoenix |= {"reference_output": {"answer": "Yes."}, "latency_ms": 900, "trace_id": "t"}
    phoenix |= {"start_time": "2026-01-01T00:00:00Z", "end_time": "2026-01-01T00:00:02Z"}
    bring(write(tmp_path / "gpt-mini.jsonl", [phoenix]))
    answer = Response.objects.get()
    assert (answer.candidate.name, answer.text, answer.seconds) == ("gpt-mini", "So.", 2.0)
    assert (answer.prompt.text, answer.prompt.reference) == ("Why?", "Yes.")
    assert format_of(tmp_path / "gpt-mini.jsonl") == "experiment"


def test_what_only_looks_like_prompts_is_refused(tmp_path):
    flat = {"prompt": "Why?", "response1": "So.", "preference.responses": [["response1"]]}
    with pytest.raises(FileError, match="there is no response_b and no winner"):
        preview(write(tmp_path / "a.jsonl", [flat]))
    old = tmp_path / "old.csv"
    old.write_text('q,[acme:amber] {{q}}\nWhy?,"[PASS] (1.00)\n\nSo."\n')
    assert "has the grade inside the answer" in preview(old).rejected.lines[0]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"instruction": "Translate", "input": "Ja", "output": "Yes"}, ("Translate\n\nJa", "Yes")),
        ({"conversations": [{"from": "human", "value": "Why?"}, {"from": "gpt", "value": "So."}]},
         ("Why?", "So.")),
        ({"inputs": {"q": "Why?"}, "outputs": "So.", "expectations": {"a": "S"}}, ("Why?", "So.")),
        ({"input": "Why?", "actual_output": None, "expected_output": "So."}, ("Why?", None)),
    ],
)  # fmt: skip
def test_questions_and_answers_of_further_tools(tmp_path, row, expected):
    prompt = bring(write(tmp_path / "a.jsonl", [row])).prompts.get()
    answer = prompt.responses.first()
    assert (prompt.text, answer and answer.text) == expected


def test_batches_of_anthropic_are_read(tmp_path):
    asked = {"system": "Be dry.", "messages": [{"role": "user", "content": "Why?"}]}
    said = {"role": "assistant", "model": "amber", "content": [{"type": "text", "text": "So."}]}
    write(tmp_path / "in.jsonl", [{"custom_id": "r1", "params": asked}])
    result = {"type": "succeeded", "message": said | {"usage": {"input_tokens": 3}}}
    write(tmp_path / "out.jsonl", [{"custom_id": "r1", "result": result}])
    prompt = bring(tmp_path).prompts.get()
    assert [message["role"] for message in prompt.messages] == ["system", "user"]
    assert prompt.responses.get().tokens_in == 3


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        (",question,answer,contexts,ground_truth", "0,Why?,So.,c,So!"),
        (",user_input,retrieved_contexts,response,reference", "0,Why?,c,So.,So!"),
        ("input,actual_output,expected_output", "Why?,So.,So!"),
    ],
)
def test_tables_of_evaluations_are_answers_with_a_reference(tmp_path, header, cells):
    path = tmp_path / "amber.csv"
    path.write_text(f"{header}\n{cells}\n")
    prompt = bring(path).prompts.get()
    assert (prompt.text, prompt.reference, prompt.variables) == ("Why?", "So!", {})
    assert prompt.responses.get().text == "So."
    assert "" not in preview(path).files[0].names


def test_samples_of_openai_evals_are_prompts_with_a_reference(tmp_path):
    chat = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Why?"}]
    prompt = bring(write(tmp_path / "s.jsonl", [{"input": chat, "ideal": "So."}])).prompts.get()
    assert (prompt.messages, prompt.reference) == (chat, "So.")


def test_a_time_of_promptfoo_that_no_number_can_hold_is_left_out(tmp_path):
    row = {"promptIdx": 0, "vars": {"q": "Why?"}, "provider": {"id": "a"}, "latencyMs": 10**400}
    row |= {"prompt": {"raw": "Why?", "label": "{{q}}"}, "response": {"output": "So."}}
    arena = bring(write(tmp_path / "r.jsonl", [row]))
    assert arena.candidates.get().responses.get().seconds is None


def test_tests_of_promptfoo_are_prompts_without_their_project(tmp_path):
    path = tmp_path / "tests.csv"
    path.write_text("question,tone,__expected\nWhy?,dry,contains: so\nHow?,,So.\n")
    first, second = bring(path).prompts.order_by("pk")
    assert (first.variables, first.rubric) == ({"question": "Why?", "tone": "dry"}, "")
    assert (second.text, second.reference) == ("How?", "So.")
    assert [str(check) for check in first.checks.all()] == ["Contains “so”"]
    assert [str(check) for check in second.checks.all()] == ["Equals “So.”"]


def test_a_table_of_prompts_needs_no_special_name(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("id,text,category,tone\n1,Why?,x,dry\n2,How?,y,kind\n")
    assert format_of(path) == "prompts"
    first = bring(path).prompts.get(external_id="1")
    assert (first.text, first.category, first.variables) == ("Why?", "x", {})


def test_prompts_of_an_export_are_told_apart_under_any_name(tmp_path):
    rows = [{"id": "1", "text": "Why?", "variables": {"tone": "dry"}}, {"id": "2", "text": "How?"}]
    assert bring(write(tmp_path / "copy.jsonl", rows)).prompts.get(external_id="1").variables == {
        "tone": "dry"
    }
    assert format_of(write(tmp_path / "prompts.jsonl", rows)) == "native"


@pytest.mark.parametrize("row", [{"a": "x", "b": "y"}, {"candidate": "x"}, {"user_template": "x"}])
def test_votes_answers_and_candidates_are_not_taken_for_prompts(tmp_path, row):
    path = write(tmp_path / "x.jsonl", [row | {"prompt": "1", "text": "t"}])
    with pytest.raises(FileError, match="not a file of a known format"):
        find_files([path])


@pytest.mark.parametrize(
    ("member", "content", "words"),
    [
        ("a/book.xlsx", b"PK\x03\x04[Content_Types].xml xl/", "is Excel, but cannot be read"),
        ("a/more.csv.gz", b"\x1f\x8b\x08\x00", "is a gzip archive; unpack it first"),
        ("a/notes.doc", b"notes", "has no file of a known format"),
    ],
)
def test_a_zip_without_a_usable_file_says_why_and_names_no_path_of_the_server(
    tmp_path, member, content, words
):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(member, content)
        archive.writestr("a/zz.txt", b"notes")
    path = tmp_path / "all.zip"
    path.write_bytes(packed.getvalue())
    with pytest.raises(FileError, match=words) as error:
        preview(path)
    assert str(error.value).startswith("all.zip")
    assert "ringside-" not in str(error.value)


def damaged(path: Path, how: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.csv", "prompt,response\na,b\n")
        archive.writestr("b.csv" if how == "cut" else how, "x")
    if how == "cut":
        path.write_bytes(path.read_bytes()[3:])  # its list of files has other offsets now
    return path


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("how", ["cut", "a.csv", "a.csv/b.csv"])
def test_a_damaged_archive_is_refused_with_the_remedy(tmp_path, how):
    with pytest.raises(FileError, match="pack it again"):
        preview(damaged(tmp_path / "all.zip", how))


def test_a_column_named_twice_is_the_reason_that_is_given(tmp_path):
    path = tmp_path / "twice.csv"
    path.write_text("prompt,prompt,response\na,b,c\n")
    with pytest.raises(FileError, match="names the column 'prompt' twice"):
        find_files([path])
