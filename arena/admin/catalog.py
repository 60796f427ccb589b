"""The admin of arenas, candidates, prompts, votes, runs, and the tables of model calls."""

from typing import Any

from allauth.socialaccount.models import SocialApp, SocialToken
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils import timezone

from arena.actors import Actor, actor_of
from arena.admin.base import DeletedInWords, NeverDeleted, ReadOnly, ThroughServices, show_table
from arena.calls.money import dollars
from arena.errors import ServiceError
from arena.models import (
    Arena,
    ArenaTrust,
    Call,
    Candidate,
    Capability,
    Comparison,
    EndpointPace,
    Import,
    NetworkKey,
    Pair,
    PairDemand,
    Price,
    Prompt,
    RateLimit,
    Rater,
    Reason,
    Response,
    Run,
    RunRater,
    RunRequester,
    Vote,
)
from arena.services import audit, orders, runs, voting
from arena.services.arenas import delete_arena, loss_of_arena, update_arena
from arena.services.candidate_checks import (
    DEFAULTS,
    CandidateError,
    check_name_is_free,
    clean_candidate_name,
    clean_fields,
)
from arena.services.candidates import (
    delete_candidate,
    is_in_use,
    loss_of_candidate,
    reason_to_keep_candidate,
    register_candidate,
    retire_candidate,
    revise_candidate,
)
from arena.services.prompts import (
    CONTENT,
    PromptError,
    add_prompt,
    bring_back_prompt,
    check_is_unique,
    clean_changes,
    delete_prompt,
    loss_of_prompt,
    prompts_in_use,
    reason_to_keep_prompt,
    retire_prompt,
    revise_prompt,
)

# The public was promised these dates, so administrators cannot change them either.
PROMISED = ("private_until_votes", "private_until", "disclosed_at", "created_at", "retired_at")
IDENTITY = ("arena", "team", "name")  # of a candidate
PROMPT_IDENTITY = ("arena", "text", "variables")
# Settings that only the arena's own page may change, because it checks them.
ARENA_SETTINGS = (
    "question",
    "criteria",
    "visibility",
    "voters",
    "open_to_teams",
    "open_answers",
    "held_out",
    "rater_cap",
    "self_identifying",
    "counts",
    "counts_tokens",
    "network_share",
)
AUDITED = ("name", "description")

# Credentials of sign-in servers are set in the environment, never in the database.
admin.site.unregister([SocialApp, SocialToken])


# -- Candidates ------------------------------------------------------------------------------------


class CandidateAdminForm(ModelForm):
    """Applies the same checks as the pages and the API."""

    def clean_parameters(self) -> Any:
        return self.cleaned_data["parameters"] or {}

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or self.cleaned_data
        if self.errors or not {*DEFAULTS} & {*self.fields}:
            return data
        try:
            if "name" in self.fields:
                team = data["team"]
                name = clean_candidate_name(data["name"])
                check_name_is_free(data["arena"], name, team.pk if team else None)
            clean_fields(data.get("arena") or self.instance.arena, self.configuration)
        except CandidateError as error:
            self.add_error(error.field or None, error.message)
        return data

    @property
    def configuration(self) -> dict[str, Any]:
        """Return the fields to save; none if the candidate can no longer be changed."""
        return {name: self.cleaned_data[name] for name in DEFAULTS if name in self.cleaned_data}


@admin.register(Candidate)
class CandidateAdmin(DeletedInWords, ThroughServices):
    form = CandidateAdminForm
    list_display = ["name", "version", "arena", "model", "variant", "retired_at"]
    list_filter = ["arena"]
    search_fields = ["name", "model"]
    raw_id_fields = ["arena"]
    actions = ["retire"]
    reason_to_keep = staticmethod(reason_to_keep_candidate)
    loss = staticmethod(loss_of_candidate)

    def save_model(self, request: HttpRequest, obj: Candidate, form: Any, change: bool) -> None:
        by, now = actor_of(request), timezone.now()
        if not change:
            identity = {name: form.cleaned_data[name] for name in IDENTITY}
            obj.pk = register_candidate(by=by, now=now, **identity, **form.configuration).pk
        elif fields := form.configuration:
            revise_candidate(candidate=obj, by=by, now=now, says_privacy=False, **fields)

    def get_readonly_fields(self, request: HttpRequest, obj: Candidate | None = None) -> list[str]:
        """A candidate that has been used is immutable: an edit makes a new version."""
        frozen = ["source", "source_row", "version", "created_by", *PROMISED]
        if obj:
            frozen += IDENTITY
        if obj and is_in_use(obj):
            frozen += DEFAULTS
        return frozen

    @admin.action(description="Archive the selected candidates", permissions=["change"])
    def retire(self, request: HttpRequest, queryset: QuerySet[Candidate]) -> None:
        for candidate in queryset:
            retire_candidate(candidate=candidate, by=actor_of(request), now=timezone.now())
        messages.success(request, "Archived. Raters no longer see them; their votes still count.")

    def delete(self, obj: Candidate, by: Actor) -> None:
        delete_candidate(candidate=obj, by=by)


# -- Prompts ---------------------------------------------------------------------------------------


class PromptAdminForm(ModelForm):
    """Applies the same checks as the pages and the API."""

    def clean_variables(self) -> dict[str, Any]:
        variables = self.cleaned_data["variables"] or {}
        if not isinstance(variables, dict):
            raise ValidationError("Enter a JSON object.")
        return variables

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or self.cleaned_data
        try:
            data |= clean_changes(self.changes)
            self._check_is_no_double(data)
        except PromptError as error:
            self.add_error(error.field, error.message)
        return data

    @property
    def changes(self) -> dict[str, Any]:
        """The changed and valid fields of the prompt's content."""
        changed = [name for name in CONTENT if name in self.changed_data]
        return {name: self.cleaned_data[name] for name in changed if name in self.cleaned_data}

    def _check_is_no_double(self, data: dict[str, Any]) -> None:
        identity = {*PROMPT_IDENTITY}
        if not identity & {*self.changed_data} or identity & {*self.errors}:
            return
        draft = Prompt(
            pk=self.instance.pk,
            **{name: data.get(name, getattr(self.instance, name, None)) for name in identity},
        )
        if draft.text:
            check_is_unique(prompt=draft)


@admin.register(Prompt)
class PromptAdmin(DeletedInWords, ThroughServices):
    form = PromptAdminForm
    list_display = ["external_id", "arena", "category", "retired_at"]
    list_filter = ["arena"]
    search_fields = ["external_id", "text"]
    raw_id_fields = ["arena"]
    actions = ["retire", "bring_back"]
    reason_to_keep = staticmethod(reason_to_keep_prompt)
    loss = staticmethod(loss_of_prompt)

    def save_model(self, request: HttpRequest, obj: Prompt, form: Any, change: bool) -> None:
        if change:
            revise_prompt(prompt=obj, by=actor_of(request), **form.changes)
        else:
            add_prompt(prompt=obj, by=actor_of(request))

    def get_readonly_fields(self, request: HttpRequest, obj: Prompt | None = None) -> list[str]:
        """A prompt that has been used can be archived but not changed."""
        frozen = ["source", "source_row", "retired_at"]
        if obj:
            frozen += ["arena", "external_id"]
        if obj and prompts_in_use(obj.arena, [obj.pk]):
            frozen += CONTENT
        return frozen

    @admin.action(description="Archive the selected prompts", permissions=["change"])
    def retire(self, request: HttpRequest, queryset: QuerySet[Prompt]) -> None:
        for prompt in queryset:
            retire_prompt(prompt=prompt, by=actor_of(request), now=timezone.now())
        messages.success(request, "Archived. Raters no longer see them; their votes still count.")

    @admin.action(description="Restore the selected prompts", permissions=["change"])
    def bring_back(self, request: HttpRequest, queryset: QuerySet[Prompt]) -> None:
        for prompt in queryset:
            bring_back_prompt(prompt=prompt, by=actor_of(request))
        messages.success(request, "Restored. Raters see them again.")

    def delete(self, obj: Prompt, by: Actor) -> None:
        delete_prompt(prompt=obj, by=by)


# -- Arenas ----------------------------------------------------------------------------------------


@admin.register(Arena)
class ArenaAdmin(DeletedInWords, ThroughServices):
    list_display = ["name", "slug", "question", "team", "visibility", "voters", "created_at"]
    search_fields = ["name", "slug"]
    actions = ["order_votes"]
    reason_to_keep = staticmethod(lambda arena: "")
    loss = staticmethod(loss_of_arena)

    def save_model(self, request: HttpRequest, obj: Arena, form: Any, change: bool) -> None:
        audited = {name: form.cleaned_data[name] for name in AUDITED if name in form.changed_data}
        if change and audited:
            update_arena(arena=obj, by=actor_of(request), **audited)
        super().save_model(request, obj, form, change)
        if "team" in form.changed_data:
            audit.record_in(obj, actor_of(request), "gave the team an arena")

    def get_readonly_fields(self, request: HttpRequest, obj: Arena | None = None) -> list[str]:
        """An arena's address and team are permanent; its settings are changed on its own page."""
        if obj is None:
            return ["founded_by"]
        return ["founded_by", "slug", *ARENA_SETTINGS, *(["team"] if obj.team_id else [])]

    @admin.action(description="Request one more human vote per pair")
    def order_votes(self, request: HttpRequest, queryset: QuerySet[Arena]) -> None:
        for arena in queryset:
            try:
                run = orders.order_people_run(arena=arena, per_pair=1, by=actor_of(request))
            except ValidationError as error:
                messages.error(request, f"{arena}: {' '.join(error.messages)}")
            else:
                messages.success(request, f"{arena}: {run.votes_wanted} votes requested.")

    def delete(self, obj: Arena, by: Actor) -> None:
        delete_arena(arena=obj, by=by)


# -- Votes and raters ------------------------------------------------------------------------------


show_table(
    Response,
    "candidate prompt names_itself",
    filters="names_itself candidate__arena",
    search="text",
)


def can_void(request: HttpRequest) -> bool:
    """Return whether the user may void votes, which is the only way to change one."""
    return bool(request.user.has_perm("arena.change_vote"))


@admin.register(Rater)
class RaterAdmin(NeverDeleted):
    list_display = ["__str__", "kind", "user", "arena", "created_at", "blocked_at"]
    list_filter = ["kind"]
    search_fields = ["name"]
    raw_id_fields = ["user", "arena"]
    readonly_fields = ["kind", "user", "arena", "created_at"]
    actions = ["void_votes"]
    has_void_permission = staticmethod(can_void)

    @admin.action(description="Void all votes of the selected raters", permissions=["void"])
    def void_votes(self, request: HttpRequest, queryset: QuerySet[Rater]) -> None:
        by, now = actor_of(request), timezone.now()
        reason = f"rater voided by {request.user}"
        done = sum(voting.void_rater(rater=r, by=by, reason=reason, now=now) for r in queryset)
        messages.success(request, f"{done} votes voided. These raters can no longer vote.")


show_table(
    ArenaTrust, "rater arena trusted decided_at", filters="trusted arena", search="rater__name"
)
show_table(
    Comparison, "key arena left right rater issued_at skipped_at", filters="arena names_itself"
)


@admin.register(Vote)
class VoteAdmin(ReadOnly):
    list_display = ["pk", "arena", "rater", "outcome", "preference", "cast_at", "voided_at"]
    list_filter = ["arena", "outcome", "rater__kind"]
    list_select_related = ["arena", "rater"]
    actions = ["void"]
    has_void_permission = staticmethod(can_void)

    @admin.action(description="Void the selected votes", permissions=["void"])
    def void(self, request: HttpRequest, queryset: QuerySet[Vote]) -> None:
        reason, now = f"voided by {request.user}", timezone.now()
        done = voting.void_votes(votes=queryset, by=actor_of(request), reason=reason, now=now)
        messages.success(request, f"{done} votes voided. They stay on record.")


show_table(Reason, "vote side tag comment", filters="tag")


# -- Runs and model calls --------------------------------------------------------------------------


@admin.register(Run)
class RunAdmin(ReadOnly):
    list_display = ["__str__", "arena", "state", "votes_done", "votes_wanted", "created_at"]
    list_filter = ["kind", "state"]
    list_select_related = ["arena"]
    actions = ["cancel"]

    @admin.action(description="Cancel the selected runs", permissions=["cancel"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        by, now = actor_of(request), timezone.now()
        for run in queryset:
            cancel = orders.cancel_people_run if run.kind == Run.Kind.PERSON else runs.cancel
            try:
                cancel(run=run, by=by, now=now)
            except ServiceError as error:
                messages.error(request, f"{run}: {error}")

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may cancel runs, which is the only way to change one here."""
        return bool(request.user.has_perm("arena.change_run"))


@admin.register(Call)
class CallAdmin(ReadOnly):
    list_display = ["pk", "endpoint", "model", "state", "requests", "paid", "finished_at"]
    list_filter = ["state", "endpoint"]

    @admin.display(description="cost", ordering="cost")
    def paid(self, obj: Call) -> str:
        return dollars(obj.cost)


show_table(RunRequester, "run endpoint model paused_at pause_reason", filters="endpoint")


@admin.register(Price)
class PriceAdmin(ReadOnly):
    """Prices are set by `manage.py price`, in dollars."""

    list_display = ["endpoint", "model", "input", "cached", "output", "entered_at"]
    list_filter = ["endpoint"]

    @admin.display(description="input, per million tokens", ordering="input_per_million")
    def input(self, obj: Price) -> str:
        return dollars(obj.input_per_million)

    @admin.display(description="cached input", ordering="cached_per_million")
    def cached(self, obj: Price) -> str:
        return "" if obj.cached_per_million is None else dollars(obj.cached_per_million)

    @admin.display(description="output, per million tokens", ordering="output_per_million")
    def output(self, obj: Price) -> str:
        return dollars(obj.output_per_million)


show_table(
    Capability,
    "endpoint model json_schema temperature seed logprobs dropped probed_at",
    filters="endpoint",
)
show_table(EndpointPace, "endpoint requests_until tokens_until")


# -- Imports, pairs and rate limits ----------------------------------------------------------------


show_table(Import, "file_name arena format rows_added started_at revealed_at")
show_table(Pair, "low high arena weight shared_prompts low_left high_left", filters="arena")
show_table(PairDemand, "pair run remaining")
show_table(NetworkKey, fields=["period"])
show_table(RunRater, "run rater votes_done votes_wanted repeats_same repeats_done")
show_table(RateLimit, "key window_started_at hits")
