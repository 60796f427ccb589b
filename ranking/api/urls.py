"""The API's paths of boards, snapshots, votes and exports."""

import re

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from ranking.api import boards, votes
from ranking.exports import DATASET, EXPORTS, file_names


class ExportName(StringConverter):
    """The name of a file that can be exported, such as lmarena.parquet."""

    @staticmethod
    def any_of(names: list[str]) -> str:
        return "|".join(map(re.escape, names))

    regex = any_of([*file_names(EXPORTS), DATASET])


register_converter(ExportName, "export_file")

ARENA = "arenas/<slug:slug>/"
BOARD = "boards/<int:pk>/"
SNAPSHOT = "snapshots/<int:pk>/"

urlpatterns = [
    path(f"{ARENA}boards/", boards.Boards.as_view(), name="api_boards"),
    path(f"{ARENA}battles/", votes.BattleList.as_view(), name="api_battles"),
    path(f"{ARENA}exports/battles.csv", votes.BattlesCsv.as_view(), name="api_export_battles_csv"),
    path(
        f"{ARENA}exports/battles.jsonl",
        votes.BattlesJsonl.as_view(),
        name="api_export_battles_jsonl",
    ),
    path(f"{ARENA}exports/log.jsonl", votes.LogOfVotes.as_view(), name="api_export_log"),
    path(f"{ARENA}exports/dpo.jsonl", votes.Preferences.as_view(), name="api_export_dpo"),
    path(f"{ARENA}exports/<export_file:file>", votes.ExportFile.as_view(), name="api_export_file"),
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
