"""The tables of ranking: what is asked, what was published, who is refreshing, what is served."""

from ranking.models.boards import Board, BothBad, Raters
from ranking.models.refreshing import ArenaRefresh, BoardPage
from ranking.models.snapshots import EloInterval, Snapshot, Standing

__all__ = [
    "ArenaRefresh",
    "Board",
    "BoardPage",
    "BothBad",
    "EloInterval",
    "Raters",
    "Snapshot",
    "Standing",
]
