"""Votes as columns: what every leaderboard is computed from, whether they are read from an arena
(`ranking.services.votes`), from a file (`read_file`) or from a vote log (`ranking.log.file`).
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.files.reader import FileError, Row
from arena.files.rows import CandidateRow, PromptRow, VoteRow
from arena.formats import find_files
from arena.formats.base import Checker, ImportFile, Known, RejectedRows
from arena.formats.warnings import Warnings
from arena.outcomes import COUNTED, MERGED, OUTCOMES
from arena.validation import InputError, numbered
from ranking.stats.arrays import codes
from ranking.stats.battles import Battles

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

LEFT, RIGHT, TIE, BOTH_BAD = range(4)  # places in OUTCOMES
KINDS = ("person", "judge", "jury")  # of raters, as in `arena.models.Rater.Kind`
PEOPLE = "people"
# Whose votes a question is about, as in `ranking.models.Raters`, and their kind.
RATERS = {PEOPLE: "person", "judges": "judge", "juries": "jury"}
KIND_OF = {raters: KINDS.index(kind) for raters, kind in RATERS.items()} | {"verified": 0}
HUMAN = (PEOPLE, "verified")
NO_STYLES: Ints = np.zeros((0, 2), np.int64)


@dataclass(frozen=True, eq=False)
class VoteTable:
    """N votes in the order in which they were cast, and what is known about what they compare.

    Attributes
    ----------
    pk, left, right : (N,) int64, ids of the vote and of the candidates
    prompt, rater : (N,) int64, ids; 0 if unknown
    outcome : (N,) int64, a place in OUTCOMES
    preference : (N,) float64, the soft verdict for left, NaN without one
    kind : (N,) int64, the rater's, a place in KINDS
    verified : (N,) bool, whether a verified person cast it
    network : (N,) int64, a number for the network whose share of the weight is limited; 0 for none
    uncounted : (N,) int64, 0 if the vote counts, else the number of a reason in `reasons`, from 1
    named : (N,) bool, whether an answer reveals its author
    names : the shown names of candidates, by id
    archived : ids of candidates that are on no ballot any more
    categories : of prompts, by id; those without one may be left out
    documents : what prompts come from, by id: a name or a number; without those that have none
    trusted : ids of the judges and juries whose votes may narrow people's intervals
    raters : the names of judges and juries, by id
    reasons : why votes do not count
    merged : the ids of aliases, and of the candidates that their votes count for
    answers, features : (A, 2) prompt and candidate of each answer whose style was counted, in
        order, and (A, F) its counts
    """

    pk: Ints
    left: Ints
    right: Ints
    prompt: Ints
    rater: Ints
    outcome: Ints
    preference: Floats
    kind: Ints
    verified: Bools
    network: Ints
    uncounted: Ints
    named: Bools
    names: Mapping[int, str] = field(default_factory=dict)
    archived: frozenset[int] = frozenset()
    categories: Mapping[int, str] = field(default_factory=dict)
    documents: Mapping[int, str | int] = field(default_factory=dict)
    trusted: frozenset[int] = frozenset()
    raters: Mapping[int, str] = field(default_factory=dict)
    reasons: Sequence[str] = ()
    merged: Mapping[int, int] = field(default_factory=dict)
    answers: Ints = field(default_factory=lambda: NO_STYLES)
    features: Ints = field(default_factory=lambda: NO_STYLES)

    def __len__(self) -> int:
        return len(self.pk)

    def merge(self, aliases: Mapping[int, int]) -> "VoteTable":
        """These votes with each alias's counted for another candidate, by ids; those between two
        that are one candidate then count for nothing.

        Where both answered a prompt, a vote does not say whose answer was shown, so the style of
        these answers is unknown.
        """
        if not aliases:
            return self
        left, right = (_renumbered(side, aliases) for side in (self.left, self.right))
        reason = len(self.reasons) + 1
        answers = np.column_stack([self.answers[:, 0], _renumbered(self.answers[:, 1], aliases)])
        keys, first, times = np.unique(answers, axis=0, return_index=True, return_counts=True)
        return replace(
            self,
            left=left,
            right=right,
            uncounted=np.where((left == right) & (self.uncounted == 0), reason, self.uncounted),
            names={pk: name for pk, name in self.names.items() if pk not in aliases},
            archived=self.archived - aliases.keys(),
            reasons=(*self.reasons, MERGED),
            merged=aliases,
            answers=keys[times == 1],
            features=self.features[first[times == 1]],
        )

    @cached_property
    def score(self) -> Floats:
        """(N,) the left answer's score: 1, 0, a half, or the soft verdict; "both bad" is a half."""
        hard = np.array([1.0, 0.0, 0.5, 0.5])[self.outcome]
        soft = ~np.isnan(self.preference) & (self.outcome != BOTH_BAD)
        return np.where(soft, self.preference, hard)

    @cached_property
    def category(self) -> Ints:
        """(N,) the number of the prompt's category in `category_names`, 0 for none."""
        return self.categories_of(self.prompt)

    def categories_of(self, prompt: Ints) -> Ints:
        """(N,) the number of the category of each prompt id."""
        numbers = {name: number for number, name in enumerate(self.category_names)}
        ids = np.array(sorted(self.categories), np.int64)
        category = np.array([numbers[self.categories[pk]] for pk in ids.tolist()], np.int64)
        place = np.searchsorted(ids, prompt)
        return np.where(np.append(ids, -1)[place] == prompt, np.append(category, 0)[place], 0)

    def documents_of(self, prompt: Ints) -> Ints:
        """(N,) the lowest of these prompt ids that comes from the same document; the id itself, or
        any other number in its place, if it has no document.

        Bootstrap weights are drawn in the order of groups. This order needs no names, so an arena,
        its log and its exported files draw the same.
        """
        if not self.documents:
            return prompt
        ids, place = np.unique(prompt, return_inverse=True)
        first: dict[str | int, int] = {}
        lowest = [
            first.setdefault(self.documents[pk], pk) if pk in self.documents else pk
            for pk in ids.tolist()
        ]
        return np.array(lowest, np.int64)[place]

    @cached_property
    def category_names(self) -> list[str]:
        """The categories, in order; the first one is "", for prompts without one."""
        return sorted({"", *self.categories.values()})

    def where(self, chosen: Bools | Ints) -> "VoteTable":
        """These votes ((N,) mask, or rows), with the same tables beside them."""
        if chosen.dtype == np.bool_ and chosen.all():
            return self
        columns = {name: getattr(self, name)[chosen] for name in COLUMNS}
        return replace(self, **columns)

    @cached_property
    def counted(self) -> "VoteTable":
        """The votes that count, and whose outcomes count."""
        outcomes = [OUTCOMES.index(outcome) for outcome in COUNTED]
        return self.where((self.uncounted == 0) & np.isin(self.outcome, outcomes))

    def asked(self, raters: str, category: str) -> Bools:
        """(N,) mask of the votes by these raters in this category; "" is all categories."""
        mask: Bools = self.kind == KIND_OF[raters]
        if raters == "verified":
            mask &= self.verified
        if category:
            mask &= self.category == self.category_names.index(category)
        return mask

    def of(self, raters: str, category: str = "") -> "VoteTable":
        """The votes that a question is about."""
        return self.where(self.asked(raters, category))

    @cached_property
    def by_trusted(self) -> Bools:
        """(N,) whether a trusted judge or jury cast the vote."""
        return np.isin(self.rater, list(self.trusted))

    @cached_property
    def networks(self) -> dict[int, int]:
        """The network that most of a rater's votes came from, by rater; of two with as many, the
        one of the last vote."""
        sent = np.flatnonzero(self.network)
        rater, network = self.rater[sent], self.network[sent]
        place, n_pairs = codes(rater * (int(network.max(initial=0)) + 1) + network)
        last = np.zeros(n_pairs, np.int64)
        last[place] = np.arange(len(sent))  # of repeated places, the last one stays
        order = last[np.lexsort([last, np.bincount(place, minlength=n_pairs)])]
        return dict(zip(rater[order].tolist(), network[order].tolist(), strict=True))

    def pairs(self) -> "PairCounts":
        """The votes counted per pair of candidates."""
        return PairCounts.count(self.left, self.right, self.outcome, self.preference)


def _renumbered(ids: Ints, aliases: Mapping[int, int]) -> Ints:
    """The ids, with others in place of aliases."""
    known = np.array(sorted(aliases), np.int64)
    others = np.array([aliases[pk] for pk in known.tolist()], np.int64)
    place = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    return np.where(known[place] == ids, others[place], ids)


COLUMNS = tuple(
    one.name for one in fields(VoteTable) if one.default is one.default_factory is MISSING
)

UNIT = 1 << 32  # units per point in the sums of soft verdicts
COUNTS = (
    "first_wins",
    "second_wins",
    "ties",
    "both_bad",
    "soft_first",
    "soft_second",
    "soft_ties",
    "soft_points",
)
HEADER = struct.Struct("<BBI")  # version, columns, rows
VERSION = 1
EMPTY_COLUMNS = 2  # before the pair; they held the prompt and the rater
WIDTHS = (1, 2, 4, 8)  # bytes of a signed integer; 0 is a column of zeros, which takes none


class PackError(ValueError):
    """The bytes were not written by `PairCounts.pack`."""


@dataclass(frozen=True, eq=False)
class PairCounts:
    """Votes counted for each of M pairs of candidates, ascending.

    Attributes
    ----------
    first, second : (M,) int64 ids, ``first < second``
    counts : (M, 8) int64, the columns COUNTS: votes with a plain outcome; votes with a soft verdict
        by the side they lean to; and the points that the latter give to ``first``, in 1 / UNIT
    """

    first: Ints
    second: Ints
    counts: Ints

    @classmethod
    def none(cls) -> "PairCounts":
        no_ids = np.zeros(0, np.int64)
        return cls(no_ids, no_ids, np.zeros((0, len(COUNTS)), np.int64))

    @classmethod
    def count(cls, left: Ints, right: Ints, outcome: Ints, preference: Floats) -> "PairCounts":
        """Count N votes: ids, places in OUTCOMES, and soft verdicts or NaN."""
        flip = left > right
        first, second = np.minimum(left, right), np.maximum(left, right)
        ids = np.unique(np.concatenate([first, second]))
        size = max(len(ids), 1)
        pair = np.searchsorted(ids, first) * size + np.searchsorted(ids, second)
        met, place = np.unique(pair, return_inverse=True)
        kind = np.where(flip & (outcome < TIE), 1 - outcome, outcome)
        soft = ~np.isnan(preference) & (outcome != BOTH_BAD)
        kind = np.where(soft, kind + COUNTS.index("soft_first"), kind)
        width = len(COUNTS)
        counts = np.bincount(place * width + kind, minlength=len(met) * width).reshape(-1, width)
        points = np.floor(np.where(soft, preference, 0.0) * UNIT).astype(np.int64)
        np.add.at(counts[:, -1], place, np.where(soft & flip, UNIT - points, points))
        return cls(ids[met // size], ids[met % size], counts)

    def __len__(self) -> int:
        return len(self.first)

    @property
    def candidates(self) -> Ints:
        """(K,) the ids in these pairs, ascending."""
        return np.unique(np.concatenate([self.first, self.second]))

    def __getitem__(self, name: str) -> Ints:
        column: Ints = self.counts[:, COUNTS.index(name)]
        return column

    @property
    def decided(self) -> Ints:
        """(M,): decisive votes and ties."""
        plain = self["first_wins"] + self["second_wins"] + self["ties"]
        return plain + self["soft_first"] + self["soft_second"] + self["soft_ties"]

    @property
    def votes(self) -> Ints:
        """(M,): all votes, "both bad" included."""
        return self.decided + self["both_bad"]

    def scored(self, both_bad_is_tie: bool) -> Ints:
        """(M,): the votes that the scores are based on."""
        return self.votes if both_bad_is_tie else self.decided

    def where(self, chosen: Bools) -> "PairCounts":
        return PairCounts(self.first[chosen], self.second[chosen], self.counts[chosen])

    def wins_of_first(self, both_bad_is_tie: bool) -> Floats:
        """(M,): the points of ``first``; a tie is a half, a soft verdict its preference."""
        ties = self["ties"] + self["both_bad"] if both_bad_is_tie else self["ties"]
        return self["first_wins"] + ties / 2 + self["soft_points"] / UNIT

    def battles(self, candidates: Ints, both_bad_is_tie: bool) -> Battles:
        """The votes as battles of K candidates (ids, ascending); the soft verdicts of a pair are
        their mean."""
        soft = self["soft_first"] + self["soft_second"] + self["soft_ties"]
        ties = self["ties"] + self["both_bad"] if both_bad_is_tie else self["ties"]
        points = self["soft_points"] / (UNIT * np.maximum(soft, 1))
        counts = [self["first_wins"], self["second_wins"], ties, soft]
        scores = [np.ones(len(self)), np.zeros(len(self)), np.full(len(self), 0.5), points]
        return Battles.from_arrays(
            np.tile(np.searchsorted(candidates, self.first), len(counts)),
            np.tile(np.searchsorted(candidates, self.second), len(counts)),
            np.concatenate(scores),
            n_candidates=len(candidates),
            count=np.concatenate(counts),
        )

    def pack(self) -> bytes:
        """Pack to bytes for `of_bytes`: each column in the narrowest width that holds it."""
        none = np.zeros(len(self), np.int64)
        columns = [*[none] * EMPTY_COLUMNS, self.first, self.second, *self.counts.T]
        widths = [_width(column) for column in columns]
        parts = [HEADER.pack(VERSION, len(columns), len(self)), bytes(widths)]
        parts += [
            column.astype(f"<i{width}").tobytes()
            for column, width in zip(columns, widths, strict=True)
            if width
        ]
        return b"".join(parts)

    @classmethod
    def of_bytes(cls, packed: bytes | memoryview) -> "PairCounts":
        """Read what `pack` wrote. Raises PackError."""
        view = memoryview(packed)
        try:
            version, n_columns, n_rows = HEADER.unpack_from(view)
        except struct.error as error:
            raise PackError("too short to be counts") from error
        start = HEADER.size + n_columns
        widths = bytes(view[HEADER.size : start])
        total = start + n_rows * sum(widths)
        if version != VERSION or set(widths) - {0, *WIDTHS} or len(view) != total:
            raise PackError("these bytes are not counts of this version")
        if n_columns != EMPTY_COLUMNS + 2 + len(COUNTS):
            raise PackError(f"{n_columns} columns are not those of counts")
        columns = []
        for width in widths:
            column = np.frombuffer(view, f"<i{width or 1}", n_rows if width else 0, start)
            columns.append(column.astype(np.int64) if width else np.zeros(n_rows, np.int64))
            start += n_rows * width
        first, second, *counts = columns[EMPTY_COLUMNS:]
        return cls(first, second, np.stack(counts, axis=1))


def _width(column: Ints) -> int:
    """Bytes per number of a column."""
    if not column.any():
        return 0
    low, high = int(column.min()), int(column.max())
    return next(w for w in WIDTHS if -(1 << 8 * w - 1) <= low and high < 1 << 8 * w - 1)


class BadFileError(Exception):
    """A file that cannot be ranked; the message names its bad rows, or is a sentence."""


# Called with the file, the bytes read and its size.
Progress = Callable[[Path, int, int], None]
AT_ONCE = 1 << 16  # votes kept as Python's numbers at most
FILE_COLUMNS = ("left", "right", "prompt", "rater", "outcome", "kind", "preference", "uncounted")


def read_file(
    path: Path,
    format_name: str = "auto",
    *,
    columns: Mapping[str, str] | None = None,
    values: Mapping[str, str] | None = None,
    skip_bad: bool = False,
    progress: Progress = lambda *told: None,
    warnings: Warnings | None = None,
) -> tuple[VoteTable, RejectedRows]:
    """Read all votes at `path`, a file or a folder in the native format; and the rows skipped.

    Candidates are numbered from 1 in the order of their names, prompts and raters in the order in
    which an import creates them, so that both draw the same weights for the bootstrap. Responses
    are not read; a folder's prompts and candidates are, so that votes on any others are rejected.
    `warnings` collects what is odd about the good rows.

    Raises BadFileError, with file, line, column and reason of the first bad rows, unless they are
    to be skipped.
    """
    try:
        found = find_files([path], format_name, columns, values)
        files = [file for file in found if file.kind != "responses"]
        if all(file.kind != "votes" for file in files):
            raise FileError(f"{path} has no votes.")
        reader = _Reader({file.kind for file in files}, progress, warnings or Warnings())
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
    return reader.table(), reader.rejected


class _Reader:
    """Reads files one after the other, collecting votes and rejected rows."""

    def __init__(self, kinds: set[str], progress: Progress, warnings: Warnings) -> None:
        self.kinds = kinds
        self.progress = progress
        self.warnings = warnings
        self.known = Known()
        self.checker = Checker(self.known)
        self.rejected = RejectedRows()
        self.chunks: list[list[NDArray[Any]]] = []
        self.rows: list[tuple[float, ...]] = []
        self.candidates: dict[str, int] = {}
        self.prompts: dict[str, int] = {}
        self.raters: dict[str, int] = {}
        self.documents: dict[int, str] = {}
        self.merged: dict[str, str] = {}

    def read(self, file: ImportFile) -> None:
        size = file.path.stat().st_size
        for row in file.rows():
            file.note(row.number, row.unread)
            self._add_row(file, row)
            if row.number % 1000 == 0:
                self.progress(file.path, min(row.end, size), size)
        self.warnings.unread |= dict.fromkeys(file.unread)
        self.progress(file.path, size, size)

    def _add_row(self, file: ImportFile, row: Row) -> None:
        record = row.content
        try:
            if isinstance(record, InputError):
                raise record
            if isinstance(record, VoteRow):
                if "candidates" not in self.kinds:
                    self.known.candidates |= {record.left: b"", record.right: b""}
                if "prompts" not in self.kinds and record.prompt:
                    self.known.prompts[record.prompt] = b""
            self.checker.check(record, repeats=file.format.repeats)
        except InputError as error:
            self.rejected.add(file.path, row.line, error)
            return
        self.warnings.add(file.path, row.line, record)
        if isinstance(record, VoteRow):
            self._add_vote(record)
        elif isinstance(record, PromptRow):
            self._note_document(_number(self.prompts, record.external_id), record.document)
        elif isinstance(record, CandidateRow) and record.merged_into:
            self.merged[record.name] = record.merged_into
        elif isinstance(record, CandidateRow) and not record.retired:
            _number(self.candidates, record.name)

    def _add_vote(self, record: VoteRow) -> None:
        prompt, rater = _number(self.prompts, record.prompt), _number(self.raters, record.rater)
        self._note_document(prompt, record.document)
        is_counted = not record.provenance or record.provenance.counts
        # A vote that does not count adds no candidate to the ranking.
        sides = [
            _number(self.candidates, name) if is_counted else 0
            for name in (record.left, record.right)
        ]
        soft = np.nan if record.preference is None else record.preference
        outcome, kind = OUTCOMES.index(record.outcome), KINDS.index(record.rater_kind)
        self.rows.append((*sides, prompt, rater, outcome, kind, soft, not is_counted))
        if len(self.rows) == AT_ONCE:
            self._pack()

    def _note_document(self, prompt: int, document: str) -> None:
        """The first one that a file names for a prompt counts, as in an import."""
        if prompt and document:
            self.documents.setdefault(prompt, document)

    def _pack(self) -> None:
        if self.rows:
            self.chunks.append([np.array(column) for column in zip(*self.rows, strict=True)])
            self.rows = []

    def table(self) -> VoteTable:
        self._pack()
        chunks = self.chunks or [[np.zeros(0)] * len(FILE_COLUMNS)]
        columns = dict(
            zip(FILE_COLUMNS, map(np.concatenate, zip(*chunks, strict=True)), strict=True)
        )
        columns = {
            name: column if name == "preference" else column.astype(np.int64)
            for name, column in columns.items()
        }
        merged = {name: into for name, into in self.merged.items() if name in self.candidates}
        for into in merged.values():
            _number(self.candidates, into)
        names = sorted(self.candidates)
        numbers = {name: number for number, name in enumerate(names, start=1)}
        place = np.zeros(len(names) + 1, np.int64)
        place[[self.candidates[name] for name in names]] = np.arange(1, len(names) + 1)
        size = len(columns["left"])
        table = VoteTable(
            pk=np.arange(1, size + 1),
            **columns | {side: place[columns[side]] for side in ("left", "right")},
            verified=np.zeros(size, np.bool_),
            network=np.zeros(size, np.int64),
            named=np.zeros(size, np.bool_),
            names=dict(enumerate(names, start=1)),
            documents=self.documents,
            reasons=("left out by the file",),
        )
        return table.merge({numbers[name]: numbers[into] for name, into in merged.items()})


def _number(numbers: dict[str, int], name: str | None) -> int:
    """The number of a name, from 1 in order of appearance; 0 without a name."""
    return numbers.setdefault(name, len(numbers) + 1) if name else 0
