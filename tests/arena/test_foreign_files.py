"""Files of other tools become arenas; `tests/files/README.md` names the format of each sample."""

import gzip
import json
import shutil
import stat
import zipfile
from io import StringIO
from pathlib import Path

import pyarrow
import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from pyarrow import parquet

from arena.formats import find_files
from arena.models import Arena, Candidate, Import, Prompt, Response, Vote
from arena.services.imports import BadRowsError, Options, import_files, preview_files

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]

FILES = Path(__file__).parent.parent / "files"
# What each sample becomes: its format, and how many prompts, candidates, answers and votes.
SAMPLES = {
    "lmarena-wide.csv": ("lmarena", 2, 3, 4, 2),
    "lmarena.jsonl": ("lmarena", 2, 3, 4, 2),
    "lmarena-140k.jsonl": ("lmarena", 2, 2, 4, 2),
    "lmarena-expert.jsonl": ("lmarena", 2, 2, 4, 2),
    "battles.json": ("lmarena", 0, 2, 0, 2),
    "autoarena": ("answers", 2, 2, 4, 0),
    "autoarena-judged": ("lmarena", 1, 2, 2, 3),
    "alpaca-outputs.json": ("alpaca-outputs", 2, 1, 2, 0),
    "alpaca-annotations.json": ("alpaca-annotations", 3, 2, 6, 3),
    "mt-bench": ("mt-bench-questions", 2, 2, 4, 3),
    "promptfoo.json": ("promptfoo", 2, 2, 3, 0),
    "promptfoo.csv": ("promptfoo-table", 2, 2, 3, 0),
    "langfuse-items.json": ("langfuse", 2, 0, 0, 0),
    "langfuse-traces.csv": ("langfuse-traces", 1, 2, 2, 0),
    "langfuse-observations.json": ("langfuse-traces", 1, 1, 1, 0),
    "langsmith-examples.jsonl": ("langsmith", 2, 0, 0, 0),
    "langsmith-runs.jsonl": ("langsmith-runs", 1, 1, 1, 0),
    "langsmith-experiment.csv": ("langsmith-experiment", 1, 1, 1, 0),
    "langsmith-table.csv": ("langsmith-table", 2, 0, 0, 0),
    "langsmith-to-pandas.csv": ("langsmith-experiment", 2, 1, 1, 0),
    "langsmith-download.csv": ("langsmith-csv", 2, 0, 0, 0),
    "inspect.json": ("inspect", 2, 1, 2, 0),
    "helm.json": ("helm", 1, 1, 1, 0),
    "lm-eval.jsonl": ("lm-eval", 1, 1, 1, 0),
    "weave.jsonl": ("weave", 1, 1, 1, 0),
    "braintrust.json": ("braintrust", 1, 1, 1, 0),
    "openai-evals-items.jsonl": ("openai-evals-items", 2, 1, 1, 0),
    "openai-chat.jsonl": ("openai-chat", 2, 1, 2, 0),
    "openai-batch-input.jsonl": ("openai-batch-input", 1, 0, 0, 0),
    "preferences.jsonl": ("preferences", 2, 2, 4, 2),
    "preferences-implicit.jsonl": ("preferences", 1, 2, 2, 1),
    "preferences-unpaired.jsonl": ("preferences-unpaired", 2, 3, 4, 2),
    "hh-rlhf.jsonl": ("preferences", 1, 2, 2, 1),
    "rewardbench.csv": ("preferences", 2, 2, 4, 2),
    "prometheus.jsonl": ("prometheus", 1, 2, 2, 1),
}
CHAT = json.dumps([{"role": "user", "content": "What is 3 + 4?"}])


def counts() -> tuple[int, ...]:
    return tuple(model.objects.count() for model in (Prompt, Candidate, Response, Vote))


def bring(*paths: Path, slug: str = "mine", **options: object) -> Arena:
    import_files(slug=slug, paths=list(paths), now=timezone.now(), options=Options(**options))
    return Arena.objects.get(slug=slug)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_recognised_by_its_content_and_becomes_an_arena(name):
    format_name, *expected = SAMPLES[name]
    assert format_name == find_files([FILES / name])[0].format.NAME
    preview = preview_files(slug="mine", paths=[FILES / name])
    assert not preview.rejected.count
    assert not Import.objects.exists()
    bring(FILES / name)
    assert counts() == tuple(expected)
    n_votes = expected[-1]
    assert preview.rows.get("votes", 0) == n_votes
    assert preview.rows.get("prompts", 0) == expected[0]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_imported_twice_adds_nothing(name):
    bring(FILES / name)
    before = counts()
    bring(FILES / name)
    assert counts() == before


def test_a_sample_that_was_edited_since_adds_what_is_new(tmp_path):
    path = tmp_path / "lmarena.jsonl"
    shutil.copy(FILES / "lmarena.jsonl", path)
    bring(path)
    row = json.loads(path.read_text().splitlines()[0]) | {"question_id": "q-3"}
    path.write_text(json.dumps(row) + "\n")
    bring(path)
    assert counts() == (3, 3, 6, 3)


def test_lmarena_votes_keep_rater_time_and_conversation():
    arena = bring(FILES / "lmarena.jsonl")
    first, second = arena.votes.order_by("pk")
    assert (first.outcome, second.outcome) == ("right", "both_bad")
    assert (first.rater.name, first.cast_at.isoformat()) == (
        "voter_7",
        "2023-11-14T22:13:20.250000+00:00",
    )
    assert first.comparison.left_response.text == "Spoon."
    prompt = second.comparison.prompt
    assert prompt.category == "German"
    assert [message["content"] for message in prompt.messages] == ["Wie spät ist es?", "Schade."]
    answer = second.comparison.left_response
    assert [message["role"] for message in answer.messages] == ["assistant", "user", "assistant"]
    assert answer.text == "Keine Ahnung.\n\nJa."


def test_votes_of_autoarenas_judges_are_not_those_of_people():
    votes = bring(FILES / "autoarena-judged").votes.order_by("rater__kind", "rater__name")
    assert [(vote.rater.kind, vote.rater.name, vote.outcome) for vote in votes] == [
        ("judge", "acme-judge-1", "tie"),
        ("judge", "acme-judge-2", "right"),
        ("person", "Human", "left"),
    ]


def test_a_preference_from_1_to_2_is_a_soft_vote_of_the_judge():
    arena = bring(FILES / "alpaca-annotations.json")
    votes = arena.votes.order_by("pk")
    assert [vote.preference for vote in votes] == [0.75, 0.0, 0.5]
    assert [vote.outcome for vote in votes] == ["left", "right", "tie"]
    assert {(vote.rater.kind, vote.rater.name) for vote in votes} == {("judge", "weighted_judge")}


def test_both_games_of_mt_bench_are_votes_and_an_error_is_none():
    arena = bring(FILES / "mt-bench")
    votes = [
        (str(vote.comparison.left), vote.outcome, vote.comparison.prompt.external_id)
        for vote in arena.votes.order_by("pk")
    ]
    assert votes == [
        ("amber-7b", "left", "81"),
        ("basalt-13b", "tie", "81"),
        ("amber-7b", "right", "101"),
    ]
    assert arena.prompts.get(external_id="101").reference == "42\n\n21"


def test_promptfoo_keeps_variables_templates_assertions_and_cost():
    arena = bring(FILES / "promptfoo.json")
    prompt = arena.prompts.get(text__contains="France")
    assert prompt.variables == {"question": prompt.text, "tone": "friendly"}
    assert (prompt.reference, prompt.rubric) == ("Paris", "is friendly")
    names = [str(check) for check in prompt.checks.order_by("pk")]
    assert names == ["Equals “Paris”", "Contains “!”"]
    candidate = arena.candidates.get(model="amber-7b")
    assert candidate.user_template == "Answer briefly: {{question}} ({{tone}})"
    answer = prompt.responses.get(candidate=candidate)
    assert (answer.seconds, answer.cost, answer.tokens_out) == (0.812, 21_000, 10)


def test_a_table_of_promptfoo_is_read_without_errors_and_apostrophes():
    arena = bring(FILES / "promptfoo.csv")
    formal = arena.candidates.get(variant="formal")
    assert (formal.model, formal.user_template, formal.responses.count()) == ("basalt-13b", "", 1)
    prompt = arena.prompts.get(text="What is 2 - 3?")
    assert prompt.variables == {"question": prompt.text, "tone": "friendly"}
    assert prompt.responses.get().text == "-1, as you say!"


def test_samples_of_inspect_keep_their_steps_target_and_first_epoch():
    arena = bring(FILES / "inspect.json")
    first, second = arena.prompts.order_by("pk")
    assert (first.text, first.reference) == ("Is snow cold?", "Yes")
    answer = first.responses.get()
    assert (answer.text, answer.tokens_in, answer.seconds) == ("Yes.", 20, 0.9)
    steps = second.responses.get().messages
    assert [message["role"] for message in steps] == ["assistant", "tool", "assistant"]
    assert steps[0]["tool_calls"][0]["function"]["name"] == "measure"


def test_a_step_of_inspect_may_be_written_as_json(tmp_path):
    log = json.loads((FILES / "inspect.json").read_text())
    for sample in log["samples"]:
        sample["messages"] = [json.dumps(step) for step in sample["messages"]]
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log))
    arena = bring(path)
    texts = arena.prompts.order_by("pk").values_list("text", "responses__text")
    given = bring(FILES / "inspect.json", slug="plain").prompts.order_by("pk")
    assert [*texts] == [*given.values_list("text", "responses__text")]


def test_a_packed_log_of_inspect_is_read_without_its_summaries(tmp_path):
    log = json.loads((FILES / "inspect.json").read_text())
    samples = log.pop("samples")
    with zipfile.ZipFile(tmp_path / "log.eval", "w") as archive:
        archive.writestr("header.json", json.dumps(log))
        archive.writestr("_journal/summaries/1.json", json.dumps([{"id": 1, "input": "x"}]))
        for sample in samples:
            name = f"samples/{sample['id']}_epoch_{sample['epoch']}.json"
            archive.writestr(name, json.dumps(sample))
    assert previewed(tmp_path / "log.eval") == ({"inspect"}, (2, 1, 2, 0), [])


def test_both_sides_of_hh_rlhf_are_conversations():
    prompt = bring(FILES / "hh-rlhf.jsonl").prompts.get()
    assert [message["role"] for message in prompt.messages] == ["user", "assistant", "user"]
    chosen = prompt.responses.get(candidate__name="chosen")
    assert chosen.text == "Patch the tube:\n\n1. Dry it.\n2. Glue it."


def test_items_of_openais_evals_have_a_question_and_a_reference():
    arena = bring(FILES / "openai-evals-items.jsonl")
    first, second = arena.prompts.order_by("pk")
    assert (first.text, first.reference) == ("The printer is silent.", "Hardware")
    assert (second.text, second.reference) == ("Who repairs it?", "The help desk")
    assert second.responses.get().text == "Ask the help desk."


def test_what_is_expected_is_a_reference_and_never_a_variable():
    arena = bring(FILES / "langfuse-items.json")
    first, second = arena.prompts.order_by("pk")
    assert (first.text, first.reference) == (
        "How do I reset my password?",
        "On the page Account.",
    )
    assert (first.variables, second.variables) == ({}, {})
    assert [message["role"] for message in second.messages] == ["system", "user"]


def test_langsmiths_tables_have_references_and_answers_as_its_sdk_writes_them():
    bring(FILES / "langsmith-table.csv", slug="dataset")
    first, second = bring(FILES / "langsmith-to-pandas.csv").prompts.order_by("pk")
    assert (first.text, first.reference, first.variables) == ("Who wrote Emma?", "Austen", {})
    answer = first.responses.get()
    assert (answer.text, answer.seconds, answer.candidate.name) == (
        "Jane Austen.",
        1.25,
        "langsmith-to-pandas",
    )
    assert not second.responses.exists()
    written = Prompt.objects.filter(arena__slug="dataset").values_list("text", "reference")
    assert [*written] == [("Who wrote Emma?", "Jane Austen"), ("What is 2 + 3?", "5")]


def test_a_downloaded_dataset_of_langsmith_has_a_column_for_each_key(tmp_path):
    first, second = bring(FILES / "langsmith-download.csv").prompts.order_by("pk")
    assert (first.external_id, first.text, first.reference) == (
        "e1",
        "Who wrote Emma?",
        "Jane Austen",
    )
    assert (second.text, second.reference, second.variables) == ("What is 2 + 3?", "", {})
    chosen = {"input": "input_tone", "expected": "output_answer"}
    skip = {"skip_bad": True, "rejects_folder": tmp_path}
    arena = bring(FILES / "langsmith-download.csv", slug="tone", columns=chosen, **skip)
    assert [prompt.text for prompt in arena.prompts.all()] == ["formal"]


def test_an_answer_that_is_desirable_wins_against_one_that_is_not(tmp_path):
    arena = bring(FILES / "preferences-unpaired.jsonl")
    answer = Response.objects.get(candidate__name="desirable", prompt__text="Is ice cold?")
    assert answer.text == "Yes."
    for vote in arena.votes.all():
        winner = getattr(vote.comparison, vote.outcome)
        assert winner.name == "desirable"
    path = tmp_path / "odd.jsonl"
    for label, words in ((0.5, "not true or false"), (False, "contradicts an earlier row")):
        row = {"prompt": "Why?", "completion": "So.", "label": True}
        path.write_text(json.dumps(row) + "\n" + json.dumps(row | {"label": label}))
        _, _, bad = previewed(path)
        assert "line 2, column label: " in bad[0]
        assert words in bad[0]


def test_battles_with_one_question_share_a_prompt_unless_a_model_said_something_else(tmp_path):
    row = json.loads((FILES / "lmarena.jsonl").read_text().splitlines()[0])
    row["rater_kind"] = "person"
    other = [*row["conversation_a"][:-1], {"role": "assistant", "content": "Fork."}]
    rows = [row | {"question_id": f"q{n}", "judge": f"j{n}"} for n in range(600)]
    rows[-1] |= {"conversation_a": other, "rater_kind": "jury"}
    path = tmp_path / "battles.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    arena = bring(path)
    assert counts() == (2, 2, 4, 600)
    assert {*arena.prompts.values_list("external_id", flat=True)} == {"q0", "q599"}
    assert arena.votes.get(comparison__prompt__external_id="q599").rater.kind == "jury"


@pytest.mark.parametrize("column", ["rater", "worker"])
def test_lmarenas_columns_keep_the_raters_of_a_column_of_their_own(tmp_path, column):
    path = tmp_path / "battles.csv"
    head = f"question_id,model_a,model_b,winner,{column},tstamp"
    rows = ["q1,amber,basalt,model_a,Ada,1700000000", "q2,amber,basalt,tie,Ben,1700000001"]
    path.write_text("\n".join([head, *rows, "q3,amber,basalt,model_b,Ada,1700000002"]))
    votes = bring(path).votes.order_by("pk")
    assert [vote.rater.name for vote in votes] == ["Ada", "Ben", "Ada"]
    assert votes[0].rater_id == votes[2].rater_id


def test_a_trace_brings_cost_and_seconds():
    arena = bring(FILES / "langfuse-traces.csv")
    answer = arena.candidates.get(name="amber-7b").responses.get()
    assert (answer.text, answer.seconds, answer.cost) == ("Yes, within five days.", 1.5, 120_000)
    assert (answer.tokens_in, answer.tokens_out) == (12, 8)


def test_a_chat_keeps_its_tool_calls():
    arena = bring(FILES / "openai-chat.jsonl")
    answer = Response.objects.get(prompt__arena=arena, text="Clear.")
    assert [message["role"] for message in answer.messages] == ["assistant", "tool", "assistant"]
    assert answer.messages[0]["tool_calls"][0]["function"]["name"] == "weather"


def test_batch_output_answers_the_prompts_of_its_input():
    arena = bring(FILES / "openai-batch-input.jsonl", FILES / "openai-batch.jsonl")
    assert arena.prompts.get().responses.get().text == "One, two, three."
    with pytest.raises(BadRowsError, match="there is no prompt 'req-1'"):
        bring(FILES / "openai-batch.jsonl", slug="other")


def test_parquet_of_lmarena_is_read_with_its_lists(tmp_path):
    rows = [json.loads(line) for line in (FILES / "lmarena.jsonl").read_text().splitlines()]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "train.parquet")
    arena = bring(tmp_path / "train.parquet")
    assert counts() == (2, 3, 4, 2)
    assert arena.votes.filter(comparison__prompt__category="German").get().outcome == "both_bad"


# No column of a table holds an empty object, or lists beside texts.
NO_TABLE = {"langsmith-examples.jsonl", "preferences-unpaired.jsonl", "weave.jsonl"}


@pytest.mark.parametrize("name", [n for n in SAMPLES if n.endswith(".jsonl") and n not in NO_TABLE])
def test_parquet_has_the_same_rows_as_the_file_it_was_made_of(tmp_path, name):
    text = (FILES / name).read_text()
    records = json.loads(text if text.startswith("[") else f"[{','.join(text.splitlines())}]")
    names = dict.fromkeys(name for record in records for name in record)
    table = pyarrow.Table.from_pylist([names | record for record in records])
    parquet.write_table(table, tmp_path / "file.parquet")
    assert previewed(tmp_path / "file.parquet") == previewed(FILES / name)


def test_an_export_comes_back_as_the_same_arena(tmp_path):
    arena = bring(FILES / "openai-chat.jsonl")
    call_command("export_arena", arena.slug, tmp_path / "out", stdout=StringIO())
    archive = shutil.make_archive(str(tmp_path / "all"), "zip", tmp_path, "out")
    again = bring(Path(archive), slug="again")
    assert [*again.prompts.order_by("pk").values_list("text", "messages")] == [
        *arena.prompts.order_by("pk").values_list("text", "messages")
    ]
    texts = Response.objects.order_by("pk").values_list("text", "messages")
    assert [*texts.filter(prompt__arena=again)] == [*texts.filter(prompt__arena=arena)]


@pytest.mark.parametrize(
    ("sample", "change", "column", "words"),
    [
        ("lmarena.jsonl", {"winner": "somebody"}, "winner", "not one of left, right, tie"),
        ("lmarena.jsonl", {"conversation_b": 7}, "conversation_b", "not a list of messages"),
        ("lmarena.jsonl", {"model_a": ""}, "model_a", "is empty"),
        ("openai-chat.jsonl", {"messages": []}, "messages", "has no message"),
        ("openai-chat.jsonl", {"messages": [{"role": "robot"}]}, "messages", "not one of system"),
        (
            "openai-chat.jsonl",
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages",
            "only text",
        ),
        ("preferences.jsonl", {"chosen": None}, "chosen", "is empty"),
        ("prometheus.jsonl", {"orig_preference": "C"}, "orig_preference", "not A, B"),
        ("openai-batch-input.jsonl", {"body": {}}, "body", "has no messages"),
        ("openai-evals-items.jsonl", {"item": {"a": 1, "b": 2}}, "item", "none of the keys messa"),
        ("lm-eval.jsonl", {"resps": [[[-1.5, True]]]}, "resps", "has likelihoods of choices"),
    ],
)
def test_a_bad_record_names_its_line_and_column(tmp_path, sample, change, column, words):
    lines = (FILES / sample).read_text().splitlines()
    path = tmp_path / sample
    path.write_text("\n".join([*lines, json.dumps(json.loads(lines[0]) | change)]) + "\n")
    with pytest.raises(BadRowsError) as caught:
        bring(path)
    sentence = str(caught.value)
    assert f"line {len(lines) + 1}, column {column}: " in sentence
    assert words in sentence
    assert not Import.objects.exists()


def test_bad_records_can_be_skipped_and_are_copied(tmp_path):
    path = tmp_path / "battles.jsonl"
    lines = (FILES / "lmarena.jsonl").read_text().splitlines()
    path.write_text("\n".join([lines[0], '{"model_a": "x"}', lines[1]]) + "\n")
    bring(path, skip_bad=True)
    assert counts() == (2, 3, 4, 2)
    assert (tmp_path / "battles.prompts.rejects.jsonl").read_text() == '{"model_a": "x"}\n'


@pytest.mark.parametrize("arguments", [{"gen_args_0": {"arg_0": [CHAT]}}, [[[CHAT], {}]]])
def test_a_harness_that_asks_in_a_chat_is_read(tmp_path, arguments):
    sample = json.loads((FILES / "lm-eval.jsonl").read_text().splitlines()[0])
    path = tmp_path / "lm-eval.jsonl"
    path.write_text(json.dumps(sample | {"arguments": arguments}))
    bring(path)
    assert Prompt.objects.get().text == "What is 3 + 4?"


def test_columns_can_be_chosen(tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text("prompt,response,better_prompt\nOld?,Yes.,New?\n")
    bring(path, format_name="answers", columns={"prompt": "better_prompt"})
    assert Prompt.objects.get().text == "New?"


def test_a_file_of_no_known_format_says_which_keys_it_has_and_which_are_known(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"frage": "?", "antwort": "!"}\n')
    with pytest.raises(CommandError) as caught:
        call_command("import_arena", "mine", path, stdout=StringIO())
    sentence = str(caught.value)
    assert "has the keys 'frage', 'antwort'" in sentence
    assert "None of them says who won, or has prompts or answers. Votes need model_a" in sentence
    assert len(sentence) < 500


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            b'[{"prompt": "Why?",\n "response" "So."}]',
            r"Expecting ':' delimiter, line 2, .* or one",
        ),
        (b'{"results": [\n{"a": "\xe9"}]}', "x.json: line 2 is not UTF-8. Save the file as UTF-8"),
    ],
)
def test_a_broken_document_is_refused_with_its_line_and_nothing_of_formats(tmp_path, data, words):
    path = tmp_path / "x.json"
    path.write_bytes(data)
    with pytest.raises(CommandError, match=words) as caught:
        call_command("import_arena", "mine", path, stdout=StringIO())
    assert "known format" not in str(caught.value)


def test_a_preview_by_command_writes_nothing():
    out = StringIO()
    call_command("import_arena", "mine", FILES / "lmarena-wide.csv", "--preview", stdout=out)
    assert "LMArena battles (lmarena), 2 prompts, 3 candidates, 4 responses, 2 votes" in (
        out.getvalue()
    )
    assert "winner_a = winner_model_a" in out.getvalue()
    assert not Arena.objects.exists()


def test_no_format_makes_a_column_a_variable(tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text("prompt,response,expected_output,customer\nWhy?,So.,Because.,Ada\n")
    bring(path)
    assert Prompt.objects.get().variables == {}


def test_a_configuration_of_promptfoo_is_refused_with_what_to_do(tmp_path):
    path = tmp_path / "promptfooconfig.yaml"
    path.write_text("prompts: [a]\n")
    with pytest.raises(CommandError, match=r"is YAML\. Run promptfoo there, and bring the results"):
        call_command("import_arena", "mine", path, stdout=StringIO())


def test_a_project_of_promptfoo_without_results_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "promptfooconfig.yaml").write_text("prompts: [a]\n")
    (tmp_path / "package.json").write_text('{"name": "x"}')
    with pytest.raises(CommandError, match="Run promptfoo there, and bring the results"):
        call_command("import_arena", "mine", tmp_path, stdout=StringIO())


def zipped(path: Path, name: str, data: bytes, mode: int = 0) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        member = zipfile.ZipInfo(name)
        member.compress_type = zipfile.ZIP_DEFLATED
        member.external_attr = mode << 16
        archive.writestr(member, data)
    return path


def refused(path: Path) -> str:
    with pytest.raises(CommandError) as caught:
        call_command("import_arena", "mine", path, stdout=StringIO())
    assert not Arena.objects.exists()
    return str(caught.value)


def test_a_zip_of_answers_is_unpacked_and_its_rows_keep_their_names(tmp_path):
    path = Path(shutil.make_archive(str(tmp_path / "all"), "zip", FILES / "autoarena"))
    bring(path)
    assert {*Candidate.objects.values_list("name", flat=True)} == {"amber-7b", "basalt-13b"}
    zipped(tmp_path / "bad.zip", "model.csv", b"prompt,response\n,So.\n")
    with pytest.raises(BadRowsError, match=r"^bad.zip/model.csv, line 2, column prompt: is empty"):
        bring(tmp_path / "bad.zip", slug="other")


def test_a_zip_bomb_is_refused(tmp_path):
    path = zipped(tmp_path / "b.zip", "a.csv", b"prompt,response\n" + b"0" * 60_000_000)
    assert "more than 200 times its size" in refused(path)


@pytest.mark.parametrize("name", ["../up.csv", "/etc/up.csv", "a/../../up.csv", "..\\up.csv"])
def test_a_path_upwards_is_refused(tmp_path, name):
    assert "a path outside the archive" in refused(
        zipped(tmp_path / "u.zip", name, b"prompt,response\na,b\n")
    )
    assert not (tmp_path.parent / "up.csv").exists()


def test_a_symbolic_link_is_refused(tmp_path):
    path = zipped(tmp_path / "l.zip", "a.csv", b"/etc/passwd", stat.S_IFLNK | 0o777)
    assert "a link or device" in refused(path)


@pytest.mark.parametrize("data", [b"PK\x03\x04rest", b"", b"no archive"])
def test_a_broken_archive_is_refused(tmp_path, data):
    (tmp_path / "x.zip").write_bytes(data)
    assert "cannot be unpacked" in refused(tmp_path / "x.zip")


TRACE = {"id": "t", "timestamp": "2026-01-02T03:04:05Z", "name": "chat", "latency": 1.2}
STEP = {"traceId": "t", "startTime": "2026-01-02T03:04:05Z", "model": "amber", "latency": 1.5}
STEPS = [
    STEP | {"type": "SPAN", "input": {"x": 1}, "output": {"y": 2}},
    STEP | {"type": "EVENT", "input": None, "output": None},
    STEP | {"type": "GENERATION", "input": [{"role": "user", "content": "Why?"}], "output": "So."},
]
CALLED = TRACE | {"input": {"args": ["Why?"], "kwargs": {}}, "output": "So."}
NAMED = TRACE | {"input": {"args": [], "kwargs": {"question": "Why?"}}, "output": ["So."]}
ITEMS = [{"id": "i", "datasetName": "d", "input": {"question": "Why?"}, "expectedOutput": "So."}]
RUN = {"run_type": "llm", "start_time": "2026-01-02T03:04:05", "extra": {}, "name": "amber"}


def langchain(name: str, content: str) -> dict[str, object]:
    kind = {"HumanMessage": "human", "AIMessage": "ai"}[name]
    kwargs = {"content": content, "type": kind}
    return {"lc": 1, "type": "constructor", "id": ["langchain", name], "kwargs": kwargs}


LANGCHAIN = RUN | {
    "inputs": {"messages": [[langchain("HumanMessage", "Why?")]]},
    "outputs": {"generations": [[{"text": "So.", "message": langchain("AIMessage", "So.")}]]},
}
CHOICES = RUN | {
    "inputs": {"messages": [{"role": "user", "content": "Why?"}]},
    "outputs": {"choices": [{"message": {"role": "assistant", "content": "So."}}]},
}
TOOL = RUN | {"run_type": "tool", "inputs": {"input": "x"}, "outputs": {"output": "y"}}
BATTLE = {"id": "q1", "model_a": "amber", "model_b": "basalt", "winner": "both_bad"}
SEARCH = BATTLE | {
    f"messages_{side}": [
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": "So."},
    ]
    for side in "ab"
}
PARTS = BATTLE | {
    f"conversation_{side}": [
        {"role": role, "content": [{"type": "text", "text": text, "image": None}]}
        for role, text in (("user", "Why?"), ("assistant", "So."))
    ]
    for side in "ab"
}
NULLS = (
    "id,model_a,model_b,prompt,response_a,response_b,winner_model_a,winner_model_b,winner_tie\n"
    + ('q1,amber,basalt,"[""Why?""]","[null]","[""So.""]",0,1,0\n')
)
ANNOTATION = {"instruction": "Why?", "output_1": "a", "output_2": "b", "annotator": "judge"}
FAILED = [ANNOTATION | {"generator_1": "x", "generator_2": "y", "preference": None}]
PREFERRED = {
    "input": {"messages": [{"role": "user", "content": "Why?"}], "tools": []},
    "preferred_output": [{"role": "assistant", "content": "So."}],
    "non_preferred_output": [{"role": "assistant", "content": "No."}],
}
TRIED = {
    "vars": {"q": "Why?"},
    "provider": "amber",
    "response": {"output": "So."},
    "prompt": {"raw": "Answer: Why?", "label": "Answer: {{q}}"},
}
VARIATIONS = {
    "minified.json": (json.dumps({"data": [CALLED], "meta": {}}), "langfuse-traces", (1, 1, 1, 0)),
    "kwargs.json": (json.dumps([NAMED]), "langfuse-traces", (1, 1, 1, 0)),
    "steps.json": (json.dumps(STEPS), "langfuse-traces", (1, 1, 1, 0)),
    "trace.json": (
        json.dumps({"trace": TRACE, "observations": STEPS}, indent=1),
        "langfuse-traces",
        (1, 1, 1, 0),
    ),
    "dataset.json": (json.dumps({"name": "d", "items": ITEMS}), "langfuse", (1, 0, 0, 0)),
    "utf16.json": (json.dumps(ITEMS, indent=1).encode("utf-16"), "langfuse", (1, 0, 0, 0)),
    "runs.json": (json.dumps([LANGCHAIN, TOOL]), "langsmith-runs", (1, 1, 1, 0)),
    "choices.jsonl": (json.dumps(CHOICES), "langsmith-runs", (1, 1, 1, 0)),
    "search.jsonl": (json.dumps(SEARCH), "lmarena", (1, 2, 2, 1)),
    "parts.jsonl": (json.dumps(PARTS), "lmarena", (1, 2, 2, 1)),
    "nulls.csv": (NULLS, "lmarena", (1, 2, 2, 1)),
    "bom.csv": (NULLS.replace("\n", "\r\n").encode("utf-8-sig"), "lmarena", (1, 2, 2, 1)),
    "packed.csv.gz": (gzip.compress(NULLS.encode()), "lmarena", (1, 2, 2, 1)),
    "failed.json": (json.dumps(FAILED), "alpaca-annotations", (1, 2, 2, 0)),
    "preferred.jsonl": (json.dumps(PREFERRED), "preferences", (1, 2, 2, 1)),
    "results.jsonl": (
        "".join(
            json.dumps(TRIED | {"vars": {"q": q}, "prompt": TRIED["prompt"] | {"raw": q}}) + "\n"
            for q in ("One?", "Two?")
        ),
        "promptfoo",
        (2, 1, 2, 0),
    ),
    "dash.csv": (
        "prompt,response_a,response_b,model_a,model_b,winner\nWhy?,a,b,amber,basalt,-\n",
        "lmarena",
        (1, 2, 2, 1),
    ),
}


def previewed(path: Path) -> tuple[set[str], tuple[int, ...], list[str]]:
    """The formats of a file, its rows by kind, and its bad rows."""
    shown = preview_files(slug="mine", paths=[path])
    kinds = ("prompts", "candidates", "responses", "votes")
    numbers = tuple(shown.rows.get(kind, 0) for kind in kinds)
    return {file.format_name for file in shown.files}, numbers, shown.rejected.first


@pytest.mark.parametrize("name", VARIATIONS)
def test_a_variation_of_a_layout_is_read(tmp_path, name):
    content, format_name, expected = VARIATIONS[name]
    data = content if isinstance(content, bytes) else content.encode()
    (tmp_path / name).write_bytes(data)
    assert previewed(tmp_path / name) == ({format_name}, expected, [])


def test_what_is_wrapped_is_read_and_not_its_wrapping(tmp_path):
    path = tmp_path / "runs.json"
    for record in (CALLED, NAMED, LANGCHAIN, CHOICES):
        path.write_text(json.dumps([record]))
        made = {file.kind: next(file.rows()).content for file in find_files([path])}
        assert (made["prompts"].text, made["responses"].text) == ("Why?", "So.")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "score.jsonl",
            '{"orig_instruction": "i", "orig_response": "r", "orig_score": "4", "instruction": "t",'
            ' "output": "o", "messages": []}',
            "calibrate JUDGE --labels",
        ),
    ],
)
def test_a_variation_that_is_no_vote_or_prompt_is_refused(tmp_path, name, content, words):
    (tmp_path / name).write_text(content)
    _, _, bad = previewed(tmp_path / name)
    assert words in bad[0]


def test_a_project_of_promptfoo_counts_its_results_alone(tmp_path):
    shutil.copy(FILES / "promptfoo.json", tmp_path / "results.json")
    (tmp_path / "promptfooconfig.yaml").write_text("prompts: [a]\n")
    (tmp_path / "package.json").write_text('{"name": "x"}')
    assert previewed(tmp_path) == ({"promptfoo"}, SAMPLES["promptfoo.json"][1:], [])


def test_a_folder_of_parquet_is_read_but_not_the_same_votes_twice(tmp_path):
    table = pyarrow.Table.from_pylist([SEARCH])
    (tmp_path / "data").mkdir()
    parquet.write_table(table, tmp_path / "data" / "train-0.parquet")
    assert previewed(tmp_path) == ({"lmarena"}, (1, 2, 2, 1), [])
    exported = ["left", "right", "outcome", "rater_kind", "rater", "cast_at"]
    parquet.write_table(
        pyarrow.table({name: ["x"] for name in exported}), tmp_path / "data" / "battles.parquet"
    )
    assert previewed(tmp_path) == ({"lmarena"}, (1, 2, 2, 1), [])


def test_references_of_mt_bench_are_no_answers(tmp_path):
    shutil.copytree(FILES / "mt-bench", tmp_path / "all")
    answers = next(path for path in (tmp_path / "all").rglob("*") if "choices" in text_of(path))
    (tmp_path / "all" / "reference_answer").mkdir()
    changed = answers.read_text().replace('"turns": ["', '"turns": ["Other ')
    (tmp_path / "all" / "reference_answer" / answers.name).write_text(changed)
    assert previewed(tmp_path / "all")[1:] == (SAMPLES["mt-bench"][1:], [])


def text_of(path: Path) -> str:
    return path.read_text() if path.is_file() else ""
