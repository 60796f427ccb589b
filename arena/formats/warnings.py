"""What is odd about the good rows of files, which are imported and ranked all the same. Pure."""

import shlex
from array import array
from collections.abc import Collection, Sequence
from pathlib import Path

from arena.files.rows import CandidateRow, ImportRow, VoteRow
from arena.formats.base import VoteColumns
from arena.near_names import near_names
from arena.validation import join_names, numbered

MOST_VOTES = 1_000_000  # that are compared with one another
MOST_NAMES = 100_000
MOST_GROUPS = 10
PERSON = "person"
FACTOR = 0x1E3779B97F4A7C15  # odd, so that no bit of a hash is lost
LINES = 1 << 40  # places are the number of the file times this, and the line


class Warnings:
    """Collects the names of candidates, and votes that repeat an earlier one by the same rater on
    the same prompt and pair; a judge's, in the same order and about the same turn. A vote whose
    rater or prompt is unknown, or that does not count where it comes from, repeats none."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.merged: set[str] = set()  # names that the file says are of other candidates
        self.paths: list[Path] = []
        self.keys, self.places = array("q"), array("q")  # of votes: hashes, and where they are

    def add(self, path: Path, line: int, row: ImportRow) -> None:
        if isinstance(row, CandidateRow):
            self._add_names([row.name])
            self.merged.update([row.name] if row.merged_into else ())
        elif isinstance(row, VoteRow):
            self._add_names([row.left, row.right])
            counts = row.provenance is None or row.provenance.counts
            if row.prompt and row.rater and counts and len(self.keys) < MOST_VOTES:
                rater = hash((row.rater_kind, row.rater))
                if row.rater_kind != PERSON:  # who is asked about both orders, and about each turn
                    rater = hash((rater, row.left, str(row.details.get("turn"))))
                pair = hash(row.left) + hash(row.right)
                key = (rater * FACTOR + hash(row.prompt)) * FACTOR + pair
                self.keys.append((key + (1 << 63)) % (1 << 64) - (1 << 63))
                self.places.append(self._place_of(path, line))

    def add_columns(self, path: Path, votes: VoteColumns) -> None:
        self._add_names({*votes.left.texts, *votes.right.texts})
        room = MOST_VOTES - len(self.keys)
        if votes.prompt is None or votes.rater is None or room <= 0:
            return
        # Arrays of 64 bits, which wrap around as `add` does.
        left, right, prompt = (
            column.coded(list(map(hash, column.texts)))
            for column in (votes.left, votes.right, votes.prompt)
        )
        rater = votes.rater.coded([hash((PERSON, text)) for text in votes.rater.texts])
        key = (rater * FACTOR + prompt) * FACTOR + (left + right)
        is_known = votes.prompt.coded([int(text != "") for text in votes.prompt.texts]) == 1
        is_known &= votes.rater.coded([int(text != "") for text in votes.rater.texts]) == 1
        last = self._place_of(path, votes.line)
        places = [last - rows_below for rows_below in is_known[::-1].nonzero()[0].tolist()[::-1]]
        self.keys.frombytes(key[is_known][:room].tobytes())
        self.places.extend(places[:room])

    def _add_names(self, names: Collection[str]) -> None:
        if len(self.names) < MOST_NAMES:
            self.names.update(names)

    def _place_of(self, path: Path, line: int) -> int:
        if path not in self.paths:
            self.paths.append(path)
        return self.paths.index(path) * LINES + line

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
        seen = set[int]()
        repeats = array("q")
        for key, place in zip(self.keys, self.places, strict=True):
            if key in seen:
                repeats.append(place)
            seen.add(key)
        if not (n := len(repeats)):
            return []
        places = [divmod(place, LINES) for place in repeats]
        if len(self.paths) > 1:
            where = [f"{self.paths[number].name} line {line}" for number, line in places]
        else:
            where = [f"{line}" for _, line in places]
            where[0] = f"line {where[0]}" if n == 1 else f"lines {where[0]}"
        verb, too = ("repeats", "it counts") if n == 1 else ("repeat", "they count")
        is_full = len(self.keys) >= MOST_VOTES
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
