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
from ranking.models.tallies import (
    ArenaRefresh,
    Backup,
    BoardPage,
    ClusterTally,
    EloCheckpoint,
    HomePage,
    LogLink,
    RaterTally,
    ResponseStyle,
    Tallied,
    TalliedTrust,
    Tally,
    TallyDelta,
    TallyMember,
    VoteLog,
)
