"""Boards of an arena: listed, and read as they stand now."""

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

from arena.api.core.endpoint import BY_LINK, ArenaEndpoint, ListEndpoint, NumberedEndpoint
from arena.api.core.schema import described
from arena.models import Arena
from ranking.api.shown import BOARD, STANDINGS, BoardShown, StandingsShown, standings_of
from ranking.models import Board, Counted
from ranking.pages.reading import Question, find_arena, read_board
from ranking.services import pages
from ranking.views.serving import JSON, send, send_made

TAG = "Boards"
LARGEST_ID = 2**63 - 1


class BoardFilters(filters.FilterSet):
    raters = filters.ChoiceFilter(choices=Counted.choices, help_text="Whose votes it counts.")
    category = filters.CharFilter(help_text="The prompts that it is about.")

    class Meta:
        model = Board
        fields = ["raters", "category"]


class Boards(ArenaEndpoint, ListEndpoint):
    tag = TAG
    filterset_class = BoardFilters
    queryset = Board.objects.none()

    @described(
        "list_boards",
        "List the boards of an arena",
        answer=BoardShown(many=True),
        shown=BOARD,
        description="One for each kind of raters and each category; without a category, for all "
        "prompts.",
    )
    def get(self, request: Request, slug: str) -> Response:
        return self.page(_with_current(Board.objects.filter(arena=self.arena)), BoardShown)


class OneBoard(NumberedEndpoint):
    """Whoever brings neither token nor session gets the stored page before anything else is looked
    at; all others are counted."""

    tag = TAG

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if request.method in ("GET", "HEAD") and _is_of_nobody(request):
            page = _stored(**kwargs)
            if page is not None:
                return send(request, page, JSON)
        return super().dispatch(request, *args, **kwargs)

    @described(
        "retrieve_board",
        "Retrieve a board's current standings",
        answer=StandingsShown,
        shown=STANDINGS,
        description="What its page shows, with more digits. A candidate that is not disclosed yet "
        "stands here under a mask.",
    )
    def get(self, request: Request, pk: int, slug: str = "") -> HttpResponseBase:
        page = _stored(pk, slug)
        if page is not None:
            return send(request._request, page, JSON)
        board = find_board(self.arenas(), pk)
        arena = find_arena(board.arena.slug, self.actor)
        return send_made(
            request._request, arena, _key(pk), JSON, lambda arena: _content(arena, board)
        )


class BoardOfArena(OneBoard):
    @described(
        "retrieve_board_of_arena",
        "Retrieve the current standings of an arena's board",
        answer=StandingsShown,
        shown=STANDINGS,
        description=BY_LINK,
    )
    def get(self, request: Request, pk: int, slug: str = "") -> HttpResponseBase:
        return super().get(request, pk, slug)


def _is_of_nobody(request: HttpRequest) -> bool:
    return (
        "Authorization" not in request.headers
        and settings.SESSION_COOKIE_NAME not in request.COOKIES
    )


def _stored(pk: int, slug: str = "") -> pages.Page | None:
    if pk > LARGEST_ID:
        return None
    if slug:
        return pages.find(slug=slug, key=_key(pk))
    return pages.find_of_board(board=pk, key=_key(pk))


def _key(pk: int) -> str:
    return f"api-board|{pk}"


def _content(arena: Any, board: Board) -> str:
    view = read_board(arena, Question(board.raters, board.category))
    return json.dumps(standings_of(view, board), ensure_ascii=False, allow_nan=False)


def _with_current(boards: Any) -> Any:
    """With what the API says of each board's current snapshot."""
    current = FilteredRelation("snapshots", condition=Q(snapshots__is_current=True))
    return boards.annotate(
        current=current,
        snapshot=F("current__pk"),
        published_at=F("current__published_at"),
        n_votes=F("current__n_votes"),
    )


def find_board(arenas: QuerySet[Arena], pk: int) -> Board:
    """Return a board of one of `arenas`; raises Http404."""
    boards = Board.objects.filter(arena__in=arenas).select_related("arena")
    return get_object_or_404(boards, pk=pk)
