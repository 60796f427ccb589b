"""The tables of ranking: boards, published snapshots, kept claims, the vote log, refreshes,
stored pages and exports.
"""

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
from ranking.models.claims import KeptClaim
from ranking.models.exports import Audience, ExportFile
from ranking.models.log import LogLink, VoteLog
from ranking.models.pages import BoardPage, HomePage
from ranking.models.refreshes import ArenaRefresh
from ranking.models.styles import ResponseStyle
