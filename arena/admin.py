"""The operator's desk: every table of collecting, written through the services."""

from typing import Any

from allauth.socialaccount.models import SocialApp, SocialToken
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from arena.access import actor_of
from arena.admin_base import KeptOnce, ReadOnly
from arena.admin_prompts import PromptForm
from arena.admin_teams import TEAM_DESKS
from arena.calls.money import dollars
from arena.models import (
    Arena,
    Call,
    Candidate,
    Capability,
    Comparison,
    EndpointPace,
    Import,
    Pair,
    PairDemand,
    Price,
    Prompt,
    RateLimit,
    Rater,
    Response,
    Run,
    RunAsker,
    Vote,
)
from arena.services import audit, runs, voting
from arena.services.candidate_checks import DEFAULTS
from arena.services.candidates import is_fixed, retire_candidate
from arena.services.pairing import sync_pairs
from arena.services.prompt_plan import CONTENT
from arena.services.prompts import fixed_prompts

# What the arena's own settings check before they change it, and note.
SETTINGS = ("question", "criteria", "visibility", "voters", "open_to_teams")
PROMISED = ("private_until_votes", "private_until", "disclosed_at", "created_at", "retired_at")

for model, desk in TEAM_DESKS.items():
    admin.site.register(model, desk)

# Secrets of other servers stand in the environment, and no table is filled with them.
admin.site.unregister([SocialApp, SocialToken])


@admin.register(Arena)
class ArenaAdmin(KeptOnce):
    list_display = ["name", "slug", "question", "team", "visibility", "voters", "created_at"]
    search_fields = ["name", "slug"]
    actions = ["order_votes"]

    def save_model(self, request: HttpRequest, obj: Arena, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if "team" in form.changed_data:
            audit.record(
                team=obj.team,
                by=actor_of(request),
                action="gave the team an arena",
                subject=obj,
                arena=obj.slug,
            )

    def get_readonly_fields(self, request: HttpRequest, obj: Arena | None = None) -> list[str]:
        """What the settings check is changed there; an arena has its team for good."""
        if obj is None:
            return ["founded_by"]
        return ["founded_by", *SETTINGS, *(["team"] if obj.team_id else [])]

    @admin.action(description="Order one more vote per pair from people")
    def order_votes(self, request: HttpRequest, queryset: QuerySet[Arena]) -> None:
        for arena in queryset:
            try:
                run = runs.order_people_run(arena=arena, per_pair=1, created_by=request.user)
            except ValidationError as error:
                messages.error(request, f"{arena}: {' '.join(error.messages)}")
            else:
                messages.success(request, f"{arena}: {run.votes_wanted} votes ordered.")


@admin.register(Prompt)
class PromptAdmin(KeptOnce):
    form = PromptForm
    list_display = ["external_id", "arena", "category", "retired_at"]
    list_filter = ["arena"]
    search_fields = ["external_id", "text"]
    raw_id_fields = ["arena", "source"]

    def save_model(self, request: HttpRequest, obj: Prompt, form: Any, change: bool) -> None:
        obj.html = None
        super().save_model(request, obj, form, change)
        sync_pairs(arena=obj.arena)

    def get_readonly_fields(self, request: HttpRequest, obj: Prompt | None = None) -> list[str]:
        """A prompt that something was made with is retired, not changed."""
        frozen = ["source", "source_row"]
        if obj and fixed_prompts(obj.arena, [obj.pk]):
            frozen += ["arena", "external_id", *CONTENT]
        return frozen


@admin.register(Candidate)
class CandidateAdmin(KeptOnce):
    list_display = ["name", "version", "arena", "model", "variant", "retired_at"]
    list_filter = ["arena"]
    search_fields = ["name", "model"]
    raw_id_fields = ["arena", "source"]
    actions = ["retire"]

    def save_model(self, request: HttpRequest, obj: Candidate, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        sync_pairs(arena=obj.arena)

    def get_readonly_fields(self, request: HttpRequest, obj: Candidate | None = None) -> list[str]:
        """A candidate that something was made with is immutable: an edit is another version.

        What its page promises about its name and its dates holds for operators, too.
        """
        frozen = ["source", "source_row", *PROMISED]
        if obj and is_fixed(obj):
            frozen += ["arena", "team", "name", "version", "created_by", *DEFAULTS]
        return frozen

    @admin.action(description="Retire the chosen candidates", permissions=["change"])
    def retire(self, request: HttpRequest, queryset: QuerySet[Candidate]) -> None:
        for candidate in queryset:
            retire_candidate(candidate=candidate, by=actor_of(request), now=timezone.now())
        messages.success(request, "Retired: nobody is shown them any more. Their votes stay.")


@admin.register(Response)
class ResponseAdmin(ReadOnly):
    list_display = ["candidate", "prompt", "names_itself"]
    list_filter = ["names_itself", "candidate__arena"]
    list_select_related = ["candidate", "prompt"]
    search_fields = ["text"]


def may_void(request: HttpRequest) -> bool:
    """Voiding is what changing a vote means here."""
    return bool(request.user.has_perm("arena.change_vote"))


@admin.register(Rater)
class RaterAdmin(KeptOnce):
    list_display = ["__str__", "kind", "user", "arena", "created_at", "blocked_at"]
    list_filter = ["kind"]
    search_fields = ["name"]
    raw_id_fields = ["user", "arena"]
    readonly_fields = ["kind", "user", "arena", "created_at"]
    actions = ["void_votes"]

    @admin.action(description="Void all votes of the chosen raters", permissions=["void"])
    def void_votes(self, request: HttpRequest, queryset: QuerySet[Rater]) -> None:
        reason, now = f"rater voided by {request.user}", timezone.now()
        done = sum(voting.void_rater(rater=r, reason=reason, now=now) for r in queryset)
        messages.success(request, f"{done} votes voided; these raters can cast no more.")

    def has_void_permission(self, request: HttpRequest) -> bool:
        return may_void(request)


@admin.register(Comparison)
class ComparisonAdmin(ReadOnly):
    list_display = ["key", "arena", "left", "right", "rater", "issued_at", "skipped_at"]
    list_filter = ["arena", "names_itself"]
    list_select_related = ["arena", "left", "right", "rater"]


@admin.register(Vote)
class VoteAdmin(ReadOnly):
    list_display = ["pk", "arena", "rater", "outcome", "preference", "cast_at", "voided_at"]
    list_filter = ["arena", "outcome", "rater__kind"]
    list_select_related = ["arena", "rater"]
    actions = ["void"]

    @admin.action(description="Void the chosen votes", permissions=["void"])
    def void(self, request: HttpRequest, queryset: QuerySet[Vote]) -> None:
        reason = f"voided by {request.user}"
        done = [voting.void_vote(vote=v, reason=reason, now=timezone.now()) for v in queryset]
        messages.success(request, f"{sum(done)} votes voided; they stay on record.")

    def has_void_permission(self, request: HttpRequest) -> bool:
        return may_void(request)


@admin.register(Run)
class RunAdmin(ReadOnly):
    list_display = ["__str__", "arena", "state", "votes_done", "votes_wanted", "created_at"]
    list_filter = ["kind", "state"]
    list_select_related = ["arena"]
    actions = ["cancel"]

    @admin.action(description="Cancel the chosen runs", permissions=["cancel"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        for run in queryset:
            runs.cancel_run(run=run, now=timezone.now())

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        """Cancelling is what changing a run means here."""
        return bool(request.user.has_perm("arena.change_run"))


@admin.register(Call)
class CallAdmin(ReadOnly):
    list_display = ["pk", "endpoint", "model", "state", "requests", "paid", "finished_at"]
    list_filter = ["state", "endpoint"]

    @admin.display(description="cost", ordering="cost")
    def paid(self, obj: Call) -> str:
        return dollars(obj.cost)


@admin.register(RunAsker)
class RunAskerAdmin(ReadOnly):
    list_display = ["run", "endpoint", "model", "paused_at", "pause_reason"]
    list_filter = ["endpoint"]
    list_select_related = ["run"]


@admin.register(Price)
class PriceAdmin(ReadOnly):
    """Prices are entered by `manage.py price`, which takes dollars and checks them."""

    list_display = ["endpoint", "model", "input", "output", "entered_at"]
    list_filter = ["endpoint"]

    @admin.display(description="input, per million tokens", ordering="input_per_million")
    def input(self, obj: Price) -> str:
        return dollars(obj.input_per_million)

    @admin.display(description="output, per million tokens", ordering="output_per_million")
    def output(self, obj: Price) -> str:
        return dollars(obj.output_per_million)


@admin.register(Capability)
class CapabilityAdmin(ReadOnly):
    list_display = [
        "endpoint",
        "model",
        "json_schema",
        "temperature",
        "seed",
        "logprobs",
        "dropped",
        "probed_at",
    ]
    list_filter = ["endpoint"]


@admin.register(EndpointPace)
class EndpointPaceAdmin(ReadOnly):
    list_display = ["endpoint", "requests_until", "tokens_until"]


@admin.register(Import)
class ImportAdmin(ReadOnly):
    list_display = ["file_name", "arena", "format", "rows_added", "started_at", "revealed_at"]
    list_select_related = ["arena"]


@admin.register(Pair)
class PairAdmin(ReadOnly):
    list_display = ["low", "high", "arena", "weight", "shared_prompts", "low_left", "high_left"]
    list_filter = ["arena"]
    list_select_related = ["low", "high", "arena"]


@admin.register(PairDemand)
class PairDemandAdmin(ReadOnly):
    list_display = ["pair", "run", "remaining"]
    list_select_related = ["pair", "run"]


@admin.register(RateLimit)
class RateLimitAdmin(ReadOnly):
    list_display = ["key", "window_started_at", "hits"]
