"""Votes as CSV: `left,right,winner`, with an optional `prompt`, `worker` and `cast_at`.

There are no texts, so an arena imported from this format alone is only a leaderboard: candidates,
prompts and raters are created from the names in the rows. Further columns become the vote's
details.
"""

from collections.abc import Iterator
from pathlib import Path

from arena.files.reader import Header, Row, Source, csv_header, csv_rows
from arena.files.rows import Schema, Values, VoteRow
from arena.formats.base import check_size, parsed

NAME = "pairs"
FILES = "a .csv, .tsv or .txt file"
SUFFIXES = (".csv", ".tsv", ".txt")
NEEDED = ("left", "right", "winner")
VOTE: Schema[VoteRow] = Schema(
    VoteRow,
    {
        "left": "left",
        "right": "right",
        "outcome": "winner",
        "prompt": "prompt",
        "rater": "worker",
        "cast_at": "cast_at",
    },
)


def sniff(path: Path) -> list[tuple[Path, str]]:
    """Return the one file; folders are not accepted, because they may contain other CSV files."""
    if path.is_dir() or path.suffix.lower() not in SUFFIXES:
        return []
    return [(path, "votes")]


def preamble(path: Path) -> int:
    """Return the length of the header in bytes."""
    return _header(Source.at(path)).end


def rows(path: Path, kind: str) -> Iterator[Row]:
    """Yield one row for each record below the header, numbered from 1."""
    source = Source.at(path)
    for number, row in enumerate(parsed(csv_rows(source, _header(source)), _vote), start=1):
        row.number = number
        yield row


def _header(source: Source) -> Header:
    return csv_header(
        source,
        suffices=lambda names: {name.lower() for name in names}.issuperset(NEEDED),
        wanted="It needs the columns left, right and winner.",
    )


def _vote(fields: Values, row: Row) -> VoteRow:
    check_size(row)
    return VOTE.take(fields, details=fields, makes_names=True)
