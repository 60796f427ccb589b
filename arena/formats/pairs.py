"""Votes as CSV or Parquet: `left,right,winner`, with an optional `prompt`, `document`, `worker` and
`cast_at`.

There are no texts, so an arena imported from this format alone is only a leaderboard: candidates,
prompts and raters are created from the names in the rows. Further columns become the vote's
details.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from arena.files.columns import Block, Column, csv_blocks, read_ahead
from arena.files.reader import Header, Row, Source, csv_header, csv_rows
from arena.files.rows import Schema, Values, VoteRow
from arena.formats.base import VoteColumns, check_one_vote_a_row, check_size, parsed
from arena.outcomes import BOTH_BAD, LEFT, OUTCOMES, RIGHT, TIE
from arena.validation import NAME_LIMIT, InputError, clean_details

NAME = "pairs"
TITLE = "votes as a table"
repeats = False
FILES = "a .csv, .tsv, .txt or .parquet file"
SUFFIXES = (".csv", ".tsv", ".txt", ".parquet")
NEEDED = ("left", "right", "winner")
# Other names of columns, each used if the file has no column with the usual name.
ALIASES = {"left": "model_a", "right": "model_b", "worker": "rater"}
SPELLINGS = {
    **dict.fromkeys(("a", "model_a"), LEFT),
    **dict.fromkeys(("b", "model_b"), RIGHT),
    "draw": TIE,
    **dict.fromkeys(("both bad", "bothbad", "tie (bothbad)", "tie (both bad)"), BOTH_BAD),
}
FIELDS = {
    "left": "left",
    "right": "right",
    "outcome": "winner",
    "prompt": "prompt",
    "document": "document",
    "rater": "worker",
    "cast_at": "cast_at",
}
VOTE: Schema[VoteRow] = Schema(VoteRow, FIELDS)


def sniff(path: Path) -> list[tuple[Path, str]]:
    """Return the one file; folders are not accepted, because they may contain other CSV files."""
    if path.is_dir() or path.suffix.lower() not in SUFFIXES:
        return []
    return [(path, "votes")]


def preamble(path: Path) -> int:
    """Return the length of the header in bytes."""
    return _vote_header(Source.at(path)).end


def rows(path: Path, kind: str) -> Iterator[Row]:
    """Yield one row for each record below the header, numbered from 1."""
    source = Source.at(path)
    for number, row in enumerate(_parsed_votes(csv_rows(source, _vote_header(source))), start=1):
        row.number = number
        yield row


def blocks(path: Path, kind: str) -> Iterator[VoteColumns | list[Row]]:
    """Yield the same rows in blocks, as columns if all of them are good."""
    source = Source.at(path)
    header, done = _vote_header(source), 0
    by_column = vote_parts if _can_be_stored(header) else _whole_block
    for part in chain.from_iterable(read_ahead(by_column, csv_blocks(source, header))):
        if isinstance(part, VoteColumns):
            done += len(part)
            yield part
            continue
        for number, row in enumerate(_parsed_votes(part.rows()), start=done + 1):
            row.number = done = number
            yield [row]


def _vote_header(source: Source) -> Header:
    header = csv_header(
        source,
        suffices=lambda names: set(_keys_of_columns([name.lower() for name in names])).issuperset(
            NEEDED
        ),
        wanted="It needs the columns left, right and winner, or model_a, model_b and winner, or "
        "those of another format (docs/reference/files.md).",
    )
    check_one_vote_a_row(source.subject, header.names)
    return replace(header, keys=_keys_of_columns(header.keys))


def _keys_of_columns(names: Sequence[str]) -> list[str]:
    usual = {other: name for name, other in ALIASES.items() if name not in names}
    return [usual.get(name, name) for name in names]


def _parsed_votes(rows: Iterator[Row]) -> Iterator[Row]:
    return parsed(rows, _vote_fields)


def _vote_fields(fields: Values, row: Row) -> VoteRow:
    check_size(row)
    fields["winner"] = _outcome_written(fields["winner"])
    return VOTE.take(fields, details=fields, makes_names=True)


def _outcome_written(written: str) -> str:
    return SPELLINGS.get(written.strip().lower(), written)


# What most names and times look like. All others are checked one by one, as in rows.
PLAIN_NAME = f"^[!-~]([ -~]{{0,{NAME_LIMIT - 2}}}[!-~])?$"
PLAIN_TIME = (
    r"^2\d{3}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])[T ]([01]\d|2[0-3])(:[0-5]\d){2}(\.\d{6})?"
    r"(Z|[+-]0\d:[0-5]\d)?$"
)
EXAMPLE = {"left": "A", "right": "B", "outcome": LEFT}


def _can_be_stored(header: Header) -> bool:
    """Whether the names of further columns can be stored; each row says so if they cannot."""
    try:
        clean_details(dict.fromkeys(header.keys, ""))
    except InputError:
        return False
    return True


def vote_parts(block: Block, times: str = PLAIN_TIME) -> list[VoteColumns | Block]:
    """The block's votes as columns, except for the parts that have to be read row by row; `times`
    matches the times that need no look."""
    columns = _vote_columns(block, times)
    if columns is not None:
        return [columns]
    return [part for half in block.halves() for part in vote_parts(half, times)] or [block]


def _whole_block(block: Block) -> list[VoteColumns | Block]:
    return [block]


def _vote_columns(block: Block, times: str) -> VoteColumns | None:
    """The votes of a block; None if one of them is bad or might be."""
    read = block.columns([column for column in FIELDS.values() if column in block.header.keys])
    if read is None:
        return None
    try:
        named = {name: read[key] for name, key in FIELDS.items() if key in read}
        clean: Values = {name: _is_clean(name, column, times) for name, column in named.items()}
    except InputError:
        return None
    clean.pop("cast_at", None)
    votes = VoteColumns(**clean, line=block.line + block.n_lines, end=block.end)
    return None if votes.left.meets(votes.right) else votes


def _is_clean(field: str, column: Column, times: str) -> Column:
    """The column with each text cleaned by the row's schema; raises InputError."""
    if field == "cast_at":
        odd = column.unlike(times)
    elif field == "outcome":
        odd = [i for i, text in enumerate(column.texts) if text not in OUTCOMES]
    else:
        odd = [] if column.is_plain(NAME_LIMIT) else column.unlike(PLAIN_NAME)
    texts = list(column.texts)
    for i in odd:
        written = _outcome_written(texts[i]) if field == "outcome" else texts[i]
        texts[i] = getattr(VOTE.parse(EXAMPLE | {field: written}), field)
    return replace(column, texts=texts)
