"""The operator's desk: every table of collecting, written through the services."""

from typing import Any

from allauth.socialaccount.models import SocialApp, SocialToken
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from arena.access import actor_of
from arena.admin_base import KeptOnce, ReadOnly, ThroughServices
from arena.admin_candidates import CandidateAdmin
from arena.admin_prompts import PromptAdmin
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
from arena.services import audit, runs, voiding
from arena.services.arenas import update_arena
from arena.services.refusals import Refused
from arena.services.steering import cancel

# What the arena's own settings check before they change it, and note.
SETTINGS = ("question", "criteria", "visibility", "voters", "open_to_teams")
TOLD = ("name", "description")  # changed here too, by the service that notes it

for model, desk in (TEAM_DESKS | {Candidate: CandidateAdmin, Prompt: PromptAdmin}).items():
    admin.site.register(model, desk)

# Secrets of other servers stand in the environment, and no table is filled with them.
admin.site.unregister([SocialApp, SocialToken])


@admin.register(Arena)
class ArenaAdmin(ThroughServices):
    list_display = ["name", "slug", "question", "team", "visibility", "voters", "created_at"]
    search_fields = ["name", "slug"]
    actions = ["order_votes"]

    def save_model(self, request: HttpRequest, obj: Arena, form: Any, change: bool) -> None:
        told = {name: form.cleaned_data[name] for name in TOLD if name in form.changed_data}
        if change and told:
            update_arena(arena=obj, by=actor_of(request), **told)
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
        """What the settings check is changed there; an arena has its team and address for good."""
        if obj is None:
            return ["founded_by"]
        return ["founded_by", "slug", *SETTINGS, *(["team"] if obj.team_id else [])]

    @admin.action(description="Order one more vote per pair from people")
    def order_votes(self, request: HttpRequest, queryset: QuerySet[Arena]) -> None:
        for arena in queryset:
            try:
                run = runs.order_people_run(arena=arena, per_pair=1, by=actor_of(request))
            except ValidationError as error:
                messages.error(request, f"{arena}: {' '.join(error.messages)}")
            else:
                messages.success(request, f"{arena}: {run.votes_wanted} votes ordered.")


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
        by, now = actor_of(request), timezone.now()
        reason = f"rater voided by {request.user}"
        done = sum(voiding.void_rater(rater=r, by=by, reason=reason, now=now) for r in queryset)
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
        reason, now = f"voided by {request.user}", timezone.now()
        done = voiding.void_votes(votes=queryset, by=actor_of(request), reason=reason, now=now)
        messages.success(request, f"{done} votes voided; they stay on record.")

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
        by, now = actor_of(request), timezone.now()
        for run in queryset:
            end = runs.cancel_run if run.kind == Run.Kind.PERSON else cancel
            try:
                end(run=run, by=by, now=now)
            except Refused as refusal:
                messages.error(request, f"{run}: {refusal}")

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
