"""What an operator may do with rows in the admin: look, or add and retire."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from arena.services.refusals import Refused


class ReadOnly(admin.ModelAdmin):
    """Rows that the product writes and nobody edits: to look at and to search."""

    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class KeptOnce(admin.ModelAdmin):
    """Rows that an operator adds or retires, and never deletes: votes stand on them."""

    show_full_result_count = False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class ThroughServices(KeptOnce):
    """Rows that a team's pages write too, by the same services: they check, and keep the trail."""

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """What the form could not know is told above it: somebody else was quicker."""
        try:
            return super().changeform_view(request, *args, **kwargs)
        except Refused as refusal:
            messages.error(request, refusal.sentence)
            return HttpResponseRedirect(request.get_full_path())
