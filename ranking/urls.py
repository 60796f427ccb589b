"""The pages and the API of ranking, the health checks and the metrics."""

import re

from django.urls import include, path, register_converter
from django.urls.converters import StringConverter

from arena.api.core.views import endpoint
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
    @staticmethod
    def any_of(names: list[str]) -> str:
        return "|".join(map(re.escape, names))

    regex = any_of([*file_names(EXPORTS), DATASET])


class PromptSetName(ExportName):
    regex = ExportName.any_of(file_names(PROMPT_SETS))


register_converter(ExportName, "export_file")
register_converter(PromptSetName, "prompt_set")

ARENA = "arenas/<slug:slug>/"
BOARD = "boards/<int:pk>/"
SNAPSHOT = "snapshots/<int:pk>/"

api_urls = [
    endpoint(f"{ARENA}boards/", api_boards.Boards, "api_boards"),
    endpoint(f"{ARENA}battles/", votes.BattleList, "api_battles"),
    endpoint(f"{ARENA}reasons/", votes.Reasons, "api_reasons"),
    endpoint(f"{ARENA}exports/battles.csv", votes.BattlesCsv, "api_export_battles_csv"),
    endpoint(f"{ARENA}exports/battles.jsonl", votes.BattlesJsonl, "api_export_battles_jsonl"),
    endpoint(f"{ARENA}exports/log.jsonl", votes.LogOfVotes, "api_export_log"),
    endpoint(f"{ARENA}exports/leaderboard.html", votes.LeaderboardCopy, "api_export_leaderboard"),
    endpoint(f"{ARENA}exports/dpo.jsonl", votes.Preferences, "api_export_dpo"),
    endpoint(f"{ARENA}exports/arena.zip", votes.WholeArena, "api_export_arena"),
    endpoint(f"{ARENA}exports/<export_file:file>", votes.ExportFile, "api_export_file"),
    endpoint(f"{ARENA}prompt-exports/<prompt_set:file>", votes.PromptSet, "api_export_prompts"),
    endpoint(f"{ARENA}{BOARD}", api_boards.BoardOfArena, "api_board_of_arena"),
    endpoint(f"{ARENA}{BOARD}snapshots/", api_boards.SnapshotsOfArena, "api_snapshots_of_arena"),
    endpoint(f"{ARENA}{SNAPSHOT}", api_boards.SnapshotOfArena, "api_snapshot_of_arena"),
    endpoint(BOARD, api_boards.OneBoard, "api_board"),
    endpoint(f"{BOARD}snapshots/", api_boards.Snapshots, "api_snapshots"),
    endpoint(SNAPSHOT, api_boards.OneSnapshot, "api_snapshot"),
]

urlpatterns = [path("api/v1/", include(api_urls)), *page_urls]
