"""The boards of an arena, and their snapshots."""

import json
from typing import Any

from django.conf import settings
from django.db.models import F, FilteredRelation, Q, QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django_filters import rest_framework as filters
from rest_framework.request import Request
from rest_framework.response import Response

from arena.api.core.schema import operation
from arena.api.core.views import BY_LINK, ArenaEndpoint, ListEndpoint, NumberedEndpoint
from arena.models import Arena
from ranking import http_cache
from ranking.api.serializers import (
    BOARD,
    SNAPSHOT,
    STANDINGS,
    BoardShown,
    SnapshotShown,
    StandingsShown,
    standings_of,
    standings_of_snapshot,
)
from ranking.board_data import LARGEST_ID, BoardQuery, find_arena, read_board
from ranking.http_cache import JSON, send, send_made
from ranking.models import Board, Counted, Snapshot

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
    queryset = Board.objects.none()

    @operation(
        "list_boards",
        "List the boards of an arena",
        answer=BoardShown(many=True),
        shown=BOARD,
        description="One for each kind of raters and each category. An empty category stands for "
        "all prompts.",
    )
    def get(self, request: Request, slug: str) -> Response:
        return self.page(_with_current(Board.objects.filter(arena=self.arena)), BoardShown)


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
        description="What its page shows, with more digits. A candidate that is not disclosed yet "
        "has a placeholder name.",
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


def _with_current(boards: Any) -> Any:
    """Annotate each board with its current snapshot."""
    current = FilteredRelation("snapshots", condition=Q(snapshots__is_current=True))
    return boards.annotate(
        current=current,
        snapshot=F("current__pk"),
        published_at=F("current__published_at"),
        n_votes=F("current__n_votes"),
    )


def find_board(arenas: QuerySet[Arena], pk: int) -> Board:
    """A board of one of `arenas`; raises Http404."""
    boards = Board.objects.filter(arena__in=arenas).select_related("arena")
    return get_object_or_404(boards, pk=pk)


# -- Snapshots -------------------------------------------------------------------------------------


class Snapshots(NumberedEndpoint, ListEndpoint):
    tag = TAG
    newest_first = True
    queryset = Snapshot.objects.none()

    @operation(
        "list_snapshots",
        "List the snapshots of a board, newest first",
        answer=SnapshotShown(many=True),
        shown=SNAPSHOT,
        description="The current one, and one of every ten minutes before.",
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
        description="As they were published: snapshots never change. Cost and speed of answers are "
        "included for the current one only.",
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
