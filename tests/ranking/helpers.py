"""Arenas with votes, and one call that puts them on their boards."""

import html
import re
from datetime import timedelta
from typing import Any

from django.utils import timezone

from arena.models import Arena, Rater, Vote
from ranking.models import ArenaRefresh, Snapshot
from ranking.services import leases, refresh
from tests.factories import make_arena, make_person, make_vote

CYCLE = ["left", "right", "tie", "left", "left", "right"]


def make_voted_arena() -> Arena:
    """Three candidates, four prompts in two categories, 24 votes of one person."""
    arena = make_arena(name="Support answers", slug="support")
    fill(arena)
    return arena


def publish(arena: Arena) -> Snapshot:
    """Refresh the arena's boards whatever the pause; return the people's snapshot."""
    leases.open_arena(arena_id=arena.pk)
    ArenaRefresh.objects.filter(arena=arena).update(not_before=None)
    refresh.refresh_arena(arena_id=arena.pk, now=timezone.now())
    return Snapshot.objects.current().get(
        board__arena=arena, board__raters="people", board__category=""
    )


def fill(arena: Arena, rounds: int = 2, rater: Rater | None = None) -> None:
    """Let every two candidates meet on every prompt, with outcomes in a fixed cycle."""
    rater = rater or make_person()
    candidates = list(arena.candidates.order_by("pk"))
    turn = 0
    for prompt in list(arena.prompts.order_by("pk")) * rounds:
        for i, left in enumerate(candidates):
            for right in candidates[i + 1 :]:
                make_vote(arena, left, right, CYCLE[turn % len(CYCLE)], prompt, rater)
                turn += 1


def cast(arena: Arena, outcome: str = "left", **fields: Any) -> Vote:
    """One more vote between the first two candidates."""
    left, right = arena.candidates.order_by("pk")[:2]
    return make_vote(arena, left, right, outcome, arena.prompts.first(), **fields)


def seconds(n: float) -> timedelta:
    return timedelta(seconds=n)


def markup(page: str) -> str:
    """The page without the white space around tags, which follows the indentation of templates."""
    return re.sub(r"\s*([<>])\s*", r"\1", page)


def words(page: str) -> str:
    """What a reader reads of a page."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())
