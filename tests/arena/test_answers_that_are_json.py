"""A text that happens to be JSON stays as it is, in every layout: it may be the answer."""

import csv
import json
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import example, given
from hypothesis import strategies as st

from arena.actors import CLI
from arena.files.rows import PromptRow, ResponseRow
from arena.formats import find_files
from arena.models import Response
from arena.services.imports import Options, import_files
from arena.services.pairs import sync_pairs
from ranking.exports import EXPORTS, write_file
from tests.factories import make_arena, make_person, make_vote

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab{[\"'", max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "text", "content", "answer"]), inner, max_size=2)
    ),
    max_leaves=4,
)
TEXTS = JSON.map(json.dumps)
TRICKY = ['{"a": 1}', '["x"]', '["x", "y"]', '"q"', "null", "1", "[]", "{}", "[null]"]


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def said(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def lines(*rows: Mapping[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def table(row: Mapping[str, Any]) -> str:
    out = StringIO()
    writer = csv.DictWriter(out, list(row))
    writer.writeheader()
    writer.writerow(row)
    return out.getvalue()


def battle(text: str) -> dict[str, Any]:
    texts = {"prompt": text, "response_a": text, "response_b": "Other."}
    return {"question_id": "q", "model_a": "m", "model_b": "n", **texts, "winner": "model_a"}


def marked(prompt: str, first: str, second: str) -> dict[str, Any]:
    flags = {"winner_model_a": 1, "winner_model_b": 0, "winner_tie": 0}
    texts = {"prompt": prompt, "response_a": first, "response_b": second}
    return {"id": 1, "model_a": "m", "model_b": "n", **texts, **flags}


def talk(text: str) -> dict[str, Any]:
    return {
        **{"question_id": "q", "model_a": "m", "model_b": "n", "winner": "model_a", "tstamp": 1.0},
        "conversation_a": [user(text), said(text)],
        "conversation_b": [user(text), said("Other.")],
    }


def pair(text: str) -> dict[str, Any]:
    return {"prompt": text, "chosen": text, "rejected": "Other."}


def trace(text: str) -> dict[str, Any]:
    """Langfuse writes inputs and outputs as JSON, in its tables and in its blob storage."""
    texts = {"input": json.dumps(text), "output": json.dumps(text)}
    return (
        {"id": "t", "timestamp": "2026-01-03T10:00:00Z", "model": "m", "name": "s"}
        | texts
        | {"latency": 1.5}
    )


def chats(*texts: str) -> str:
    return json.dumps([[user(texts[0])], [said(texts[1])]])


# Per layout: the file's name, and its content with this text as the question and as an answer.
# Those of "?" have a question of their own, because theirs is an object.
LAYOUTS: dict[str, tuple[str, Callable[[str], str]]] = {
    "lmarena": ("f.jsonl", lambda t: lines(battle(t))),
    "lmarena table": ("f.csv", lambda t: table(battle(t))),
    "lmarena flags": ("f.csv", lambda t: table(marked("Why?", t, "Other."))),
    "lmarena lists": (
        "f.csv",
        lambda t: table(marked(*(json.dumps([one]) for one in (t, t, "Other.")))),
    ),
    "lmarena conversations": ("f.jsonl", lambda t: lines(talk(t))),
    "alpaca-annotations": (
        "f.json",
        lambda t: json.dumps(
            [
                {"instruction": t, "output_1": t, "output_2": "Other.", "preference": 1.0}
                | {"generator_1": "m", "generator_2": "n", "annotator": "j"}
            ]
        ),
    ),
    "prometheus": (
        "f.jsonl",
        lambda t: lines(
            {"orig_instruction": t, "orig_response_A": t, "orig_response_B": "Other."}
            | {"orig_preference": "A"}
        ),
    ),
    "preferences": ("f.jsonl", lambda t: lines(pair(t))),
    "preferences table": ("f.csv", lambda t: table(pair(t))),
    "preferences chats": (
        "f.jsonl",
        lambda t: lines({"prompt": [user(t)], "chosen": [said(t)], "rejected": [said("Other.")]}),
    ),
    "preferences chats table": (
        "f.csv",
        lambda t: table(
            {"prompt": json.dumps([user(t)]), "chosen": json.dumps([said(t)])}
            | {"rejected": json.dumps([said("Other.")])}
        ),
    ),
    "preferences-unpaired": (
        "f.jsonl",
        lambda t: lines({"prompt": t, "completion": t, "label": True}),
    ),
    "preferences-unpaired table": (
        "f.csv",
        lambda t: table({"prompt": t, "completion": t, "label": "true"}),
    ),
    "alpaca-outputs": (
        "f.json",
        lambda t: json.dumps([{"instruction": t, "output": t, "generator": "m"}]),
    ),
    "answers": ("f.jsonl", lambda t: lines({"prompt": t, "response": t})),
    "answers table": ("f.csv", lambda t: table({"prompt": t, "response": t})),
    "mt-bench-answers": (
        "f.jsonl",
        lambda t: lines({"question_id": 1, "model_id": "m", "choices": [{"turns": [t]}]}),
    ),
    "openai-chat": ("f.jsonl", lambda t: lines({"messages": [user(t), said(t)]})),
    "openai-batch": (
        "f.jsonl",
        lambda t: lines(
            {
                "custom_id": "1",
                "response": {"body": {"model": "m", "choices": [{"message": said(t)}]}},
            }
        ),
    ),
    "langsmith-runs": (
        "f.jsonl",
        lambda t: lines(
            {"inputs": {"question": t}, "outputs": {"answer": t}, "run_type": "chain", "name": "m"}
        ),
    ),
    "langsmith-experiment": (
        "f.csv",
        lambda t: table(
            {"id": "e", "inputs": json.dumps({"question": t}), "reference_outputs": ""}
            | {"outputs": json.dumps({"answer": t}), "latency": 1.0}
        ),
    ),
    "langsmith-experiment members": (
        "f.csv",
        lambda t: table(
            {"inputs.question": t, "outputs.answer": t, "example_id": "e", "execution_time": 1}
        ),
    ),
    "langfuse-traces": ("f.jsonl", lambda t: lines(trace(t))),
    "langfuse-traces table": ("f.csv", lambda t: table(trace(t))),
    "braintrust": (
        "f.json",
        lambda t: json.dumps([{"input": t, "output": t, "metadata": {"model": "m"}}]),
    ),
    "braintrust table": (
        "f.csv",
        lambda t: table({"input": t, "output": t, "metadata": '{"model": "m"}'}),
    ),
    "weave": (
        "f.jsonl",
        lambda t: lines(
            {"op_name": "weave:///a/op/m:1", "started_at": "2026-01-01T00:00:00Z"}
            | {"inputs": {"question": t}, "output": t}
        ),
    ),
    "lm-eval": (
        "f.jsonl",
        lambda t: lines(
            {"doc_id": 0, "target": "5", "resps": [[t]]}
            | {"arguments": {"gen_args_0": {"arg_0": t, "arg_1": {}}}}
        ),
    ),
    "openai-evals-items": (
        "f.jsonl",
        lambda t: lines({"item": {"question": t}, "sample": {"model": "m", "output_text": t}}),
    ),
}
WITHOUT_QUESTION = {"mt-bench-answers", "openai-batch", "lmarena flags"}


def texts_in(path: Path) -> tuple[list[str], list[str]]:
    """The questions, and the answers, that a file becomes."""
    rows = [row.content for file in find_files([path]) for row in file.rows()]
    assert not [row for row in rows if isinstance(row, Exception)]
    return (
        [row.text for row in rows if isinstance(row, PromptRow)],
        [row.text for row in rows if isinstance(row, ResponseRow)],
    )


def examples(test: Callable[..., None]) -> Callable[..., None]:
    for text in TRICKY:
        test = example(text)(test)
    return test


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_keeps_it_byte_for_byte(layout: str) -> None:
    name, content = LAYOUTS[layout]

    @examples
    @given(TEXTS)
    def keeps(text: str) -> None:
        with TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.write_text(content(text))
            questions, answers = texts_in(path)
        assert text in answers
        assert set(answers) <= {text, "Other."}
        assert questions == ([text] if layout not in WITHOUT_QUESTION else questions)

    keeps()


@pytest.mark.any_database
@pytest.mark.django_db
@pytest.mark.parametrize("name", ["lmarena.csv", "lmarena.jsonl", "lmarena.parquet", "dpo.jsonl"])
def test_what_is_exported_comes_back(name: str, tmp_path: Path) -> None:
    arena = make_arena(2, len(TRICKY))
    left, right = arena.candidates.order_by("pk")
    person = make_person()
    for text, prompt in zip(TRICKY, arena.prompts.order_by("pk"), strict=True):
        left.responses.filter(prompt=prompt).update(text=text)
        vote = make_vote(arena, left, right, "left", prompt=prompt, rater=person)
        vote.comparison.left_response = left.responses.get(prompt=prompt)
        vote.comparison.right_response = right.responses.get(prompt=prompt)
        vote.comparison.save()
    sync_pairs(arena=arena)
    kind, _, ending = name.partition(".")
    path = tmp_path / name
    path.write_bytes(b"".join(write_file(EXPORTS[kind], ending, arena, CLI)))
    import_files(slug="back", paths=[path], now=timezone.now(), options=Options())
    back = Response.objects.filter(
        prompt__arena__slug="back", candidate__name__startswith=left.name
    )
    assert sorted(back.values_list("text", flat=True)) == sorted(TRICKY)
