"""Recomputing the tallies from the votes, and saying whether they had drifted.

The count is made by the database itself (GROUP BY), so it checks what folding has added up.
"""

import uuid
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
from django.db import transaction
from django.db.models import BigIntegerField, Case, Count, F, Sum, Value, When
from django.db.models.functions import Cast, Floor

from arena.models import Outcome, Vote
from arena.models.voting import VoteQuerySet
from ranking.models import (
    Board,
    ClusterTally,
    EloCheckpoint,
    Raters,
    Tally,
    TallyDelta,
    TallyMember,
)
from ranking.services import cluster_tallies, elo_ratings
from ranking.services.leases import renew
from ranking.tallies import COUNTS, UNIT, Cells
from ranking.votes import KINDS

GROUPS_AT_ONCE = 100_000
SWAPPED = {Outcome.LEFT.value: Outcome.RIGHT.value, Outcome.RIGHT.value: Outcome.LEFT.value}
COLUMNS = {
    Outcome.LEFT.value: ("first_wins", "soft_first"),
    Outcome.RIGHT.value: ("second_wins", "soft_second"),
    Outcome.TIE.value: ("ties", "soft_ties"),
    Outcome.BOTH_BAD.value: ("both_bad", "both_bad"),
}
KINDS_OF_MEMBERS = {"rater": "rater", "prompt": "comparison__prompt"}
KEYS = (
    "prompt_known",
    "rater_alone",
    "comparison__left",
    "comparison__right",
    "outcome",
    "hard",
)


def rebuild(*, arena_id: int, token: uuid.UUID) -> list[str]:
    """Write what the votes in the tallies come to; return what was found to differ.

    Votes that still wait to be folded stay so. Raises LeaseLost.
    """
    found = []
    for raters in KINDS:
        found += _rebuild_clusters(arena_id, raters, token)
        for category in _categories(arena_id, raters):
            found += _rebuild_tally(arena_id, raters, category, token)
    for board in Board.objects.filter(arena=arena_id):
        found += _check_elo(board, token)
    return found


def _counted(arena_id: int, raters: str, category: str = "") -> VoteQuerySet:
    votes = Vote.objects.in_tallies().filter(arena=arena_id, rater__kind=KINDS[Raters(raters)])
    if category:
        votes = votes.filter(comparison__prompt__category=category)
    return votes


def _categories(arena_id: int, raters: str) -> list[str]:
    """Those that have votes or a tally; "" stands for all of them."""
    voted = _counted(arena_id, raters).values_list("comparison__prompt__category", flat=True)
    kept = Tally.objects.filter(arena=arena_id, raters=raters).values_list("category", flat=True)
    found = {name or "" for name in [*voted.distinct().order_by(), *kept]}
    return sorted(found | {""}) if found else []


def count_cells(arena_id: int, raters: str, category: str = "") -> Cells:
    """The cells of all votes in the tallies, counted by the database."""
    points = Cast(Floor(F("preference") * Value(float(UNIT))), BigIntegerField())
    groups = (
        _counted(arena_id, raters, category)
        .annotate(
            prompt_known=F("comparison__prompt"),
            rater_alone=Case(When(comparison__prompt=None, then=F("rater"))),
            hard=Case(When(preference=None, then=True), default=False),
        )
        .values_list(*KEYS)
        .annotate(n=Count("pk"), points=Sum(points))
        .order_by()
    )
    rows = groups.iterator(chunk_size=10_000)
    found = Cells.none()
    while some := list(islice(rows, GROUPS_AT_ONCE)):
        found = Cells.joined([found, _cells(some)])
    return found.merged()


def _cells(groups: list[tuple[Any, ...]]) -> Cells:
    keys, counts = [], np.zeros((len(groups), len(COUNTS)), np.int64)
    for i, (prompt, rater, left, right, outcome, hard, n, points) in enumerate(groups):
        flip = left > right
        keys.append((prompt or 0, rater or 0, min(left, right), max(left, right)))
        column = COLUMNS[SWAPPED.get(outcome, outcome) if flip else outcome][not hard]
        counts[i, COUNTS.index(column)] = n
        if not hard and outcome != Outcome.BOTH_BAD:
            counts[i, -1] = n * UNIT - points if flip else points
    return Cells(np.array(keys, np.int64), counts)


def _rebuild_clusters(arena_id: int, raters: str, token: uuid.UUID) -> list[str]:
    """Compare the rows per prompt, with what waits beside them, and write them anew if need be."""
    deltas = TallyDelta.objects.filter(arena=arena_id, raters=raters)
    waiting = (Cells.of_bytes(delta.cells) for delta in deltas.iterator())
    settled = cluster_tallies.read_clusters(arena_id=arena_id, raters=raters)
    kept = Cells.joined([settled, *waiting]).merged()
    renew(token)
    true = count_cells(arena_id, raters)
    if true.pack() == kept.pack():
        return []
    with transaction.atomic():
        renew(token)
        deltas.delete()
        ClusterTally.objects.filter(arena=arena_id, raters=raters).delete()
        if len(true):
            TallyDelta.objects.create(
                arena_id=arena_id, raters=raters, n_cells=len(true), cells=true.pack()
            )
        Tally.objects.filter(arena=arena_id, raters=raters).update(version=F("version") + 1)
    return [f"{raters}, by prompt: {_difference(kept, true)}"]


def _rebuild_tally(arena_id: int, raters: str, category: str, token: uuid.UUID) -> list[str]:
    renew(token)
    true = count_cells(arena_id, raters, category).per_pair()
    members = {kind: _count_members(arena_id, raters, category, kind) for kind in KINDS_OF_MEMBERS}
    tally = Tally.objects.filter(arena=arena_id, raters=raters, category=category).first()
    kept = Cells.of_bytes(tally.cells) if tally else Cells.none()
    name = f"{raters}, {category or 'all categories'}"
    found = []
    if true.pack() != kept.pack():
        found.append(f"{name}: {_difference(kept, true)}")
    elif tally and not _same_members(tally, members):
        found.append(f"{name}: other raters or prompts than voted")
    if found:
        _write_tally(tally or Tally(arena_id=arena_id, raters=raters, category=category), true)
        _write_members(arena_id, raters, category, members, token)
    return found


def _count_members(arena_id: int, raters: str, category: str, kind: str) -> dict[int, int]:
    """How many votes each rater cast, or each prompt got."""
    field = KINDS_OF_MEMBERS[kind]
    votes = _counted(arena_id, raters, category).filter(**{f"{field}__isnull": False})
    return dict(votes.values_list(field).annotate(n=Count("pk")).order_by())


def _same_members(tally: Tally, members: dict[str, dict[int, int]]) -> bool:
    sizes = (tally.n_raters, tally.n_prompts)
    if sizes != (len(members["rater"]), len(members["prompt"])):
        return False
    rows = tally.members.filter(n_votes__gt=0)
    return all(
        dict(rows.filter(**{f"{kind}__isnull": False}).values_list(kind, "n_votes")) == true
        for kind, true in members.items()
    )


def _write_tally(tally: Tally, true: Cells) -> None:
    tally.cells = true.pack()
    tally.version += 1
    tally.save()


@transaction.atomic
def _write_members(
    arena_id: int,
    raters: str,
    category: str,
    members: dict[str, dict[int, int]],
    token: uuid.UUID,
) -> None:
    renew(token)
    tally = Tally.objects.get(arena=arena_id, raters=raters, category=category)
    tally.members.all().delete()
    TallyMember.objects.bulk_create(_members(tally, members), batch_size=1000)
    tally.n_raters, tally.n_prompts = len(members["rater"]), len(members["prompt"])
    tally.save(update_fields=["n_raters", "n_prompts"])


def _members(tally: Tally, members: dict[str, dict[int, int]]) -> Iterator[TallyMember]:
    for kind, counts in members.items():
        for pk, n in counts.items():
            yield TallyMember(tally=tally, n_votes=n, **{f"{kind}_id": pk})


def _check_elo(board: Board, token: uuid.UUID) -> list[str]:
    """Replay all votes; newest ratings that differ are dropped, and the next refresh replays."""
    newest: EloCheckpoint | None = board.elo_checkpoints.order_by("-vote_id").first()
    if newest is None:
        return []
    kept = elo_ratings.stored(newest).by_candidate()
    renew(token)
    if elo_ratings.replay(board=board, until=newest.vote_id).by_candidate() == kept:
        return []
    with transaction.atomic():
        renew(token)
        board.elo_checkpoints.all().delete()
        Tally.objects.filter(
            arena=board.arena_id, raters=board.raters, category=board.category
        ).update(version=F("version") + 1)
    return [f"{board.raters}, {board.category or 'all categories'}: Elo ratings of other votes"]


def _difference(kept: Cells, true: Cells) -> str:
    there, should = int(kept.votes.sum()), int(true.votes.sum())
    if there != should:
        return f"{there} votes where there are {should}"
    return "the right number of votes, in the wrong places"
