"""The pages of ranking, the health checks and the metrics."""

from django.urls import path

from ranking.views import boards, candidates, categories, embeds, health, home, methodology, raters

urlpatterns = [
    path("", home.index, name="index"),
    path("a/<slug:slug>/", boards.board, name="board"),
    path("a/<slug:slug>/results.csv", boards.board_csv, name="board_csv"),
    path("a/<slug:slug>/results.json", boards.board_json, name="board_json"),
    path("a/<slug:slug>/matrix/", boards.win_matrix, name="win_matrix"),
    path("a/<slug:slug>/compare/", boards.compare, name="compare"),
    path("a/<slug:slug>/side-by-side/", boards.side_by_side, name="side_by_side"),
    path("a/<slug:slug>/history/", boards.history, name="history"),
    path("a/<slug:slug>/categories/", categories.categories, name="categories"),
    path("a/<slug:slug>/price/", boards.price, name="price"),
    path("a/<slug:slug>/entries/", boards.entries, name="entries"),
    path("a/<slug:slug>/exports/", boards.exports, name="exports"),
    path("a/<slug:slug>/methodology/", methodology.methodology, name="methodology"),
    path("a/<slug:slug>/candidates/<int:pk>/", candidates.candidate, name="candidate"),
    path("a/<slug:slug>/badge/<int:pk>.svg", embeds.badge, name="badge"),
    path("a/<slug:slug>/embed/", embeds.embed_board, name="embed_board"),
    path("a/<slug:slug>/comparisons/<uuid:key>/", candidates.comparison, name="comparison"),
    path("a/<slug:slug>/vote/<uuid:key>/facts/", raters.vote_facts, name="vote_facts"),
    path("a/<slug:slug>/my-votes/", raters.my_votes, name="my_votes"),
    path("sitemap.xml", health.sitemap, name="sitemap"),
    path("robots.txt", health.robots, name="robots"),
    path("operators/", health.operators, name="operators"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
]
