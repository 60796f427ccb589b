"""The forms of candidates and their versions."""

import hashlib
from datetime import UTC, datetime, time
from typing import Any

from django import forms
from django.conf import settings

from arena.calls.servers import SCRIPTED_MODEL, known_models
from arena.forms.base import add_service_error, disclosure_text, visibility_text
from arena.forms.prompts import ConversationField, ObjectField
from arena.models import Arena, Candidate, Team
from arena.models.fields import length_limit
from arena.services.candidate_checks import (
    DEFAULTS,
    KNOWN,
    CandidateError,
    check_name_is_free,
    check_privacy,
    clean_candidate_name,
    clean_fields,
)

PARAMETERS = ("temperature", "max_tokens", "top_p", "seed")
ADMINISTRATORS = "The site’s administrators"


def _area(rows: int) -> forms.Textarea:
    return forms.Textarea(attrs={"rows": rows, "spellcheck": "false"})


def _number(label: str) -> forms.FloatField:
    widget = forms.NumberInput(attrs={"step": "any"})
    return forms.FloatField(label=label, required=False, widget=widget)


def _whole_number(label: str) -> forms.IntegerField:
    widget = forms.NumberInput(attrs={"step": "1"})
    return forms.IntegerField(label=label, required=False, widget=widget)


class VersionForm(forms.Form):
    """A version's configuration, and how long it stays private."""

    system_prompt = forms.CharField(
        label="System prompt", required=False, strip=False, widget=_area(6)
    )
    user_template = forms.CharField(
        label="User template",
        required=False,
        strip=False,
        widget=_area(5),
        help_text="{{ prompt }} is replaced by the prompt’s text, other names by its variables. "
        "If empty, the prompt’s text is sent as is.",
    )
    messages = ConversationField(
        label="Messages",
        help_text="Instead of both, for several turns or examples: a JSON list of messages, each a"
        ' template, for example [{"role": "user", "content": "2 + 2"}, {"role": "assistant",'
        ' "content": "4"}, {"role": "user", "content": "{{ prompt }}"}]. The last one is the'
        " user’s.",
    )
    endpoint = forms.ChoiceField(
        label="Answers from",
        required=False,
        help_text="The site’s administrators configure the endpoints.",
    )
    model = forms.CharField(
        label="Model",
        required=False,
        max_length=length_limit(Candidate, "model"),
        widget=forms.TextInput(
            attrs={"spellcheck": "false", "autocapitalize": "off", "list": "known-models"}
        ),
        help_text="The name that the endpoint uses, ideally with its date or version. For the"
        f" scripted endpoint, {SCRIPTED_MODEL}.",
    )
    temperature = _number("Temperature")
    max_tokens = _whole_number("Maximum tokens")
    top_p = _number("Top-p")
    seed = _whole_number("Seed")
    more_parameters = ObjectField(
        label="More parameters",
        help_text='A JSON object, for example {"presence_penalty": 0.5}.',
        error_messages={"invalid": 'Enter a JSON object, for example {"stop": ["END"]}.'},
    )
    notes = forms.CharField(
        label="Notes",
        required=False,
        strip=False,
        widget=_area(2),
        help_text="For your team and for readers of the candidate’s page.",
    )
    organisation = forms.CharField(
        label="Organisation",
        required=False,
        max_length=length_limit(Candidate, "organisation"),
        help_text="Who made it. Shown below its name on the leaderboard.",
    )
    licence = forms.CharField(
        label="Licence",
        required=False,
        max_length=length_limit(Candidate, "licence"),
        help_text="For example Apache-2.0, or proprietary.",
    )
    link = forms.CharField(
        label="Web page",
        required=False,
        max_length=length_limit(Candidate, "link"),
        widget=forms.URLInput(attrs={"spellcheck": "false", "autocapitalize": "off"}),
    )
    private_until_votes = forms.IntegerField(label="Private until this many votes", required=False)
    private_until = forms.DateField(
        label="Private until this date",
        required=False,
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
    )

    def __init__(
        self,
        *args: Any,
        arena: Arena,
        now: datetime,
        before: Candidate | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        # Fields that the form does not show keep their values.
        self.kept = {name: getattr(before, name) for name in DEFAULTS} if before else DEFAULTS
        self.arena = arena
        self.now = now
        # Authors learn who will read the prompt before they enter it.
        self.notice = visibility_text(arena)
        endpoint = self.fields["endpoint"]
        assert isinstance(endpoint, forms.ChoiceField)
        endpoint.choices = endpoint_choices()
        endpoint.error_messages["invalid_choice"] = "There is no such endpoint."

    @classmethod
    def of(cls, candidate: Candidate, *, now: datetime) -> "VersionForm":
        parameters = candidate.parameters
        initial = {name: getattr(candidate, name) for name in Candidate.CONTENT}
        initial |= {name: parameters.get(name) for name in PARAMETERS}
        initial["more_parameters"] = {
            name: value for name, value in parameters.items() if name not in PARAMETERS
        }
        if candidate.disclosed_at is None:
            until = candidate.private_until
            initial["private_until_votes"] = candidate.private_until_votes
            initial["private_until"] = until and until.astimezone(UTC).date()
        return cls(initial=initial, arena=candidate.arena, now=now, before=candidate)

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
            self.configuration = clean_fields(
                self.arena, self.kept | fields | {"parameters": parameters}
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
        names = ("private_until_votes", "private_until")
        return {name: self.cleaned_data[name] for name in names}

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
    name = forms.CharField(
        label="Name",
        max_length=length_limit(Candidate, "name"),
        error_messages={"required": "Enter a name for the candidate."},
        help_text="Shown on the leaderboard. Versions are numbered automatically.",
    )
    field_order = ["team", "name"]

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
