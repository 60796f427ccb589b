"""What an operator may do with rows in the admin: look, or add and retire."""

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest


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
