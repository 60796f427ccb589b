"""Recomputing the tallies from the votes, and saying whether they had drifted.

The count is made by the database itself (GROUP BY), so it checks what folding has added up.
"""

import uuid
from collections.abc import Iterator

from django.db import transaction
from django.db.models import F

from arena.models import Vote
from ranking.models import (
    Board,
    ClusterTally,
    EloCheckpoint,
    Tallied,
    TalliedTrust,
    Tally,
    TallyDelta,
    TallyMember,
)
from ranking.services import cluster_tallies, elo_ratings
from ranking.services.counting import Counted, Members, count
from ranking.services.leases import renew
from ranking.tallies import Cells


def rebuild(*, arena_id: int, token: uuid.UUID) -> list[str]:
    """Write what the votes in the tallies come to; return what was found to differ.

    Votes that still wait to be folded stay so, and so does trust that was given or withdrawn.
    Raises LeaseLost.
    """
    found = []
    n_votes = Vote.objects.filter(arena=arena_id).count()  # how long the steps below may take
    trusted = TalliedTrust.objects.filter(arena=arena_id).values_list("rater", flat=True)
    for raters in Tallied.values:
        renew(token, n_votes)
        counted = count(arena_id, raters, list(trusted))
        renew(token, n_votes)
        found += put_right(arena_id=arena_id, raters=raters, counted=counted, token=token)
    for board in Board.objects.filter(arena=arena_id):
        renew(token, n_votes)
        found += _check_elo(board, token)
    return found


def put_right(*, arena_id: int, raters: str, counted: Counted, token: uuid.UUID) -> list[str]:
    """Make the tallies of these raters what was counted; return what differed. Raises LeaseLost."""
    found = _rebuild_clusters(arena_id, raters, counted.cells, token)
    kept = Tally.objects.filter(arena=arena_id, raters=raters)
    for category in sorted({*counted.members, *kept.values_list("category", flat=True)}):
        wanted = Tally(arena_id=arena_id, raters=raters, category=category)
        found += _rebuild_tally(wanted, counted, token)
    return found


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
    name = Tallied(raters).label.lower()
    return [f"{name}, by prompt: {_difference(kept, true)}"]


def _rebuild_tally(wanted: Tally, counted: Counted, token: uuid.UUID) -> list[str]:
    true, members = counted.of_category(wanted.category), counted.members_of(wanted.category)
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
    tally.last_vote_id = counted.last_vote_id
    _write_tally(tally, true, members, token)
    return [f"{tally.get_raters_display().lower()}, {tally.category or 'all categories'}: {found}"]


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
