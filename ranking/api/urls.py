"""The API's paths of boards, snapshots, votes and exports."""

from django.urls import path

from ranking.api import boards, exports, votes

ARENA = "arenas/<slug:slug>/"
BOARD = "boards/<int:pk>/"
SNAPSHOT = "snapshots/<int:pk>/"

urlpatterns = [
    path(f"{ARENA}boards/", boards.Boards.as_view(), name="api_boards"),
    path(f"{ARENA}battles/", votes.BattleList.as_view(), name="api_battles"),
    path(
        f"{ARENA}exports/battles.csv", exports.BattlesCsv.as_view(), name="api_export_battles_csv"
    ),
    path(
        f"{ARENA}exports/battles.jsonl",
        exports.BattlesJsonl.as_view(),
        name="api_export_battles_jsonl",
    ),
    path(f"{ARENA}exports/log.jsonl", exports.LogOfVotes.as_view(), name="api_export_log"),
    path(f"{ARENA}exports/dpo.jsonl", exports.Preferences.as_view(), name="api_export_dpo"),
    path(f"{ARENA}{BOARD}", boards.BoardOfArena.as_view(), name="api_board_of_arena"),
    path(
        f"{ARENA}{BOARD}snapshots/",
        boards.SnapshotsOfArena.as_view(),
        name="api_snapshots_of_arena",
    ),
    path(f"{ARENA}{SNAPSHOT}", boards.SnapshotOfArena.as_view(), name="api_snapshot_of_arena"),
    path(BOARD, boards.OneBoard.as_view(), name="api_board"),
    path(f"{BOARD}snapshots/", boards.Snapshots.as_view(), name="api_snapshots"),
    path(SNAPSHOT, boards.OneSnapshot.as_view(), name="api_snapshot"),
]
