"""What a board said before: its snapshots, listed and read."""

from typing import Any

from django.shortcuts import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response

from arena.api.core.endpoint import BY_LINK, ListEndpoint, NumberedEndpoint
from arena.api.core.schema import described
from ranking.api.boards import TAG, find_board
from ranking.api.shown import (
    SNAPSHOT,
    STANDINGS,
    SnapshotShown,
    StandingsShown,
    standings_of_snapshot,
)
from ranking.models import Snapshot


class Snapshots(NumberedEndpoint, ListEndpoint):
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
    def get(self, request: Request, pk: int, slug: str = "") -> Response:
        board = find_board(self.arenas(), pk)
        return self.page(Snapshot.objects.kept().filter(board=board), SnapshotShown)


class SnapshotsOfArena(Snapshots):
    @described(
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

    @described(
        "retrieve_snapshot",
        "Retrieve the standings of a snapshot",
        answer=StandingsShown,
        shown=STANDINGS,
        description="As they were published. A snapshot is never changed. What answers cost and "
        "how long they take stands beside the current one alone.",
    )
    def get(self, request: Request, pk: int, slug: str = "") -> Response:
        kept = Snapshot.objects.kept().select_related("board__arena")
        snapshot: Any = get_object_or_404(kept.filter(board__arena__in=self.arenas()), pk=pk)
        return Response(standings_of_snapshot(snapshot))


class SnapshotOfArena(OneSnapshot):
    @described(
        "retrieve_snapshot_of_arena",
        "Retrieve the standings of an arena's snapshot",
        answer=StandingsShown,
        shown=STANDINGS,
        description=BY_LINK,
    )
    def get(self, request: Request, pk: int, slug: str = "") -> Response:
        return super().get(request, pk, slug)
