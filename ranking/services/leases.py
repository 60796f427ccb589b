"""The lease of an arena: only the holder of its token may write the log and publish."""

import uuid
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db.models import Case, F, Q, Value, When
from django.utils import timezone

from arena.models import Arena, Vote
from ranking.models import ArenaRefresh, Board, BoardPage, HomePage, Raters
from ranking.models.refreshes import LONGEST_LEASE

LEASE = timedelta(seconds=20)  # how long a killed worker keeps an arena from being refreshed
REST_PER_SECOND = 4  # of CPU: so an arena takes at most a fifth of a processor
LEASE_PER_VOTE = timedelta(microseconds=20)  # twice what a fit takes, during which nothing renews
LARGE_VOTES, LARGE_CPU = 20_000, timedelta(seconds=10)  # above either, an arena waits for its like


class RefreshLeaseLostError(Exception):
    """Another refresh has taken over, and may have read newer votes."""


def renew(token: uuid.UUID, n_votes: int = 0) -> None:
    """Extend the lease for one more step, by more for a step over `n_votes`.

    Within a transaction this is the fence: the row stays locked until the commit, so nobody can
    take over between the check and the writes. Raises RefreshLeaseLostError.
    """
    until = timezone.now() + min(LEASE + n_votes * LEASE_PER_VOTE, LONGEST_LEASE)
    if not ArenaRefresh.objects.filter(token=token).update(leased_until=until):
        raise RefreshLeaseLostError


def is_large(arena_id: int) -> bool:
    """Whether a refresh of the arena would hold up others: it has many votes, or the last one used
    the processor for long.

    Its pause tells, because its seconds are also those in which the machine did something else.
    """
    rested = F("finished_at") + REST_PER_SECOND * LARGE_CPU
    costly = ArenaRefresh.objects.filter(arena=arena_id, problem="", not_before__gt=rested)
    return costly.exists() or bool(Vote.objects.filter(arena=arena_id)[LARGE_VOTES:].exists())


def open_arena(*, arena_id: int) -> None:
    """Create the arena's human-votes board and the row that its refreshes lease."""
    Board.objects.get_or_create(arena_id=arena_id, raters=Raters.PEOPLE, category="")
    ArenaRefresh.objects.get_or_create(arena_id=arena_id)


def open_missing() -> None:
    """Create these rows for arenas whose signal was lost; costs one query if there are none."""
    for arena in Arena.objects.revealed().contests().filter(refresh=None):
        open_arena(arena_id=arena.pk)


def open_boards(arena_id: int, questions: Iterable[tuple[str, str]]) -> list[Board]:
    """Return the arena's boards; a (raters, category) without one gets one."""
    boards = Board.objects.filter(arena=arena_id).order_by("category", "raters")
    missing = set(questions) - {(board.raters, board.category) for board in boards}
    if missing:
        new = [Board(arena_id=arena_id, raters=raters, category=name) for raters, name in missing]
        Board.objects.bulk_create(new, ignore_conflicts=True)
    return list(boards.all() if missing else boards)


def mark_stale(*, arena_id: int) -> None:
    """Request another refresh of the arena; one in progress may have read the data too early."""
    ArenaRefresh.objects.filter(arena=arena_id).update(**_stale_mark())


def _stale_mark() -> dict[str, Any]:
    """The changes that mark a row stale; `recheck_at` keeps the time, if it was not stale yet."""
    now = timezone.now()
    was_stale = Q(is_stale=True) | Q(recheck_at__lte=now)
    since = Case(When(was_stale, then=F("recheck_at")), default=Value(now))
    return {"is_stale": True, "recheck_at": since}


def drop_pages(*, arena_id: int, is_stale: bool = False) -> None:
    """Stop serving the arena's stored pages; with `is_stale`, refresh the arena as well."""
    changes: dict[str, Any] = {"page_epoch": F("page_epoch") + 1}
    if is_stale:
        changes |= _stale_mark()
    ArenaRefresh.objects.filter(arena=arena_id).update(**changes)
    BoardPage.objects.filter(arena=arena_id).delete()


def drop_all_pages() -> None:
    BoardPage.objects.all().delete()
    HomePage.objects.all().delete()
