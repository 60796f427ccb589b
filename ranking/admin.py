"""The admin of ranking: the settings of leaderboards can be changed, results only be read."""

from django.contrib import admin
from django.http import HttpRequest

from arena.admin import show_other_tables
from ranking.models import Board


@admin.register(Board)
class BoardAdmin(admin.ModelAdmin):
    list_display = [
        "arena",
        "raters",
        "category",
        "both_bad",
        "n_resamples",
        "problem",
    ]
    list_filter = ["raters", "arena"]
    list_select_related = ["arena"]
    readonly_fields = ["problem"]

    def has_delete_permission(self, request: HttpRequest, obj: Board | None = None) -> bool:
        return False


show_other_tables("ranking")
