"""What is odd about the good rows of files, which are imported and ranked all the same. Pure."""

import shlex
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.files.columns import Column
from arena.files.rows import CandidateRow, ImportRow, VoteRow
from arena.formats.base import VoteColumns
from arena.near_names import near_names
from arena.validation import join_names, numbered

MOST_VOTES = 1_000_000  # that are compared with one another: 8 bytes each, and as many for the line
MOST_NAMES = 100_000
MOST_GROUPS = 10
AT_ONCE = 1 << 14  # votes kept as Python's numbers at most
PERSON = "person"
Keys = NDArray[np.uint64]


class Warnings:
    """Collects the names of candidates, and votes that repeat an earlier one by the same rater on
    the same prompt and pair. A vote whose rater or prompt is unknown, or that does not count where
    it comes from, repeats none."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.merged: set[str] = set()  # names that the file says are of other candidates
        self.n_votes = 0
        self.paths: list[Path] = []
        self.keys: list[Keys] = []
        self.places: list[Keys] = []  # the file's number and the line
        self.rows: list[tuple[int, int, int, int, int]] = []

    def add(self, path: Path, line: int, row: ImportRow) -> None:
        if isinstance(row, CandidateRow):
            self._add_names([row.name])
            self.merged.update([row.name] if row.merged_into else ())
        elif isinstance(row, VoteRow):
            self._add_names([row.left, row.right])
            counts = row.provenance is None or row.provenance.counts
            if row.prompt and row.rater and counts and self.n_votes < MOST_VOTES:
                self.n_votes += 1
                names = ((row.rater_kind, row.rater), row.prompt, row.left, row.right)
                rater, prompt, left, right = map(hash, names)
                self.rows.append((rater, prompt, left, right, self._place_of(path, line)))
                if len(self.rows) == AT_ONCE:
                    self._pack()

    def add_columns(self, path: Path, votes: VoteColumns) -> None:
        self._add_names({*votes.left.texts, *votes.right.texts})
        room = MOST_VOTES - self.n_votes
        if votes.prompt is None or votes.rater is None or room <= 0:
            return
        rater = _hashes(votes.rater, [hash((PERSON, text)) for text in votes.rater.texts])
        prompt, left, right = map(_hashes, (votes.prompt, votes.left, votes.right))
        line = votes.line - np.arange(len(votes))[::-1]
        known = np.ones(len(votes), np.bool_)
        for column in (votes.prompt, votes.rater):
            if "" in column.texts:
                known &= column.codes.to_numpy() != column.texts.index("")
        chosen = np.flatnonzero(known)[:room]
        self.n_votes += len(chosen)
        self._pack()
        place = (line + self._place_of(path, 0)).astype(np.uint64)
        self._keep(*(column[chosen] for column in (rater, prompt, left, right, place)))

    def _add_names(self, names: Collection[str]) -> None:
        if len(self.names) < MOST_NAMES:
            self.names.update(names)

    def _place_of(self, path: Path, line: int) -> int:
        if path not in self.paths:
            self.paths.append(path)
        return (self.paths.index(path) << 40) + line

    def _pack(self) -> None:
        if self.rows:
            self._keep(*np.array(self.rows, np.int64).T.view(np.uint64))
            self.rows = []

    def _keep(self, *columns: Keys) -> None:
        rater, prompt, left, right, place = columns
        key = rater
        for column in (prompt, np.minimum(left, right), np.maximum(left, right)):
            key = key * np.uint64(0x9E3779B97F4A7C15) + column  # wraps around
            key ^= key >> np.uint64(29)
        self.keys.append(key)
        self.places.append(place)

    def sentences(
        self, merge: str, present: Collection[str] = (), merged: Collection[str] = ()
    ) -> list[str]:
        """Return the warnings; `merge` says what to do about near-equal names, with `{names}` and
        `{into}`: one of those `present` in the arena if there is one. Names of candidates that are
        `merged` already are left out."""
        names = {*self.names, *present} - {*merged} - self.merged
        near = [group for group in near_names(names, present) if self.names.intersection(group)]
        lines = [_sentence_about(group, merge) for group in near[:MOST_GROUPS]]
        if more := near[MOST_GROUPS:]:
            lines.append(f"{len(more):,} more groups of near-equal names.")
        return lines + self._about_repeats()

    def _about_repeats(self) -> list[str]:
        self._pack()
        if not self.keys:
            return []
        keys = np.concatenate(self.keys)
        repeats = np.ones(len(keys), np.bool_)
        repeats[np.unique(keys, return_index=True)[1]] = False
        if not (n := int(repeats.sum())):
            return []
        places = np.concatenate(self.places)[repeats].tolist()
        in_words = [
            f"{self.paths[place >> 40].name} line {place & (1 << 40) - 1}"
            if len(self.paths) > 1
            else str(place & (1 << 40) - 1)
            for place in places
        ]
        within = f" Only the first {MOST_VOTES:,} votes were compared." if self._is_full else ""
        verb, noun = ("repeats", "it counts") if n == 1 else ("repeat", "they count")
        unit = "" if len(self.paths) > 1 else "line " if n == 1 else "lines "
        return [
            f"{numbered(n, 'vote')} {verb} an earlier one by the same rater on the same prompt and "
            f"pair ({unit}{join_names(in_words)}); {noun} too.{within}"
        ]

    @property
    def _is_full(self) -> bool:
        return self.n_votes >= MOST_VOTES


def _hashes(column: Column, hashes: Sequence[int] | None = None) -> Keys:
    """(N,) the hash of each row's text."""
    of_texts = list(map(hash, column.texts)) if hashes is None else list(hashes)
    numbers: Any = np.array(of_texts, np.int64).view(np.uint64)
    return np.asarray(numbers[column.codes.to_numpy()])


def _sentence_about(group: Sequence[str], merge: str) -> str:
    into, *others = group
    names = f"{join_names(group[:-1], 20)} and {group[-1]}"
    quoted = " ".join(map(shlex.quote, others))
    return f"Near-equal names: {names}. {merge.format(names=quoted, into=shlex.quote(into))}"
