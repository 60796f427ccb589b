"""The tallies per prompt: behind those per pair until somebody wants intervals."""

import uuid
from collections.abc import Iterator
from itertools import islice

from django.db import connection, transaction

from ranking.models import ClusterTally, TallyDelta
from ranking.services.leases import renew
from ranking.tallies import Cells

CELLS_AT_ONCE = {"postgresql": 1_000_000, "sqlite": 5_000}  # there all writers wait for one
ROWS_AT_ONCE = 100
Owner = tuple[int, int]  # the prompt's id or 0, the rater's id or 0


def settle(*, arena_id: int, raters: str, token: uuid.UUID) -> None:
    """Merge what refreshes have added since into the rows per prompt. Raises LeaseLost."""
    while deltas := _next_deltas(arena_id, raters):
        cells = Cells.joined(Cells.of_bytes(delta.cells) for delta in deltas).merged()
        _merge(arena_id, raters, token, cells, [delta.pk for delta in deltas])


def add_deltas(*, arena_id: int, raters: str, cells: Cells) -> None:
    """Put cells down to be merged, in pieces that are merged one at a time."""
    size = min(CELLS_AT_ONCE.values())
    parts = (
        Cells(cells.keys[i : i + size], cells.counts[i : i + size])
        for i in range(0, len(cells), size)
    )
    TallyDelta.objects.bulk_create(
        (
            TallyDelta(arena_id=arena_id, raters=raters, n_cells=len(part), cells=part.pack())
            for part in parts
        ),
        batch_size=ROWS_AT_ONCE,
    )


def _next_deltas(arena_id: int, raters: str) -> list[TallyDelta]:
    """The oldest deltas, about as many as may be held at once."""
    found, n_cells = [], 0
    for delta in TallyDelta.objects.filter(arena=arena_id, raters=raters).order_by("pk").iterator():
        found.append(delta)
        n_cells += delta.n_cells
        if n_cells >= CELLS_AT_ONCE[connection.vendor]:
            break
    return found


def _merge(
    arena_id: int, raters: str, token: uuid.UUID, cells: Cells, delta_ids: list[int]
) -> None:
    """One transaction; all is read and added up before it begins, so that it only writes."""
    rows = list(_added(arena_id, raters, cells))
    with transaction.atomic():
        renew(token)
        new = [row for row in rows if row.pk is None]
        ClusterTally.objects.bulk_create(new, batch_size=ROWS_AT_ONCE)
        known = [row for row in rows if row.pk is not None]
        ClusterTally.objects.bulk_update(known, ["cells"], batch_size=ROWS_AT_ONCE)
        TallyDelta.objects.filter(pk__in=delta_ids).delete()


def _added(arena_id: int, raters: str, cells: Cells) -> Iterator[ClusterTally]:
    """The rows as they will be: those that are there, and those that have to be made."""
    owners = cells.by_owner()
    while some := dict(islice(owners, ROWS_AT_ONCE)):
        there = _rows(arena_id, raters, some)
        for owner, added in some.items():
            row = there.get(owner) or _new_row(arena_id, raters, owner)
            kept = Cells.of_bytes(row.cells)
            row.cells = Cells.joined([kept, _anonymous(added)]).merged().pack()
            yield row


def _rows(arena_id: int, raters: str, owners: dict[Owner, Cells]) -> dict[Owner, ClusterTally]:
    mine = ClusterTally.objects.filter(arena=arena_id, raters=raters)
    prompts = mine.filter(prompt__in=[prompt for prompt, _ in owners if prompt])
    persons = mine.filter(rater__in=[rater for _, rater in owners if rater])
    found = [*prompts, *persons]
    return {(row.prompt_id or 0, row.rater_id or 0): row for row in found}


def _new_row(arena_id: int, raters: str, owner: Owner) -> ClusterTally:
    prompt, rater = owner
    return ClusterTally(
        arena_id=arena_id,
        raters=raters,
        prompt_id=prompt or None,
        rater_id=rater or None,
        cells=Cells.none().pack(),
    )


def _anonymous(cells: Cells) -> Cells:
    """Without the names of prompt and rater: the row has them."""
    keys = cells.keys.copy()
    keys[:, :2] = 0
    return Cells(keys, cells.counts)


def read_clusters(*, arena_id: int, raters: str, category: str = "") -> Cells:
    """The cells of a question by prompt, as far as they are settled."""
    rows = ClusterTally.objects.filter(arena=arena_id, raters=raters)
    if category:
        rows = rows.filter(prompt__category=category)
    found = rows.order_by("prompt", "rater").values_list("prompt", "rater", "cells")
    return Cells.joined(
        _named(Cells.of_bytes(packed), prompt or 0, rater or 0)
        for prompt, rater, packed in found.iterator(chunk_size=ROWS_AT_ONCE)
    )


def _named(cells: Cells, prompt: int, rater: int) -> Cells:
    cells.keys[:, 0] = prompt
    cells.keys[:, 1] = rater
    return cells
