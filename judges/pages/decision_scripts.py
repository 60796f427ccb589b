"""Whose votes a board of a decision stands on: those of scripts, and those of people alone."""

from django.db.models import Q

from arena.models import Arena, Rater
from judges.models.judges import SCRIPTED
from ranking.models import Raters
from ranking.pages.gap import GapBoard

KINDS = {
    Raters.JUDGES.value: [Rater.Kind.JUDGE],
    Raters.JURIES.value: [Rater.Kind.JURY],
    "combined": [Rater.Kind.JUDGE, Rater.Kind.JURY],
}
BY_SCRIPTS = Q(rater__epoch__judge__endpoint=SCRIPTED) | Q(
    rater__epoch__judge__members__endpoint=SCRIPTED
)


def is_people_alone(board: GapBoard | None) -> bool:
    """Is it a combined board for which no judge is trusted?"""
    found = board.findings.combined if board else None
    return found is not None and bool(found) and not found.get("trusted", True)


def counts_scripts(arena: Arena, board: GapBoard | None) -> bool:
    """Are there scripted judges, or juries with one, among those whose votes the board counts?"""
    kinds = KINDS.get(board.raters, []) if board else []
    if not kinds or is_people_alone(board):
        return False
    return arena.votes.live().filter(BY_SCRIPTS, rater__kind__in=kinds).exists()
