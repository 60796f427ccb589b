"""Vote counts per prompt and pair: addition, packing, and conversion to battles.

Counts are integers, even the points of soft verdicts (in 2^-32 of a point), so adding a vote and
removing it again restores exactly the previous counts.
"""

import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ranking.stats.arrays import codes, summed
from ranking.stats.battles import Battles
from ranking.stats.intervals import Dependence, capped_weights, largest_share

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# -- Packing columns of integers to bytes ----------------------------------------------------------

HEADER = struct.Struct("<BBI")  # version, columns, rows
VERSION = 1
WIDTHS = (1, 2, 4, 8)  # bytes of a signed integer; 0 is a column of zeros, which takes none


class PackError(ValueError):
    """The bytes were not written by `pack`."""


def pack(columns: Sequence[Ints]) -> bytes:
    """Columns of equal length as bytes, each in the narrowest width that holds its numbers."""
    n_rows = len(columns[0])
    widths = [_width(column) for column in columns]
    parts = [HEADER.pack(VERSION, len(columns), n_rows), bytes(widths)]
    for column, width in zip(columns, widths, strict=True):
        if width:
            parts.append(column.astype(f"<i{width}").tobytes())
    return b"".join(parts)


def unpack(packed: bytes | memoryview) -> list[Ints]:
    """The columns that `pack` was given. Raises PackError."""
    view = memoryview(packed)
    try:
        version, n_columns, n_rows = HEADER.unpack_from(view)
    except struct.error as error:
        raise PackError("too short to be tallies") from error
    start = HEADER.size + n_columns
    widths = bytes(view[HEADER.size : start])
    total = start + n_rows * sum(widths)
    if version != VERSION or set(widths) - {0, *WIDTHS} or len(view) != total:
        raise PackError("these bytes are not tallies of this version")
    columns = []
    for width in widths:
        if width:
            column = np.frombuffer(view, f"<i{width}", n_rows, start).astype(np.int64)
        else:
            column = np.zeros(n_rows, np.int64)
        columns.append(column)
        start += n_rows * width
    return columns


def _width(column: Ints) -> int:
    """Bytes per number of a column."""
    if not column.any():
        return 0
    low, high = int(column.min()), int(column.max())
    return next(w for w in WIDTHS if -(1 << 8 * w - 1) <= low and high < 1 << 8 * w - 1)


# -- Vote counts -----------------------------------------------------------------------------------

UNIT = 1 << 32  # units per point in the sums of soft verdicts
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
PLAIN_SCORES = np.array([1.0, 0.0, 0.5, np.nan])  # of the columns of `outcome_counts`
SOFT = 3


@dataclass(frozen=True, eq=False)
class VoteCounts:
    """M rows of counts, each for one pair of candidates on one prompt.

    Both arrays are best stored by column, because they are read by column.

    Attributes
    ----------
    keys : (M, 4) int64, the columns KEYS: ids, ``first < second``; 0 for none or any. Counts by
        prompt have the rater where the prompt is unknown
    counts : (M, 8) int64, the columns COUNTS: votes with a plain outcome; votes with a soft
        verdict by the side they lean to; and the points that the latter give to ``first``, in
        1 / UNIT
    """

    keys: Ints
    counts: Ints

    @classmethod
    def none(cls) -> "VoteCounts":
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
    ) -> "VoteCounts":
        """Count N votes, by prompt and rater: ids, places in `OUTCOMES`, soft verdicts or NaN."""
        flip = left > right
        keys = np.column_stack(
            [
                prompt,
                rater,
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
        """Whether both have the same rows in the same order; compare merged counts only."""
        return (
            isinstance(other, VoteCounts)
            and np.array_equal(self.keys, other.keys)
            and np.array_equal(self.counts, other.counts)
        )

    def __neg__(self) -> "VoteCounts":
        return VoteCounts(self.keys, -self.counts)

    def key(self, name: str) -> Ints:
        column: Ints = self.keys[:, KEYS.index(name)]
        return column

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

    def where(self, chosen: Bools) -> "VoteCounts":
        return self if chosen.all() else self._rows(np.flatnonzero(chosen))

    def _rows(self, places: Ints) -> "VoteCounts":
        return VoteCounts(self.keys.T.take(places, 1).T, self.counts.T.take(places, 1).T)

    def per_prompt(self) -> "VoteCounts":
        """The same votes, summed over raters if the prompt is known."""
        keys = self.keys.copy()
        keys[keys[:, 0] > 0, 1] = 0
        return VoteCounts(keys, self.counts).merged()

    def per_pair(self) -> "VoteCounts":
        """The same votes summed over prompts and raters."""
        keys = self.keys.copy()
        keys[:, :2] = 0
        return VoteCounts(keys, self.counts).merged()

    def merged(self) -> "VoteCounts":
        """One row per key, in the order of the keys, without rows that are 0 throughout."""
        if not len(self):
            return self
        low = self.keys.min(axis=0)
        spans = (self.keys.max(axis=0) - low + 1).tolist()
        if math.prod(spans) >= 1 << 62:  # codes would overflow
            order = np.lexsort(self.keys.T[::-1])
            new = np.r_[True, (np.diff(self.keys[order], axis=0) != 0).any(axis=1)]
            return self._summed(order, np.flatnonzero(new))
        code = np.zeros(len(self), np.int64)
        for column, least, span in zip(self.keys.T, low, spans, strict=True):
            if span > 1:
                code = code * span + (column - least)
        if math.prod(spans) <= 4 * len(self):  # counting is faster than sorting
            totals = [_totals(code, column, math.prod(spans)) for column in self.counts.T]
            live = np.flatnonzero(np.logical_or.reduce([total != 0 for total in totals]))
            keys = np.stack(np.unravel_index(live, spans)).T + low
            return VoteCounts(keys, np.stack([total[live] for total in totals]).T)
        order = np.argsort(code, kind="stable")  # fast if rows are already in order
        return self._summed(order, np.flatnonzero(np.diff(code[order], prepend=-1)))

    def _summed(self, order: Ints, starts: Ints) -> "VoteCounts":
        """The sums of rows in this order, from each start to the next."""
        ordered = self._rows(order)
        counts = np.add.reduceat(ordered.counts.T, starts, axis=1).T
        live = np.asarray(counts.any(axis=1))
        return VoteCounts(ordered.keys.T.take(starts, 1).T, counts).where(live)

    def by_owner(self) -> Iterator[tuple[tuple[int, int], "VoteCounts"]]:
        """The rows of each (prompt, rater); the counts must be merged."""
        if not len(self):
            return
        owner = self.keys[:, :2]
        starts = np.flatnonzero(np.r_[True, (owner[1:] != owner[:-1]).any(axis=1)])
        for start, end in zip(starts, [*starts[1:], len(self)], strict=True):
            part = slice(start, end)
            prompt, rater = owner[start].tolist()
            yield (prompt, rater), VoteCounts(self.keys[part], self.counts[part])

    def pack(self) -> bytes:
        """Pack to bytes for `of_bytes`."""
        return pack([*self.keys.T, *self.counts.T])

    @classmethod
    def of_bytes(cls, packed: bytes | memoryview) -> "VoteCounts":
        """Read what `pack` wrote. Raises PackError."""
        columns = unpack(packed)
        if len(columns) != len(KEYS) + len(COUNTS):
            raise PackError(f"{len(columns)} columns are not those of tallies")
        size = len(KEYS)
        return cls(np.stack(columns[:size]).T, np.stack(columns[size:]).T)

    @classmethod
    def joined(cls, parts: Iterable["VoteCounts"]) -> "VoteCounts":
        """The rows of all parts concatenated, not merged."""
        all_parts: Sequence[VoteCounts] = [cls.none(), *parts]
        return cls(
            np.concatenate([part.keys for part in all_parts]),
            np.concatenate([part.counts for part in all_parts]),
        )


def _totals(code: Ints, values: Ints, size: int) -> Ints:
    """(size,): the exact sum of the values of each code."""
    total = np.zeros(size, np.int64)
    if values.any():
        np.add.at(total, code, values)
    return total


# -- Raters whose votes weigh less -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CappedRaters:
    """Raters with so many of a board's votes that each of them weighs less than one.

    Attributes
    ----------
    counts : their votes per rater and pair
    weights : the weight of one vote, from 0 to 1, by rater
    share : the share of all votes that each of them is capped at
    n_raters : how many of them cast too many votes themselves
    n_networks : how many networks sent too many anonymous votes
    """

    counts: VoteCounts = field(default_factory=VoteCounts.none)
    weights: Mapping[int, float] = field(default_factory=dict)
    share: float = 1.0
    n_raters: int = 0
    n_networks: int = 0

    @classmethod
    def of(
        cls,
        by_rater: VoteCounts,
        share: float,
        both_bad_is_tie: bool,
        networks: Mapping[int, str] | None = None,
        network_share: float = 1.0,
    ) -> "CappedRaters":
        """Who exceeds the share, or twice the average rater; `by_rater`: counts per rater.

        `networks`, of anonymous raters: together, those of one network weigh at most
        `network_share`, or twice the average of networks and all other raters.
        """
        place, size = codes(by_rater.key("rater"))
        raters = np.zeros(size, np.int64)
        raters[place] = by_rater.key("rater")
        votes = by_rater.votes if both_bad_is_tie else by_rater.decided
        cast = summed(place, votes, size)
        most = largest_share(int((cast > 0).sum()), share)
        weights = capped_weights(cast, most)
        n_raters, n_networks = int((weights < 1).sum()), 0
        if networks and len(set(networks.values())) > 1:
            names = [networks.get(rater, f"rater {rater}") for rater in raters.tolist()]
            distinct, group = np.unique(names, return_inverse=True)
            sent = summed(group.reshape(-1), cast * weights, len(distinct))
            of_group = capped_weights(sent, largest_share(len(distinct), network_share))
            of_group[~np.isin(distinct, list(networks.values()))] = 1.0
            weights, n_networks = weights * of_group[group.reshape(-1)], int((of_group < 1).sum())
        pairs = zip(raters.tolist(), weights.tolist(), strict=True)
        below = {rater: weight for rater, weight in pairs if weight < 1}
        capped = cls.read(by_rater, below, most)
        return replace(capped, n_raters=n_raters, n_networks=n_networks)

    @classmethod
    def read(
        cls, by_rater: VoteCounts, weights: Mapping[int, float], share: float
    ) -> "CappedRaters":
        """The raters with these weights; `by_rater` may contain others too."""
        chosen = np.isin(by_rater.key("rater"), list(weights))
        return cls(by_rater.where(chosen), weights, share)

    def weight_of(self, rater: Ints) -> Floats:
        """(M,) the weight of one vote of each rater."""
        place, n_raters = codes(rater)
        distinct = np.zeros(n_raters, np.int64)
        distinct[place] = rater
        weights: Floats = np.array([self.weights.get(pk, 1.0) for pk in distinct.tolist()])[place]
        return weights

    def rest(self, counts: VoteCounts) -> VoteCounts:
        """The counts per pair without these raters' own."""
        return VoteCounts.joined([counts, -self.counts.per_pair()]).merged()

    def discounts(self, counts: VoteCounts, both_bad_is_tie: bool) -> Floats:
        """(M, 4) the mean weight of a vote of each row's pair and outcome (`outcome_counts`)."""
        pairs = counts.per_pair()
        rows = [pairs, self.counts]
        keys = np.concatenate([part.keys[:, 2:] for part in rows])
        code = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
        total, own = (outcome_counts(part, both_bad_is_tie).astype(np.float64) for part in rows)
        own *= 1 - self.weight_of(self.counts.key("rater"))[:, None]
        place = np.zeros(int(code.max(initial=-1)) + 1, np.int64)
        place[code[: len(pairs)]] = np.arange(len(pairs))
        excess = np.zeros_like(total)
        np.add.at(excess, place[code[len(pairs) :]], own)
        weight: Floats = 1 - excess / np.maximum(total, 1)
        span = int(max(counts.key("second").max(initial=0), 0)) + 1
        known = pairs.key("first") * span + pairs.key("second")
        wanted = counts.key("first") * span + counts.key("second")
        return weight[np.searchsorted(known, wanted)]


NOBODY = CappedRaters()

# -- Battles for the estimators --------------------------------------------------------------------


def pair_battles(
    counts: VoteCounts, candidates: Ints, both_bad_is_tie: bool, capped: CappedRaters = NOBODY
) -> Battles:
    """The votes without clusters, for scores. `candidates`: (K,) ids, ascending."""
    if not capped.weights:
        return _battles(counts, candidates, both_bad_is_tie)
    parts = [capped.rest(counts), capped.counts]
    weights = [np.ones(len(parts[0])), capped.weight_of(capped.counts.key("rater"))]
    return _battles(
        VoteCounts.joined(parts), candidates, both_bad_is_tie, weight=np.concatenate(weights)
    )


def dependence(
    counts: VoteCounts,
    of_raters: VoteCounts | None,
    candidates: Ints,
    both_bad_is_tie: bool,
    capped: CappedRaters = NOBODY,
) -> Dependence:
    """The dependence of votes counted by prompt and, if raters are a sample, by rater too.

    There are no counts of the votes of one rater on one prompt. So the votes of capped raters are
    assumed to be spread over the prompts like all votes on the same pair with the same outcome.
    """
    counts = counts.where((counts.votes if both_bad_is_tie else counts.decided) > 0)

    def grouped(votes: VoteCounts, owner: Ints, weight: Floats | None) -> Battles:
        battles = _battles(votes, candidates, both_bad_is_tie, owner, weight)
        assert battles.cluster is not None
        return replace(battles, cluster=codes(battles.cluster)[0])

    prompt, by_prompt, by_rater = counts.key("prompt"), None, None
    if prompt.any():
        discounts = capped.discounts(counts, both_bad_is_tie) if capped.weights else None
        by_prompt = grouped(counts, prompt_codes(counts), discounts)
    if of_raters is not None:
        rater = of_raters.key("rater")
        by_rater = grouped(of_raters, rater, capped.weight_of(rater) if capped.weights else None)
    votes = pair_battles(counts.per_pair(), candidates, both_bad_is_tie, capped)
    return Dependence.choose(by_prompt, by_rater, votes)


def prompt_codes(counts: VoteCounts) -> Ints:
    """(M,): each row's prompt, or a separate number if the prompt is unknown."""
    prompt = counts.key("prompt")
    return np.where(prompt > 0, prompt, -1 - np.arange(len(prompt)))


def outcome_counts(counts: VoteCounts, both_bad_is_tie: bool) -> Ints:
    """(M, 4): plain wins of ``first`` and of ``second``, ties, and soft verdicts."""
    ties = counts["ties"] + counts["both_bad"] if both_bad_is_tie else counts["ties"]
    soft = counts["soft_first"] + counts["soft_second"] + counts["soft_ties"]
    return np.stack([counts["first_wins"], counts["second_wins"], ties, soft]).T


@dataclass(frozen=True, eq=False)
class OutcomeRows:
    """R rows, one per outcome of each row of counts.

    Attributes
    ----------
    place : (R,) the row of the counts
    kind : (R,) the column of `outcome_counts`
    score : (R,) the score of ``first`` in each of these votes
    count : (R,) how many votes the row represents
    """

    place: Ints
    kind: Ints
    score: Floats
    count: Ints

    def weight(
        self, counts: VoteCounts, both_bad_is_tie: bool, capped: CappedRaters
    ) -> Floats | None:
        """(R,) the mean weight of each of these votes; None if nobody is capped."""
        if not capped.weights:
            return None
        return capped.discounts(counts, both_bad_is_tie)[self.place, self.kind]


def outcome_rows(counts: VoteCounts, both_bad_is_tie: bool) -> OutcomeRows:
    """The votes by outcome; the soft verdicts of a row of counts become their mean."""
    table = outcome_counts(counts, both_bad_is_tie)
    places = [np.flatnonzero(column) for column in table.T]
    sizes = [len(place) for place in places]
    score = np.repeat(PLAIN_SCORES, sizes)
    soft = places[SOFT]
    score[len(score) - len(soft) :] = counts["soft_points"][soft] / (UNIT * table[soft, SOFT])
    count = np.concatenate([column[place] for column, place in zip(table.T, places, strict=True)])
    return OutcomeRows(np.concatenate(places), np.repeat(np.arange(4), sizes), score, count)


def _battles(
    counts: VoteCounts,
    candidates: Ints,
    both_bad_is_tie: bool,
    cluster: Ints | None = None,
    weight: Floats | None = None,
) -> Battles:
    """`weight`: of one vote, (M,), or (M, 4) by outcome."""
    rows = outcome_rows(counts, both_bad_is_tie)
    each = np.ones(len(rows.place))
    if weight is not None:
        each = weight[rows.place] if weight.ndim == 1 else weight[rows.place, rows.kind]
    return Battles(
        n_candidates=len(candidates),
        first=np.searchsorted(candidates, counts.key("first"))[rows.place],
        second=np.searchsorted(candidates, counts.key("second"))[rows.place],
        score=rows.score,
        weight=each,
        count=rows.count,
        cluster=None if cluster is None else cluster[rows.place],
    )
