"""What the importers make of single rows; no database."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from arena.files.reader import Row
from arena.formats import FORMATS, find_files
from arena.validation import InputError


def rows(path: Path, content: str | bytes) -> list[Row]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    [file] = find_files([path])
    return list(file.rows())


def vote(tmp_path: Path, **fields: object) -> object:
    line = {"prompt": "p1", "a": "A", "b": "B", "outcome": "left"} | fields
    line = {name: value for name, value in line.items() if value is not None}
    [row] = rows(tmp_path / "votes.jsonl", json.dumps(line))
    return row.content


def test_a_native_vote_keeps_its_other_fields(tmp_path):
    record = vote(tmp_path, rater="w1", kind="person", id=7, cost_usd=0.25, nested={"x": [1]})
    assert (record.left, record.right, record.outcome, record.prompt) == ("A", "B", "left", "p1")
    assert (record.rater_kind, record.rater) == ("person", "w1")
    assert record.details == {"id": 7, "cost_usd": 0.25, "nested": {"x": [1]}}


@pytest.mark.parametrize(
    ("preference_b", "preference", "outcome"),
    [(0.0, 1.0, "left"), (1e-06, 1 - 1e-06, "left"), (0.5, 0.5, "tie"), (1, 0.0, "right")],
)
def test_a_soft_verdict_is_a_preference_for_the_left(tmp_path, preference_b, preference, outcome):
    record = vote(tmp_path, outcome=None, preference_b=preference_b, judge="J")
    assert (record.preference, record.outcome) == (preference, outcome)
    assert (record.rater_kind, record.rater) == ("judge", "J")


def test_preference_a_is_taken_bit_for_bit(tmp_path):
    value = 1 - 0.123456789
    assert vote(tmp_path, preference_a=value).preference == value


@pytest.mark.parametrize(
    ("fields", "column", "words"),
    [
        ({"outcome": "maybe"}, "outcome", "not one of left, right, tie, both_bad"),
        ({"outcome": None}, "outcome", "is missing"),
        ({"a": None}, "a", "is missing"),
        ({"a": ""}, "a", "is empty"),
        ({"a": ["A"]}, "a", "is a list, not text"),
        ({"a": True}, "a", "is true or false"),
        ({"a": "x" * 201}, "a", "201 characters long; the limit is 200"),
        ({"a": "two\nlines"}, "a", "line break"),
        ({"a": "n\0l"}, "a", "NUL"),
        ({"note": {"deep": "n\0l"}}, "note", "NUL"),
        ({"note": "\ud800"}, "note", "Unicode"),
        ({"preference_b": 1.5}, "preference_b", "not a number from 0 to 1"),
        ({"preference_b": -0.01}, "preference_b", "not a number from 0 to 1"),
        ({"preference_b": "0.5"}, "preference_b", "is text"),
        ({"preference_b": True}, "preference_b", "not a number"),
        ({"preference_a": 0.5, "preference_b": 0.5}, "preference_b", "one or the other"),
        ({"preference_b": 0.9}, "outcome", "leans towards right"),
        ({"judge": "J", "rater": "R"}, "rater", "one rater"),
        ({"rater": "R", "kind": "robot"}, "kind", "not one of person, judge, jury"),
        ({"cast_at": "yesterday"}, "cast_at", "not a time"),
        ({"cast_at": 12}, "cast_at", "not a time"),
        ({"note": "x" * 200_000}, None, "the limit for a vote is 100,000"),
    ],
)
def test_a_bad_vote_names_its_column(tmp_path, fields, column, words):
    bad = vote(tmp_path, **fields)
    assert isinstance(bad, InputError)
    assert bad.column == column
    assert words in bad.reason


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"[1]", "is a list, not a JSON object"),
        (b"null", "is null"),
        (b'{"a": ', "is not JSON"),
        (b'{"a": "\xff"}', "not valid UTF-8"),
        (b'{"preference_b": NaN}', "is missing, and so is preference_b"),
        (b'{"preference_b": 1e999}', "not a finite number"),
        (b'{"id": ' + b"9" * 5000 + b"}", "5,000 digits"),
        (b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b'{"a":"A","b":"B","outcome":"tie","x":' + b"[" * 30 + b"]" * 30 + b"}", "20 levels"),
    ],
)
def test_a_line_that_is_not_a_vote_is_rejected_with_a_reason(tmp_path, line, words):
    [row] = rows(tmp_path / "votes.jsonl", line + b"\n")
    assert isinstance(row.content, InputError)
    assert words in row.content.reason


def test_numbers_are_taken_as_names(tmp_path):
    record = vote(tmp_path, prompt=12, a=1, b=2.5, rater=10**25)
    assert (record.prompt, record.left, record.right) == ("12", "1", "2.5")
    assert record.rater == "1" + "0" * 25


def test_a_time_is_read_as_utc(tmp_path):
    assert vote(tmp_path, cast_at="2026-01-31T12:00:00+02:00").cast_at == datetime(
        2026, 1, 31, 10, tzinfo=UTC
    )
    assert vote(tmp_path, cast_at="2026-01-31T12:00:00Z").cast_at.hour == 12


def test_rows_are_numbered_by_line_and_know_their_bytes(tmp_path):
    content = b'\xef\xbb\xbf{"id": 1, "text": "x"}\r\n\n{"id": 2, "text": "y"}'
    first, second = rows(tmp_path / "prompts.jsonl", content)
    assert (first.number, second.number) == (1, 3)
    assert (first.content.external_id, second.content.external_id) == ("1", "2")
    assert content[second.start : second.end] == b'{"id": 2, "text": "y"}'


def test_a_line_longer_than_memory_should_hold_is_one_bad_row(tmp_path, monkeypatch):
    monkeypatch.setattr("arena.files.reader.LINE_LIMIT", 100)
    lines = b'{"id": 1, "text": "' + b"x" * 500 + b'"}\n{"id": 2, "text": "fine"}\n'
    first, second = rows(tmp_path / "prompts.jsonl", lines)
    assert "is longer than" in first.content.reason
    assert lines[first.start : first.end].endswith(b'"}\n')
    assert (second.number, second.content.external_id) == (2, "2")


def test_a_pair_makes_its_names_and_keeps_other_columns(tmp_path):
    [row] = rows(tmp_path / "v.csv", "id,left,right,winner,prompt,worker\n0,A,B,right,8,58\n")
    record = row.content
    assert (record.left, record.right, record.outcome) == ("A", "B", "right")
    assert (record.prompt, record.rater, record.details) == ("8", "58", {"id": "0"})
    assert record.makes_names


@pytest.mark.parametrize(
    "content",
    [
        "left;right;winner\nA;B;tie\n",
        "left\tright\twinner\r\nA\tB\ttie\r\n",
        "\ufeffleft,right,winner\nA,B,tie",
        '"Left", "Right", "Winner"\n"A","B","TIE"\n\n',
    ],
)
def test_dialects_of_csv_are_understood(tmp_path, content):
    [row] = rows(tmp_path / "v.csv", content)
    assert (row.content.left, row.content.right, row.content.outcome) == ("A", "B", "tie")
    assert (row.content.prompt, row.content.rater) == ("", "")


@pytest.mark.parametrize(
    ("line", "column", "words"),
    [
        (b"A,B,maybe", "winner", "not one of"),
        (b",B,left", "left", "is empty"),
        (b"A,B", None, "has 2 fields; the header has 3"),
        (b"A,B,left,more", None, "has 4 fields"),
        (b"\xff\xfe,B,left", "left", "UTF-8"),
        (b"A\0,B,left", "left", "NUL"),
        (b"x" * 300 + b",B,left", "left", "300 characters"),
        (b'"A"x,B,left', None, "is not CSV"),
        (b'"A,B,left', None, "is not CSV"),
        (b"x" * 200_000 + b",B,left", None, "200,008 bytes long"),
        (b"x" * 1_000_001 + b",B,left", None, "limit of 1,000,000 characters"),
    ],
)
def test_a_bad_pair_names_its_line(tmp_path, line, column, words):
    content = b"left,right,winner\nA,B,tie\n" + line + b"\n"
    good, bad = rows(tmp_path / "v.csv", content)
    assert (good.line, bad.line, bad.number) == (2, 3, 2)
    assert isinstance(bad.content, InputError)
    assert bad.content.column == column
    assert words in bad.content.reason


def test_a_quoted_line_break_does_not_shift_the_lines_below(tmp_path):
    content = 'left,right,winner,note\nA,B,tie,"two\nlines"\nA,B,left,x\n'
    first, second = rows(tmp_path / "v.csv", content)
    assert first.content.details == {"note": "two\nlines"}
    assert (first.line, second.line, second.number) == (2, 4, 2)
    assert content.encode()[second.start : second.end] == b"A,B,left,x\n"


def test_every_importer_is_listed_under_its_name():
    assert {name: format_.NAME for name, format_ in FORMATS.items()} == {
        name: name for name in FORMATS
    }
    assert {"native", "pairs", "lmarena", "promptfoo", "langfuse"} <= FORMATS.keys()
