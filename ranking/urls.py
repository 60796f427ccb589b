"""The pages and the API of ranking, the health checks and the metrics."""

import re

from django.urls import include, path, register_converter
from django.urls.converters import StringConverter

from ranking.api import boards as api_boards
from ranking.api import votes
from ranking.exports import DATASET, EXPORTS, file_names
from ranking.results import EXPORTS as PROMPT_SETS
from ranking.views import boards, candidates, embeds, site

page_urls = [
    path("", site.index, name="index"),
    path("a/<slug:slug>/", boards.board, name="board"),
    path("a/<slug:slug>/results.csv", boards.board_csv, name="board_csv"),
    path("a/<slug:slug>/results.json", boards.board_json, name="board_json"),
    path("a/<slug:slug>/matrix/", boards.win_matrix, name="win_matrix"),
    path("a/<slug:slug>/compare/", boards.compare, name="compare"),
    path("a/<slug:slug>/side-by-side/", boards.side_by_side, name="side_by_side"),
    path("a/<slug:slug>/history/", boards.history, name="history"),
    path("a/<slug:slug>/categories/", boards.categories, name="categories"),
    path("a/<slug:slug>/price/", boards.price, name="price"),
    path("a/<slug:slug>/entries/", boards.entries, name="entries"),
    path("a/<slug:slug>/exports/", boards.exports, name="exports"),
    path("a/<slug:slug>/methodology/", site.methodology, name="methodology"),
    path("a/<slug:slug>/candidates/<int:pk>/", candidates.candidate, name="candidate"),
    path("a/<slug:slug>/badge/<int:pk>.svg", embeds.badge, name="badge"),
    path("a/<slug:slug>/picture.png", embeds.board_picture, name="board_picture"),
    path(
        "a/<slug:slug>/candidates/<int:pk>/picture.png",
        embeds.candidate_picture,
        name="candidate_picture",
    ),
    path("a/<slug:slug>/embed/", embeds.embed_board, name="embed_board"),
    path("a/<slug:slug>/comparisons/<uuid:key>/", candidates.comparison, name="comparison"),
    path("a/<slug:slug>/vote/<uuid:key>/facts/", boards.vote_facts, name="vote_facts"),
    path("a/<slug:slug>/my-votes/", boards.my_votes, name="my_votes"),
    path("sitemap.xml", site.sitemap, name="sitemap"),
    path("robots.txt", site.robots, name="robots"),
    path("operators/", site.operators, name="operators"),
    path("healthz", site.healthz, name="healthz"),
    path("readyz", site.readyz, name="readyz"),
    path("metrics", site.metrics, name="metrics"),
]

# -- The API ---------------------------------------------------------------------------------------


class ExportName(StringConverter):
    """The name of a file that can be exported, such as lmarena.parquet."""

    @staticmethod
    def any_of(names: list[str]) -> str:
        return "|".join(map(re.escape, names))

    regex = any_of([*file_names(EXPORTS), DATASET])


class PromptSetName(ExportName):
    """The name of a file with prompts."""

    regex = ExportName.any_of(file_names(PROMPT_SETS))


register_converter(ExportName, "export_file")
register_converter(PromptSetName, "prompt_set")

ARENA = "arenas/<slug:slug>/"
BOARD = "boards/<int:pk>/"
SNAPSHOT = "snapshots/<int:pk>/"

api_urls = [
    path(f"{ARENA}boards/", api_boards.Boards.as_view(), name="api_boards"),
    path(f"{ARENA}battles/", votes.BattleList.as_view(), name="api_battles"),
    path(f"{ARENA}reasons/", votes.Reasons.as_view(), name="api_reasons"),
    path(f"{ARENA}exports/battles.csv", votes.BattlesCsv.as_view(), name="api_export_battles_csv"),
    path(
        f"{ARENA}exports/battles.jsonl",
        votes.BattlesJsonl.as_view(),
        name="api_export_battles_jsonl",
    ),
    path(f"{ARENA}exports/log.jsonl", votes.LogOfVotes.as_view(), name="api_export_log"),
    path(
        f"{ARENA}exports/leaderboard.html",
        votes.LeaderboardCopy.as_view(),
        name="api_export_leaderboard",
    ),
    path(f"{ARENA}exports/dpo.jsonl", votes.Preferences.as_view(), name="api_export_dpo"),
    path(f"{ARENA}exports/<export_file:file>", votes.ExportFile.as_view(), name="api_export_file"),
    path(
        f"{ARENA}prompt-exports/<prompt_set:file>",
        votes.PromptSet.as_view(),
        name="api_export_prompts",
    ),
    path(f"{ARENA}{BOARD}", api_boards.BoardOfArena.as_view(), name="api_board_of_arena"),
    path(
        f"{ARENA}{BOARD}snapshots/",
        api_boards.SnapshotsOfArena.as_view(),
        name="api_snapshots_of_arena",
    ),
    path(f"{ARENA}{SNAPSHOT}", api_boards.SnapshotOfArena.as_view(), name="api_snapshot_of_arena"),
    path(BOARD, api_boards.OneBoard.as_view(), name="api_board"),
    path(f"{BOARD}snapshots/", api_boards.Snapshots.as_view(), name="api_snapshots"),
    path(SNAPSHOT, api_boards.OneSnapshot.as_view(), name="api_snapshot"),
]

urlpatterns = [path("api/v1/", include(api_urls)), *page_urls]
