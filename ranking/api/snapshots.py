"""What a board said before: its snapshots, listed and read."""

from typing import Any

from django.shortcuts import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response

from arena.api.core.endpoint import Endpoint, ListEndpoint
from arena.api.core.schema import described
from arena.models import Arena
from ranking.api.boards import TAG, find_board
from ranking.api.shown import (
    SNAPSHOT,
    STANDINGS,
    SnapshotShown,
    StandingsShown,
    standings_of_snapshot,
)
from ranking.models import Snapshot


class Snapshots(ListEndpoint):
    tag = TAG
    newest_first = True
    queryset = Snapshot.objects.none()

    @described(
        "list_snapshots",
        "List the snapshots of a board, newest first",
        answer=SnapshotShown(many=True),
        shown=SNAPSHOT,
        description="The current one, and of those before one in ten minutes.",
    )
    def get(self, request: Request, pk: int) -> Response:
        board = find_board(self.actor, pk)
        return self.page(Snapshot.objects.kept().filter(board=board), SnapshotShown)


class OneSnapshot(Endpoint):
    tag = TAG

    @described(
        "retrieve_snapshot",
        "Retrieve the standings of a snapshot",
        answer=StandingsShown,
        shown=STANDINGS,
        description="As they were published. A snapshot is never changed. What answers cost and "
        "how long they take stands beside the current one alone.",
    )
    def get(self, request: Request, pk: int) -> Response:
        seen = Arena.objects.visible_to(self.actor)
        kept = Snapshot.objects.kept().select_related("board__arena")
        snapshot: Any = get_object_or_404(kept.filter(board__arena__in=seen), pk=pk)
        return Response(standings_of_snapshot(snapshot))
