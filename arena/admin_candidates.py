"""A candidate as an operator enters, changes or retires it in the admin."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils import timezone

from arena.access import actor_of
from arena.admin_base import ThroughServices
from arena.models import Candidate
from arena.services.candidate_checks import (
    DEFAULTS,
    CandidateRefused,
    check_name_is_free,
    checked_candidate_name,
    checked_fields,
)
from arena.services.candidates import (
    is_fixed,
    register_candidate,
    retire_candidate,
    revise_candidate,
)

PROMISED = ("private_until_votes", "private_until", "disclosed_at", "created_at", "retired_at")
GIVEN = ("arena", "team", "name")


class CandidateForm(ModelForm):
    """What every other way in refuses, this one does too."""

    def clean_parameters(self) -> Any:
        """Parameters are an object or nothing."""
        return self.cleaned_data["parameters"] or {}

    def clean(self) -> dict[str, Any]:
        """Check what the candidate is made of, and what it is called where that is new."""
        said: dict[str, Any] = super().clean() or self.cleaned_data
        if self.errors or not {*DEFAULTS} & {*self.fields}:
            return said
        try:
            self._check(said)
        except CandidateRefused as refusal:
            self.add_error(refusal.field or None, refusal.sentence)
        return said

    @property
    def made_of(self) -> dict[str, Any]:
        """What the candidate is to be made of; nothing where that is fixed."""
        return {name: self.cleaned_data[name] for name in DEFAULTS if name in self.cleaned_data}

    def _check(self, said: dict[str, Any]) -> None:
        if "name" in self.fields:
            team = said["team"]
            name = checked_candidate_name(said["name"])
            check_name_is_free(said["arena"], name, team.pk if team else None)
        checked_fields(said.get("arena") or self.instance.arena, self.made_of)


class CandidateAdmin(ThroughServices):
    form = CandidateForm
    list_display = ["name", "version", "arena", "model", "variant", "retired_at"]
    list_filter = ["arena"]
    search_fields = ["name", "model"]
    raw_id_fields = ["arena"]
    actions = ["retire"]

    def save_model(self, request: HttpRequest, obj: Candidate, form: Any, change: bool) -> None:
        by, now = actor_of(request), timezone.now()
        if not change:
            given = {name: form.cleaned_data[name] for name in GIVEN}
            obj.pk = register_candidate(by=by, now=now, **given, **form.made_of).pk
        elif form.made_of:
            revise_candidate(candidate=obj, by=by, now=now, says_privacy=False, **form.made_of)

    def get_readonly_fields(self, request: HttpRequest, obj: Candidate | None = None) -> list[str]:
        """A candidate that something was made with is immutable: an edit is another version.

        What its page promises about its name and its dates holds for operators, too.
        """
        frozen = ["source", "source_row", "version", "created_by", *PROMISED]
        if obj:
            frozen += GIVEN
        if obj and is_fixed(obj):
            frozen += DEFAULTS
        return frozen

    @admin.action(description="Retire the chosen candidates", permissions=["change"])
    def retire(self, request: HttpRequest, queryset: QuerySet[Candidate]) -> None:
        for candidate in queryset:
            retire_candidate(candidate=candidate, by=actor_of(request), now=timezone.now())
        messages.success(request, "Retired: nobody is shown them any more. Their votes stay.")
