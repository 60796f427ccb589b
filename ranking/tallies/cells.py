"""Cells: what happened between two candidates, on one prompt or overall, as whole numbers.

Everything is an integer, the points of soft verdicts too (in 2^-32 of a point), so that adding a
vote and taking it out again leaves exactly what was there before.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ranking.tallies.packing import BadPack, pack, unpack

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

UNIT = 1 << 32  # parts of a point in which soft verdicts are added up
KEYS = ("prompt", "rater", "first", "second")
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
BOTH_BAD = COUNTS.index("both_bad")
LEFT, RIGHT, TIE = range(3)


@dataclass(frozen=True, eq=False)
class Cells:
    """M cells.

    Attributes
    ----------
    keys : (M, 4) int64, the columns KEYS: ids, ``first < second``; 0 where there is none
        (the rater is named where the prompt is not known)
    counts : (M, 8) int64, the columns COUNTS: votes with a plain outcome; votes with a soft
        verdict by the side they lean to; and what the latter give to ``first``, in 1 / UNIT
    """

    keys: Ints
    counts: Ints

    @classmethod
    def none(cls) -> "Cells":
        return cls(np.zeros((0, len(KEYS)), np.int64), np.zeros((0, len(COUNTS)), np.int64))

    @classmethod
    def count(
        cls,
        left: Ints,
        right: Ints,
        outcome: Ints,
        preference: Floats,
        prompt: Ints,
        rater: Ints,
    ) -> "Cells":
        """The cells of N votes: ids, places in `votes.OUTCOMES`, soft verdicts or NaN."""
        flip = left > right
        keys = np.column_stack(
            [
                prompt,
                np.where(prompt > 0, 0, rater),
                np.where(flip, right, left),
                np.where(flip, left, right),
            ]
        )
        kind = outcome.copy()
        kind[flip & (outcome == LEFT)] = RIGHT
        kind[flip & (outcome == RIGHT)] = LEFT
        soft = ~np.isnan(preference) & (outcome != BOTH_BAD)
        counts = np.zeros((len(left), len(COUNTS)), np.int64)
        column = np.where(soft, kind + COUNTS.index("soft_first"), kind)
        counts[np.arange(len(left)), column] = 1
        points = np.floor(np.where(soft, preference, 0.0) * UNIT).astype(np.int64)
        counts[:, -1] = np.where(soft & flip, UNIT - points, points)
        return cls(keys, counts).merged()

    def __len__(self) -> int:
        return len(self.keys)

    def __eq__(self, other: object) -> bool:
        """Whether both are the same cells in the same order; compare what is merged."""
        return (
            isinstance(other, Cells)
            and np.array_equal(self.keys, other.keys)
            and np.array_equal(self.counts, other.counts)
        )

    def __neg__(self) -> "Cells":
        return Cells(self.keys, -self.counts)

    def key(self, name: str) -> Ints:
        column: Ints = self.keys[:, KEYS.index(name)]
        return column

    def __getitem__(self, name: str) -> Ints:
        column: Ints = self.counts[:, COUNTS.index(name)]
        return column

    @property
    def decided(self) -> Ints:
        """(M,): the votes that say which is better, or that both are as good."""
        plain = self["first_wins"] + self["second_wins"] + self["ties"]
        return plain + self["soft_first"] + self["soft_second"] + self["soft_ties"]

    @property
    def votes(self) -> Ints:
        """(M,): all votes, those that say that both are bad too."""
        return self.decided + self["both_bad"]

    def where(self, chosen: Bools) -> "Cells":
        return Cells(self.keys[chosen], self.counts[chosen])

    def per_pair(self) -> "Cells":
        """The same votes, whatever the prompt and the rater."""
        keys = self.keys.copy()
        keys[:, :2] = 0
        return Cells(keys, self.counts).merged()

    def merged(self) -> "Cells":
        """One cell for each key, in the order of the keys; cells that came to nothing are gone."""
        if not len(self):
            return self
        order = np.lexsort(self.keys.T[::-1])
        keys = self.keys[order]
        starts = np.flatnonzero(np.r_[True, (keys[1:] != keys[:-1]).any(axis=1)])
        counts = np.add.reduceat(self.counts[order], starts, axis=0)
        kept = counts.any(axis=1)
        return Cells(keys[starts][kept], counts[kept])

    def by_owner(self) -> Iterator[tuple[tuple[int, int], "Cells"]]:
        """The cells of each (prompt, rater), of merged cells."""
        if not len(self):
            return
        owner = self.keys[:, :2]
        starts = np.flatnonzero(np.r_[True, (owner[1:] != owner[:-1]).any(axis=1)])
        for start, end in zip(starts, [*starts[1:], len(self)], strict=True):
            part = slice(start, end)
            prompt, rater = owner[start].tolist()
            yield (prompt, rater), Cells(self.keys[part], self.counts[part])

    def pack(self) -> bytes:
        """As bytes; `of_bytes` is the way back."""
        return pack([*self.keys.T, *self.counts.T])

    @classmethod
    def of_bytes(cls, packed: bytes | memoryview) -> "Cells":
        """Raises BadPack."""
        columns = unpack(packed)
        if len(columns) != len(KEYS) + len(COUNTS):
            raise BadPack(f"{len(columns)} columns are not those of tallies")
        size = len(KEYS)
        return cls(np.column_stack(columns[:size]), np.column_stack(columns[size:]))

    @classmethod
    def joined(cls, parts: Iterable["Cells"]) -> "Cells":
        """All of them, one after the other."""
        found: Sequence[Cells] = [cls.none(), *parts]
        return cls(
            np.concatenate([part.keys for part in found]),
            np.concatenate([part.counts for part in found]),
        )
