"""The admin of people: held votes, accounts, and teams with their budgets, invitations, tokens,
audit log, notifications and webhooks.

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
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from arena.actors import Actor, actor_of
from arena.admin.base import DeletedInWords, NeverDeleted, ReadOnly, ThroughServices, show_table
from arena.calls.money import dollars
from arena.forms.base import DollarsField
from arena.models import (
    ApiToken,
    AuditEntry,
    Candidate,
    Delivery,
    Hold,
    IdempotentRequest,
    Invitation,
    Membership,
    Notice,
    Team,
    Webhook,
)
from arena.services import holds
from arena.services.privacy import AccountError, close_account, loss_of_account, reason_to_stay
from arena.services.runs import committed_by
from arena.services.teams import (
    delete_team,
    loss_of_team,
    reason_to_keep_team,
    revoke_invitation,
    revoke_token,
    set_budget,
)
from arena.validation import in_dollars, percent

# -- Held votes ------------------------------------------------------------------------------------

RELEASE, VOID = "release", "void"
DECISIONS = {RELEASE: holds.release, VOID: holds.void}
SENTENCES = {
    "favours": "{candidate} {won} {k} of this rater’s {n} votes. Tastes differ, but honest votes "
    "are rarely that one-sided.",
    "network": "{candidate} {won} {k} of {n} votes by {raters} raters on one network.",
    "burst": "{candidate} {won} {k} of {n} votes by {raters} raters who arrived one after another.",
    "board": "{candidate} {won} {k} of {n} votes by {raters} raters, including this one.",
    "sides": "{k} of {n} decisive votes chose the same side, though sides are random.",
    "speed": "{k} of {n} votes were faster than anyone can read.",
    "skips": "{k} of {n} votes are on pairs with {candidate}; nearly all other pairs were skipped.",
}
ROW, LABEL, WIDTH = 22, 180, 200  # px


class DecisionForm(forms.ModelForm):
    decision = forms.ChoiceField(
        choices=[("", "Keep on hold"), (RELEASE, "Release: they count again"), (VOID, "Void")],
        required=False,
    )
    reason = forms.CharField(
        max_length=holds.REASON_LIMIT,
        required=False,
        help_text="Shown to the raters and in the audit log.",
    )

    class Meta:
        model = Hold
        fields: list[str] = []


@admin.register(Hold)
class HoldAdmin(ThroughServices):
    """Held votes, for those who may void votes."""

    form = DecisionForm
    list_display = ["__str__", "arena", "state", "n_votes", "held_at", "objected_at"]
    list_filter = ["state", "test", "arena"]
    list_select_related = ["arena", "rater"]
    readonly_fields = [
        *("arena", "rater", "network", "state", "n_votes", "held_at", "explanation", "plot"),
        *("objection", "objected_at", "decided_by", "decided_at", "decision_reason"),
    ]

    def get_fields(self, request: HttpRequest, obj: Hold | None = None) -> Any:
        is_open = obj is not None and obj.state == Hold.State.HELD
        names = [name for name in self.readonly_fields if is_open is False or "deci" not in name]
        return [*names, "decision", "reason"] if is_open else names

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Hold | None = None) -> bool:
        may_void = bool(request.user.has_perm("arena.change_vote"))
        return may_void and (obj is None or obj.state == Hold.State.HELD)

    def save_model(self, request: HttpRequest, obj: Hold, form: Any, change: bool) -> None:
        if decide := DECISIONS.get(form.cleaned_data["decision"]):
            reason = form.cleaned_data["reason"]
            decide(hold=obj, by=actor_of(request), reason=reason, now=timezone.now())

    @admin.display(description="reason")
    def decision_reason(self, hold: Hold) -> str:
        return hold.reason

    @admin.display(description="evidence")
    def explanation(self, hold: Hold) -> str:
        evidence = hold.evidence
        candidate = Candidate.objects.filter(pk=evidence["candidate"]).first()
        sentence = SENTENCES[hold.test].format(
            candidate=candidate,
            won="lost" if evidence.get("loses") else "won",
            **{name: evidence[name] for name in ("k", "n", "raters")},
        )
        return (
            f"{sentence} If the votes were honest, evidence this strong would turn up at most once"
            f" in {evidence['e_value']:,.0f} cases."
        )

    @admin.display(description="wins by candidate: these votes, and all others")
    def plot(self, hold: Hold) -> SafeString:
        wins = hold.evidence["wins"]
        names = Candidate.objects.in_bulk([row["candidate"] for row in wins])
        return format_html(
            '<svg width="{}" height="{}" role="img" aria-label="Win rates">{}</svg>',
            LABEL + WIDTH + 110,
            ROW * len(wins),
            format_html_join(
                "",
                '<text x="0" y="{}" fill="currentColor">{}</text>'
                '<rect x="{}" y="{}" width="{}" height="8" fill="#b45309"><title>{}</title></rect>'
                '<rect x="{}" y="{}" width="{}" height="6" fill="#64748b"><title>{}</title></rect>'
                '<text x="{}" y="{}" fill="currentColor">{} / {}</text>',
                (
                    (
                        *(ROW * place + 14, str(names.get(row["candidate"], "deleted"))[:24]),
                        *(LABEL, ROW * place + 3, _width(row["own"]), "These votes"),
                        *(LABEL, ROW * place + 12, _width(row["others"]), "All others"),
                        *(LABEL + WIDTH + 8, ROW * place + 14, _rate(row["own"])),
                        _rate(row["others"]),
                    )
                    for place, row in enumerate(wins)
                ),
            ),
        )


def _width(won: list[float]) -> int:
    return round(WIDTH * won[0] / won[1]) if won[1] else 0


def _rate(won: list[float]) -> str:
    return percent(won[0] / won[1]) if won[1] else "–"


# -- Teams and accounts ----------------------------------------------------------------------------


class BudgetForm(forms.ModelForm):
    budget_in_dollars = DollarsField()

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
    reason_to_keep = staticmethod(reason_to_keep_team)
    loss = staticmethod(loss_of_team)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def save_model(self, request: HttpRequest, obj: Team, form: Any, change: bool) -> None:
        budget = form.cleaned_data["budget_in_dollars"]
        set_budget(team=obj, budget=budget, by=Actor(user=request.user))

    @admin.display(description="budget", ordering="budget")
    def budget_shown(self, obj: Team) -> str:
        return dollars(obj.budget)

    @admin.display(description="spent or reserved by active runs")
    def spent(self, obj: Team) -> str:
        return dollars(committed_by(obj))

    def delete(self, obj: Team, by: Actor) -> None:
        delete_team(team=obj, by=by)


admin.site.unregister(User)


@admin.register(User)
class AccountAdmin(DeletedInWords, UserAdmin):
    """Accounts are closed as people close their own: votes stay, under a pseudonym."""

    reason_to_keep = staticmethod(lambda user: reason_to_stay(user, f"The user {user} is"))
    loss = staticmethod(loss_of_account)

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        """The log names the deleted account as the audit logs do."""
        for user in queryset:
            user.username = f"former user {user.pk}"
        return super().log_deletions(request, queryset)

    def delete(self, obj: User, by: Actor) -> None:
        if reason := self.reason_to_keep(obj):
            raise AccountError(reason)
        close_account(user=obj, now=timezone.now())


show_table(
    Membership, "user team role joined_at", filters="role", search="user__username team__name"
)


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


show_table(
    AuditEntry, "at team by action subject", filters="action", search="by subject team__name"
)
show_table(Notice, "created_at team kind sentence", filters="kind", search="sentence team__name")
show_table(Webhook, "url team created_at removed_at", search="url team__name", exclude=["salt"])
show_table(
    Delivery,
    "notice webhook membership state attempts due_at error",
    filters="state",
    related="notice webhook membership__team membership__user",
)
show_table(
    IdempotentRequest,
    "owner key status created_at",
    search="owner key",
    exclude=["body", "headers"],
)
