"""The admin of ranking: editable board settings, read-only published results."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from arena.admin.base import ReadOnly, show_table
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


class Published(ReadOnly):
    """Rows that refreshes write; deleting them does no harm."""

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return admin.ModelAdmin.has_delete_permission(self, request, obj)


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


show_table(
    Snapshot,
    "board is_current published_at n_votes n_both_bad choix_difference interval_reason seconds",
    filters="is_current board__arena",
    base=Published,
    date_hierarchy="published_at",
)
show_table(
    Standing,
    "snapshot candidate rank score low high votes status",
    filters="status",
    base=Published,
)
show_table(EloInterval, "standing low high", base=Published)
show_table(ArenaRefresh, "arena started_at seconds leased_until problem", base=Published)
show_table(BoardPage, "arena key epoch etag", base=Published)
show_table(HomePage, "n_arenas newest epochs etag", base=Published)

# The log and tallies must match the votes, so they cannot be deleted; `rebuild_tallies` repairs
# them.
show_table(VoteLog)
show_table(LogLink)
show_table(Tally, "arena raters category n_raters n_prompts version", filters="raters arena")
show_table(TallyMember, "tally rater prompt n_votes")
show_table(TalliedTrust, "arena rater")
show_table(ClusterTally, "arena raters prompt rater")
show_table(RaterTally, "arena category member")
show_table(TallyDelta, "arena raters n_cells")
show_table(EloCheckpoint, "board vote_id n_votes settings", base=Published)
show_table(SnapshotMatrices, "snapshot", related="snapshot__board", base=Published)
show_table(ResponseStyle, "response words headings list_items bold", base=Published)
show_table(Backup, "made_at size is_encrypted", base=Published)
