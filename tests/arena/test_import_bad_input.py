"""Bad input gets a sentence with file, line and column, never a traceback, and nothing is half
written."""

import errno
import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from arena.files.reader import LINE_LIMIT
from arena.models import Arena, Candidate, Import, Prompt, Rater, Response, Vote

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]

GOOD_PROMPT = b'{"id": "p1", "text": "One?"}\n'
GOOD_CANDIDATES = b'{"name": "A"}\n{"name": "B"}\n'
ANSWER = b'{"candidate": "A", "prompt": "p1", "text": "x"}\n'


def run(*arguments: object) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command("import_arena", *map(str, arguments), stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def assert_nothing_written() -> None:
    for model in (Arena, Import, Prompt, Candidate, Response, Vote, Rater):
        assert not model.objects.exists(), model


def refused(*arguments: object) -> str:
    with pytest.raises(CommandError) as caught:
        run(*arguments)
    assert_nothing_written()
    message = str(caught.value)
    assert "Traceback" not in message
    return message


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("votes.csv", b"", "votes.csv is empty"),
        ("votes.jsonl", b"\n \n", "votes.jsonl is empty"),
        ("votes.csv", b"left,right,winner\n", "has no rows"),
        (
            "a.json",
            b'[{"prompt": "NaN 1e999",\n"response": "b", "x": 1.5e3},\n{"x": -1e999}]',
            "a number that cannot be stored (line 3): -1e999 is not a finite number; write null",
        ),
        ("votes.csv", b"x," * 5_001 + b"left\n", "has 5,002 columns; at most 5,000 are allowed"),
        (
            "grades.jsonl",  # of one model, so there is nothing to compare
            b'{"question_id": 1, "judge": "j", "model": "m", "score": 9}\n',
            "grades.jsonl has no rows to import.",
        ),
        ("votes.csv", b"a,b,c\n1,2,3\n", "for votes as a table, there is no winner"),
        ("votes.csv", b"left,right,winner,left\n1,2,tie,3\n", "names the column 'left' twice"),
        ("votes.csv", b"left,right,winner\nA,B,maybe\n", "line 2, column winner: is 'maybe'"),
        ("votes.csv", b"left,right,winner\nA,A,tie\n", "column right: 'A' is compared with"),
        ("votes.csv", b"left,right,winner\nA,\xff,tie\n", "line 2, column right: is not valid Uni"),
        ("votes.csv", b"left,right,winner\nA,B\0,tie\n", "line 2, column right: contains a NUL"),
        ("votes.csv", b"\x1f\x8b\x08\x00rest", "gzip archive; unpack it first"),
        ("votes.jsonl", b"PK\x03\x04rest", "zip archive"),
        (
            "votes.csv",
            "left,right,winner\nA,Ä\u202eb,tie\n".encode(),
            "column right: contains an invisible character (U+202E)",
        ),
        (
            "candidates.jsonl",
            '{"name": "A\u200b"}'.encode(),
            "line 1, column name: contains an invisible character (U+200B)",
        ),
        ("votes.csv.gz", b"\x1f\x8b\x08\x00rest", "cannot be unpacked"),
        ("votes.csv", "left,right,winner\n".encode("utf-16") + b"A", "not valid UTF-16"),
        ("votes.csv", bytes(range(32)) * 9, "binary file"),
        ("votes.xlsx", b"some words", "is not a file of a known format"),
        ("stuff.jsonl", b'{"a": 1}\n', "is not a file of a known format"),
        ("stuff.jsonl", b'{"a": 1}\n', "It has the keys 'a'."),
        ("stuff.jsonl", b'# x\n{"a": 1}\n', "It has the columns '# x'."),
        (
            "a.json",
            b'[{"a": 1},]',
            "there is a comma before ], line 1, character 11; remove the comma",
        ),
        ("a.json", b'{\n // x\n "a": 1}', "there is a comment, line 2, character 2; remove it"),
        (
            "a.jsonl",
            b"{'a': 1}\n",
            "a single quote, line 1, character 2; texts and names need double quotes",
        ),
        (
            "candidates.jsonl",
            GOOD_CANDIDATES * 2,
            "line 3, column name: 'A' is already in an earlier",
        ),
        ("prompts.jsonl", GOOD_PROMPT * 2, "line 2, column id: 'p1' is already in an earlier row"),
        (
            "prompts.jsonl",
            b'{"id": "p1"}\n',
            "line 1, column text: is missing; add it, or leave the row out",
        ),
        ("prompts.jsonl", b'{"id": null, "text": ""}\n', "line 1, column id: is missing"),
        (
            "candidates.jsonl",
            b'{"name": " "}\n',
            "column name: is empty; fill it in, or leave the row out",
        ),
        ("votes.csv", b"left,right,winner\nA,A,tie\n", "with itself; correct it, or leave the row"),
        (
            "prompts.jsonl",
            b'{"id": "p1", "text": "a\\u0000"}\n',
            "cannot be stored; remove it, or leave the row out",
        ),
        ("prompts.jsonl", b'"text"\n', "line 1: is text, not a JSON object"),
        ("candidates.jsonl", b'{"name": "A", "parameters": []}\n', "column parameters: is a list"),
        ("responses.jsonl", ANSWER, "line 1, column candidate: there is no candidate 'A'"),
        ("votes.jsonl", b'{"a": "A", "b": "B", "outcome": "tie"}\n', "there is no candidate 'A'"),
    ],
)
def test_a_bad_file_is_refused_with_a_sentence(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    assert words in refused("mine", tmp_path / name)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("responses.jsonl", ANSWER * 2, "line 2, column candidate: 'A' has already answered"),
        ("responses.jsonl", ANSWER.replace(b"p1", b"p9"), "column prompt: there is no prompt 'p9'"),
        ("votes.jsonl", b'{"a":"A","b":"A","outcome":"tie"}\n', "column b: 'A' is compared with"),
        ("votes.jsonl", b'{"a":"A","b":"C","outcome":"tie"}\n', "column b: there is no candidate"),
        ("votes.jsonl", b'{"prompt":"x","a":"A","b":"B","outcome":"tie"}\n', "no prompt 'x'"),
        (
            "responses.jsonl",
            b'{"candidate": "A", "prompt": "p1", "text": "' + b"x" * 10_000_000 + b'"}\n',
            "line 1, column text: is 10,000,000 bytes long; the limit is 1,000,000; shorten it",
        ),
    ],
)
def test_rows_that_contradict_others_are_refused(tmp_path, name, content, words):
    (tmp_path / "prompts.jsonl").write_bytes(GOOD_PROMPT)
    (tmp_path / "candidates.jsonl").write_bytes(GOOD_CANDIDATES)
    (tmp_path / name).write_bytes(content)
    assert words in refused("mine", tmp_path)


def test_a_missing_file_is_named(tmp_path):
    assert "There is no file or folder" in refused("mine", tmp_path / "nothing.csv")


def test_a_folder_without_recognised_files_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    assert "has no file of a known format. Votes need model_a" in refused("mine", tmp_path)


def test_a_folder_named_like_a_file_is_refused(tmp_path):
    (tmp_path / "votes.jsonl").mkdir()
    assert "not an ordinary file" in refused("mine", tmp_path)


def test_a_file_without_read_permission_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "votes.csv"
    path.write_text("left,right,winner\nA,B,tie\n")

    def no_permission(self, *args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", no_permission)
    assert "no permission" in refused("mine", path)


@pytest.mark.parametrize("slug", ["two words", "a/b", "x" * 61, "<script>"])
def test_a_slug_that_no_address_can_hold_is_refused(tmp_path, slug):
    path = tmp_path / "votes.csv"
    path.write_text("left,right,winner\nA,B,tie\n")
    assert "slug:" in refused(slug, path)


def test_html_and_scripts_are_kept_as_text(tmp_path):
    nasty = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    prompt = {"id": nasty, "category": nasty, "text": nasty, "reference": nasty}
    fields = ("name", "model", "variant", "system_prompt", "user_template", "notes")
    candidates = [dict.fromkeys(fields, nasty), {"name": "B"}]
    answer = {"candidate": nasty, "prompt": nasty, "text": nasty}
    vote = {"a": nasty, "b": "B", "prompt": nasty, "outcome": "left", "rater": nasty, "n": nasty}
    for name, lines in (
        ("prompts", [prompt]),
        ("candidates", candidates),
        ("responses", [answer]),
        ("votes", [vote]),
    ):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / f"{name}.jsonl").write_text(text)
    run("mine", tmp_path)
    assert Prompt.objects.values_list(*prompt.keys() - {"id"}).get() == (nasty,) * 3
    assert Candidate.objects.filter(**dict.fromkeys(fields, nasty)).count() == 1
    assert Response.objects.get().text == nasty
    assert Vote.objects.get().details == {"n": nasty}
    assert Vote.objects.get().rater.name == nasty


def test_equal_faults_of_many_rows_are_one_line_with_their_number(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("left,right,winner\n" + "A,A,tie\n" * 50 + "A,B,tie\n")
    message = refused("mine", path)
    assert message.count("is compared with itself") == 1
    assert "votes.csv, lines 2, 3, 4, 5, 6 and 45 more, column right: 'A' is compared" in message
    assert "Nothing was imported: 50 bad rows." in message


def test_twenty_faults_are_shown_and_the_rest_counted(tmp_path):
    path = tmp_path / "votes.csv"
    rows = "".join(f"A,B,what {n}\n" for n in range(50))
    path.write_text(f"left,right,winner\n{rows}A,B,tie\n")
    message = refused("mine", path)
    assert message.count("is 'what") == 20
    assert "... and 30 more bad rows." in message
    assert "Nothing was imported: 50 bad rows." in message


def test_another_encoding_is_named_once_below_the_bad_rows(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_bytes("left,right,winner\nВопрос,Ответ,tie\nПочему,Ответ,left\n".encode("cp1251"))
    message = refused("mine", path)
    assert "lines 2, 3, column left: is not valid Unicode text" in message
    assert message.count("is not UTF-8 throughout and seems to be Windows-1251") == 1


def test_skip_bad_imports_the_rest_and_copies_the_rejects(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_bytes(b'\xef\xbb\xbfleft,right,winner\nA,B,tie\nA,"\xff\n",left\nB,A,left\nA,B,no')
    out, err = run("mine", path, "--skip-bad")
    rejects = tmp_path / "votes.rejects.csv"
    assert f"2 votes added, 2 rows rejected (copied to {rejects})" in out
    assert "line 3, column right" in err
    assert "line 6, column winner" in err
    assert rejects.read_bytes() == b'\xef\xbb\xbfleft,right,winner\nA,"\xff\n",left\nA,B,no\n'
    assert list(Vote.objects.live().order_by("pk").values_list("source_row", flat=True)) == [1, 3]
    assert Import.objects.values_list("rows_added", "rows_rejected").get() == (2, 2)


def test_corrected_rejects_can_be_imported_by_themselves(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("left,right,winner\nA,B,tie\nA,B,no\n")
    run("mine", path, "--skip-bad")
    rejects = tmp_path / "votes.rejects.csv"
    rejects.write_text(rejects.read_text().replace("no", "left"))
    run("mine", rejects)
    assert Vote.objects.live().count() == 2


def test_rejects_in_a_folder_are_not_taken_for_votes(tmp_path):
    (tmp_path / "candidates.jsonl").write_bytes(GOOD_CANDIDATES)
    good = b'{"a": "A", "b": "B", "outcome": "tie"}\n'
    (tmp_path / "votes.jsonl").write_bytes(good + b"[]\n")
    run("mine", tmp_path, "--skip-bad", "--quiet")
    assert (tmp_path / "votes.rejects.jsonl").read_bytes() == b"[]\n"
    out, _ = run("mine", tmp_path, "--skip-bad")
    assert "rejects" not in out


def test_rejects_go_to_the_chosen_folder(tmp_path):
    path, folder = tmp_path / "votes.csv", tmp_path / "elsewhere"
    path.write_text("left,right,winner\nA,B,tie\nA,B,no\n")
    assert "--rejects" in refused("mine", path, "--skip-bad", "--rejects", folder)
    folder.mkdir()
    run("mine", path, "--skip-bad", "--rejects", folder)
    assert (folder / "votes.rejects.csv").exists()
    assert not (tmp_path / "votes.rejects.csv").exists()


def test_a_file_of_bad_rows_alone_is_refused_with_skip_bad_too(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("left,right,winner\nA,A,tie\n")
    assert "No valid rows are left" in refused("mine", path, "--skip-bad")


def test_a_line_that_is_too_long_is_named(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    long = json.dumps({"prompt": "x" * LINE_LIMIT, "response": "So."})
    path.write_text(f'{long}\n{{"prompt": "Why?", "response": "So."}}\n')
    assert "long.jsonl, line 1: is longer than 16,000,000 bytes" in refused("mine", path)
