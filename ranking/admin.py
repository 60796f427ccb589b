"""The admin of ranking: boards may be set, what was published may be read."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from ranking.models import ArenaRefresh, Board, BoardPage, EloInterval, Snapshot, Standing


class Published(admin.ModelAdmin):
    """Rows that refreshes write: to be looked at, not to be changed."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Board)
class BoardAdmin(admin.ModelAdmin):
    list_display = [
        "arena",
        "raters",
        "category",
        "both_bad",
        "n_resamples",
        "target_error",
        "problem",
    ]
    list_filter = ["raters", "arena"]
    list_select_related = ["arena"]
    readonly_fields = ["problem"]


@admin.register(Snapshot)
class SnapshotAdmin(Published):
    list_display = [
        "board",
        "is_current",
        "published_at",
        "n_votes",
        "n_both_bad",
        "choix_difference",
        "interval_reason",
        "seconds",
    ]
    list_filter = ["is_current", "board__arena"]
    list_select_related = ["board"]
    date_hierarchy = "published_at"


@admin.register(Standing)
class StandingAdmin(Published):
    list_display = ["snapshot", "candidate", "rank", "score", "low", "high", "votes", "status"]
    list_filter = ["status"]
    list_select_related = ["snapshot", "candidate"]


@admin.register(EloInterval)
class EloIntervalAdmin(Published):
    list_display = ["standing", "low", "high"]
    list_select_related = ["standing"]


@admin.register(ArenaRefresh)
class ArenaRefreshAdmin(Published):
    list_display = ["arena", "started_at", "seconds", "leased_until", "problem"]
    list_select_related = ["arena"]


@admin.register(BoardPage)
class BoardPageAdmin(Published):
    list_display = ["arena", "key", "epoch", "etag"]
    list_select_related = ["arena"]
