"""Folding votes into the running tallies, each exactly once, whatever is killed or comes late.

Which votes the tallies count is written on the votes themselves (`Vote.tallied`) and, for those of
a file, on their import (`Import.tallied_row`), in the transaction that changes the tallies. So a
vote that commits late with a smaller id is still waiting to be added, and one that was voided is
waiting to be taken out. Only the holder of the arena's lease folds; each transaction checks that.
Whose votes count as trusted moves with the tallies of the trusted too: see `trusting`.
"""

import uuid
from collections.abc import Iterable

import numpy as np
from django.db import transaction
from django.utils import timezone

from arena.models import Import, Vote
from ranking.models import EloCheckpoint, Tally, TallyDelta, TallyMember
from ranking.services import trusting
from ranking.services.leases import renew
from ranking.tallies import Cells
from ranking.votes import Ints, Votes, read_votes

BATCH = 5_000  # votes folded in one transaction: a fraction of a second


def fold(*, arena_id: int, token: uuid.UUID) -> int:
    """Bring the arena's tallies up to its votes; return how many went in or out.

    Raises LeaseLost.
    """
    total, trusted = 0, trusting.tallied(arena_id)
    for step in (_add_imported, _add_cast, _take_out):
        while folded := step(arena_id, token, trusted):
            total += folded
    trusting.follow(arena_id=arena_id, token=token)
    return total


def _add_cast(arena_id: int, token: uuid.UUID, trusted: frozenset[int]) -> int:
    waiting = Vote.objects.to_add().filter(arena=arena_id).order_by("pk")
    votes = read_votes(waiting, BATCH, trusted)
    if not len(votes):
        return 0
    with transaction.atomic():
        _apply(arena_id, token, votes, taken_out=False)
        Vote.objects.filter(pk__in=votes.pk.tolist()).update(tallied=True)
    return len(votes)


def _take_out(arena_id: int, token: uuid.UUID, trusted: frozenset[int]) -> int:
    voided = Vote.objects.to_take_out().filter(arena=arena_id).order_by("pk")
    votes = read_votes(voided, BATCH, trusted)
    if not len(votes):
        return 0
    with transaction.atomic():
        _apply(arena_id, token, votes, taken_out=True)
        Vote.objects.filter(pk__in=votes.pk.tolist()).update(tallied=False)
    return len(votes)


def _add_imported(arena_id: int, token: uuid.UUID, trusted: frozenset[int]) -> int:
    """Take up the next rows of a revealed file. Its voided votes too: they are taken out later."""
    for source in Import.objects.to_tally().filter(arena=arena_id).order_by("pk"):
        rows = Vote.objects.filter(source=source, source_row__gt=source.tallied_row, tallied=True)
        votes = read_votes(rows.order_by("source_row"), BATCH, trusted)
        mine = Import.objects.filter(pk=source.pk)
        if not len(votes):
            mine.update(tallied_at=timezone.now())
            continue
        with transaction.atomic():
            _apply(arena_id, token, votes, taken_out=False)
            mine.update(tallied_row=int(votes.source_row[-1]))
        return len(votes)
    return 0


def _apply(arena_id: int, token: uuid.UUID, votes: Votes, taken_out: bool) -> None:
    """Add the votes to all that counts them, or take them out of it."""
    renew(token)
    sign = -1 if taken_out else 1
    for raters, category in sorted(votes.questions()):
        mine = votes.of(raters, category)
        cells = -mine.cells() if taken_out else mine.cells()
        _move_tally(arena_id, raters, category, mine, cells, sign)
        if not category:
            TallyDelta.objects.create(
                arena_id=arena_id, raters=raters, n_cells=len(cells), cells=cells.pack()
            )
        touched = EloCheckpoint.objects.filter(
            board__arena=arena_id, board__raters=raters, board__category=category
        )
        touched.filter(vote_id__gte=int(mine.pk.min())).delete()


def _move_tally(
    arena_id: int, raters: str, category: str, votes: Votes, cells: Cells, sign: int
) -> None:
    tally, _ = Tally.objects.get_or_create(
        arena_id=arena_id,
        raters=raters,
        category=category,
        defaults={"cells": Cells.none().pack()},
    )
    there = Cells.of_bytes(tally.cells)
    tally.cells = Cells.joined([there, cells.per_pair()]).merged().pack()
    tally.n_raters += _count_members(tally, "rater", votes.rater, sign)
    tally.n_prompts += _count_members(tally, "prompt", votes.prompt[votes.prompt > 0], sign)
    tally.last_vote_id = max(tally.last_vote_id, int(votes.pk.max()))
    tally.version += 1
    tally.save()


def _count_members(tally: Tally, kind: str, ids: Ints, sign: int) -> int:
    """Note how many votes each rater or prompt has; return how many more there are than before."""
    distinct, counts = np.unique(ids, return_counts=True)
    members = tally.members.filter(**{f"{kind}__in": distinct.tolist()})
    before = dict(members.values_list(kind, "n_votes"))
    after = {
        pk: before.get(pk, 0) + sign * n
        for pk, n in zip(distinct.tolist(), counts.tolist(), strict=True)
    }
    TallyMember.objects.bulk_create(
        [TallyMember(tally=tally, n_votes=n, **{f"{kind}_id": pk}) for pk, n in after.items()],
        update_conflicts=True,
        unique_fields=["tally", kind],
        update_fields=["n_votes"],
    )
    return _positive(after.values()) - _positive(before.values())


def _positive(numbers: Iterable[int]) -> int:
    return sum(number > 0 for number in numbers)
