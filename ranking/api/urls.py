"""The paths of boards, of what they said before, and of the votes beneath them."""

from django.urls import path

from ranking.api import battles, boards, exports, snapshots

ARENA = "arenas/<slug:slug>/"

urlpatterns = [
    path(f"{ARENA}boards/", boards.Boards.as_view(), name="api_boards"),
    path(f"{ARENA}battles/", battles.Battles.as_view(), name="api_battles"),
    path(
        f"{ARENA}exports/battles.csv", exports.BattlesCsv.as_view(), name="api_export_battles_csv"
    ),
    path(
        f"{ARENA}exports/battles.jsonl",
        exports.BattlesJsonl.as_view(),
        name="api_export_battles_jsonl",
    ),
    path(f"{ARENA}exports/dpo.jsonl", exports.Preferences.as_view(), name="api_export_dpo"),
    path("boards/<int:pk>/", boards.OneBoard.as_view(), name="api_board"),
    path("boards/<int:pk>/snapshots/", snapshots.Snapshots.as_view(), name="api_snapshots"),
    path("snapshots/<int:pk>/", snapshots.OneSnapshot.as_view(), name="api_snapshot"),
]
