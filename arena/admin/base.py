"""Base classes of the admin: read-only, never deleted, or written through the services."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_protect

from arena.actors import Actor, actor_of
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


def show_table(
    model: type[Model],
    columns: str = "__str__",
    *,
    filters: str = "",
    search: str = "",
    related: str = "",
    base: type[admin.ModelAdmin] = ReadOnly,
    **options: Any,
) -> None:
    """Register pages of rows that cannot be edited; names are separated by spaces.

    `related`: what the rows are joined with, if not with the foreign keys among the columns.
    """
    names = columns.split()
    keys = [field.name for field in model._meta.fields if field.is_relation]
    options |= {
        "list_display": names,
        "list_filter": filters.split(),
        "list_select_related": related.split() or [name for name in names if name in keys],
        "search_fields": search.split(),
    }
    admin.site.register(model, base, **options)


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


class DeletedInWords(admin.ModelAdmin):
    """Rows that a service deletes: the page says what would be lost, or why they must stay."""

    reason_to_keep: Callable[[Any], str]  # why the row cannot be deleted, in words; '' if it can
    loss: Callable[[Any], str]  # what is lost with the row, in words

    @abstractmethod
    def delete(self, obj: Any, by: Actor) -> None: ...

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return admin.ModelAdmin.has_delete_permission(self, request, obj)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Rows cannot be deleted in bulk, because each needs its own warning."""
        actions: dict[str, Any] = super().get_actions(request)
        return {name: action for name, action in actions.items() if name != "delete_selected"}

    @method_decorator(csrf_protect)
    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: Any = None
    ) -> HttpResponse:
        obj = self.get_object(request, unquote(object_id))
        if obj is None:
            raise Http404
        if not self.has_delete_permission(request, obj):
            raise PermissionDenied
        if request.method == "POST":
            return self._delete(request, obj)
        name = self.opts.verbose_name
        context = self.admin_site.each_context(request) | {
            "title": f"Delete {name}",
            "object": obj,
            "opts": self.opts,
            "reason": self.reason_to_keep(obj),
            "loss": self.loss(obj),
        }
        return TemplateResponse(request, "admin/delete_in_words.html", context)

    def _delete(self, request: HttpRequest, obj: Model) -> HttpResponse:
        name, this = str(obj), type(obj)._default_manager.filter(pk=obj.pk)
        before = list(this)
        try:
            self.delete(obj, actor_of(request))
        except ServiceError as error:
            messages.error(request, error.message)
            return redirect(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", obj.pk)
        self.log_deletions(request, before)  # type: ignore[arg-type]  # any iterable will do
        messages.success(request, f"{name} has been deleted.")
        return redirect(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist")
