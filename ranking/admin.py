"""The admin of ranking: editable board settings, read-only published results."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from ranking.models import (
    ArenaRefresh,
    Backup,
    Board,
    BoardPage,
    ClusterTally,
    EloCheckpoint,
    EloInterval,
    HomePage,
    LogLink,
    RaterTally,
    ResponseStyle,
    Snapshot,
    SnapshotMatrices,
    Standing,
    TalliedTrust,
    Tally,
    TallyDelta,
    TallyMember,
    VoteLog,
)


class PublishedAdmin(admin.ModelAdmin):
    """Rows that refreshes write: read-only."""

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
class SnapshotAdmin(PublishedAdmin):
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
class StandingAdmin(PublishedAdmin):
    list_display = ["snapshot", "candidate", "rank", "score", "low", "high", "votes", "status"]
    list_filter = ["status"]
    list_select_related = ["snapshot", "candidate"]


@admin.register(EloInterval)
class EloIntervalAdmin(PublishedAdmin):
    list_display = ["standing", "low", "high"]
    list_select_related = ["standing"]


@admin.register(ArenaRefresh)
class ArenaRefreshAdmin(PublishedAdmin):
    list_display = ["arena", "started_at", "seconds", "leased_until", "problem"]
    list_select_related = ["arena"]


@admin.register(BoardPage)
class BoardPageAdmin(PublishedAdmin):
    list_display = ["arena", "key", "epoch", "etag"]
    list_select_related = ["arena"]


@admin.register(HomePage)
class HomePageAdmin(PublishedAdmin):
    list_display = ["n_arenas", "newest", "epochs", "etag"]


# -- Running tallies and caches --------------------------------------------------------------------


class StoredAdmin(PublishedAdmin):
    """Rows that must match the votes, so they cannot be deleted; `rebuild_tallies` repairs them."""

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Tally)
class TallyAdmin(StoredAdmin):
    list_display = ["arena", "raters", "category", "n_raters", "n_prompts", "version"]
    list_filter = ["raters", "arena"]
    list_select_related = ["arena"]


@admin.register(TallyMember)
class TallyMemberAdmin(StoredAdmin):
    list_display = ["tally", "rater", "prompt", "n_votes"]
    list_select_related = ["tally", "rater", "prompt"]


@admin.register(TalliedTrust)
class TalliedTrustAdmin(StoredAdmin):
    list_display = ["arena", "rater"]
    list_select_related = ["arena", "rater"]


@admin.register(ClusterTally)
class ClusterTallyAdmin(StoredAdmin):
    list_display = ["arena", "raters", "prompt", "rater"]
    list_select_related = ["arena", "prompt", "rater"]


@admin.register(RaterTally)
class RaterTallyAdmin(StoredAdmin):
    list_display = ["arena", "category", "member"]
    list_select_related = ["arena"]


@admin.register(TallyDelta)
class TallyDeltaAdmin(StoredAdmin):
    list_display = ["arena", "raters", "n_cells"]
    list_select_related = ["arena"]


@admin.register(EloCheckpoint)
class EloCheckpointAdmin(PublishedAdmin):
    list_display = ["board", "vote_id", "n_votes", "settings"]
    list_select_related = ["board"]


@admin.register(SnapshotMatrices)
class SnapshotMatricesAdmin(PublishedAdmin):
    list_display = ["snapshot"]
    list_select_related = ["snapshot__board"]


@admin.register(ResponseStyle)
class ResponseStyleAdmin(PublishedAdmin):
    list_display = ["response", "words", "headings", "list_items", "bold"]
    list_select_related = ["response"]


@admin.register(Backup)
class BackupAdmin(PublishedAdmin):
    list_display = ["made_at", "size", "is_encrypted"]


# -- The log of votes ------------------------------------------------------------------------------


@admin.register(VoteLog)
class VoteLogAdmin(StoredAdmin):
    list_display = ["__str__"]


@admin.register(LogLink)
class LogLinkAdmin(StoredAdmin):
    list_display = ["__str__"]
