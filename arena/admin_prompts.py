"""A prompt as an operator adds, changes or retires it in the admin."""

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils import timezone

from arena.access import actor_of
from arena.admin_base import ThroughServices
from arena.models import Prompt
from arena.services.prompt_plan import CONTENT
from arena.services.prompts import (
    PromptRefused,
    add_prompt,
    bring_back_prompt,
    check_is_no_double,
    checked_changes,
    fixed_prompts,
    retire_prompt,
    revise_prompt,
)

TOLD_APART_BY = ("arena", "text", "variables")


class PromptForm(ModelForm):
    """What every other way in refuses, this one does too."""

    def clean_variables(self) -> dict[str, Any]:
        """Variables are an object or nothing."""
        variables = self.cleaned_data["variables"] or {}
        if not isinstance(variables, dict):
            raise ValidationError("The variables are not an object.")
        return variables

    def clean(self) -> dict[str, Any]:
        """Check what is new, and compare it with the other prompts."""
        said: dict[str, Any] = super().clean() or self.cleaned_data
        try:
            said |= checked_changes(self.content)
            self._compare(said)
        except PromptRefused as refusal:
            self.add_error(refusal.field, refusal.sentence)
        return said

    @property
    def content(self) -> dict[str, Any]:
        """What the prompt is to say now that it did not before."""
        new = [name for name in CONTENT if name in self.changed_data]
        return {name: self.cleaned_data[name] for name in new if name in self.cleaned_data}

    def _compare(self, said: dict[str, Any]) -> None:
        if not {*TOLD_APART_BY} & {*self.changed_data} or {*TOLD_APART_BY} & {*self.errors}:
            return
        draft = Prompt(
            pk=self.instance.pk,
            **{name: said.get(name, getattr(self.instance, name, None)) for name in TOLD_APART_BY},
        )
        if draft.text:
            check_is_no_double(prompt=draft)


class PromptAdmin(ThroughServices):
    form = PromptForm
    list_display = ["external_id", "arena", "category", "retired_at"]
    list_filter = ["arena"]
    search_fields = ["external_id", "text"]
    raw_id_fields = ["arena"]
    actions = ["retire", "bring_back"]

    def save_model(self, request: HttpRequest, obj: Prompt, form: Any, change: bool) -> None:
        if change:
            revise_prompt(prompt=obj, by=actor_of(request), **form.content)
        else:
            add_prompt(prompt=obj, by=actor_of(request))

    def get_readonly_fields(self, request: HttpRequest, obj: Prompt | None = None) -> list[str]:
        """A prompt that something was made with is retired, not changed."""
        frozen = ["source", "source_row", "retired_at"]
        if obj:
            frozen += ["arena", "external_id"]
        if obj and fixed_prompts(obj.arena, [obj.pk]):
            frozen += CONTENT
        return frozen

    @admin.action(description="Retire the chosen prompts", permissions=["change"])
    def retire(self, request: HttpRequest, queryset: QuerySet[Prompt]) -> None:
        for prompt in queryset:
            retire_prompt(prompt=prompt, by=actor_of(request), now=timezone.now())
        messages.success(request, "Retired: nobody is shown them any more. Their votes stay.")

    @admin.action(description="Bring the chosen prompts back", permissions=["change"])
    def bring_back(self, request: HttpRequest, queryset: QuerySet[Prompt]) -> None:
        for prompt in queryset:
            bring_back_prompt(prompt=prompt, by=actor_of(request))
        messages.success(request, "Raters are shown them again.")
