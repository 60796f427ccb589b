"""The forms of candidates and their versions."""

import hashlib
from datetime import UTC, datetime, time
from typing import Any

from django import forms
from django.conf import settings

from arena.calls.prices import SCRIPTED_MODEL, known_models
from arena.forms.base import RowForm, add_service_error, disclosure_text, visibility_text
from arena.forms.prompts import ConversationField, ObjectField
from arena.models import Arena, Candidate, Team
from arena.services.candidate_checks import (
    KNOWN,
    CandidateError,
    check_name_is_free,
    check_privacy,
    clean_candidate_name,
    clean_content,
)

PARAMETERS = ("temperature", "max_tokens", "top_p", "seed")
ADMINISTRATORS = "The site’s administrators"


def text_area(rows: int) -> forms.Textarea:
    return forms.Textarea(attrs={"rows": rows, "spellcheck": "false"})


def decimal_field(label: str) -> forms.FloatField:
    widget = forms.NumberInput(attrs={"step": "any"})
    return forms.FloatField(label=label, required=False, widget=widget)


def integer_field(label: str) -> forms.IntegerField:
    widget = forms.NumberInput(attrs={"step": "1"})
    return forms.IntegerField(label=label, required=False, widget=widget)


class VersionForm(RowForm):
    """A version's configuration, and how long it stays private.

    With an `instance`, its next version; fields that the form does not show keep their values.
    """

    endpoint = forms.ChoiceField(
        label="Answers from",
        required=False,
        help_text="The site’s administrators configure the endpoints.",
    )
    temperature = decimal_field("Temperature")
    max_tokens = integer_field("Maximum tokens")
    top_p = decimal_field("Top-p")
    seed = integer_field("Seed")
    more_parameters = ObjectField(
        label="More parameters",
        help_text='A JSON object, for example {"presence_penalty": 0.5}.',
        error_messages={"invalid": 'Enter a JSON object, for example {"stop": ["END"]}.'},
    )
    private_until_votes = forms.IntegerField(label="Private until this many votes", required=False)
    private_until = forms.DateField(
        label="Private until this date",
        required=False,
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
    )

    class Meta(RowForm.Meta):
        model = Candidate
        # Files may name a variant; a person says the same by the candidate's name.
        fields = [name for name in Candidate.CONTENT if name not in ("variant", "parameters")]
        field_classes = {"messages": ConversationField}
        widgets = {
            "system_prompt": text_area(6),
            "user_template": text_area(5),
            "model": forms.TextInput(
                attrs={"spellcheck": "false", "autocapitalize": "off", "list": "known-models"}
            ),
            "notes": text_area(2),
            "link": forms.URLInput(attrs={"spellcheck": "false", "autocapitalize": "off"}),
        }
        help_texts = {
            "model": "The name that the endpoint uses, ideally with its date or version. For the"
            f" scripted endpoint, {SCRIPTED_MODEL}.",
        }

    field_order = [
        *("system_prompt", "user_template", "messages", "endpoint", "model"),
        *(*PARAMETERS, "more_parameters"),
    ]

    def __init__(self, *args: Any, arena: Arena, now: datetime, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.arena = arena
        self.now = now
        # Authors learn who will read the prompt before they enter it.
        self.notice = visibility_text(arena)
        endpoint = self.fields["endpoint"]
        assert isinstance(endpoint, forms.ChoiceField)
        endpoint.choices = endpoint_choices()
        endpoint.error_messages["invalid_choice"] = "There is no such endpoint."
        before: Candidate = self.instance
        self.initial.update((name, before.parameters.get(name)) for name in PARAMETERS)
        self.initial["more_parameters"] = {
            name: value for name, value in before.parameters.items() if name not in PARAMETERS
        }
        if before.disclosed_at is None:
            until = before.private_until
            self.initial["private_until_votes"] = before.private_until_votes
            self.initial["private_until"] = until and until.astimezone(UTC).date()

    @property
    def details(self) -> list[forms.BoundField]:
        """What only describes the candidate, beside its notes: a field of its own for each."""
        others = {*VersionForm.field_order, "notes", "name", "team", *Candidate.PRIVACY}
        return [field for field in self if field.name not in others]

    def clean_private_until(self) -> datetime | None:
        day = self.cleaned_data["private_until"]
        return None if day is None else datetime.combine(day, time(), tzinfo=UTC)

    def clean(self) -> dict[str, Any]:
        super().clean()
        for name in PARAMETERS:
            value = self.cleaned_data.get(name)
            if value is not None and (problem := KNOWN[name](value)):
                self.add_error(name, f"It {problem}.")
        if not self.errors:
            self.check()
        return self.cleaned_data

    def check(self) -> None:
        """Add the errors that the service would raise, before anything is written."""
        data = self.cleaned_data
        parameters = data["more_parameters"]
        if isinstance(parameters, dict):
            parameters = parameters | {
                name: data[name] for name in PARAMETERS if data[name] is not None
            }
        fields = {name: data[name] for name in Candidate.CONTENT if name in data}
        try:
            self.configuration = clean_content(
                self.arena, self.instance.content | fields | {"parameters": parameters}
            )
            check_privacy(data["private_until_votes"], data["private_until"], self.now)
        except CandidateError as error:
            self.add_candidate_error(error)

    def add_candidate_error(self, error: CandidateError) -> None:
        """Like `add_service_error`, but show errors of the parameters at `more_parameters`."""
        if error.field == "parameters":
            self.add_error("more_parameters", error.message)
        else:
            add_service_error(self, error)

    def says_privacy(self) -> bool:
        """Whether the form had privacy fields; it has none if the version is changed in place."""
        return self.add_prefix("private_until_votes") in self.data

    def privacy(self) -> dict[str, Any]:
        return {name: self.cleaned_data[name] for name in Candidate.PRIVACY}

    def readers(self) -> str:
        """A sentence about who will read the texts, and from when if the form sets that."""
        when = ""
        if self.says_privacy():
            data = self.cleaned_data
            when = disclosure_text(data["private_until_votes"], data["private_until"])
        return visibility_text(self.arena, when)

    def known_models(self) -> list[tuple[str, str]]:
        """Suggestions, as (endpoint, model)."""
        return known_models()

    def fingerprint(self) -> str:
        """A digest of the input, so that only what was previewed is saved."""
        values = {name: self.data.get(self.add_prefix(name), "") for name in sorted(self.fields)}
        return hashlib.sha256(repr(values).encode("utf-8", "surrogatepass")).hexdigest()[:32]


class CandidateForm(VersionForm):
    team = forms.ChoiceField(label="Team")

    class Meta(VersionForm.Meta):
        fields = ["name", *VersionForm.Meta.fields]
        error_messages = {"name": {"required": "Enter a name for the candidate."}}

    field_order = ["team", "name", *VersionForm.field_order]

    def __init__(self, *args: Any, teams: list[Team | None], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.teams = {str(team.pk) if team else "": team for team in teams}
        field = self.fields["team"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(key, str(team or ADMINISTRATORS)) for key, team in self.teams.items()]
        field.required = "" not in self.teams
        field.initial = next(iter(self.teams))
        if len(self.teams) == 1:
            field.required, field.widget = False, forms.HiddenInput()

    @property
    def team_chosen(self) -> Team | None:
        only = next(iter(self.teams.values())) if len(self.teams) == 1 else None
        return only or self.teams.get(self.cleaned_data["team"])

    def clean_name(self) -> str:
        try:
            return clean_candidate_name(self.cleaned_data["name"])
        except CandidateError as error:
            raise forms.ValidationError(error.message) from None

    def check(self) -> None:
        super().check()
        team = self.team_chosen
        try:
            check_name_is_free(self.arena, self.cleaned_data["name"], team.pk if team else None)
        except CandidateError as error:
            self.add_candidate_error(error)


def endpoint_choices() -> list[tuple[str, str]]:
    names = {"scripted": "scripted (not a real model, for testing)"}
    return [
        ("", "Uploads"),
        *((name, f"Generated at {names.get(name, name)}") for name in settings.MODEL_ENDPOINTS),
    ]
