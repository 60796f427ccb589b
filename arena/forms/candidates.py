"""What is filled in about a candidate."""

import hashlib
from datetime import UTC, datetime, time
from typing import Any

from django import forms
from django.conf import settings
from django.utils.html import format_html

from arena.calls.prices import SCRIPTED_MODEL, known_models
from arena.forms.blaming import blame
from arena.forms.prompts import ObjectField
from arena.forms.readers import from_when, who_reads
from arena.models import Arena, Candidate, Team
from arena.services.candidate_checks import (
    DEFAULTS,
    CandidateRefused,
    check_name_is_free,
    check_privacy,
    checked_candidate_name,
    checked_fields,
)
from arena.services.parameters import KNOWN

PLAIN = ("temperature", "max_tokens", "top_p", "seed")
MADE_OF = ("system_prompt", "user_template", "endpoint", "model", "notes")
OPERATORS = "The operators of this site"


def _area(rows: int) -> forms.Textarea:
    return forms.Textarea(attrs={"rows": rows, "spellcheck": "false"})


def _number(label: str, whole: bool = False) -> forms.Field:
    widget = forms.NumberInput(attrs={"step": "1" if whole else "any"})
    kind: Any = forms.IntegerField if whole else forms.FloatField
    field: forms.Field = kind(label=label, required=False, widget=widget)
    return field


class VersionForm(forms.Form):
    """What a version of a candidate is made of, and how long its name stays private."""

    system_prompt = forms.CharField(
        label="System prompt", required=False, strip=False, widget=_area(6)
    )
    user_template = forms.CharField(
        label="User template",
        required=False,
        strip=False,
        widget=_area(5),
        help_text="{{ prompt }} stands for the prompt’s text, and other names for the prompt’s own"
        " variables. Empty: the prompt’s text alone.",
    )
    endpoint = forms.ChoiceField(
        label="Where its answers come from",
        required=False,
        help_text="The operator of this site lists the endpoints.",
    )
    model = forms.CharField(
        label="Model",
        required=False,
        max_length=200,
        widget=forms.TextInput(
            attrs={"spellcheck": "false", "autocapitalize": "off", "list": "known-models"}
        ),
        help_text="As the endpoint calls it, best with its date or version. At scripted write"
        f" {SCRIPTED_MODEL}.",
    )
    temperature = _number("Temperature")
    max_tokens = _number("Most tokens", whole=True)
    top_p = _number("Top p")
    seed = _number("Seed", whole=True)
    more_parameters = ObjectField(
        label="More parameters",
        help_text='A JSON object, as in {"presence_penalty": 0.5}.',
        error_messages={"invalid": 'This is not JSON. Write an object, as in {"stop": ["END"]}.'},
    )
    notes = forms.CharField(
        label="Notes",
        required=False,
        strip=False,
        widget=_area(2),
        help_text="For your team, and for whoever reads the candidate’s page.",
    )
    private_until_votes = forms.IntegerField(label="Until this many votes", required=False)
    private_until = forms.DateField(
        label="Until this day",
        required=False,
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
    )

    def __init__(self, *args: Any, arena: Arena, now: datetime, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.arena = arena
        self.now = now
        for name in ("system_prompt", "user_template"):
            field = self.fields[name]
            # Whoever types a prompt in reads here who will read it, before anybody else does.
            said = who_reads(arena, "it")
            field.help_text = format_html("<strong>{}</strong> {}", said, field.help_text)
        endpoint = self.fields["endpoint"]
        assert isinstance(endpoint, forms.ChoiceField)
        endpoint.choices = endpoint_choices()
        endpoint.error_messages["invalid_choice"] = "The operator has listed no such endpoint."

    @classmethod
    def of(cls, candidate: Candidate, *, now: datetime) -> "VersionForm":
        """The form as a candidate fills it in, as private as it still is."""
        given = candidate.parameters
        initial = {name: getattr(candidate, name) for name in MADE_OF}
        initial |= {name: given.get(name) for name in PLAIN}
        initial["more_parameters"] = {k: v for k, v in given.items() if k not in PLAIN}
        if candidate.disclosed_at is None:
            until = candidate.private_until
            initial["private_until_votes"] = candidate.private_until_votes
            initial["private_until"] = until and until.astimezone(UTC).date()
        return cls(initial=initial, arena=candidate.arena, now=now)

    def clean_private_until(self) -> datetime | None:
        day = self.cleaned_data["private_until"]
        return None if day is None else datetime.combine(day, time(), tzinfo=UTC)

    def clean(self) -> dict[str, Any]:
        super().clean()
        for name in PLAIN:
            value = self.cleaned_data.get(name)
            if value is not None and (wrong := KNOWN[name](value)):
                self.add_error(name, f"It {wrong}.")
        if not self.errors:
            self.check()
        return self.cleaned_data

    def check(self) -> None:
        """Blame what the service would turn down, before anything is written."""
        chosen = self.cleaned_data
        try:
            self.made_of = checked_fields(self.arena, DEFAULTS | self.fields_given())
            check_privacy(chosen["private_until_votes"], chosen["private_until"], self.now)
        except CandidateRefused as refusal:
            self.blame(refusal)

    def blame(self, refusal: CandidateRefused) -> None:
        """Put a refusal where it belongs; the parameters have several fields."""
        if refusal.field == "parameters":
            self.add_error("more_parameters", refusal.sentence)
        else:
            blame(self, refusal)

    def fields_given(self) -> dict[str, Any]:
        chosen = self.cleaned_data
        return {name: chosen[name] for name in MADE_OF} | {"parameters": self._parameters()}

    def _parameters(self) -> Any:
        chosen = self.cleaned_data
        more = chosen["more_parameters"]
        if not isinstance(more, dict):
            return more
        return more | {name: chosen[name] for name in PLAIN if chosen[name] is not None}

    def says_privacy(self) -> bool:
        """Did the form ask for it? It does not while a version can be changed in place."""
        return self.add_prefix("private_until_votes") in self.data

    def privacy(self) -> dict[str, Any]:
        names = ("private_until_votes", "private_until")
        return {name: self.cleaned_data[name] for name in names}

    def readers(self) -> str:
        """Who will read the texts, and from when on, as far as this form decides that."""
        given = self.privacy() if self.says_privacy() else None
        when = from_when(given["private_until_votes"], given["private_until"]) if given else ""
        return who_reads(self.arena, "these texts", when)

    def known_models(self) -> list[tuple[str, str]]:
        """Models that the endpoints are known to have, as (endpoint, model)."""
        return known_models()

    def fingerprint(self) -> str:
        """Name what was filled in, so that what is saved is what was looked at."""
        filled = {name: self.data.get(self.add_prefix(name), "") for name in sorted(self.fields)}
        return hashlib.sha256(repr(filled).encode("utf-8", "surrogatepass")).hexdigest()[:32]


class CandidateForm(VersionForm):
    """A new candidate."""

    team = forms.ChoiceField(label="Team")
    name = forms.CharField(
        label="Name",
        max_length=200,
        error_messages={"required": "Give the candidate a name."},
        help_text="As the board shows it. Versions are counted by themselves.",
    )
    field_order = ["team", "name"]

    def __init__(self, *args: Any, teams: list[Team | None], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.teams = {str(team.pk) if team else "": team for team in teams}
        field = self.fields["team"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(key, str(team or OPERATORS)) for key, team in self.teams.items()]
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
            return checked_candidate_name(self.cleaned_data["name"])
        except CandidateRefused as refusal:
            raise forms.ValidationError(refusal.sentence) from None

    def check(self) -> None:
        super().check()
        team = self.team_chosen
        try:
            check_name_is_free(self.arena, self.cleaned_data["name"], team.pk if team else None)
        except CandidateRefused as refusal:
            self.blame(refusal)


def endpoint_choices() -> list[tuple[str, str]]:
    """The endpoints that the operator listed, by name alone."""
    named = {"scripted": "scripted: no real model, to try things out"}
    listed = [(name, f"Generated at {named.get(name, name)}") for name in settings.MODEL_ENDPOINTS]
    return [("", "We upload them"), *listed]
