"""Excel workbooks, read as tables of their first visible sheet."""

import zipfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from arena.files.reader import FileError, Source, csv_header, csv_rows
from arena.formats import find_files

Change = Callable[[openpyxl.Workbook], object]


def workbook(folder: Path, rows: list[list[Any]], change: Change = lambda book: None) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    change(book)
    book.save(folder / "votes.xlsx")
    return folder / "votes.xlsx"


VOTES: list[list[Any]] = [
    ["Model A", "Model B", "Winner"],
    ["oak", "elm", "A"],
    ["elm", 7.0, "tie"],
]


def votes_in(path: Path) -> list[tuple[str, str, str]]:
    [file] = find_files([path])
    votes = [row.content for row in file.rows()]
    return [(vote.left, vote.right, vote.outcome) for vote in votes]


def test_the_first_visible_sheet_is_read_and_others_are_named(tmp_path: Path) -> None:
    def more_sheets(book: openpyxl.Workbook) -> None:
        book.create_sheet("Notes").append(["model_a", "model_b", "winner"])
        book.create_sheet("Old", 0).sheet_state = "hidden"

    path = workbook(tmp_path, VOTES, more_sheets)
    assert votes_in(path) == [("oak", "elm", "left"), ("elm", "7", "tie")]
    [file] = find_files([path])
    assert file.unread == ["sheet 'Old'", "sheet 'Notes'"]


def test_the_content_decides_and_not_the_name(tmp_path: Path) -> None:
    path = workbook(tmp_path, VOTES).rename(tmp_path / "votes.csv")
    assert len(votes_in(path)) == 2


def test_cells_are_what_a_person_sees(tmp_path: Path) -> None:
    time = datetime(2026, 1, 2, 3, 4)  # noqa: DTZ001  (Excel knows no zones)
    row = [1, 2.5, True, time, None, " x\ny "]
    path = workbook(tmp_path, [["a", "b", "c", "d", "e", "f"], row])
    source = Source.at(path)
    header = csv_header(source, suffices=lambda names: True, wanted="")
    [read] = csv_rows(source, header)
    assert [*read.content.values()] == ["1", "2.5", "True", "2026-01-02T03:04:00", "", " x\ny "]


def merge(book: openpyxl.Workbook) -> None:
    book.active.merge_cells("A2:A3")


def compute(book: openpyxl.Workbook) -> None:
    book.active["C2"] = '=IF(TRUE,"A","B")'


def hide(book: openpyxl.Workbook) -> None:
    book.create_sheet("Notes")
    book.active.sheet_state = "hidden"
    book["Notes"].sheet_state = "hidden"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (merge, r"has merged cells \(A2\); unmerge them"),
        (compute, "has formulas whose results are not stored; open it in a spreadsheet program"),
    ],
)
def test_what_cannot_be_read_for_certain_is_refused(
    tmp_path: Path, change: Change, says: str
) -> None:
    with pytest.raises(FileError, match=says):
        votes_in(workbook(tmp_path, VOTES, change))


def test_a_workbook_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    path = workbook(tmp_path, VOTES)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet9.xml", b"<" + b" " * 120_000_000)
    with pytest.raises(FileError, match="cannot be read: it is much larger than it seems"):
        votes_in(path)


@pytest.mark.parametrize("size", [10, 2_000, 4_500])
def test_a_broken_workbook_is_refused_in_a_sentence(tmp_path: Path, size: int) -> None:
    path = workbook(tmp_path, VOTES)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(FileError, match=r"is Excel, but cannot be read|zip archive|not a file"):
        votes_in(path)
