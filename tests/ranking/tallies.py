"""What the tests of tallies share: claiming an arena, folding, and looking for drift."""

from typing import Any

from django.utils import timezone

from arena.models import Arena, Import
from ranking.models import ArenaRefresh, Tally
from ranking.services import fold as fold_service
from ranking.services import leases, rebuild
from ranking.tallies import VoteCounts
from tests.ranking.helpers import cast, seconds


def claim(arena: Arena) -> Any:
    leases.open_arena(arena_id=arena.pk)
    ArenaRefresh.objects.filter(arena=arena).update(not_before=None, token=None, leased_until=None)
    return ArenaRefresh.objects.claim(arena.pk, timezone.now(), seconds(60))


def fold(arena: Arena) -> int:
    return fold_service.fold(arena_id=arena.pk, token=claim(arena))


def drift(arena: Arena) -> list[str]:
    """What a count of the votes, made by the database, finds wrong with the tallies."""
    return rebuild.rebuild(arena_id=arena.pk, token=claim(arena))


def counted(arena: Arena) -> int:
    tally = Tally.objects.filter(arena=arena, raters="people", category="").first()
    return int(VoteCounts.of_bytes(tally.cells).votes.sum()) if tally else 0


def hidden_import(arena: Arena, number: int = 0, n_votes: int = 7) -> Import:
    source = Import.objects.create(
        arena=arena,
        file_name="votes.csv",
        sha256=f"{number:064}",
        format="pairs",
        started_at=timezone.now(),
    )
    for row in range(1, n_votes + 1):
        cast(arena, source=source, source_row=row)
    return source


def reveal(source: Import) -> None:
    Import.objects.filter(pk=source.pk).update(revealed_at=timezone.now())
