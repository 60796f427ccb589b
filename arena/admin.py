"""The admin: every table can be looked at; what operators must decide is done here.

Everything else is changed on the site's own pages, which administrators can open too, or with a
command: both check and audit what they do.
"""

from collections.abc import Sequence
from typing import Any

from allauth.socialaccount.models import SocialApp, SocialToken
from django import forms
from django.apps import apps
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.contrib.admin.utils import unquote
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import models
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.views.decorators.csrf import csrf_protect

from arena.actors import actor_of
from arena.calls.money import dollars
from arena.errors import ServiceError
from arena.forms.base import DollarsField
from arena.models import Candidate, Hold, NetworkKey, Review, Run, Vote
from arena.near_names import near_names
from arena.services import candidates, holds, runs, voting
from arena.services.privacy import AccountError, close_account, loss_of_account, reason_to_stay
from arena.validation import join_names, numbered, percent

# Of API tokens, invitations, webhooks, answers kept for repeated requests, and model endpoints.
SECRETS = {"digest", "salt", "headers", "body", "encrypted_key", "encrypted_mail_password"}
N_COLUMNS = 7

# Credentials of sign-in servers are set in the environment, never in the database.
admin.site.unregister([SocialApp, SocialToken])


class ReadOnly(admin.ModelAdmin):
    """Rows that can be viewed, searched and filtered, but not changed; secrets are not shown."""

    show_full_result_count = False

    @property
    def shown(self) -> list[Any]:
        secret = SECRETS | ({"key"} if self.model is NetworkKey else set())
        return [
            field
            for field in (*self.opts.fields, *self.opts.many_to_many)
            if field.name not in secret and not isinstance(field, models.BinaryField)
        ]

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return [field.name for field in self.shown]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> list[str]:
        return self.get_fields(request, obj)

    def get_list_display(self, request: HttpRequest) -> Any:
        long = (models.TextField, models.JSONField, models.ManyToManyField)
        return [field.name for field in self.shown if not isinstance(field, long)][:N_COLUMNS]

    def get_list_select_related(self, request: HttpRequest) -> list[str]:
        keys = {field.name for field in self.opts.fields if field.is_relation}
        return [name for name in self.get_list_display(request) if name in keys]

    def get_list_filter(self, request: HttpRequest) -> Any:
        return [
            field.name
            for field in self.shown
            if field.choices or field.name == "arena" or isinstance(field, models.BooleanField)
        ]

    def get_search_fields(self, request: HttpRequest) -> list[str]:
        return [
            field.name
            for field in self.shown
            if isinstance(field, models.CharField) and not field.choices
        ]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False


def show_other_tables(app: str) -> None:
    """Register the app's models that have no page of their own yet."""
    others = [
        model
        for model in apps.get_app_config(app).get_models()
        if not admin.site.is_registered(model)
    ]
    admin.site.register(others, ReadOnly)


@admin.register(Vote)
class VoteAdmin(ReadOnly):
    actions = ["void"]

    @admin.action(description="Void the selected votes", permissions=["void"])
    def void(self, request: HttpRequest, queryset: QuerySet[Vote]) -> None:
        reason, now = f"voided by {request.user}", timezone.now()
        done = voting.void_votes(votes=queryset, by=actor_of(request), reason=reason, now=now)
        messages.success(request, f"{done} votes voided. They stay on record.")

    def has_void_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may void votes, which is the only way to change one."""
        return bool(request.user.has_perm("arena.change_vote"))


class SettleForm(ActionForm):
    billed = DollarsField(required=False, label="Billed, in dollars")


@admin.register(Run)
class RunAdmin(ReadOnly):
    actions = ["settle"]
    action_form = SettleForm

    @admin.action(description="Settle what may have been billed", permissions=["settle"])
    def settle(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        """Book what was billed of one run's uncertain money, and release the rest."""
        try:
            billed = DollarsField().clean(request.POST.get("billed"))
            run = queryset.get()
            released = runs.settle(run=run, billed=billed or 0, by=actor_of(request))
        except ValidationError as error:
            messages.error(request, f"Billed, in dollars: {' '.join(error.messages)}")
        except Run.MultipleObjectsReturned:
            messages.error(request, "Settle one run at a time.")
        except ServiceError as error:
            messages.error(request, error.message)
        else:
            messages.success(
                request, f"{dollars(billed)} is booked to {run}, {dollars(released)} is free again."
            )

    def has_settle_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("arena.change_run"))


class MergeForm(ActionForm):
    into = forms.IntegerField(required=False, label="Merge into the candidate with the id")


@admin.register(Candidate)
class CandidateAdmin(ReadOnly):
    actions = ["merge", "undo_merge"]
    action_form = MergeForm

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return [*super().get_fields(request, obj), "near_equal"]

    @admin.display(description="near-equal names")
    def near_equal(self, candidate: Candidate) -> str:
        """Other candidates that may be the same one."""
        others = candidate.arena.candidates.filter(merged_into=None)
        ids = {one.own_name: one.pk for one in others} | {candidate.own_name: candidate.pk}
        own = candidate.own_name
        near = next((group for group in near_names(ids) if own in group), [own])
        return join_names(f"{name} ({ids[name]})" for name in near if name != own)

    @admin.action(description="Merge the selected candidates", permissions=["merge"])
    def merge(self, request: HttpRequest, queryset: QuerySet[Candidate]) -> None:
        """Let their votes count for another candidate, whose id the form names."""
        into = request.POST.get("into", "").strip()
        target = Candidate.objects.filter(pk=into).first() if into.isdecimal() else None
        if target is None:
            messages.error(request, "Enter the id of the candidate that they are merged into.")
            return
        try:
            n = candidates.merge_candidates(
                candidates=list(queryset), into=target, by=actor_of(request), now=timezone.now()
            )
        except ServiceError as error:
            messages.error(request, error.message)
        else:
            messages.success(request, f"{numbered(n, 'candidate')} merged into {target.own_name}.")

    @admin.action(description="Undo the merge of the selected candidates", permissions=["merge"])
    def undo_merge(self, request: HttpRequest, queryset: QuerySet[Candidate]) -> None:
        chosen, by = list(queryset), actor_of(request)
        if len({candidate.arena_id for candidate in chosen}) > 1:
            messages.error(request, "Choose candidates of one arena.")
            return
        n = candidates.undo_merges(candidates=chosen, by=by)
        messages.success(request, f"{numbered(n, 'candidate')} no longer merged.")

    def has_merge_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("arena.change_candidate"))


RELEASE, VOID = "release", "void"
DECISIONS = {RELEASE: holds.release, VOID: holds.void}
SENTENCES = {
    "favours": "{candidate} {won} {k} of this rater’s {n} votes. Tastes differ, but honest votes "
    "are rarely that one-sided.",
    "network": "{candidate} {won} {k} of {n} votes by {raters} raters on one network.",
    "burst": "{candidate} {won} {k} of {n} votes by {raters} raters who arrived one after another.",
    "board": "{candidate} {won} {k} of {n} votes by {raters} raters, including this one.",
    "group": "{candidate} {won} {k} of {n} votes by {raters} raters.",
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


class ReviewForm(DecisionForm):
    decision = forms.ChoiceField(
        choices=[
            ("", "Keep under review"),
            (RELEASE, "Honest: their votes count, also those on hold"),
            (VOID, "Rigged: void suspicious raters’ votes"),
        ],
        required=False,
    )

    # How many look rigged, as the page showed it: a decision is about them alone.
    seen = forms.IntegerField(widget=forms.HiddenInput)

    class Meta:
        model = Review
        fields: list[str] = []

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["seen"].initial = len(self.instance.suspects)

    def clean_seen(self) -> int:
        seen: int = self.cleaned_data["seen"]
        if seen != len(self.instance.suspects):
            raise forms.ValidationError(holds.GROWN)
        return seen

    def clean_decision(self) -> str:
        decision: str = self.cleaned_data["decision"]
        if decision == VOID and not self.instance.suspects:
            raise forms.ValidationError(holds.NOBODY_STANDS_OUT)
        return decision


class EvidenceAdmin(admin.ModelAdmin):
    """What a test found, for those who may void votes, and a form to decide on it."""

    show_full_result_count = False
    decision_fields: Sequence[str] = ()

    def is_open(self, found: Any) -> bool:
        raise NotImplementedError

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None or not self.is_open(obj):
            return list(self.readonly_fields)
        names = [name for name in self.readonly_fields if name not in self.decision_fields]
        return [*names, "decision", "reason"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Show errors that the form could not foresee, such as another administrator's decision."""
        try:
            return super().changeform_view(request, *args, **kwargs)
        except ServiceError as error:
            messages.error(request, error.message)
            return HttpResponseRedirect(request.get_full_path())

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        may_void = bool(request.user.has_perm("arena.change_vote"))
        return may_void and (obj is None or self.is_open(obj))

    @admin.display(description="reason")
    def decision_reason(self, found: Hold | Review) -> str:
        return found.reason

    @admin.display(description="evidence")
    def explanation(self, found: Hold | Review) -> str:
        evidence = found.evidence
        candidate = Candidate.objects.filter(pk=evidence["candidate"]).first()
        of_many = isinstance(found, Review) and found.test == "board"
        sentence = SENTENCES["group" if of_many else found.test].format(
            candidate=candidate,
            won="lost" if evidence.get("loses") else "won",
            **{name: evidence[name] for name in ("k", "n", "raters")},
        )
        return (
            f"{sentence} If the votes were honest, evidence this strong would turn up at most once"
            f" in {evidence['e_value']:,.0f} cases."
        )

    @admin.display(description="wins by candidate: these votes, and all others")
    def plot(self, found: Hold | Review) -> SafeString:
        wins = found.evidence["wins"]
        names = Candidate.objects.in_bulk([row["candidate"] for row in wins])
        return format_html(
            '<svg viewBox="0 0 {0} {1}" width="{0}" role="img" aria-label="Win rates">{2}</svg>',
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
                        *(LABEL, ROW * place + 3, _interval_width(row["own"]), "These votes"),
                        *(LABEL, ROW * place + 12, _interval_width(row["others"]), "All others"),
                        *(LABEL + WIDTH + 8, ROW * place + 14, _win_rate(row["own"])),
                        _win_rate(row["others"]),
                    )
                    for place, row in enumerate(wins)
                ),
            ),
        )


@admin.register(Hold)
class HoldAdmin(EvidenceAdmin):
    """Held votes."""

    form = DecisionForm
    list_display = ["__str__", "arena", "state", "n_votes", "held_at", "objected_at"]
    list_filter = ["state", "test", "arena"]
    list_select_related = ["arena", "rater"]
    readonly_fields = [
        *("arena", "rater", "network", "state", "n_votes", "held_at", "explanation", "plot"),
        *("objection", "objected_at", "decided_by", "decided_at", "decision_reason"),
    ]
    decision_fields = ("decided_by", "decided_at", "decision_reason")

    def is_open(self, found: Hold) -> bool:
        return found.state == Hold.State.HELD

    def save_model(self, request: HttpRequest, obj: Hold, form: Any, change: bool) -> None:
        if decide := DECISIONS.get(form.cleaned_data["decision"]):
            reason = form.cleaned_data["reason"]
            decide(hold=obj, by=actor_of(request), reason=reason, now=timezone.now())


@admin.register(Review)
class ReviewAdmin(EvidenceAdmin):
    """Groups that look rigged, whose arenas name no leader until somebody has decided."""

    form = ReviewForm
    list_display = ["__str__", "arena", "opened_at", "closed_at"]
    list_filter = [("closed_at", admin.EmptyFieldListFilter), "test", "arena"]
    list_select_related = ["arena", "candidate"]
    readonly_fields = [
        *("arena", "candidate", "opened_at", "n_raters", "explanation", "plot"),
        *("closed_by", "closed_at", "decision_reason"),
    ]
    decision_fields = ("closed_by", "closed_at", "decision_reason")

    def is_open(self, found: Review) -> bool:
        return found.closed_at is None

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        fields = super().get_fields(request, obj)
        return [*fields, "seen"] if "decision" in fields else fields

    def save_model(self, request: HttpRequest, obj: Review, form: Any, change: bool) -> None:
        if decision := form.cleaned_data["decision"]:
            holds.close_review(
                review=obj,
                are_rigged=decision == VOID,
                by=actor_of(request),
                reason=form.cleaned_data["reason"],
                now=timezone.now(),
            )

    @admin.display(description="raters")
    def n_raters(self, review: Review) -> str:
        return f"{len(review.suspects)} of {len(review.group)} look rigged"


def _interval_width(won: list[float]) -> int:
    return round(WIDTH * won[0] / won[1]) if won[1] else 0


def _win_rate(won: list[float]) -> str:
    return percent(won[0] / won[1]) if won[1] else "–"


admin.site.unregister(User)


@admin.register(User)
class AccountAdmin(UserAdmin):
    """Accounts are closed as people close their own: votes stay, under a pseudonym.

    The page says what is lost, or why the account must stay, so they are not deleted in bulk.
    """

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        actions: dict[str, Any] = super().get_actions(request)
        return {name: action for name, action in actions.items() if name != "delete_selected"}

    @method_decorator(csrf_protect)
    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: Any = None
    ) -> HttpResponse:
        user = self.get_object(request, unquote(object_id))
        if user is None:
            raise Http404
        if not self.has_delete_permission(request, user):
            raise PermissionDenied
        reason = reason_to_stay(user, f"The user {user} is")
        if request.method == "POST":
            return self._close(request, user, reason)
        context = self.admin_site.each_context(request) | {
            "title": "Delete user",
            "object": user,
            "opts": self.opts,
            "reason": reason,
            "loss": loss_of_account(user),
        }
        return TemplateResponse(request, "admin/delete_in_words.html", context)

    def _close(self, request: HttpRequest, user: User, reason: str) -> HttpResponse:
        name, before = str(user), list(User.objects.filter(pk=user.pk))
        try:
            if reason:
                raise AccountError(reason)
            close_account(user=user, now=timezone.now())
        except ServiceError as error:
            messages.error(request, error.message)
            return redirect("admin:auth_user_change", user.pk)
        self.log_deletions(request, before)
        messages.success(request, f"{name} has been deleted.")
        return redirect("admin:auth_user_changelist")

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        """The log names the deleted account as the audit logs do."""
        for user in queryset:
            user.username = f"former user {user.pk}"
        return super().log_deletions(request, queryset)


show_other_tables("arena")
