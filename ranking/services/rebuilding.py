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

from arena.models import Prompt, Vote
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
from ranking.votes import BOTH_BAD, KINDS, PLACES, TIE

GROUPS_AT_ONCE = 100_000
MEMBERS = ("rater", "prompt")
Members = dict[str, dict[int, int]]  # votes by id, of raters and of prompts
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
    n_votes = Vote.objects.filter(arena=arena_id).count()  # how long the steps below may take
    renew(token, n_votes)
    category_of = dict(Prompt.objects.filter(arena=arena_id).values_list("pk", "category"))
    for raters in KINDS:
        true = count_cells(arena_id, raters)
        renew(token, n_votes)
        members = _members_by_category(arena_id, raters, true, category_of)
        renew(token, n_votes)
        found += _rebuild_clusters(arena_id, raters, true, token)
        kept = Tally.objects.filter(arena=arena_id, raters=raters)
        for category in sorted({*members, *kept.values_list("category", flat=True)}):
            cells = _of_category(true, category, category_of).per_pair()
            found += _rebuild_tally(
                Tally(arena_id=arena_id, raters=raters, category=category),
                cells,
                members.get(category, {kind: {} for kind in MEMBERS}),
                token,
            )
    for board in Board.objects.filter(arena=arena_id):
        renew(token, n_votes)
        found += _check_elo(board, token)
    return found


def _counted(arena_id: int, raters: str) -> VoteQuerySet:
    return Vote.objects.in_tallies().filter(arena=arena_id, rater__kind=KINDS[Raters(raters)])


def _of_category(cells: Cells, category: str, category_of: dict[int, str]) -> Cells:
    if not category:
        return cells
    prompts = [pk for pk, name in category_of.items() if name == category]
    return cells.where(np.isin(cells.key("prompt"), prompts))


def count_cells(arena_id: int, raters: str) -> Cells:
    """The cells of all votes in the tallies, counted by the database."""
    points = Cast(Floor(F("preference") * Value(float(UNIT))), BigIntegerField())
    groups = (
        _counted(arena_id, raters)
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
    found = []
    while some := list(islice(rows, GROUPS_AT_ONCE)):
        found.append(_cells(some))
    return Cells.joined(found).merged()


def _cells(groups: list[tuple[Any, ...]]) -> Cells:
    prompt, rater, left, right, outcome, hard, n, points = zip(*groups, strict=True)
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
    given = np.array([p or 0 for p in points], np.int64)
    counts[:, -1] = np.where(soft, np.where(flip, votes * UNIT - given, given), 0)
    return Cells(np.column_stack(keys).astype(np.int64), counts)


def _members_by_category(
    arena_id: int, raters: str, true: Cells, category_of: dict[int, str]
) -> dict[str, Members]:
    """How many votes each rater cast and each prompt got, in all categories ("") and in each."""
    found: dict[str, Members] = {}
    voted = _counted(arena_id, raters).values_list("rater", "comparison__prompt__category")
    for rater, category, n in voted.annotate(n=Count("pk")).order_by():
        _note(found, category or "", "rater", rater, n)
    prompts, place = np.unique(true.key("prompt"), return_inverse=True)
    for prompt, n in zip(prompts.tolist(), np.bincount(place, true.votes), strict=False):
        if prompt:
            _note(found, category_of[prompt], "prompt", prompt, int(n))
    return found


def _note(found: dict[str, Members], category: str, kind: str, pk: int, n: int) -> None:
    for name in {"", category}:
        counts = found.setdefault(name, {kind: {} for kind in MEMBERS})[kind]
        counts[pk] = counts.get(pk, 0) + n


def _rebuild_clusters(arena_id: int, raters: str, true: Cells, token: uuid.UUID) -> list[str]:
    """Compare the rows per prompt, with what waits beside them, and write them anew if need be."""
    deltas = TallyDelta.objects.filter(arena=arena_id, raters=raters)
    waiting = (Cells.of_bytes(delta.cells) for delta in deltas.iterator())
    settled = cluster_tallies.read_clusters(arena_id=arena_id, raters=raters)
    kept = Cells.joined([settled, *waiting]).merged()
    if true == kept:
        return []
    with transaction.atomic():
        renew(token)
        deltas.delete()
        ClusterTally.objects.filter(arena=arena_id, raters=raters).delete()
        cluster_tallies.add_deltas(arena_id=arena_id, raters=raters, cells=true)
        Tally.objects.filter(arena=arena_id, raters=raters).update(version=F("version") + 1)
    return [f"{raters}, by prompt: {_difference(kept, true)}"]


def _rebuild_tally(wanted: Tally, true: Cells, members: Members, token: uuid.UUID) -> list[str]:
    same = Tally.objects.filter(
        arena=wanted.arena_id, raters=wanted.raters, category=wanted.category
    )
    tally = same.first() or wanted
    kept = Cells.of_bytes(tally.cells) if tally.pk else Cells.none()
    if true != kept:
        found = _difference(kept, true)
    elif tally.pk and not _same_members(tally, members):
        found = "other raters or prompts than voted"
    else:
        return []
    _write_tally(tally, true, members, token)
    return [f"{tally.raters}, {tally.category or 'all categories'}: {found}"]


def _same_members(tally: Tally, members: Members) -> bool:
    sizes = (tally.n_raters, tally.n_prompts)
    if sizes != (len(members["rater"]), len(members["prompt"])):
        return False
    rows = tally.members.filter(n_votes__gt=0)
    return all(
        dict(rows.filter(**{f"{kind}__isnull": False}).values_list(kind, "n_votes")) == true
        for kind, true in members.items()
    )


@transaction.atomic
def _write_tally(tally: Tally, true: Cells, members: Members, token: uuid.UUID) -> None:
    renew(token)
    tally.cells = true.pack()
    tally.version += 1
    tally.n_raters, tally.n_prompts = len(members["rater"]), len(members["prompt"])
    newest = Vote.objects.in_tallies().filter(
        arena=tally.arena_id, rater__kind=KINDS[Raters(tally.raters)]
    )
    tally.last_vote_id = newest.order_by("-pk").values_list("pk", flat=True).first() or 0
    tally.save()
    tally.members.all().delete()
    TallyMember.objects.bulk_create(_members(tally, members), batch_size=1000)


def _members(tally: Tally, members: Members) -> Iterator[TallyMember]:
    for kind, counts in members.items():
        for pk, n in counts.items():
            yield TallyMember(tally=tally, n_votes=n, **{f"{kind}_id": pk})


def _check_elo(board: Board, token: uuid.UUID) -> list[str]:
    """Replay all votes; newest ratings that differ are dropped, and the next refresh replays."""
    newest: EloCheckpoint | None = (
        board.elo_checkpoints.filter(settings=elo_ratings.settings_of(board))
        .order_by("-vote_id")
        .first()
    )
    if newest is None:
        return []
    kept = elo_ratings.stored(newest).by_candidate()
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
