"""The boards of an arena, and their snapshots."""

import json
from typing import Any

from django.conf import settings
from django.db.models import F, FilteredRelation, Q, QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django_filters import rest_framework as filters
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from arena.api.core.schema import operation
from arena.api.core.views import BY_LINK, ArenaEndpoint, ListEndpoint, NumberedEndpoint
from arena.models import Arena
from ranking import http_cache, results
from ranking.board_data import (
    LARGEST_ID,
    BoardQuery,
    BoardView,
    board_standing,
    find_arena,
    read_board,
)
from ranking.costs import read_costs_with_scores
from ranking.http_cache import JSON, send, send_made
from ranking.models import Board, Counted, Snapshot

COUNTS = {
    "n_votes": 240,
    "n_both_bad": 3,
    "n_raters": 12,
    "n_prompts": 40,
    "interval_reason": "",
    "choix_difference": 0.000001,
}
STANDING: dict[str, Any] = {
    "id": 17,
    "candidate": "short-answers",
    "url": "/a/search-answers/candidates/17/",
    "model": "scripted-1",
    "organisation": "Example Labs",
    "licence": "Apache-2.0",
    "link": "https://example.org/scripted-1",
    "rank": 1,
    "rank_low": 1,
    "rank_high": 2,
    "sure_rank_low": 1,
    "sure_rank_high": 3,
    "score": 1043.2,
    "low": 1025.4,
    "high": 1061.1,
    "standard_error": 9.1,
    "shrunk": 1041.8,
    "shrunk_low": 1024.2,
    "shrunk_high": 1059.4,
    "elo": 1021.7,
    "votes": 160,
    "wins": 98,
    "losses": 52,
    "ties": 10,
    "win_rate": 0.64375,
    "both_bad_rate": 0.0185,
    "status": "ranked",
    "reason": "",
    "elo_low": 1009.3,
    "elo_high": 1034.9,
    "style_score": None,
    "style_low": None,
    "style_high": None,
    "dollars_per_1000_answers": 1.84,
    "answers_with_cost": 40,
    "seconds_per_answer": 2.35,
    "answers_with_seconds": 40,
    "tokens_in_per_answer": 212.4,
    "tokens_out_per_answer": 148.9,
    "answers_with_tokens": 40,
    "wins_per_dollar": 304.7,
    "wins_per_second": 0.239,
    "unbeaten_for_its_price": True,
}
STANDINGS: dict[str, Any] = {
    "id": 3,
    "snapshot": 91,
    "arena": {
        "slug": "search-answers",
        "name": "Search answers",
        "question": "Which answer helps more?",
        "is_sample": False,
    },
    "raters": "people",
    "category": "",
    "computed_at": "2026-11-22T09:00:00Z",
    "settings": {"method": "Bradley-Terry, a tie as half a win for each side"},
    **COUNTS,
    "intervals_from_votes": 240,
    "elo_intervals_from_votes": 240,
    "findings": {"leader": None, "provisional": None, "is_under_review": False},
    "standings": [STANDING],
}
BOARD = {
    "id": 3,
    "raters": "people",
    "category": "",
    "both_bad": "separate",
    "problem": "",
    "snapshot": 91,
    "published_at": "2026-11-22T09:00:00Z",
    "n_votes": 240,
}
SNAPSHOT = {
    "id": 91,
    "board": 3,
    "is_current": True,
    "published_at": "2026-11-22T09:00:00Z",
    "digest": "3f0c",
    **COUNTS,
}


class BoardShown(serializers.ModelSerializer[Board]):
    """A board, with its current snapshot; null before the first."""

    snapshot = serializers.IntegerField(allow_null=True)
    published_at = serializers.DateTimeField(allow_null=True)
    n_votes = serializers.IntegerField(allow_null=True)

    class Meta:
        model = Board
        fields = list(BOARD)


class SnapshotShown(serializers.ModelSerializer[Snapshot]):
    """A published result, without its standings."""

    class Meta:
        model = Snapshot
        fields = list(SNAPSHOT)


class StandingShown(serializers.Serializer[Any]):
    """A candidate's row; unknown values are null. Undisclosed candidates have a placeholder name.

    Cost and speed are current values and come with the current standings only: rows of an older
    snapshot have none of these members.
    """

    id = serializers.IntegerField(help_text="The candidate's id.")
    candidate = serializers.CharField()
    url = serializers.CharField(help_text="The path of the candidate's page.")
    model = serializers.CharField(allow_null=True)
    organisation = serializers.CharField(allow_null=True)
    licence = serializers.CharField(allow_null=True)
    link = serializers.CharField(allow_null=True)
    rank = serializers.IntegerField(allow_null=True)
    rank_low = serializers.IntegerField(allow_null=True, help_text="The best possible rank.")
    rank_high = serializers.IntegerField(allow_null=True)
    sure_rank_low = serializers.IntegerField(
        allow_null=True, help_text="The same, simultaneously for all candidates."
    )
    sure_rank_high = serializers.IntegerField(allow_null=True)
    score = serializers.FloatField(allow_null=True)
    low = serializers.FloatField(allow_null=True)
    high = serializers.FloatField(allow_null=True)
    standard_error = serializers.FloatField(allow_null=True)
    shrunk = serializers.FloatField(
        allow_null=True,
        help_text="The score shrunk towards the average, for every candidate with votes. Ranks "
        "and leads are not based on it.",
    )
    shrunk_low = serializers.FloatField(allow_null=True)
    shrunk_high = serializers.FloatField(allow_null=True)
    elo = serializers.FloatField(allow_null=True)
    votes = serializers.IntegerField()
    wins = serializers.IntegerField()
    losses = serializers.IntegerField()
    ties = serializers.IntegerField()
    win_rate = serializers.FloatField(allow_null=True)
    both_bad_rate = serializers.FloatField(allow_null=True)
    status = serializers.CharField()
    reason = serializers.CharField()
    elo_low = serializers.FloatField(allow_null=True)
    elo_high = serializers.FloatField(allow_null=True)
    style_score = serializers.FloatField(allow_null=True)
    style_low = serializers.FloatField(allow_null=True)
    style_high = serializers.FloatField(allow_null=True)
    dollars_per_1000_answers = serializers.FloatField(allow_null=True, required=False)
    answers_with_cost = serializers.IntegerField(
        required=False, help_text="How many answers the mean price is based on."
    )
    seconds_per_answer = serializers.FloatField(allow_null=True, required=False)
    answers_with_seconds = serializers.IntegerField(required=False)
    tokens_in_per_answer = serializers.FloatField(allow_null=True, required=False)
    tokens_out_per_answer = serializers.FloatField(allow_null=True, required=False)
    answers_with_tokens = serializers.IntegerField(required=False)
    wins_per_dollar = serializers.FloatField(
        allow_null=True, required=False, help_text="Expected wins against the average candidate."
    )
    wins_per_second = serializers.FloatField(allow_null=True, required=False)
    unbeaten_for_its_price = serializers.BooleanField(
        required=False, help_text="No other candidate is both better and cheaper."
    )


class ArenaNamed(serializers.Serializer[Any]):
    slug = serializers.CharField()
    name = serializers.CharField()
    question = serializers.CharField()
    is_sample = serializers.BooleanField()


class StandingsShown(serializers.Serializer[Any]):
    """A board's standings in one snapshot: what its page shows, with more digits."""

    id = serializers.IntegerField(help_text="The board's id.")
    snapshot = serializers.IntegerField(allow_null=True)
    arena = ArenaNamed()
    raters = serializers.ChoiceField(choices=Counted.choices)
    category = serializers.CharField()
    computed_at = serializers.DateTimeField(allow_null=True)
    settings = serializers.DictField()
    n_votes = serializers.IntegerField(allow_null=True)
    n_both_bad = serializers.IntegerField(allow_null=True)
    n_raters = serializers.IntegerField(allow_null=True)
    n_prompts = serializers.IntegerField(allow_null=True)
    interval_reason = serializers.CharField(allow_null=True)
    choix_difference = serializers.FloatField(allow_null=True)
    intervals_from_votes = serializers.IntegerField(allow_null=True)
    elo_intervals_from_votes = serializers.IntegerField(allow_null=True)
    findings = serializers.DictField()
    standings = StandingShown(many=True)


def standings_of(view: BoardView, board: Board) -> dict[str, Any]:
    """The content of `results.json`, with ids."""
    content = json.loads(results.as_json(view))
    content["standings"] = [
        {"id": row.standing.candidate_id} | values
        for row, values in zip(view.rows, content["standings"], strict=True)
    ]
    snapshot = view.snapshot.pk if view.snapshot else None
    return {"id": board.pk, "snapshot": snapshot} | content


def standings_of_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    """`standings_of` for any snapshot. Costs are not part of what was published, so only the
    current snapshot has them."""
    board = snapshot.board
    rows = snapshot.standings.select_related("candidate", "elo_interval")
    standings = list(rows.order_by(F("rank").asc(nulls_last=True), "pk"))
    costs = {}
    if snapshot.is_current:
        costs = read_costs_with_scores(board.arena, snapshot, standings)
    view = BoardView(
        board.arena,
        BoardQuery(board.raters, board.category),
        snapshot,
        [snapshot],
        [board_standing(standing, costs) for standing in standings],
    )
    content = standings_of(view, board)
    if not snapshot.is_current:
        content["standings"] = [
            {name: value for name, value in row.items() if name not in results.VALUES}
            for row in content["standings"]
        ]
    return content


TAG = "Boards"


class BoardFilters(filters.FilterSet):
    raters = filters.ChoiceFilter(choices=Counted.choices, help_text="Only boards of these voters.")
    category = filters.CharFilter(help_text="Only boards of this category of prompts.")

    class Meta:
        model = Board
        fields = ["raters", "category"]


class Boards(ArenaEndpoint, ListEndpoint):
    tag = TAG
    filterset_class = BoardFilters

    @operation(
        "list_boards",
        "List the boards of an arena",
        answer=BoardShown(many=True),
        shown=BOARD,
        description="One for each kind of rater and each category. An empty category stands for "
        "all prompts.",
    )
    def get(self, request: Request, slug: str) -> Response:
        current = FilteredRelation("snapshots", condition=Q(snapshots__is_current=True))
        return self.page(
            (Board.objects.filter(arena=self.arena)).annotate(
                current=current,
                snapshot=F("current__pk"),
                published_at=F("current__published_at"),
                n_votes=F("current__n_votes"),
            ),
            BoardShown,
        )


class OneBoard(NumberedEndpoint):
    """Requests with neither token nor session get the stored page first, without a rate limit."""

    tag = TAG

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        is_anonymous = (
            "Authorization" not in request.headers
            and settings.SESSION_COOKIE_NAME not in request.COOKIES
        )
        if request.method in ("GET", "HEAD") and is_anonymous:
            page = _find_stored(**kwargs)
            if page is not None:
                return send(request, page, JSON)
        return super().dispatch(request, *args, **kwargs)

    @operation(
        "retrieve_board",
        "Retrieve a board's current standings",
        answer=StandingsShown,
        shown=STANDINGS,
        description="What its page shows, with more digits. An undisclosed candidate has a "
        "placeholder name.",
    )
    def get(self, request: Request, pk: int, slug: str = "") -> HttpResponseBase:
        page = _find_stored(pk, slug)
        if page is not None:
            return send(request._request, page, JSON)
        board = find_board(self.arenas(), pk)
        arena = find_arena(board.arena.slug, self.actor)
        query = BoardQuery(board.raters, board.category)

        def make(arena: Any) -> str:
            content = standings_of(read_board(arena, query), board)
            return json.dumps(content, ensure_ascii=False, allow_nan=False)

        return send_made(request._request, arena, _key(pk), JSON, make)


class BoardOfArena(OneBoard):
    @operation(
        "retrieve_board_of_arena",
        "Retrieve the current standings of an arena's board",
        answer=StandingsShown,
        shown=STANDINGS,
        description=BY_LINK,
    )
    def get(self, request: Request, pk: int, slug: str = "") -> HttpResponseBase:
        return super().get(request, pk, slug)


def _find_stored(pk: int, slug: str = "") -> http_cache.Page | None:
    if pk > LARGEST_ID:
        return None
    if slug:
        return http_cache.find(slug=slug, key=_key(pk))
    return http_cache.find_of_board(board=pk, key=_key(pk))


def _key(pk: int) -> str:
    return f"api-board|{pk}"


def find_board(arenas: QuerySet[Arena], pk: int) -> Board:
    """A board of one of `arenas`; raises Http404."""
    boards = Board.objects.filter(arena__in=arenas).select_related("arena")
    return get_object_or_404(boards, pk=pk)


class Snapshots(NumberedEndpoint, ListEndpoint):
    tag = TAG
    newest_first = True

    @operation(
        "list_snapshots",
        "List the snapshots of a board, newest first",
        answer=SnapshotShown(many=True),
        shown=SNAPSHOT,
        description="The current one, and one for every ten minutes before it. Those without a "
        "digest were computed afterwards, from the dates of imported votes.",
    )
    def get(self, request: Request, pk: int, slug: str = "") -> Response:
        board = find_board(self.arenas(), pk)
        return self.page(Snapshot.objects.kept().filter(board=board), SnapshotShown)


class SnapshotsOfArena(Snapshots):
    @operation(
        "list_snapshots_of_arena",
        "List the snapshots of an arena's board, newest first",
        answer=SnapshotShown(many=True),
        shown=SNAPSHOT,
        description=BY_LINK,
    )
    def get(self, request: Request, pk: int, slug: str = "") -> Response:
        return super().get(request, pk, slug)


class OneSnapshot(NumberedEndpoint):
    tag = TAG

    @operation(
        "retrieve_snapshot",
        "Retrieve the standings of a snapshot",
        answer=StandingsShown,
        shown=STANDINGS,
        description="As they were published: snapshots never change. The cost and speed of "
        "answers are included only for the current one.",
    )
    def get(self, request: Request, pk: int, slug: str = "") -> Response:
        kept = Snapshot.objects.kept().select_related("board__arena")
        snapshot: Any = get_object_or_404(kept.filter(board__arena__in=self.arenas()), pk=pk)
        return Response(standings_of_snapshot(snapshot))


class SnapshotOfArena(OneSnapshot):
    @operation(
        "retrieve_snapshot_of_arena",
        "Retrieve the standings of an arena's snapshot",
        answer=StandingsShown,
        shown=STANDINGS,
        description=BY_LINK,
    )
    def get(self, request: Request, pk: int, slug: str = "") -> Response:
        return super().get(request, pk, slug)
