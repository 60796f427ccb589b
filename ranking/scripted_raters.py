"""Which raters are scripts: every page and picture of a leaderboard that counts them says so."""

from collections.abc import Iterable
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils.translation import gettext_lazy

from arena.models import Arena, Rater, Vote
from ranking.models import Counted, Raters, Snapshot

DEMO_NOTICE = gettext_lazy("Demo only: these votes come from a script.")
KINDS_OF_MODELS = {
    Raters.JUDGES.value: [Rater.Kind.JUDGE],
    Raters.JURIES.value: [Rater.Kind.JURY],
    Counted.COMBINED.value: [Rater.Kind.JUDGE, Rater.Kind.JURY],
}
_scripted_raters: list[Q] = []


def register_scripted_raters(raters: Q) -> None:
    """Treat the raters that match this filter as scripts. Called by the app that defines them."""
    _scripted_raters.append(raters)


def counts_scripts(snapshot: Snapshot | None) -> bool:
    """Whether the snapshot counts votes of scripts, or of juries with a scripted member."""
    return snapshot is not None and snapshot.board.arena_id in arenas_with_scripts([snapshot])


def demo_notice(arena: Arena, snapshot: Snapshot | None) -> str:
    """A sentence for every page and picture of a board whose votes come from a script."""
    return str(DEMO_NOTICE) if arena.is_sample or counts_scripts(snapshot) else ""


def arenas_with_scripts(snapshots: Iterable[Snapshot]) -> set[int]:
    """The arenas of the snapshots that count scripted votes; no query for human-votes boards."""
    by_raters: dict[str, set[int]] = {}
    for snapshot in snapshots:
        if snapshot.board.raters in KINDS_OF_MODELS and not is_fallback(snapshot):
            by_raters.setdefault(snapshot.board.raters, set()).add(snapshot.board.arena_id)
    arenas: set[int] = set()
    for raters, candidates in by_raters.items():
        scripts = _find_scripts(KINDS_OF_MODELS[raters])
        votes = Vote.objects.live().filter(arena=OuterRef("pk"), rater__in=scripts)
        scripted = Arena.objects.filter(Exists(votes), pk__in=candidates)
        arenas.update(scripted.values_list("pk", flat=True))
    return arenas


def _find_scripts(kinds: list[Rater.Kind]) -> QuerySet[Any]:
    scripts = Q(pk__in=[])
    for raters in _scripted_raters:
        scripts |= raters
    return Rater.objects.filter(scripts, kind__in=kinds).values("pk")


def is_fallback(snapshot: Snapshot | None) -> bool:
    """Whether this is a combined board for which no judge is trusted."""
    if snapshot is None or snapshot.board.raters != Counted.COMBINED:
        return False
    combined = (snapshot.findings or {}).get("combined") or {}
    return not combined.get("trusted", True)
