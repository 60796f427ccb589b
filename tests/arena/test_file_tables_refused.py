"""Unusable files, and the sentence that says why; no database."""

import io
import json
import time
import zipfile
from contextlib import suppress

import pytest

from arena.files.reader import FileError
from arena.files.tables import PROMPTS, RESPONSES, read_table


def refusal(data: bytes, columns=PROMPTS, **limits: int) -> str:
    with pytest.raises(FileError) as caught:
        read_table(data, columns=columns, **limits)
    return str(caught.value)


def zipped(name: str, content: str = "", method: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr(name, content)
    return stream.getvalue()


@pytest.mark.parametrize(
    "data", [b"", b" \r\n", b"\xef\xbb\xbf\n", b"\xff\xfe \0", b"\xfe\xff\0 \0\n", b"\0\0\0"]
)
def test_an_empty_file(data):
    assert refusal(data) == "The file is empty."


@pytest.mark.parametrize("data", [b"text,id\n", b"text,id\n\n,\n", b"[]", b" [ ] "])
def test_a_file_without_rows(data):
    assert refusal(data) == "The file has no rows."


def test_a_file_that_is_too_large():
    data = b"text\n" + b"a\n" * 999_999
    assert refusal(data, at_most_bytes=2_000_000) == ("The file is 2.1 MB; the limit is 2.0 MB.")
    assert refusal(b"a" * 20_000_001).startswith("The file is 20.1 MB; the limit is 20.0 MB")


@pytest.mark.parametrize(
    "data",
    [
        b"text,id\n" + b"".join(b"%d,p%d\n" % (n, n) for n in range(11)),
        b"\n".join(b'{"text": "%d"}' % n for n in range(11)),
        json.dumps([{"text": str(n)} for n in range(11)]).encode(),
        b"text,id\n" + b"a\n" * 11,
    ],
)
def test_too_many_rows(data):
    words = "The file has more than 10 rows; split it into several."
    assert refusal(data, at_most_rows=10) == words
    table = read_table(data, columns=PROMPTS, at_most_rows=11)
    assert len(table.rows) + len(table.problems) == 11


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            zipped("xl/workbook.xml"),
            "is Excel, but cannot be read",
        ),
        (
            zipped("mimetype", "application/vnd.oasis.opendocument.spreadsheet"),
            "is a LibreOffice sheet; open it in its own program and save it as CSV",
        ),
        (zipped("[Content_Types].xml"), "is an Excel workbook or another Office file; open it"),
        (zipped("prompts.csv", "text"), "is a zip archive; unpack it first, or save it as CSV if"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99), "is an old Excel workbook"),
        (b"%PDF-1.7\ntext", "is a PDF; open it"),
        (b"{\\rtf1 text", "is formatted text (RTF)"),
        (b"\x1f\x8b\x08" + bytes(9), "is a gzip archive; unpack it first."),
        (
            b"text,id\n" + bytes(range(1, 32)) * 9,
            "is a binary file, not text; save it as CSV or JSON Lines.",
        ),
        (b"text,id\na\0b,p1\n", "has a NUL byte in line 2"),
        (b"\xff\xfet\0e\0x", "begins as UTF-16, but is not valid UTF-16"),
        ("text\nGrüße äöü\n".encode() + b"\xff\n", "is UTF-8, but line 3 is not"),
        (b"\xef\xbb\xbftext\n\xff\n", "is UTF-8, but line 2 is not"),
        (b"text\n\x81\n", "line 2 is not UTF-8"),
        (b"[", "The file is not JSON: Expecting value, line 1, character 2."),
        (b'[{"text": "a"},\n]', "a comma before ], line 2, character 1; remove the comma."),
        (b'[{"text": "a"}\n{"text": "b"}]', "Expecting ',' delimiter, line 2, character 1."),
        (b'[{"text": "a"}', "Expecting ',' delimiter"),
        (b'[{"text": "a"}] x', "Extra data"),
        (b'[{"text": "a", "n": 1e999}]', "has a number that cannot be stored"),
        (b'[{"text": "a", "n": ' + b"1" * 5_000 + b"}]", "has a number that cannot be stored"),
        (b"[" * 100_000, "is nested too deeply"),
        (b"[1, 2]", "No row can be read: row 1 is a number, not a JSON object."),
        (b"{text: 1}\n{", "No row can be read: row 1 is not JSON"),
    ],
)
def test_another_kind_of_file_a_broken_encoding_or_broken_json(data, words):
    assert words in refusal(data)


def test_a_header_without_the_needed_columns():
    assert refusal(b"frage;nummer\nWas?;1\n") == (
        "The file must name its columns in the first row, but that row is 'frage;nummer'. "
        "It needs a column text, prompt, question, input or messages."
    )
    assert refusal(b"prompt_id\np1\n", RESPONSES).endswith(
        "It needs a column prompt_id, id, external_id, prompt, prompt_text, question or input, "
        "and a column text, answer, response, output or messages."
    )
    assert refusal(b'{"frage": "Was?"}').startswith("The objects have the keys 'frage'. It needs")
    assert refusal(b"[{}]").startswith("The objects have no keys. It needs")


def test_a_column_named_twice():
    assert refusal(b"text,Customer,customer\na,b,c\n") == (
        "The file names the column 'customer' twice in its first row. Rename or delete one of them."
    )


def test_too_many_columns():
    names = ["text", *(f"v{n}" for n in range(200))]
    words = "The file has 201 columns; at most 200 are allowed."
    assert refusal(",".join(names).encode() + b"\na\n") == words
    assert refusal(json.dumps(dict.fromkeys(names, "a")).encode()) == words


@pytest.mark.parametrize("lines", ["[%s]", "%s"])
def test_very_many_values(lines):
    row = '{"text": "a", "x": [' + "[]," * 1_500_000 + "[]]}"
    assert refusal((lines % row).encode()) == (
        "The file has more than 1,500,000 values; split it into several."
    )


def test_the_width_is_looked_at_before_the_names(monkeypatch):
    def looked_at(*given):
        raise AssertionError("a name was looked at")

    monkeypatch.setattr("arena.files.reader.folded", looked_at)
    monkeypatch.setattr("arena.files.tables.folded", looked_at)
    row = json.dumps({f"v{n}": "" for n in range(201)}).encode()
    for data in (b"text" + b"," * 200, row, b"[" + row + b"]"):
        assert refusal(data) == "The file has 201 columns; at most 200 are allowed."


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [
        b'text,id\n"' + b"a\n" * 500_000,
        b"[" + b"[]," * 500_000,
        b"text" + b"," * 19_000_000,
        b'"' * 1_000_000,
        b"\r" * 5_000_000 + b"x",
        b"text,id\n" + b",\n" * 2_000_000,
        b'[{"text":"a"}' + b" " * 1_000_000,
    ],
)
def test_a_hostile_file_is_done_with_quickly(data):
    started = time.process_time()
    with suppress(FileError):
        read_table(data, columns=PROMPTS)
    assert time.process_time() - started < 3


@pytest.mark.parametrize(
    ("column", "thing"),
    [("text", "prompt"), ("reference", "reference answer"), ("rubric", "rubric")],
)
def test_a_prompt_that_is_too_long_is_left_out(column, thing):
    row = {"text": "Why?", column: "x" * 100_001}
    table = read_table(json.dumps([row, row | {column: "y" * 100_000}]).encode(), columns=PROMPTS)
    assert [one.sentence for one in table.problems] == [
        f"The {thing} is 100,001 characters long; the limit is 100,000; shorten it, or leave the"
        f" row out (column '{column}')."
    ]
    assert len(table.rows) == 1


def test_a_prompt_with_too_many_variables_is_left_out():
    most = {"text": "Why?"} | {f"v{n}": "x" for n in range(100)}
    table = read_table(json.dumps([most | {"v100": "x"}, most]).encode(), columns=PROMPTS)
    assert [one.sentence for one in table.problems] == [
        "The row has 101 variables; a prompt can have at most 100."
    ]
    assert len(table.rows) == 1
