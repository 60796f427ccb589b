"""Bytes to text to numbered rows; no database."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.files.reader import (
    ENCODINGS,
    FileError,
    Source,
    csv_header,
    csv_rows,
    guess_encoding,
    json_rows,
)
from arena.validation import InputError

SENTENCES = {
    "cp1252": "Où est l’été ? Was heißt „Größe“? ¿Por qué el cielo es azul, señor?",
    "cp1250": "Dlaczego niebo jest błękitne? Żółć gęślą jaźń. Proszę wyjaśnić krótko.",
    "cp1251": "Почему небо голубое и трава зелёная?",
    "cp1253": "Γιατί ο ουρανός είναι μπλε; Εξήγησέ το απλά.",
    "cp1254": "Gökyüzü neden mavidir? Işığın saçılması şöyle açıklanır.",
    "koi8_r": "Почему небо голубое и трава зелёная?",
    "cp932": "空はなぜ青いのですか。簡単に説明してください。",
    "gb18030": "天空为什么是蓝色的？请简单说明。",
    "big5": "天空為什麼是藍色的？請簡單說明。",
    "cp949": "하늘은 왜 파란가요? 쉽게 설명해 주세요.",
    "mac_roman": "Où est l’été à la plage ? Déjà vu, écrivez une réponse très brève.",
}
CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)


def rows_of(source: Source) -> list[dict[str, str]]:
    header = csv_header(source, suffices=lambda names: "text" in names, wanted="")
    return [row.content for row in csv_rows(source, header)]


@pytest.mark.parametrize("codec", SENTENCES)
def test_an_encoding_is_guessed_and_the_guess_is_reported(codec: str) -> None:
    sentence = SENTENCES[codec]
    data = f"text\tid\n{sentence}?\tp1\n{sentence}\tp2\n".encode(codec)
    source = Source.of(data)
    assert [row["text"] for row in rows_of(source)] == [f"{sentence}?", sentence]
    assert source.encoding == ENCODINGS[codec]
    assert f"read as {ENCODINGS[codec]}" in source.notice


def test_a_few_bytes_are_read_in_the_most_common_encoding() -> None:
    assert guess_encoding("text\ncafé\n".encode("cp1252")) == "cp1252"
    assert guess_encoding(b"text\n\x81\n") == ""


def test_without_guessing_the_encoding_is_named() -> None:
    data = SENTENCES["cp1251"].encode("cp1251")
    with pytest.raises(FileError, match=r"line 1 is not UTF-8 and seems to be Windows-1251"):
        Source.of(data, guess=False)


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-16-le"])
def test_a_file_on_disk_is_read_as_a_stream_of_utf_8(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes("text,id\n„Größe“,p1\n".encode(codec))
    assert rows_of(Source.at(path)) == [{"text": "„Größe“", "id": "p1"}]


def test_utf_16_that_breaks_off_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes("text,id\na,p1\n".encode("utf-16")[:-1])
    with pytest.raises(FileError, match="not valid UTF-16"):
        rows_of(Source.at(path))


@given(
    st.lists(st.tuples(CELLS.filter(str.strip), CELLS), max_size=5),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_rows_are_read_whatever_ends_their_lines(cells: list[tuple[str, str]], end: str) -> None:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([("text", "note"), *cells])
    rows = rows_of(Source(stream.getvalue().encode(), "The file"))
    assert [(row["text"], row["note"]) for row in rows] == cells


def test_lines_are_cut_at_the_limit_wherever_they_end() -> None:
    for end in (b"\n", b"\r\n"):
        source = Source(end.join([b"text,id", b"x" * 50 + b",p1", b"fine,p2", b""]), "The file")
        source.line_limit = 40
        rows = rows_of(source)
        assert isinstance(rows[0], InputError)
        assert rows[-1] == {"text": "fine", "id": "p2"}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b'{"a": 1.0, "b": 12345678901234567890123}', {"a": 1.0, "b": 12345678901234567890123}),
        (b'{"a": 1, "a": 2}', {"a": 2}),
        (b'\xef\xbb\xbf{"a": "\\ud83d\\ude00"}', {"a": "\N{GRINNING FACE}"}),
        (b'{"a": "\\ud800"}', {"a": "\ud800"}),
        (b'{"a": %s}' % (b"[" * 250 + b"]" * 250), None),
    ],
)
def test_quick_and_exact_json_agree(line: bytes, value: object) -> None:
    [row] = json_rows(Source(line, "The file"))
    assert value is None or row.content == value
    assert isinstance(row.content, dict)


@pytest.mark.parametrize("number", [b"1e999", b"-1e999", b"Infinity", b"-Infinity", b"9" * 301])
def test_a_number_that_cannot_be_stored_is_a_bad_row(number: bytes) -> None:
    [row] = json_rows(Source(b'{"a": %s}' % number, "The file"))
    assert isinstance(row.content, InputError) or number == b"9" * 301


@pytest.mark.parametrize("data", [b'{"a": NaN}\n{"a": 1}\n', b'[{"a": NaN}, {"a": 1}]'])
def test_a_nan_of_pandas_is_a_missing_value(data: bytes) -> None:
    assert [row.content for row in json_rows(Source(data, "The file"))] == [{"a": None}, {"a": 1}]
