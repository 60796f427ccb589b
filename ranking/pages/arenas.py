"""What the index of arenas shows, read in five queries at most."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Q

from arena.access import NOBODY, Actor
from arena.models import Arena
from arena.pages.ballots import with_ballots
from ranking.models import Raters, Snapshot, Standing
from ranking.pages.scripted import SENTENCE, arenas_with_scripts


@dataclass(frozen=True)
class Card:
    """An arena, the snapshots of the boards of people, judges and juries, who is first on the first
    of them that has votes, and the warning where those are votes of scripts."""

    arena: Any
    people: Snapshot | None
    judges: Snapshot | None
    juries: Snapshot | None
    leader: Standing | None
    scripted: str = ""

    @property
    def shown(self) -> Snapshot | None:
        """The one that the leader is first on."""
        return _first_with_votes(self.people, self.judges, self.juries)

    @property
    def shared_lead(self) -> bool:
        """Whether chance could have put somebody else first, all pairs taken together."""
        return self.leader is not None and self.leader.sure_rank_high != 1


def cards(actor: Actor = NOBODY) -> list[Card]:
    """One card per arena that is listed for `actor`, newest first."""
    arenas = list(with_ballots(Arena.objects.listed_for(actor)).order_by("-pk"))
    ids = [arena.pk for arena in arenas]
    snapshots = _snapshots(ids)
    leaders = _leaders(ids)
    made = [_card(arena, snapshots, leaders) for arena in arenas]
    scripted = arenas_with_scripts(card.shown for card in made if card.shown)
    return [replace(one, scripted=SENTENCE) if one.arena.pk in scripted else one for one in made]


def _card(
    arena: Arena, snapshots: dict[tuple[int, str], Snapshot], leaders: dict[int, Standing]
) -> Card:
    people, judges, juries = (snapshots.get((arena.pk, raters)) for raters in Raters.values)
    shown = _first_with_votes(people, judges, juries)
    return Card(arena, people, judges, juries, leaders.get(shown.pk) if shown else None)


def _first_with_votes(*snapshots: Snapshot | None) -> Snapshot | None:
    return next((one for one in snapshots if one and one.n_votes), None)


def _snapshots(arenas: Sequence[int]) -> dict[tuple[int, str], Snapshot]:
    found = Snapshot.objects.current().filter(board__category="", board__arena__in=arenas)
    return {
        (snapshot.board.arena_id, snapshot.board.raters): snapshot
        for snapshot in found.select_related("board")
    }


def _leaders(arenas: Sequence[int]) -> dict[int, Standing]:
    """By snapshot, who is first; of several, the first by the name that is shown."""
    current = Q(snapshot__is_current=True, snapshot__board__category="")
    first = Standing.objects.filter(current, rank=1, snapshot__board__arena__in=arenas)
    by_name = sorted(first.select_related("candidate"), key=lambda one: str(one.candidate))
    return {standing.snapshot_id: standing for standing in reversed(by_name)}
