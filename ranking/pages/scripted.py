"""Whether votes of scripts are among those that a board counts: they judge nothing real.

Which raters are scripts is known to the app that has them; it says so once, by `name_scripts`.
"""

from collections.abc import Iterable
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from arena.models import Arena, Rater, Vote
from ranking.models import Counted, Raters, Snapshot

SENTENCE = "Votes of scripted judges count here, and they judge nothing real."
KINDS = {
    Raters.JUDGES.value: [Rater.Kind.JUDGE],
    Raters.JURIES.value: [Rater.Kind.JURY],
    Counted.COMBINED.value: [Rater.Kind.JUDGE, Rater.Kind.JURY],
}
_scripts: list[Q] = []


def name_scripts(raters: Q) -> None:
    """Take these raters for scripts, in the words of a filter of raters."""
    _scripts.append(raters)


def counts_scripts(snapshot: Snapshot | None) -> bool:
    """Are there scripts, or juries with one, among those whose votes the snapshot counts?"""
    return snapshot is not None and snapshot.board.arena_id in arenas_with_scripts([snapshot])


def arenas_with_scripts(snapshots: Iterable[Snapshot]) -> set[int]:
    """The arenas of those snapshots that count votes of scripts; asks nothing for people's."""
    found: set[int] = set()
    kinds: dict[str, set[int]] = {}
    for snapshot in snapshots:
        if snapshot.board.raters in KINDS and not is_people_alone(snapshot):
            kinds.setdefault(snapshot.board.raters, set()).add(snapshot.board.arena_id)
    for raters, arenas in kinds.items():
        votes = Vote.objects.live().filter(arena=OuterRef("pk"), rater__in=_raters(KINDS[raters]))
        asked = Arena.objects.filter(Exists(votes), pk__in=arenas)
        found.update(asked.values_list("pk", flat=True))
    return found


def _raters(kinds: list[Rater.Kind]) -> QuerySet[Any]:
    scripts = Q(pk__in=[])
    for one in _scripts:
        scripts |= one
    return Rater.objects.filter(scripts, kind__in=kinds).values("pk")


def is_people_alone(snapshot: Snapshot | None) -> bool:
    """Is it a combined board for which no judge is trusted?"""
    if snapshot is None or snapshot.board.raters != Counted.COMBINED:
        return False
    combined = (snapshot.findings or {}).get("combined") or {}
    return not combined.get("trusted", True)
