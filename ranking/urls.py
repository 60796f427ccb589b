"""The pages of ranking."""

from django.urls import path

from ranking.views import boards, candidates, comparisons

urlpatterns = [
    path("", boards.index, name="index"),
    path("a/<slug:slug>/", boards.board, name="board"),
    path("a/<slug:slug>/results.csv", boards.board_csv, name="board_csv"),
    path("a/<slug:slug>/results.json", boards.board_json, name="board_json"),
    path("a/<slug:slug>/candidates/<int:pk>/", candidates.candidate, name="candidate"),
    path("a/<slug:slug>/comparisons/<uuid:key>/", comparisons.comparison, name="comparison"),
]
