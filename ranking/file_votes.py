"""The votes of a file, or of a folder in the native format, as arrays.

Files are read by the import formats. Responses are skipped; a folder's prompts and candidates are
read, so that votes on any others are rejected.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.files.columns import Column
from arena.files.reader import FileError, Row
from arena.files.rows import CandidateRow, PromptRow, VoteRow
from arena.formats import find_files
from arena.formats.base import Checker, ImportFile, Known, RejectedRows, VoteColumns
from arena.outcomes import BOTH_BAD, PREFERENCES
from arena.validation import InputError, numbered

Codes = NDArray[np.int32]
Numbers = NDArray[np.signedinteger[Any]]
Floats = NDArray[np.float64]
# Called with the file, the bytes read and its size.
Progress = Callable[[Path, int, int], None]

PEOPLE = "people"
KINDS = {"person": PEOPLE, "judge": "judges", "jury": "juries"}
UNKNOWN = -1
CLUSTERS = ("auto", "prompt", "prompt_pair", "unit", "rater", "none")  # of dependent votes
ROWS = 1 << 16  # kept as Python's numbers until there are so many


class BadFileError(Exception):
    """A file that cannot be ranked; the message names its bad rows, or is a sentence."""


@dataclass(frozen=True, eq=False)
class FileVotes:
    """N decisive votes and ties, in the order of the file.

    Attributes
    ----------
    names : K candidates in alphabetical order
    left, right : (N,) int32, indices into names
    score : (N,) float64, the left answer's: 1, 0, a half, or the soft verdict
    prompt, rater : (N,) int32; UNKNOWN if the file does not say
    raters : the kind of rater that cast these votes
    n_both_bad : their "both bad" votes, which do not affect the scores
    n_left_out : votes by other kinds of raters
    rejected : the bad rows that were skipped
    """

    names: list[str]
    left: Numbers
    right: Numbers
    score: Floats
    prompt: Numbers
    rater: Numbers
    raters: str
    n_both_bad: int
    n_left_out: int
    rejected: RejectedRows = field(default_factory=RejectedRows)

    @cached_property
    def capped(self) -> tuple[Floats | None, str]:
        """(N,) the votes' weights, and a sentence; None and '' if all weigh the same."""
        if self.raters != PEOPLE or not (self.rater >= 0).any():
            return None, ""
        # SciPy is loaded while files are read.
        from ranking.stats.intervals import capped_note, vote_weights  # noqa: PLC0415

        weights, share = vote_weights(self.rater)
        n_raters = len(np.unique(self.rater[weights < 1]))
        return (weights, capped_note(n_raters, share)) if n_raters else (None, "")


def read_file(
    path: Path,
    format_name: str = "auto",
    raters: str = "auto",
    *,
    skip_bad: bool = False,
    progress: Progress = lambda *told: None,
) -> FileVotes:
    """Read all votes at `path`: by people, or by judges if no person has voted.

    Raises BadFileError, with file, line, column and reason of the first bad rows, unless they are
    to be skipped.
    """
    try:
        files = [file for file in find_files([path], format_name) if file.kind != "responses"]
        if all(file.kind != "votes" for file in files):
            raise FileError(f"{path} has no votes.")
        reader = _Reader({file.kind for file in files}, progress)
        for file in files:
            reader.read(file)
    except (FileError, OSError) as error:
        raise BadFileError(str(error)) from None
    bad = reader.rejected.count
    if bad and not skip_bad:
        rows = numbered(bad, "bad row")
        raise BadFileError(
            f"{reader.rejected}\nNothing was ranked: {rows}. Use --skip-bad to rank the rest."
        )
    return reader.votes(path, raters)


class _Column:
    """The votes by one kind of rater, read so far: left, right, score, prompt and rater."""

    def __init__(self) -> None:
        self.chunks: list[tuple[NDArray[Any], ...]] = []
        self.rows: list[tuple[int, int, float, int, int]] = []
        self.n_both_bad = 0

    def __len__(self) -> int:
        return sum(len(chunk[0]) for chunk in self.chunks) + len(self.rows) + self.n_both_bad

    def add(self, left: int, right: int, score: float, prompt: int, rater: int) -> None:
        self.rows.append((left, right, score, prompt, rater))
        if len(self.rows) == ROWS:
            self._pack()

    def extend(self, left: Codes, right: Codes, score: Floats, prompt: Codes, rater: Codes) -> None:
        """Add votes; a score of NaN is "both bad"."""
        self._pack()
        chunk: tuple[NDArray[Any], ...] = (left, right, score, prompt, rater)
        counts = ~np.isnan(score)
        if not counts.all():
            chunk = tuple(column[counts] for column in chunk)
        self.n_both_bad += len(score) - len(chunk[0])
        self.chunks.append(chunk)

    def _pack(self) -> None:
        if self.rows:
            self.chunks.append(tuple(map(np.array, zip(*self.rows, strict=True))))
            self.rows = []

    def arrays(self) -> tuple[NDArray[Any], ...]:
        self._pack()
        if not self.chunks:
            return tuple(np.zeros(0, kind) for kind in "iidii")
        return tuple(map(np.concatenate, zip(*self.chunks, strict=True)))


class _Reader:
    """Reads files one after the other, collecting votes and rejected rows."""

    def __init__(self, kinds: set[str], progress: Progress) -> None:
        self.kinds = kinds
        self.progress = progress
        self.known = Known()
        self.checker = Checker(self.known)
        self.rejected = RejectedRows()
        self.columns = {raters: _Column() for raters in KINDS.values()}
        self.candidates: dict[str, int] = {}
        self.prompts: dict[str, int] = {}
        self.raters: dict[str, int] = {}

    def read(self, file: ImportFile) -> None:
        size = file.path.stat().st_size
        for block in file.blocks():
            if isinstance(block, VoteColumns):
                self._add_columns(block)
                self.progress(file.path, min(block.end, size), size)
                continue
            for row in block:
                self._add_row(file, row)
                if row.number % 1000 == 0:
                    self.progress(file.path, min(row.end, size), size)
        self.progress(file.path, size, size)

    def _add_row(self, file: ImportFile, row: Row) -> None:
        record = row.content
        try:
            if isinstance(record, InputError):
                raise record
            if isinstance(record, VoteRow):
                self._accept_names(record)
            self.checker.check(record, repeats=file.format.repeats)
        except InputError as error:
            self.rejected.add(file.path, row.line, error)
            return
        if isinstance(record, VoteRow):
            self._add(record)
        elif isinstance(record, PromptRow):
            _number(self.prompts, record.external_id)
        elif isinstance(record, CandidateRow) and not record.retired:
            _number(self.candidates, record.name)

    def _accept_names(self, vote: VoteRow) -> None:
        """Accept any candidates or prompts of a vote if there is no list of them."""
        if "candidates" not in self.kinds:
            self.known.candidates |= {vote.left: b"", vote.right: b""}
        if "prompts" not in self.kinds and vote.prompt:
            self.known.prompts[vote.prompt] = b""

    def _add(self, vote: VoteRow) -> None:
        # Numbered as an import creates them, so that both draw the same weights for the bootstrap.
        prompt, rater = _number(self.prompts, vote.prompt), _number(self.raters, vote.rater)
        if vote.provenance and not vote.provenance.counts:
            return
        column = self.columns[KINDS[vote.rater_kind]]
        left = _number(self.candidates, vote.left)
        right = _number(self.candidates, vote.right)
        if vote.outcome == BOTH_BAD:
            column.n_both_bad += 1
        if vote.outcome not in PREFERENCES:  # "both bad", and outcomes that do not count
            return
        soft = vote.preference
        score = PREFERENCES[vote.outcome] if soft is None else soft
        column.add(left, right, score, prompt, rater)

    def _add_columns(self, votes: VoteColumns) -> None:
        left, right = (_numbers(self.candidates, side) for side in (votes.left, votes.right))
        score = np.array([PREFERENCES.get(text, np.nan) for text in votes.outcome.texts])
        unknown = np.full(len(votes), UNKNOWN, np.int32)
        prompt = _numbers(self.prompts, votes.prompt) if votes.prompt else unknown
        rater = _numbers(self.raters, votes.rater) if votes.rater else unknown
        won = score[votes.outcome.codes.to_numpy()]
        self.columns[KINDS["person"]].extend(left, right, won, prompt, rater)

    def votes(self, path: Path, raters: str) -> FileVotes:
        if raters == "auto":
            raters = next((name for name, votes in self.columns.items() if votes), "people")
        column = self.columns.pop(raters)
        if not column:
            raise BadFileError(f"{path} has no votes by {raters}.")
        names = sorted(self.candidates)
        place = np.empty(len(names), np.int32)
        place[[self.candidates[name] for name in names]] = np.arange(len(names))
        left, right, score, prompt, rater = column.arrays()
        return FileVotes(
            names=names,
            left=place[left],
            right=place[right],
            score=score,
            prompt=prompt.astype(np.int32, copy=False),
            rater=rater.astype(np.int32, copy=False),
            raters=str(raters),
            n_both_bad=column.n_both_bad,
            n_left_out=sum(map(len, self.columns.values())),
            rejected=self.rejected,
        )


def _number(numbers: dict[str, int], name: str | None) -> int:
    """The number of a name, assigned in order of appearance; UNKNOWN without a name."""
    return numbers.setdefault(name, len(numbers)) if name else UNKNOWN


def _numbers(numbers: dict[str, int], column: Column) -> Codes:
    """The number of each row's name."""
    known = list(map(numbers.get, column.texts))  # a call for each would take longer than reading
    if None in known:
        known = [_number(numbers, text) for text in column.texts]
    return np.array(known, np.int32)[column.codes.to_numpy()]
