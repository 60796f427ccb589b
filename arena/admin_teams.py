"""The operator's desk for teams: budgets, what may be revoked, and what was done and told.

Who is in a team is changed on the team's own pages, which are open to operators too.
"""

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from arena.access import Actor
from arena.admin_base import KeptOnce, ReadOnly
from arena.calls.amounts import MOST, in_dollars, nano_dollars
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
from arena.services.budgets import committed_by
from arena.services.invitations import revoke_invitation
from arena.services.teams import set_budget
from arena.services.tokens import revoke_token


class BudgetForm(forms.ModelForm):
    """A team's budget, in dollars."""

    budget_in_dollars = forms.DecimalField(
        min_value=0, max_value=MOST, max_digits=16, decimal_places=9
    )

    class Meta:
        model = Team
        fields: list[str] = []

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["budget_in_dollars"].initial = in_dollars(self.instance.budget)


class TeamAdmin(KeptOnce):
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

    @admin.display(description="spent, or promised to runs under way")
    def spent(self, obj: Team) -> str:
        return dollars(committed_by(obj))


class MembershipAdmin(ReadOnly):
    list_display = ["user", "team", "role", "joined_at"]
    list_filter = ["role"]
    list_select_related = ["user", "team"]
    search_fields = ["user__username", "team__name"]


class Revocable(ReadOnly):
    """Secrets are not here to be seen: they can be ended."""

    exclude = ["digest"]
    actions = ["revoke"]
    end: Callable[[Any, Actor], bool]  # ends one, and says whether that is news

    @admin.action(description="Revoke the chosen ones", permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        by = Actor(user=request.user)
        done = sum(self.end(row, by) for row in queryset.select_related("team"))
        messages.success(request, f"{done} revoked.")

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        """Revoking is what changing a secret means here."""
        name = self.opts.model_name
        return bool(request.user.has_perm(f"arena.change_{name}"))


class InvitationAdmin(Revocable):
    list_display = ["team", "role", "note", "created_by", "expires_at", "accepted_by", "revoked_at"]
    list_filter = ["role"]
    list_select_related = ["team", "created_by", "accepted_by"]
    search_fields = ["note", "team__name"]

    @staticmethod
    def end(row: Invitation, by: Actor) -> bool:
        return revoke_invitation(invitation=row, by=by, now=timezone.now())


class ApiTokenAdmin(Revocable):
    list_display = ["name", "prefix", "team", "scopes", "created_by", "last_used_at", "revoked_at"]
    list_select_related = ["team", "created_by"]
    search_fields = ["name", "prefix", "team__name"]

    @staticmethod
    def end(row: ApiToken, by: Actor) -> bool:
        return revoke_token(token=row, by=by, now=timezone.now())


class AuditEntryAdmin(ReadOnly):
    list_display = ["at", "team", "by", "action", "subject"]
    list_filter = ["action"]
    list_select_related = ["team"]
    search_fields = ["by", "subject", "team__name"]


class NoticeAdmin(ReadOnly):
    list_display = ["created_at", "team", "kind", "sentence"]
    list_filter = ["kind"]
    list_select_related = ["team"]
    search_fields = ["sentence", "team__name"]


class WebhookAdmin(ReadOnly):
    list_display = ["url", "team", "created_at", "removed_at"]
    list_select_related = ["team"]
    search_fields = ["url", "team__name"]
    exclude = ["salt"]


class DeliveryAdmin(ReadOnly):
    list_display = ["notice", "webhook", "membership", "state", "attempts", "due_at", "error"]
    list_filter = ["state"]
    list_select_related = ["notice", "webhook", "membership__team", "membership__user"]


class IdempotentRequestAdmin(ReadOnly):
    list_display = ["owner", "key", "status", "created_at"]
    search_fields = ["owner", "key"]
    exclude = ["body", "headers"]


TEAM_DESKS: dict[type[Model], type[admin.ModelAdmin]] = {
    Team: TeamAdmin,
    Membership: MembershipAdmin,
    Invitation: InvitationAdmin,
    ApiToken: ApiTokenAdmin,
    AuditEntry: AuditEntryAdmin,
    Notice: NoticeAdmin,
    Webhook: WebhookAdmin,
    Delivery: DeliveryAdmin,
    IdempotentRequest: IdempotentRequestAdmin,
}
