"""From a file, or a folder of the native format, to arrays: by the importers' own parsers.

Nothing is asked of a database. Responses are not read, since a ranking needs none; what prompts
and candidates a folder lists is read, so that a vote about anybody else is found out.
"""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from arena.importers import find_files
from arena.importers.base import BadRow, CandidateRecord, FileProblem, SourceFile, VoteRecord
from arena.importers.checking import Checker, Known
from arena.services.import_check import Problem, Problems
from ranking.models import Raters

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

SCORES = {"left": 1.0, "right": 0.0, "tie": 0.5}
KINDS = {
    "person": Raters.PEOPLE.value,
    "judge": Raters.JUDGES.value,
    "jury": Raters.JURIES.value,
}
UNKNOWN = -1


class BadFile(Exception):
    """A file that cannot be ranked; the message names its bad rows, or is a sentence."""


@dataclass(frozen=True, eq=False)
class FileVotes:
    """N votes that say which is better, or that both are as good, in the order of the file.

    Attributes
    ----------
    names : K candidates in alphabetical order
    left, right : (N,) int64, places in names
    score : (N,) float64, the left answer's: 1, 0, a half, or the soft verdict
    prompt, rater : (N,) int64; UNKNOWN where the file does not say
    raters : whose votes these are: people's or judges'
    n_both_bad : votes of theirs that say "both are bad", which enter no score
    n_left_out : votes of the other kind of raters, who have a board of their own
    """

    names: list[str]
    left: Ints
    right: Ints
    score: Floats
    prompt: Ints
    rater: Ints
    raters: str
    n_both_bad: int
    n_left_out: int


def read_file(path: Path, format_name: str = "auto", raters: str = "auto") -> FileVotes:
    """Read all votes at `path`; of people, or of judges where no person has voted.

    Raises BadFile, with file, line, column and reason of the first bad rows.
    """
    try:
        files = [file for file in find_files([path], format_name) if file.kind != "responses"]
        if all(file.kind != "votes" for file in files):
            raise FileProblem(f"{path} holds no votes.")
        reader = _Reader({file.kind for file in files})
        for file in files:
            reader.read(file)
    except (FileProblem, OSError) as problem:
        raise BadFile(str(problem)) from None
    if bad := reader.problems.count:
        rows = "1 bad row" if bad == 1 else f"{bad:,} bad rows"
        raise BadFile(f"{reader.problems}\nNothing was ranked: {rows}.")
    return reader.votes(path, raters)


@dataclass
class _Column:
    """The votes of one kind of raters as they are read: numbers, not records."""

    left: "array[int]" = field(default_factory=lambda: array("q"))
    right: "array[int]" = field(default_factory=lambda: array("q"))
    score: "array[float]" = field(default_factory=lambda: array("d"))
    prompt: "array[int]" = field(default_factory=lambda: array("q"))
    rater: "array[int]" = field(default_factory=lambda: array("q"))
    n_both_bad: int = 0

    def __len__(self) -> int:
        return len(self.score) + self.n_both_bad


class _Reader:
    """Reads files one after the other, and remembers what they say and what is wrong in them."""

    def __init__(self, kinds: set[str]) -> None:
        self.kinds = kinds
        self.known = Known()
        self.checker = Checker(self.known)
        self.problems = Problems()
        self.columns = {raters: _Column() for raters in KINDS.values()}
        self.candidates: dict[str, int] = {}
        self.prompts: dict[str, int] = {}
        self.raters: dict[str, int] = {}

    def read(self, file: SourceFile) -> None:
        for row in file.importer.rows(file):
            try:
                if isinstance(row.record, BadRow):
                    raise row.record
                if isinstance(row.record, VoteRecord):
                    self._take_for_granted(row.record)
                self.checker.check(row.record)
            except BadRow as bad:
                self.problems.add(Problem(file.path, row.line, bad.column, bad.reason))
                continue
            if isinstance(row.record, VoteRecord):
                self._add(row.record)
            elif isinstance(row.record, CandidateRecord) and not row.record.retired:
                _number(self.candidates, row.record.name)

    def _take_for_granted(self, vote: VoteRecord) -> None:
        """Votes that come without a list of candidates, or of prompts, name what there is."""
        if "candidates" not in self.kinds:
            self.known.candidates |= {vote.left: b"", vote.right: b""}
        if "prompts" not in self.kinds and vote.prompt is not None:
            self.known.prompts[vote.prompt] = b""

    def _add(self, vote: VoteRecord) -> None:
        column = self.columns[KINDS[vote.rater_kind]]
        left = _number(self.candidates, vote.left)
        right = _number(self.candidates, vote.right)
        if vote.outcome == "both_bad":
            column.n_both_bad += 1
            return
        soft = vote.preference
        column.left.append(left)
        column.right.append(right)
        column.score.append(SCORES[vote.outcome] if soft is None else soft)
        column.prompt.append(_number(self.prompts, vote.prompt))
        column.rater.append(_number(self.raters, vote.rater))

    def votes(self, path: Path, raters: str) -> FileVotes:
        if raters == "auto":
            raters = next((name for name, votes in self.columns.items() if votes), "people")
        column = self.columns.pop(raters)
        if not column:
            raise BadFile(f"{path} holds no votes of {raters}.")
        names = sorted(self.candidates)
        place = np.empty(len(names), np.int64)
        place[[self.candidates[name] for name in names]] = np.arange(len(names))
        return FileVotes(
            names=names,
            left=place[_ints(column.left)],
            right=place[_ints(column.right)],
            score=np.array(column.score, np.float64),
            prompt=_ints(column.prompt),
            rater=_ints(column.rater),
            raters=str(raters),
            n_both_bad=column.n_both_bad,
            n_left_out=sum(map(len, self.columns.values())),
        )


def _number(numbers: dict[str, int], name: str | None) -> int:
    """The number of a name, given out in the order of appearance; UNKNOWN for none."""
    return numbers.setdefault(name, len(numbers)) if name else UNKNOWN


def _ints(values: Iterable[int]) -> Ints:
    return np.array(values, np.int64)
