"""What is odd about the good rows of files, which are imported and ranked all the same. Pure."""

import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

from arena.files.rows import CandidateRow, ImportRow, VoteRow
from arena.near_names import near_names
from arena.validation import join_names, numbered

MOST_VOTES = 1_000_000  # that are compared with one another
MOST_NAMES = 100_000
MOST_GROUPS = 10
PERSON = "person"


class Warnings:
    """Collects the names of candidates, and votes that repeat an earlier one by the same rater on
    the same prompt and pair; a judge's, in the same order and about the same turn. A vote whose
    rater or prompt is unknown, or that does not count where it comes from, repeats none."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.merged: set[str] = set()  # names that the file says are of other candidates
        self.seen: set[int] = set()  # hashes of votes
        self.repeats: list[tuple[Path, int]] = []
        self.paths: set[Path] = set()
        self.unread: dict[str, None] = {}  # columns that `rank` does not use
        self.last: ImportRow | None = None

    def add(self, path: Path, line: int, row: ImportRow) -> None:
        if row is self.last:
            return  # one row that counts several times
        self.last = row
        self.paths.add(path)
        if isinstance(row, CandidateRow):
            self._add_names([row.name])
            self.merged.update([row.name] if row.merged_into else ())
        elif isinstance(row, VoteRow):
            self._add_names([row.left, row.right])
            counts = row.provenance is None or row.provenance.counts
            if row.prompt and row.rater and counts and len(self.seen) < MOST_VOTES:
                # Judges are asked about both orders, and about each turn.
                asked: tuple[object, ...] = (row.left, row.right, row.details.get("turn"))
                if row.rater_kind == PERSON:
                    asked = tuple(sorted((row.left, row.right)))
                key = hash((row.rater_kind, row.rater, row.prompt, *map(str, asked)))
                if key in self.seen:
                    self.repeats.append((path, line))
                self.seen.add(key)

    def _add_names(self, names: Collection[str]) -> None:
        if len(self.names) < MOST_NAMES:
            self.names.update(names)

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
        if not (n := len(self.repeats)):
            return []
        if len(self.paths) > 1:
            where = [f"{path.name} line {line}" for path, line in self.repeats]
        else:
            where = [f"{line}" for _, line in self.repeats]
            where[0] = f"line {where[0]}" if n == 1 else f"lines {where[0]}"
        verb, too = ("repeats", "it counts") if n == 1 else ("repeat", "they count")
        is_full = len(self.seen) >= MOST_VOTES
        within = f" Only the first {MOST_VOTES:,} votes were compared." if is_full else ""
        return [
            f"{numbered(n, 'vote')} {verb} an earlier one by the same rater on the same prompt and "
            f"pair ({join_names(where)}); {too} too.{within}"
        ]


def _sentence_about(group: Sequence[str], merge: str) -> str:
    into, *others = group
    names = f"{join_names(group[:-1], 20)} and {group[-1]}"
    quoted = " ".join(map(shlex.quote, others))
    return f"Near-equal names: {names}. {merge.format(names=quoted, into=shlex.quote(into))}"
