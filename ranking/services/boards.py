"""Boards come to be here, and pages made from them are dropped here."""

from collections.abc import Iterable
from typing import Any

from django.db.models import F

from arena.models import Arena
from ranking.models import ArenaRefresh, Board, BoardPage, Raters


def open_arena(*, arena_id: int) -> None:
    """Give an arena its people's board and the row that its refreshes claim."""
    Board.objects.get_or_create(arena_id=arena_id, raters=Raters.PEOPLE, category="")
    ArenaRefresh.objects.get_or_create(arena_id=arena_id)


def open_missing() -> None:
    """Open the arenas whose announcement was lost; costs one query when there are none."""
    for arena in Arena.objects.revealed().filter(refresh=None):
        open_arena(arena_id=arena.pk)


def open_boards(*, arena_id: int, questions: Iterable[tuple[str, str]]) -> list[Board]:
    """Return the arena's boards, made where (raters, category) has none yet."""
    Board.objects.bulk_create(
        [Board(arena_id=arena_id, raters=raters, category=name) for raters, name in questions],
        ignore_conflicts=True,
    )
    return list(Board.objects.filter(arena=arena_id).order_by("category", "raters"))


def look_again(*, arena_id: int) -> None:
    """Have the arena refreshed again, even if a refresh is at it now: it may have read before."""
    ArenaRefresh.objects.filter(arena=arena_id).update(look_again=True)


def drop_pages(*, arena_id: int, look_again: bool = False) -> None:
    """Let no stored page of the arena be served again; with `look_again`, refresh it as well."""
    moved: dict[str, Any] = {"page_epoch": F("page_epoch") + 1}
    if look_again:
        moved["look_again"] = True
    ArenaRefresh.objects.filter(arena=arena_id).update(**moved)
    BoardPage.objects.filter(arena=arena_id).delete()


def drop_all_pages() -> None:
    """Have every page made anew when it is next asked for."""
    BoardPage.objects.all().delete()
