"""The admin of teams: budgets, invitations, tokens, audit log, notifications, webhooks.

Members are changed on the team's own pages, which administrators can open too.
"""

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from arena.actors import Actor
from arena.admin.base import DeletedInWords, NeverDeleted, ReadOnly
from arena.calls.money import dollars
from arena.models import (
    ApiToken,
    AuditEntry,
    Delivery,
    IdempotentRequest,
    Invitation,
    Membership,
    Notice,
    Team,
    Webhook,
)
from arena.services.accounts import AccountError, close_account, loss_of_account, reason_to_stay
from arena.services.runs import committed_by
from arena.services.teams import (
    delete_team,
    loss_of_team,
    reason_to_keep_team,
    revoke_invitation,
    revoke_token,
    set_budget,
)
from arena.validation import MOST, in_dollars, nano_dollars


class BudgetForm(forms.ModelForm):
    budget_in_dollars = forms.DecimalField(
        min_value=0, max_value=MOST, max_digits=16, decimal_places=9
    )

    class Meta:
        model = Team
        fields: list[str] = []

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["budget_in_dollars"].initial = in_dollars(self.instance.budget)


@admin.register(Team)
class TeamAdmin(DeletedInWords, NeverDeleted):
    form = BudgetForm
    list_display = ["name", "slug", "budget_shown", "spent", "created_at"]
    search_fields = ["name", "slug"]
    readonly_fields = ["name", "slug", "spent", "created_at"]
    fields = ["name", "slug", "budget_in_dollars", "spent", "created_at"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Team, form: Any, change: bool) -> None:
        budget = nano_dollars(form.cleaned_data["budget_in_dollars"])
        set_budget(team=obj, budget=budget, by=Actor(user=request.user))

    @admin.display(description="budget", ordering="budget")
    def budget_shown(self, obj: Team) -> str:
        return dollars(obj.budget)

    @admin.display(description="spent or reserved by active runs")
    def spent(self, obj: Team) -> str:
        return dollars(committed_by(obj))

    def reason_to_keep(self, obj: Team) -> str:
        return reason_to_keep_team(obj)

    def loss(self, obj: Team) -> str:
        return loss_of_team(obj)

    def delete(self, obj: Team, by: Actor) -> None:
        delete_team(team=obj, by=by)


admin.site.unregister(User)


@admin.register(User)
class AccountAdmin(DeletedInWords, UserAdmin):
    """Accounts are closed as people close their own: votes stay, under a pseudonym."""

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        """The log names the deleted account as the audit logs do."""
        for user in queryset:
            user.username = f"former user {user.pk}"
        return super().log_deletions(request, queryset)

    def reason_to_keep(self, obj: User) -> str:
        return reason_to_stay(obj, f"The user {obj} is")

    def loss(self, obj: User) -> str:
        return loss_of_account(obj)

    def delete(self, obj: User, by: Actor) -> None:
        if reason := self.reason_to_keep(obj):
            raise AccountError(reason)
        close_account(user=obj, now=timezone.now())


@admin.register(Membership)
class MembershipAdmin(ReadOnly):
    list_display = ["user", "team", "role", "joined_at"]
    list_filter = ["role"]
    list_select_related = ["user", "team"]
    search_fields = ["user__username", "team__name"]


class Revocable(ReadOnly):
    """Secrets that can be revoked but not viewed."""

    exclude = ["digest"]
    actions = ["revoke"]
    revoke_row: Callable[[Any, Actor], bool]  # False if the row was revoked before

    @admin.action(description="Revoke the selected rows", permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        by = Actor(user=request.user)
        done = sum(self.revoke_row(row, by) for row in queryset.select_related("team"))
        messages.success(request, f"{done} revoked.")

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may revoke secrets, which is the only way to change one."""
        name = self.opts.model_name
        return bool(request.user.has_perm(f"arena.change_{name}"))


@admin.register(Invitation)
class InvitationAdmin(Revocable):
    list_display = ["team", "role", "note", "created_by", "expires_at", "accepted_by", "revoked_at"]
    list_filter = ["role"]
    list_select_related = ["team", "created_by", "accepted_by"]
    search_fields = ["note", "team__name"]

    @staticmethod
    def revoke_row(row: Invitation, by: Actor) -> bool:
        return revoke_invitation(invitation=row, by=by, now=timezone.now())


@admin.register(ApiToken)
class ApiTokenAdmin(Revocable):
    list_display = ["name", "prefix", "team", "scopes", "created_by", "last_used_at", "revoked_at"]
    list_select_related = ["team", "created_by"]
    search_fields = ["name", "prefix", "team__name"]

    @staticmethod
    def revoke_row(row: ApiToken, by: Actor) -> bool:
        return revoke_token(token=row, by=by, now=timezone.now())


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnly):
    list_display = ["at", "team", "by", "action", "subject"]
    list_filter = ["action"]
    list_select_related = ["team"]
    search_fields = ["by", "subject", "team__name"]


@admin.register(Notice)
class NoticeAdmin(ReadOnly):
    list_display = ["created_at", "team", "kind", "sentence"]
    list_filter = ["kind"]
    list_select_related = ["team"]
    search_fields = ["sentence", "team__name"]


@admin.register(Webhook)
class WebhookAdmin(ReadOnly):
    list_display = ["url", "team", "created_at", "removed_at"]
    list_select_related = ["team"]
    search_fields = ["url", "team__name"]
    exclude = ["salt"]


@admin.register(Delivery)
class DeliveryAdmin(ReadOnly):
    list_display = ["notice", "webhook", "membership", "state", "attempts", "due_at", "error"]
    list_filter = ["state"]
    list_select_related = ["notice", "webhook", "membership__team", "membership__user"]


@admin.register(IdempotentRequest)
class IdempotentRequestAdmin(ReadOnly):
    list_display = ["owner", "key", "status", "created_at"]
    search_fields = ["owner", "key"]
    exclude = ["body", "headers"]
