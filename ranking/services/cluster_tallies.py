"""Votes per prompt and per rater: counted by the database (GROUP BY), and as running tallies.

The count verifies the result of folding. The running tallies lag behind those per pair until
intervals are needed.
"""

import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

import numpy as np
from django.db import connection, transaction
from django.db.models import BigIntegerField, Case, Count, F, Model, QuerySet, Sum, Value, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Cast, Floor

from arena.models import Prompt, Vote
from arena.models.voting import VoteQuerySet
from ranking.models import ClusterTally, RaterTally, TallyDelta
from ranking.services.leases import renew
from ranking.tallies import COUNTS, UNIT, VoteCounts
from ranking.tallied_votes import BOTH_BAD, HUMAN, PLACES, TIE, TRUSTED, Bools, Ints, cast_by

GROUPS_AT_ONCE = 100_000
ALL = Value(0)  # the part that holds all votes, where they are not counted in parts
MEMBERS = ("rater", "prompt")
EMPTY = VoteCounts.none().pack()
Members = dict[str, dict[int, int]]  # number of votes by id, of raters and of prompts
KEYS = (
    "part",
    "prompt_known",
    "rater_alone",
    "comparison__left",
    "comparison__right",
    "outcome",
    "hard",
)


@dataclass(frozen=True, eq=False)
class CountedVotes:
    """The votes by one kind of rater, by prompt; `members` of all categories ("") and of each."""

    counts: VoteCounts
    members: dict[str, Members]
    category_of: dict[int, str]
    last_vote_id: int

    def of_category(self, category: str) -> VoteCounts:
        """The counts per pair of one category, or of all."""
        if not category:
            return self.counts.per_pair()
        prompts = [pk for pk, name in self.category_of.items() if name == category]
        return self.counts.where(np.isin(self.counts.key("prompt"), prompts)).per_pair()

    def members_of(self, category: str) -> Members:
        return self.members.get(category, {kind: {} for kind in MEMBERS})


def count(arena_id: int, raters: str, trusted: Collection[int]) -> CountedVotes:
    """Count the votes in the tallies; `trusted`: the ids of the raters that count as trusted."""
    votes = Vote.objects.in_tallies().filter(cast_by(raters), arena=arena_id)
    if raters in TRUSTED:
        votes = votes.filter(rater__in=trusted)
    category_of = dict(Prompt.objects.filter(arena=arena_id).values_list("pk", "category"))
    counts = count_by_prompt(votes)
    newest = votes.order_by("-pk").values_list("pk", flat=True).first()
    return CountedVotes(counts, _members(votes, counts, category_of), category_of, newest or 0)


def count_by_prompt(votes: VoteQuerySet) -> VoteCounts:
    """Count the votes by prompt, or by rater if the prompt is unknown; merged."""
    return _count(votes, by_rater=False)


def count_in_parts(
    votes: VoteQuerySet, ends: Sequence[int], by_rater: bool = False
) -> Iterator[VoteCounts]:
    """Count the votes of each part that ends with one of these ids; in one query."""
    if not ends:
        return
    part = Case(*(When(pk__lte=end, then=number) for number, end in enumerate(ends)))
    rows = _grouped(votes.filter(pk__lte=ends[-1]), by_rater, part)
    for _, groups in groupby(rows.iterator(chunk_size=10_000), itemgetter(0)):
        counts = _merge(groups)
        yield _over_prompts(counts) if by_rater else counts


def _over_prompts(by_rater: VoteCounts) -> VoteCounts:
    by_rater.keys[:, 0] = 0
    return by_rater.merged()


def _count(votes: VoteQuerySet, by_rater: bool) -> VoteCounts:
    return _merge(_grouped(votes, by_rater).iterator(chunk_size=10_000))


def _grouped(votes: VoteQuerySet, by_rater: bool, part: Combinable = ALL) -> QuerySet[Vote, Any]:
    alone = F("rater") if by_rater else Case(When(comparison__prompt=None, then=F("rater")))
    points = Cast(Floor(F("preference") * Value(float(UNIT))), BigIntegerField())
    return (
        votes.annotate(
            part=part,
            prompt_known=F("comparison__prompt"),
            rater_alone=alone,
            hard=Case(When(preference=None, then=True), default=False),
        )
        .values_list(*KEYS)
        .annotate(n=Count("pk"), points=Sum(points))
        .order_by("part")
    )


def _merge(rows: Iterator[Any]) -> VoteCounts:
    return VoteCounts.joined(_counts_of(batch) for batch in _batches(rows)).merged()


def _batches(rows: Iterator[Any]) -> Iterator[list[Any]]:
    while batch := list(islice(rows, GROUPS_AT_ONCE)):
        yield batch


def _counts_of(groups: list[tuple[Any, ...]]) -> VoteCounts:
    _, prompt, rater, left, right, outcome, hard, n, points = zip(*groups, strict=True)
    first, second = np.array(left, np.int64), np.array(right, np.int64)
    flip = first > second
    keys = [np.array([pk or 0 for pk in prompt]), np.array([pk or 0 for pk in rater])]
    keys += [np.where(flip, second, first), np.where(flip, first, second)]
    place = np.array([PLACES[value] for value in outcome])
    swapped = np.where(flip & (place < TIE), 1 - place, place)
    soft = ~np.array(hard) & (place != BOTH_BAD)
    votes = np.array(n, np.int64)
    counts = np.zeros((len(groups), len(COUNTS)), np.int64)
    column = np.where(soft, swapped + COUNTS.index("soft_first"), swapped)
    counts[np.arange(len(groups)), column] = votes
    of_left = np.array([p or 0 for p in points], np.int64)
    counts[:, -1] = np.where(soft, np.where(flip, votes * UNIT - of_left, of_left), 0)
    return VoteCounts(np.column_stack(keys).astype(np.int64), counts)


def _members(
    votes: VoteQuerySet, counts: VoteCounts, category_of: dict[int, str]
) -> dict[str, Members]:
    """How many votes each rater cast and each prompt got, in all categories ("") and in each."""
    members: dict[str, Members] = {}

    def add(category: str, kind: str, pk: int, n: int) -> None:
        for name in {"", category}:
            totals = members.setdefault(name, {kind: {} for kind in MEMBERS})[kind]
            totals[pk] = totals.get(pk, 0) + n

    by_rater = votes.values_list("rater", "comparison__prompt__category")
    for rater, category, n in by_rater.annotate(n=Count("pk")).order_by():
        add(category or "", "rater", rater, n)
    prompts, place = np.unique(counts.key("prompt"), return_inverse=True)
    for prompt, n in zip(prompts.tolist(), np.bincount(place, counts.votes), strict=False):
        if prompt:
            add(category_of[prompt], "prompt", prompt, int(n))
    return members


# -- Running tallies per prompt --------------------------------------------------------------------

CELLS_AT_ONCE = {"postgresql": 1_000_000, "sqlite": 5_000}  # SQLite's writers wait for one another
ROWS_AT_ONCE = 100
Owner = tuple[int, int]  # the prompt's id or 0, the rater's id or 0


def merge_deltas(*, arena_id: int, raters: str, token: uuid.UUID) -> None:
    """Merge the deltas of refreshes into the rows per prompt. Raises RefreshLeaseLostError."""
    while deltas := _next_deltas(arena_id, raters):
        counts = VoteCounts.joined(VoteCounts.of_bytes(delta.cells) for delta in deltas)
        rows = list(_updated_rows(arena_id, raters, counts.per_prompt()))
        by_rater = _updated_raters(arena_id, raters, counts) if raters in HUMAN else []
        # Everything has been read and summed by now, so the transaction only writes.
        with transaction.atomic():
            renew(token)
            _save(ClusterTally, rows)
            _save(RaterTally, by_rater)
            TallyDelta.objects.filter(pk__in=[delta.pk for delta in deltas]).delete()


def _save(model: type[Model], rows: Sequence[Any]) -> None:
    """Write the cells of rows; those without an id are new."""
    new = [row for row in rows if row.pk is None]
    model._default_manager.bulk_create(new, batch_size=ROWS_AT_ONCE)
    known = [row for row in rows if row.pk is not None]
    model._default_manager.bulk_update(known, ["cells"], batch_size=ROWS_AT_ONCE)


def add_deltas(*, arena_id: int, raters: str, counts: VoteCounts) -> None:
    """Store counts as deltas, in pieces that are merged one at a time."""
    size = min(CELLS_AT_ONCE.values())
    parts = (
        VoteCounts(counts.keys[i : i + size], counts.counts[i : i + size])
        for i in range(0, len(counts), size)
    )
    TallyDelta.objects.bulk_create(
        (
            TallyDelta(arena_id=arena_id, raters=raters, n_cells=len(part), cells=part.pack())
            for part in parts
        ),
        batch_size=ROWS_AT_ONCE,
    )


def _next_deltas(arena_id: int, raters: str) -> list[TallyDelta]:
    """The oldest deltas, about as many as may be merged at once."""
    deltas, n_cells = [], 0
    for delta in TallyDelta.objects.filter(arena=arena_id, raters=raters).order_by("pk").iterator():
        deltas.append(delta)
        n_cells += delta.n_cells
        if n_cells >= CELLS_AT_ONCE[connection.vendor]:
            break
    return deltas


def _updated_rows(arena_id: int, raters: str, counts: VoteCounts) -> Iterator[ClusterTally]:
    """The rows with the counts added; rows without an id are new."""
    owners = counts.by_owner()
    while batch := dict(islice(owners, ROWS_AT_ONCE)):
        rows = _load_rows(arena_id, raters, batch)
        for owner, added in batch.items():
            prompt, rater = owner
            row = rows.get(owner) or ClusterTally(
                arena_id=arena_id,
                raters=raters,
                prompt_id=prompt or None,
                rater_id=rater or None,
                cells=EMPTY,
            )
            keys = added.keys.copy()
            keys[:, :2] = 0  # the row has the prompt and the rater
            before = VoteCounts.of_bytes(row.cells)
            row.cells = VoteCounts.joined([before, VoteCounts(keys, added.counts)]).merged().pack()
            yield row


def _load_rows(
    arena_id: int, raters: str, owners: dict[Owner, VoteCounts]
) -> dict[Owner, ClusterTally]:
    tallies = ClusterTally.objects.filter(arena=arena_id, raters=raters)
    by_prompt = tallies.filter(prompt__in=[prompt for prompt, _ in owners if prompt])
    by_rater = tallies.filter(rater__in=[rater for _, rater in owners if rater])
    return {(row.prompt_id or 0, row.rater_id or 0): row for row in [*by_prompt, *by_rater]}


# -- Running tallies per rater ---------------------------------------------------------------------


def _updated_raters(arena_id: int, raters: str, counts: VoteCounts) -> list[RaterTally]:
    """The rows per rater with the counts added; votes without a rater are left out."""
    counts = counts.where(counts.key("rater") != 0)
    rows: dict[tuple[str, int], RaterTally] = {}
    if not len(counts):
        return []
    stored = RaterTally.objects.filter(arena=arena_id)
    members = _members_of(counts.key("rater"), set(stored.values_list("member", flat=True)))
    for row in stored.filter(raters=raters, member__in=set(members.tolist())):
        rows[row.category, row.member] = row
    for category, chosen in _by_category(arena_id, counts):
        part = VoteCounts(counts.keys[chosen], counts.counts[chosen])
        part.keys[:, 0], part.keys[:, 1] = 0, members[chosen]
        for (_, member), added in part.merged().by_owner():
            row = rows.setdefault(
                (category, member),
                RaterTally(
                    arena_id=arena_id,
                    raters=raters,
                    category=category,
                    member=member,
                    cells=EMPTY,
                ),
            )
            added.keys[:, :2] = 0
            row.cells = VoteCounts.joined([VoteCounts.of_bytes(row.cells), added]).merged().pack()
    return list(rows.values())


def _members_of(raters: Ints, known: set[int]) -> Ints:
    """(M,): the row of each rater: one of their own while there is room, or a shared one."""
    room = RaterTally.RATERS - sum(member > 0 for member in known)
    distinct, place = np.unique(raters, return_inverse=True)
    own = np.isin(distinct, list(known))
    own |= np.cumsum(~own) <= room
    members: Ints = np.where(own, distinct, -1 - distinct % RaterTally.RATERS)[place]
    return members


def _by_category(arena_id: int, counts: VoteCounts) -> Iterator[tuple[str, Bools]]:
    """Each category with these counts, "" for all, and a mask of its rows."""
    yield "", np.ones(len(counts), np.bool_)
    prompts = Prompt.objects.filter(arena=arena_id).exclude(category="")
    for category in sorted(set(prompts.values_list("category", flat=True))):
        ids = list(prompts.filter(category=category).values_list("pk", flat=True))
        chosen = np.isin(counts.key("prompt"), ids)
        if chosen.any():
            yield category, chosen


def read_raters(
    *, arena_id: int, raters: str, category: str, clustered: VoteCounts, token: uuid.UUID
) -> VoteCounts:
    """Human counts by rater; recounted if they do not match the counts by prompt.

    That happens after an upgrade, and after the tallies were rebuilt. Raises RefreshLeaseLostError.
    """
    counts = stored_raters(arena_id, raters, category)
    if counts.per_pair() != clustered.per_pair():
        renew(token, int(clustered.votes.sum()))
        recount_raters(arena_id=arena_id, raters=raters, token=token)
        counts = stored_raters(arena_id, raters, category)
    return counts


def stored_raters(
    arena_id: int, raters: str, category: str, members: Collection[int] | None = None
) -> VoteCounts:
    """Human counts by rater as they are stored, of all or of some."""
    rows = RaterTally.objects.filter(arena=arena_id, raters=raters, category=category).order_by(
        "member"
    )
    if members is not None:
        rows = rows.filter(member__in=members)

    def parts() -> Iterator[VoteCounts]:
        for member, packed in rows.values_list("member", "cells").iterator(ROWS_AT_ONCE):
            counts = VoteCounts.of_bytes(packed)
            counts.keys[:, 1] = member
            yield counts

    return VoteCounts.joined(parts())


def recount_raters(*, arena_id: int, raters: str, token: uuid.UUID) -> None:
    """Recount human votes by rater: after an upgrade, or if the rows do not add up.

    All deltas must have been merged. Raises RefreshLeaseLostError.
    """
    votes = Vote.objects.in_tallies().filter(cast_by(raters), arena=arena_id)
    counts = _count(votes, by_rater=True)
    with transaction.atomic():
        renew(token)
        RaterTally.objects.filter(arena=arena_id, raters=raters).delete()
        _save(RaterTally, _updated_raters(arena_id, raters, counts))


def read_clusters(*, arena_id: int, raters: str, category: str = "") -> VoteCounts:
    """The counts of a question by prompt, without unmerged deltas."""
    tallies = ClusterTally.objects.filter(arena=arena_id, raters=raters)
    if category:
        tallies = tallies.filter(prompt__category=category)
    # Databases differ in where they put nulls, and intervals depend on the order.
    ordered = tallies.order_by(*(F(name).asc(nulls_first=True) for name in ("prompt", "rater")))
    rows = ordered.values_list("prompt", "rater", "cells")

    def parts() -> Iterator[VoteCounts]:
        for prompt, rater, packed in rows.iterator(chunk_size=ROWS_AT_ONCE):
            counts = VoteCounts.of_bytes(packed)
            counts.keys[:, 0], counts.keys[:, 1] = prompt or 0, rater or 0
            yield counts

    return VoteCounts.joined(parts())
