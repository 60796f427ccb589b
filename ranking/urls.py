"""The pages and the API of ranking, the health checks and the metrics."""

import re

from django.urls import include, path, register_converter
from django.urls.converters import StringConverter

from arena.api.core.views import endpoint
from ranking.api import boards as api_boards
from ranking.api import exports as api_exports
from ranking.api import plans, reasons, votes
from ranking.exports import DATASET, EXPORTS, PROMPT_SETS, file_names
from ranking.views import (
    about,
    badges,
    boards,
    candidates,
    compare,
    comparisons,
    crawlers,
    embeds,
    exports,
    health,
    history,
    home,
    pictures,
    price,
    rounds,
)
from ranking.views import votes as vote_views
from ranking.views.moved import moved_to

page_urls = [
    path("", home.index, name="index"),
    path("a/<slug:slug>/", boards.board, name="board"),
    path("a/<slug:slug>/results.csv", boards.board_csv, name="board_csv"),
    path("a/<slug:slug>/results.json", boards.board_json, name="board_json"),
    path("a/<slug:slug>/compare/", compare.compare, name="compare"),
    path("a/<slug:slug>/matrix/", moved_to("compare", "matrix"), name="win_matrix"),
    path("a/<slug:slug>/side-by-side/", moved_to("compare", "others"), name="side_by_side"),
    path("a/<slug:slug>/history/", history.history, name="history"),
    path("a/<slug:slug>/about/", about.about, name="about"),
    path("a/<slug:slug>/categories/", moved_to("board", columns="categories"), name="categories"),
    path("a/<slug:slug>/price/", price.price, name="price"),
    path("a/<slug:slug>/entries/", moved_to("about", "entries"), name="entries"),
    path("a/<slug:slug>/exports/files/", exports.export_files, name="export_files"),
    path("a/<slug:slug>/exports/", moved_to("about", "exports"), name="exports"),
    path("a/<slug:slug>/methodology/", moved_to("about"), name="methodology"),
    path("a/<slug:slug>/candidates/<int:pk>/", candidates.candidate, name="candidate"),
    path("a/<slug:slug>/badge/<int:pk>.svg", badges.badge, name="badge"),
    path("a/<slug:slug>/picture.png", pictures.board_picture, name="board_picture"),
    path(
        "a/<slug:slug>/candidates/<int:pk>/picture.png",
        pictures.candidate_picture,
        name="candidate_picture",
    ),
    path("a/<slug:slug>/embed/", embeds.embed_board, name="embed_board"),
    path("a/<slug:slug>/comparisons/<uuid:key>/", comparisons.comparison, name="comparison"),
    path("a/<slug:slug>/vote/<uuid:key>/facts/", vote_views.vote_facts, name="vote_facts"),
    path("a/<slug:slug>/my-votes/", vote_views.my_votes, name="my_votes"),
    path("a/<slug:slug>/vote/rounds/<int:number>/", rounds.round_card, name="round"),
    path("sitemap.xml", crawlers.sitemap, name="sitemap"),
    path("robots.txt", crawlers.robots, name="robots"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
]


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
    endpoint("plan/", plans.OnePlan, "api_plan"),
    endpoint(f"{ARENA}boards/", api_boards.Boards, "api_boards"),
    endpoint(f"{ARENA}battles/", votes.BattleList, "api_battles"),
    endpoint(f"{ARENA}reasons/", reasons.Reasons, "api_reasons"),
    endpoint(f"{ARENA}exports/battles.csv", api_exports.BattlesCsv, "api_export_battles_csv"),
    endpoint(f"{ARENA}exports/battles.jsonl", api_exports.BattlesJsonl, "api_export_battles_jsonl"),
    endpoint(f"{ARENA}exports/log.jsonl", api_exports.LogOfVotes, "api_export_log"),
    endpoint(
        f"{ARENA}exports/leaderboard.html", api_exports.LeaderboardCopy, "api_export_leaderboard"
    ),
    endpoint(f"{ARENA}exports/dpo.jsonl", api_exports.Preferences, "api_export_dpo"),
    endpoint(f"{ARENA}exports/arena.zip", api_exports.WholeArena, "api_export_arena"),
    endpoint(f"{ARENA}exports/<export_file:file>", api_exports.OtherFile, "api_export_file"),
    endpoint(f"{ARENA}exports/files/<uuid:key>", api_exports.ExportedFile, "api_exported_file"),
    endpoint(
        f"{ARENA}prompt-exports/<prompt_set:file>", api_exports.PromptSet, "api_export_prompts"
    ),
    endpoint(f"{ARENA}{BOARD}", api_boards.BoardOfArena, "api_board_of_arena"),
    endpoint(f"{ARENA}{BOARD}snapshots/", api_boards.SnapshotsOfArena, "api_snapshots_of_arena"),
    endpoint(f"{ARENA}{SNAPSHOT}", api_boards.SnapshotOfArena, "api_snapshot_of_arena"),
    endpoint(BOARD, api_boards.OneBoard, "api_board"),
    endpoint(f"{BOARD}snapshots/", api_boards.Snapshots, "api_snapshots"),
    endpoint(SNAPSHOT, api_boards.OneSnapshot, "api_snapshot"),
]

urlpatterns = [path("api/v1/", include(api_urls)), *page_urls]
