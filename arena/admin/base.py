"""Base classes of the admin: read-only, never deleted, or written through the services."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from arena.errors import ServiceError


class ReadOnly(admin.ModelAdmin):
    """Rows that can be viewed and searched, but not edited."""

    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class NeverDeleted(admin.ModelAdmin):
    """Rows that can be added and archived but not deleted, because votes depend on them."""

    show_full_result_count = False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


class ThroughServices(NeverDeleted):
    """Rows written by the same services as on a team's pages, which check and audit changes."""

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Show errors that the form could not foresee, such as a concurrent change."""
        try:
            return super().changeform_view(request, *args, **kwargs)
        except ServiceError as error:
            messages.error(request, error.message)
            return HttpResponseRedirect(request.get_full_path())
