"""Votes read as columns are the votes read one by one; no database."""

from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from arena.files import columns, copies
from arena.files.reader import FileError
from arena.files.rows import VoteRow
from arena.formats import find_files
from arena.formats.base import VoteColumns

HEAD = "left,right,winner,prompt,worker,cast_at,note\n"
GOOD = "".join(f"A,B{n},left,p{n},w,2026-01-31T12:00:0{n}Z,\n" for n in range(9))


def one_by_one(path: Path) -> tuple[list[tuple[str, ...]], list[tuple[int, int, str]]]:
    [file] = find_files([path])
    return told(row for row in file.rows())


def in_blocks(path: Path) -> tuple[list[tuple[str, ...]], list[tuple[int, int, str]], int]:
    """The votes, the refusals, and how many votes came as columns."""
    [file] = find_files([path])
    votes, refusals, n_quick = [], [], 0
    for block in file.blocks():
        if isinstance(block, VoteColumns):
            n_quick += len(block)
            votes += zip(*map(texts_of, columns_of(block)), strict=True)
            if any(left == right for left, right, *_ in votes):
                pytest.fail("a candidate is compared with itself")
        else:
            more, bad = told(block)
            votes, refusals = votes + more, refusals + bad
    return votes, refusals, n_quick


def told(rows):
    votes, refusals = [], []
    for row in rows:
        vote = row.content
        if not isinstance(vote, VoteRow):
            refusals.append((row.number, row.line, str(vote)))
        elif vote.left == vote.right:
            refusals.append((row.number, row.line, "itself"))
        else:
            votes.append((vote.left, vote.right, vote.outcome, vote.prompt, vote.rater))
    return votes, refusals


def columns_of(block):
    nothing = columns.Column(block.outcome.codes, [""] * len(block.outcome.texts))
    fields = (block.left, block.right, block.outcome, block.prompt, block.rater)
    return [column or nothing for column in fields]


def texts_of(column):
    return [column.texts[code] for code in column.codes.to_pylist()]


@pytest.mark.parametrize(
    ("below", "n_quick"),
    [
        (GOOD, 9),
        (GOOD.replace("\n", "\r\n"), 9),
        (GOOD.rstrip("\n"), 9),
        ('"A, really","B",left,p,w,,\n"é","C"," TIE ",,,,"a,b"\n', 2),
        (GOOD + "A,B,both bad,p,w,,\nA,B,model_b,p,w,,\nA,B,Draw,p,w,,\n", 12),
        # Left to the rows, because something is bad or odd.
        (GOOD + "A,A,left,p,w,,\n", 0),
        (GOOD + "A, A ,left,p,w,,\n", 0),
        (GOOD + "A,B,maybe,p,w,,\n" + GOOD, 0),
        (GOOD + "A,B,left\n" + GOOD, 0),
        (GOOD + "A,B,left,p,w,yesterday,\n", 0),
        (GOOD + "A,B,left,p,w,2026-02-30T12:00:00Z,\n", 0),
        (GOOD + ",B,left,p,w,,\n", 0),
        (GOOD + "\n , \n" + GOOD, 0),
        (GOOD + ",,,,,,\n" + GOOD, 0),
        (GOOD + "A\u200b,B,left,p,w,,\n", 0),
        (GOOD + f"{'x' * 201},B,left,p,w,,\n", 0),
        (GOOD + f"A,B,left,p,w,,{'x' * 100_001}\n", 0),
        (GOOD + "A,B,left,p,w,,\0\n", 0),
        (GOOD + 'A,B,left,p,w,,"two\nlines"\n' + GOOD + "A,B\n", 0),
        (GOOD + 'A,B,left,p,w,,"a ""quoted"" word"\nA,B,maybe,p,w,,\n', 0),
        (GOOD + 'A,B"C,left,p,w,,\n', 0),
        (GOOD + 'A,"B"C,left,p,w,,\nA,B,left,p,w,,\n', 0),
        (GOOD + 'A,"B,left,p,w,,\n', 0),
        (GOOD.replace("\n", "\r") + "A,B\r", 0),
        (GOOD + "A,B,left,p,w,,,\n", 0),
        ("", 0),
    ],
)
def test_columns_and_rows_say_the_same(tmp_path: Path, below: str, n_quick: int) -> None:
    path = tmp_path / "votes.csv"
    path.write_bytes((HEAD + below).encode())
    votes, refusals, quick = in_blocks(path)
    assert (votes, refusals) == one_by_one(path)
    assert quick == n_quick


ARENA = "question_id,model_a,model_b,winner,judge,turn,anony,language,tstamp,left\n"
BATTLE = "q{n},A,B{n},model_a,w,1,True,English,1700000{n}00.5,x\n"
BATTLES = "".join(BATTLE.format(n=n) for n in range(9))


@pytest.mark.parametrize(
    ("below", "n_quick"),
    [
        (BATTLES, 9),
        (BATTLES + "q,A,B,tie (bothbad),,,,,,\nq,A,B,tie,w,,,,2026-01-31T12:00:00Z,\n", 11),
        (BATTLES + "q,A,A,tie,w,,,,1700000000,\n", 0),
        (BATTLES + "q,A,B,tie (inconsistent),w,,,,1700000000,\n" + BATTLES, 0),
        (BATTLES + "q,A,B,-,w,,,,1700000000,\n", 0),
        (BATTLES + "q,A,B,maybe,w,,,,1700000000,\n" + BATTLES, 0),
        (BATTLES + "q,A,B,tie,w,,,,yesterday,\n", 0),
        (BATTLES + "q,A,B,tie,w,,,,1e300,\n", 0),
        (BATTLES + ",,B,tie,w,,,,1700000000,\n", 0),
        (BATTLES + "q,A,B\n", 0),
    ],
)
def test_columns_and_rows_of_lmarena_say_the_same(tmp_path: Path, below: str, n_quick: int) -> None:
    path = tmp_path / "battles.csv"
    path.write_text(ARENA + below)
    votes, refusals, quick = in_blocks(path)
    assert (votes, refusals) == one_by_one(path)
    assert quick == n_quick
    [file] = find_files([path])
    assert {row.unread for row in file.rows()} == {("anony", "left")}
    columns = [block for block in file.blocks() if isinstance(block, VoteColumns)]
    assert all(tuple(block.unread) == ("anony", "left") for block in columns)


def test_bytes_that_are_not_utf_8_are_refused_alike(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_bytes((HEAD + GOOD).encode() + b"A,B,left,p,w,,caf\xe9\n")
    votes, refusals, _ = in_blocks(path)
    assert (votes, refusals) == one_by_one(path)
    assert [line for _, line, _ in refusals] == [11]


@pytest.mark.parametrize("size", [70, 100, 1000])
def test_a_bad_row_costs_only_its_block(monkeypatch, tmp_path: Path, size: int) -> None:
    monkeypatch.setattr(columns, "BLOCK_BYTES", size)
    path = tmp_path / "votes.csv"
    path.write_text("\ufeffsep=,\n" + HEAD + GOOD + "A,B,maybe,p,w,,\nA\n" + GOOD * 40)
    votes, refusals, n_quick = in_blocks(path)
    assert (votes, refusals) == one_by_one(path)
    assert [(number, line) for number, line, _ in refusals] == [(10, 12), (11, 13)]
    assert 9 * 36 < n_quick < 9 * 41


@pytest.mark.parametrize("middle", ["A,B,maybe,p,w,,\n", 'A,B,left,p,w,,"two\nlines"\n'])
def test_a_bad_row_costs_little_of_a_long_block(monkeypatch, tmp_path: Path, middle: str) -> None:
    monkeypatch.setattr(columns, "SPLIT_BYTES", 1000)
    path = tmp_path / "votes.csv"
    path.write_text(HEAD + GOOD * 40 + middle + GOOD * 40 + "A,A,left,p,w,,\n" + GOOD)
    votes, refusals, n_quick = in_blocks(path)
    assert (votes, refusals) == one_by_one(path)
    assert refusals[-1][1] == 1 + 9 * 80 + middle.count("\n") + 1
    assert 9 * 75 < n_quick < 9 * 81


def test_a_quote_in_a_later_block_changes_no_row(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(columns, "BLOCK_BYTES", 200)
    path = tmp_path / "votes.csv"
    path.write_text(HEAD + GOOD + 'A,B,left,p,w,,"he said ""no"",\nthen yes"\n' + GOOD + "A\n")
    votes, refusals, n_quick = in_blocks(path)
    assert (votes, refusals) == one_by_one(path)
    assert 0 < n_quick < 9
    assert refusals[0][:2] == (20, 22)


@pytest.mark.parametrize("kind", ["text", "dictionary", "odd"])
def test_parquet_is_read_like_csv(tmp_path: Path, kind: str) -> None:
    written = tmp_path / "votes.csv"
    note = 'a "quoted", word' if kind == "odd" else "plain"
    written.write_text(HEAD + GOOD)
    table = pyarrow.table(
        {
            "model_a": ["A"] * 9,
            "model_b": [f"B{n}" for n in range(9)],
            "winner": ["model_a"] * 9,
            "prompt": [f"p{n}" for n in range(9)],
            "worker": ["w"] * 9,
            "cast_at": pyarrow.array([n * 10**9 for n in range(9)], pyarrow.timestamp("ns", "UTC")),
            "turns": list(range(9)),
            "note": [None, *[note] * 8],
        }
    )
    if kind == "dictionary":
        table = table.set_column(0, "model_a", table["model_a"].dictionary_encode())
    path = tmp_path / "votes.parquet"
    parquet.write_table(table, path)
    assert in_blocks(path)[:2] == one_by_one(written)
    [file] = find_files([path])
    last = list(file.rows())[-1].content
    assert last.details == {"turns": "8", "note": note}
    assert last.cast_at.isoformat() == "1970-01-01T00:00:08+00:00"


def test_lists_and_objects_in_parquet_are_read_as_json(tmp_path: Path) -> None:
    path = tmp_path / "votes.parquet"
    table = {"left": ["A"], "right": ["B"], "winner": ["left"], "note": [[{"x": 1}]]}
    parquet.write_table(pyarrow.table(table), path)
    [file] = find_files([path])
    [row] = file.rows()
    assert row.content.details == {"note": '[{"x": 1}]'}


def test_parquet_that_is_broken_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "votes.parquet"
    path.write_bytes(b"PAR1" + b"\0" * 100)
    [file] = find_files([path])
    with pytest.raises(FileError, match=r"is Parquet, but cannot be read: .*\.$"):
        list(file.rows())


def test_without_pyarrow_each_row_is_read_and_parquet_says_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, table = tmp_path / "votes.csv", tmp_path / "votes.parquet"
    path.write_text(HEAD + GOOD)
    parquet.write_table(pyarrow.table({"left": ["A"], "right": ["B"], "winner": ["left"]}), table)
    with_it = in_blocks(path)
    monkeypatch.setattr(columns, "HAS_PYARROW", False)
    monkeypatch.setattr(copies, "HAS_PYARROW", False)
    assert in_blocks(path) == (*with_it[:2], 0)
    with pytest.raises(FileError, match=r"pip install 'ringside-arena\[parquet\]', or save it as"):
        one_by_one(table)


def test_the_usual_names_win(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("model_a,model_b,winner,left,right\nX,Y,a,A,B\n")
    assert in_blocks(path)[0] == one_by_one(path)[0] == [("A", "B", "left", "", "")]
