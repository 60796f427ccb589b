"""What the index of arenas shows, read in three queries."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef, Q

from arena.models import Arena, Pair
from ranking.models import Raters, Snapshot, Standing


@dataclass(frozen=True)
class Card:
    """An arena, the snapshots of the boards of people, judges and juries, and who is first on the
    first of them that has votes."""

    arena: Any
    people: Snapshot | None
    judges: Snapshot | None
    juries: Snapshot | None
    leader: Standing | None

    @property
    def shared_lead(self) -> bool:
        """Whether chance could have put somebody else first, all pairs taken together."""
        return self.leader is not None and self.leader.sure_rank_high != 1


def cards() -> list[Card]:
    """One card per arena, newest first."""
    texts = Pair.objects.filter(arena=OuterRef("pk"), shared_prompts__gt=0)
    arenas = Arena.objects.revealed().annotate(has_texts=Exists(texts)).order_by("-pk")
    snapshots = _snapshots()
    leaders = _leaders()
    return [_card(arena, snapshots, leaders) for arena in arenas]


def _card(
    arena: Arena, snapshots: dict[tuple[int, str], Snapshot], leaders: dict[int, Standing]
) -> Card:
    people, judges, juries = (snapshots.get((arena.pk, raters)) for raters in Raters.values)
    shown = next((s for s in (people, judges, juries) if s and s.n_votes), None)
    return Card(arena, people, judges, juries, leaders.get(shown.pk) if shown else None)


def _snapshots() -> dict[tuple[int, str], Snapshot]:
    found = Snapshot.objects.current().filter(board__category="").select_related("board")
    return {(snapshot.board.arena_id, snapshot.board.raters): snapshot for snapshot in found}


def _leaders() -> dict[int, Standing]:
    current = Q(snapshot__is_current=True, snapshot__board__category="")
    first = Standing.objects.filter(current, rank=1).select_related("candidate")
    return {standing.snapshot_id: standing for standing in first.order_by("-candidate__name")}
