"""The tables of ranking: boards, published snapshots, running tallies and stored pages."""

from ranking.models.boards import (
    Board,
    BothBad,
    Counted,
    EloInterval,
    Raters,
    Snapshot,
    SnapshotMatrices,
    Standing,
)
from ranking.models.log import LogLink, VoteLog
from ranking.models.tallies import (
    ArenaRefresh,
    Backup,
    BoardPage,
    ClusterTally,
    EloCheckpoint,
    HomePage,
    RaterTally,
    ResponseStyle,
    Tallied,
    TalliedTrust,
    Tally,
    TallyDelta,
    TallyMember,
)

__all__ = [
    "ArenaRefresh",
    "Backup",
    "Board",
    "BoardPage",
    "BothBad",
    "ClusterTally",
    "Counted",
    "EloCheckpoint",
    "EloInterval",
    "HomePage",
    "LogLink",
    "RaterTally",
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
    "VoteLog",
]
