"""A promptfoo project is imported with the files that it names, from a folder or a zip archive."""

import json
import re
import shutil
from pathlib import Path

import pytest
from django.utils import timezone

from arena.files.reader import FileError
from arena.formats import find_files, promptfoo
from arena.models import Arena
from arena.services.imports import BadRowsError, import_files, preview_files

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]

CONFIG = """
prompts:
  - file://prompts/*.txt
  - id: file://prompts/chat.json
    label: chat
providers:
  - acme:amber-7b
  - id: acme:cedar-2
    label: cedar
    prompts: [chat]
defaultTest:
  assert:
    - type: llm-rubric
      value: is polite
tests: file://tests.csv
"""
TESTS = """question,context,__expected,__description,__metadata:category
Where is Lima?,file://note.txt,contains: Peru,first,places
What is red?,,A colour,second,
"""
FILES = {
    "promptfooconfig.yaml": CONFIG,
    "prompts/brief.txt": "Briefly: {{question}}\n---\nAt length: {{question}}\n",
    "prompts/chat.json": '[{"role": "system", "content": "Be kind."},'
    ' {"role": "user", "content": "{{question}}"}]',
    "tests.csv": TESTS,
    "note.txt": "A note.",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def bring(path: Path) -> Arena:
    import_files(slug="mine", paths=[path], now=timezone.now())
    return Arena.objects.get(slug="mine")


def problem(path: Path) -> str:
    [line] = preview_files(slug="mine", paths=[path]).rejected.lines
    return line


@pytest.mark.parametrize("packed", [False, True])
def test_prompts_and_tests_come_from_the_files_that_a_project_names(project, tmp_path, packed):
    path = project
    if packed:
        path = Path(shutil.make_archive(str(tmp_path / "all"), "zip", tmp_path, "project"))
    arena = bring(path)
    first, second = arena.prompts.order_by("pk")
    assert (first.text, first.category) == ("Where is Lima?", "places")
    assert first.variables == {"question": "Where is Lima?", "context": "A note."}
    assert first.rubric == "is polite"
    assert [str(check) for check in first.checks.all()] == ["Contains “Peru”"]
    assert (second.reference, second.variables) == ("A colour", {"question": "What is red?"})
    names = sorted(candidate.name for candidate in arena.candidates.all())
    assert names == [
        "acme:amber-7b · brief: At length: {{question}}",
        "acme:amber-7b · brief: Briefly: {{question}}",
        "acme:amber-7b · chat",
        "cedar · chat",
    ]
    variant = "brief: At length: {{question}}"
    assert arena.candidates.get(variant=variant).user_template == "At length: {{question}}"
    chat = arena.candidates.filter(variant="chat").first()
    assert (chat.system_prompt, chat.user_template) == ("Be kind.", "{{question}}")


@pytest.mark.parametrize("packed", [False, True])
def test_files_of_a_project_that_are_not_read_are_named(project, tmp_path, packed):
    (project / "README.md").write_text("Hello")
    (project / "prompts" / "old.md").write_text("{{question}}?")
    path = project
    if packed:
        path = Path(shutil.make_archive(str(tmp_path / "all"), "zip", tmp_path, "project"))
    [file] = preview_files(slug="mine", paths=[path]).files
    assert file.unread == ["'README.md'", "'prompts/old.md'"]
    results = Path(__file__).parent.parent / "files" / "promptfoo.json"
    shutil.copy(results, project / "results.json")
    [file] = preview_files(slug="mine", paths=[project]).files
    assert "'promptfooconfig.yaml'" in file.unread


def test_variables_have_the_texts_of_the_files_that_they_name(project):
    (project / "list.json").write_text('["a", "b"]\n')
    (project / "facts.yaml").write_text("a: 1\n")
    (project / "more.txt").write_text("More.")
    given = {"x": "file://list.json", "y": "file://facts.yaml", "z": "file://*.txt", "n": 1}
    config = {"prompts": "{{x}}", "providers": "p", "tests": [{"vars": given}]}
    (project / "promptfooconfig.yaml").write_text(json.dumps(config))
    values = bring(project).prompts.order_by("pk").values_list("variables", flat=True)
    same = {"x": '["a", "b"]', "y": '{"a": 1}', "n": "1"}
    assert list(values) == [same | {"z": text} for text in ("More.", "A note.")]


def test_a_table_of_tests_without_its_files_is_refused(tmp_path):
    path = tmp_path / "tests.csv"
    path.write_text("question,context,__expected\nWhy?,file://note.txt,So\n")
    said = problem(path)
    assert "line 2, column vars: refers to 'file://note.txt', which is not included" in said
    (tmp_path / "note.txt").write_text("A note.")
    assert bring(path).prompts.get().variables["context"] == "A note."


def test_a_project_is_another_file_once_one_of_its_files_changed(project):
    bring(project)
    (project / "tests.csv").write_text(TESTS + "Who are you?,,,third,\n")
    assert bring(project).prompts.count() == 3


@pytest.mark.parametrize(
    "reference", ["../secret.csv", "/etc/passwd", "link.csv", "absent.csv", "\0", "**/"]
)
def test_a_project_reads_no_file_outside_of_its_folder(project, reference):
    (project.parent / "secret.csv").write_text("question\nThe secret\n")
    (project / "link.csv").symlink_to(project.parent / "secret.csv")
    config = json.dumps({"prompts": "x", "providers": "y", "tests": f"file://{reference}"})
    (project / "promptfooconfig.yaml").write_text(config)
    assert "column tests: refers to " in problem(project)
    assert "pack the whole folder as a zip" in problem(project)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"tests": [{"vars": {"a": [*range(40)], "b": [*range(25)]}}] * 2}, "1,500 tests"),
        ({"prompts": ["x"] * 40, "providers": ["y"] * 40}, "1,500 prompts times providers"),
        ({"tests": ["file://*.csv"] * 11}, "refers to files more than 10 times"),
    ],
)
def test_a_few_lines_that_stand_for_too_much_are_refused(project, changed, words, monkeypatch):
    monkeypatch.setattr(promptfoo, "MOST_ROWS", 1_500)
    monkeypatch.setattr(promptfoo, "MOST_FILES", 10)
    config = {"prompts": "x", "providers": "y", "tests": [{"vars": {"a": "b"}}]} | changed
    (project / "promptfooconfig.yaml").write_text(json.dumps(config))
    (project / "tests.csv").write_text("question\n")
    assert words in problem(project)


def test_what_a_program_makes_is_refused_with_the_remedy(project):
    config = project / "promptfooconfig.yaml"
    config.write_text(CONFIG.replace("file://tests.csv", "file://tests.py:make"))
    assert (
        "column tests: refers to 'file://tests.py:make', which only promptfoo can run"
        in problem(project)
    )
    assert "--output results.json" in problem(project)
    config.write_text(CONFIG.replace("acme:amber-7b", "file://provider.py"))
    assert bring(project).candidates.filter(name__startswith="provider.py ").count() == 3


def test_prompts_in_a_table_are_refused_with_the_remedy(project):
    config = (project / "promptfooconfig.yaml").read_text()
    (project / "promptfooconfig.yaml").write_text(config.replace("prompts/*.txt", "tests.csv"))
    with pytest.raises(FileError, match="put them into the configuration"):
        bring(project)


def test_a_broken_row_of_a_projects_table_is_named(project):
    (project / "tests.csv").write_text("question,__expected\nWhy?,a,b\n")
    with pytest.raises(BadRowsError, match=r"tests\.csv, where line 2 has 3 fields"):
        bring(project)
    (project / "tests.csv").write_text("question,__prefix\nWhy?,Now: \n")
    assert "column __prefix; put it into the prompts" in problem(project)
    (project / "tests.jsonl").write_text('{"vars": {"question": "Why?"}}\n[1]\n')
    config = project / "promptfooconfig.yaml"
    config.write_text(CONFIG.replace("tests.csv", "tests.jsonl"))
    assert "tests.jsonl, where line 2 is a list, not a JSON object" in problem(project)


def results(tmp_path: Path, raw: str, label: str, *, version: int = 3) -> Path:
    prompt = {"raw": raw, "label": label, "provider": "acme:amber-7b"}
    result = {
        "promptIdx": 0,
        "vars": {"question": "Why?"},
        "prompt": {"raw": "Sent: Why?", "label": label},
        "provider": {"id": "acme:amber-7b"},
        "response": {"output": "So."},
    }
    prompts = {"prompts": [prompt]} if version > 2 else {"table": {"head": {"prompts": [prompt]}}}
    path = tmp_path / f"{version}.json"
    path.write_text(json.dumps({"results": {"version": version, "results": [result]} | prompts}))
    return path


def test_the_source_of_a_program_is_no_template(tmp_path):
    source = "def ask(context):\n    return 'Sent: ' + context['vars']['question']"
    candidate = bring(results(tmp_path, source, "prompts.py:ask")).candidates.get()
    assert (candidate.name, candidate.user_template) == ("acme:amber-7b · prompts.py:ask", "")


def test_results_of_version_2_keep_their_templates(tmp_path):
    path = results(tmp_path, "Sent: {{question}}", "brief", version=2)
    assert find_files([path])[0].format.NAME == "promptfoo"
    assert bring(path).candidates.get().user_template == "Sent: {{question}}"


@pytest.mark.parametrize(
    ("label", "template"),
    [
        ("Briefly: {{question}}", "Briefly: {{question}}"),
        ("prompts/brief.txt: Be brief.\n{{question}}", "Be brief.\n{{question}}"),
        ("long.md: You answer {{question}} and more...", ""),
        ("brief", ""),
    ],
)
def test_a_result_by_itself_has_its_template_in_the_label(tmp_path, label, template):
    document = json.loads(results(tmp_path, "", label).read_text())
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps(document["results"]["results"][0]) + "\n")
    assert bring(path).candidates.get().user_template == template


def test_templates_that_begin_alike_stay_apart(project):
    same = "You answer questions of customers, briefly and politely, as a person would do it. "
    prompts = [f"{same} {{{{question}}}} {end}" for end in ("Now!", "Later.")]
    config = {"prompts": prompts, "providers": "acme:amber-7b", "tests": [{"vars": {"q": "x"}}]}
    (project / "promptfooconfig.yaml").write_text(json.dumps(config))
    assert bring(project).candidates.count() == 2


CHAT = json.dumps([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "{{q}}"}])
LONG_CHAT = CHAT.replace("kind", "as kind to customers as anybody could be")
SENT_CHAT = json.dumps(json.loads(LONG_CHAT), separators=(",", ":"))
LONG_FILE = "# Task\n\nAnswer the question of the customer below, in full.\n\n{{question}}\n"


@pytest.mark.parametrize(
    ("name", "text", "raw", "label"),  # as promptfoo's src/prompts/processors write them
    [
        ("prompts/a.txt", "Q: {{question}}\n", "Q: {{question}}", "{path}: {raw}"),
        (
            "long.md",
            LONG_FILE,
            LONG_FILE,
            "{path}: # Task\n\nAnswer the question of the customer be...",
        ),
        (
            "a.j2",
            LONG_FILE,
            LONG_FILE,
            "{path}: # Task\n\nAnswer the question of the customer be...",
        ),
        ("a.json", LONG_CHAT, SENT_CHAT, "{path}: {raw}"),
        ("a.yaml", LONG_CHAT, SENT_CHAT, "{path}: {raw:.80}"),
        ("a.jsonl", CHAT + "\n", CHAT, "{path}"),
    ],
)
def test_results_name_prompts_in_files_as_the_configuration_does(
    tmp_path, project, name, text, raw, label
):
    (project / name).write_text(text)
    config = {"prompts": [f"file://{name}"], "providers": "acme:amber-7b", "tests": []}
    config["tests"] = [{"vars": {"question": "Why?"}}]
    (project / "promptfooconfig.yaml").write_text(json.dumps(config))
    [planned] = bring(project).candidates.all()
    label = label.format(path=f"/home/me/{name}", raw=raw)
    [candidate] = bring(results(tmp_path, raw, label)).candidates.all()
    assert (candidate.pk, candidate.responses.count()) == (planned.pk, 1)


LONG = "You answer questions of customers, briefly and politely. {{question}}"


@pytest.mark.parametrize(
    ("raw", "label", "name"),
    [
        ("Q: {{question}}", "Q: {{question}}", "Q: {{question}}"),
        (LONG, LONG, r"You answer questions of customers,… \w{4}"),
        (LONG, "polite", "polite"),
        (LONG, "The one that is brief, and polite too", "The one that is brief, and polite too"),
        (LONG, f"prompts/polite.txt: {LONG}", r"polite: You answer questions of… \w{4}"),
        ("Q: {{q}}", "/home/me/brief.txt: Q: {{q}}", "brief: Q: {{q}}"),
        ("Q: {{q}}", "mine: /home/me/brief.txt: Q: {{q}}", "mine: Q: {{q}}"),
        (LONG, f"long.md: {LONG[:50]}...", r"long: You answer questions of… \w{4}"),
        (CHAT, CHAT, "Be kind. {{q}}"),
        (CHAT, f"chat.json: {CHAT}", "chat: Be kind. {{q}}"),
        ("字" * 60 + "{{q}}", "字" * 60 + "{{q}}", r"字{40}… \w{4}"),
    ],
)
def test_a_candidate_has_a_short_name(tmp_path, raw, label, name):
    path = results(tmp_path, raw, label)
    pattern = name if "\\" in name else re.escape(name)
    [candidate] = bring(path).candidates.all()
    assert re.fullmatch(f"acme:amber-7b · {pattern}", candidate.name)
    document = json.loads(path.read_text())
    document["results"]["results"][0]["response"]["output"] = "Another answer."
    document["results"]["results"][0]["vars"] = {"question": "Who?"}
    path.write_text(json.dumps(document))
    assert [one.pk for one in bring(path).candidates.all()] == [candidate.pk]


def test_yaml_means_what_it_means_to_promptfoo(tmp_path):
    path = tmp_path / "promptfooconfig.yaml"
    path.write_text(
        'prompts: ["{{q}} {{more}}"]\nproviders: [echo]\ntests:\n'
        "  - vars: {q: How long? And why?, more: no}\n"
        "    assert: [{type: equals, value: Yes}]\n"
        "  - vars: {q: http://127.0.0.1/?a=1, more: 12:30:45}\n"
        "    assert: [{type: equals, value: 007}, {type: contains, value: true}]\n"
    )
    first, second = bring(path).prompts.order_by("pk")
    assert first.variables == {"q": "How long? And why?", "more": "no"}
    assert first.reference == "Yes"
    assert second.variables == {"q": "http://127.0.0.1/?a=1", "more": "12:30:45"}
    assert (second.reference, second.rubric) == ("007", "contains: true")
    assert [str(check) for check in second.checks.all()] == ["Equals “007”"]
