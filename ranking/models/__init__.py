"""The tables of ranking: what is asked, what was published, who is refreshing, what is served."""

from ranking.models.boards import Board, BothBad, Counted, Raters
from ranking.models.refreshing import ArenaRefresh, BoardPage
from ranking.models.snapshots import EloInterval, Snapshot, SnapshotMatrices, Standing
from ranking.models.styles import ResponseStyle
from ranking.models.tallies import (
    ClusterTally,
    EloCheckpoint,
    Tallied,
    TalliedTrust,
    Tally,
    TallyDelta,
    TallyMember,
)

__all__ = [
    "ArenaRefresh",
    "Board",
    "BoardPage",
    "BothBad",
    "ClusterTally",
    "Counted",
    "EloCheckpoint",
    "EloInterval",
    "Raters",
    "ResponseStyle",
    "Snapshot",
    "SnapshotMatrices",
    "Standing",
    "Tallied",
    "TalliedTrust",
    "Tally",
    "TallyDelta",
    "TallyMember",
]
