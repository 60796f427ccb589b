"""The forms of candidates and their versions."""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, time
from itertools import count
from pathlib import PurePath
from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.forms.utils import ErrorDict

from arena.calls.money import dollars
from arena.calls.prices import SCRIPTED_MODEL, known_models, price_of
from arena.endpoints import all_endpoints
from arena.forms.base import (
    TEXT_FILES,
    DollarsField,
    RowForm,
    add_service_error,
    disclosure_text,
    text_in,
    visibility_text,
)
from arena.forms.prompts import ConversationField, ObjectField
from arena.models import Arena, Candidate, Team
from arena.services.candidate_checks import (
    KNOWN,
    CandidateError,
    check_is_different,
    check_name_is_free,
    check_privacy,
    clean_candidate_name,
    clean_content,
)
from arena.services.candidates import VariantError, own_active
from arena.validation import MOST, InputError

PARAMETERS = ("temperature", "reasoning_effort", "max_tokens", "top_p", "seed")
ADMINISTRATORS = "The site’s administrators"


def text_area(rows: int) -> forms.Textarea:
    return forms.Textarea(attrs={"rows": rows, "spellcheck": "false"})


def decimal_field(label: str) -> forms.FloatField:
    widget = forms.NumberInput(attrs={"step": "any"})
    return forms.FloatField(label=label, required=False, widget=widget)


def integer_field(label: str) -> forms.IntegerField:
    widget = forms.NumberInput(attrs={"step": "1"})
    return forms.IntegerField(label=label, required=False, widget=widget)


TEXTS = ("name", "system_prompt", "user_template", "messages")
DETAILS = [
    name
    for name in Candidate.CONTENT
    if name not in (*TEXTS, "endpoint", "model", "variant", "parameters", "notes")
]
TEXT_WIDGETS = {"system_prompt": text_area(5), "user_template": text_area(5)}


class SettingsForm(RowForm):
    """What a candidate has besides its texts and its model, and how long it stays private."""

    temperature = decimal_field("Temperature")
    max_tokens = integer_field("Maximum tokens")
    top_p = decimal_field("Top-p")
    seed = integer_field("Seed")
    reasoning_effort = forms.CharField(
        label="Reasoning effort",
        required=False,
        max_length=50,
        help_text="For example low or high.",
    )
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
        fields = ["notes", *DETAILS]
        widgets = {
            "notes": text_area(2),
            "link": forms.URLInput(attrs={"spellcheck": "false", "autocapitalize": "off"}),
        }

    def __init__(self, *args: Any, arena: Arena, now: datetime, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.arena = arena
        self.now = now
        # Authors learn who will read the prompt before they enter it.
        self.notice = visibility_text(arena)
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
        return [self[name] for name in DETAILS]

    @property
    def parameter_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in PARAMETERS]

    def clean_private_until(self) -> datetime | None:
        day = self.cleaned_data["private_until"]
        return None if day is None else datetime.combine(day, time(), tzinfo=UTC)

    def clean(self) -> dict[str, Any]:
        super().clean()
        for name in PARAMETERS:
            value = self.cleaned_data.get(name)
            if value not in (None, "") and (problem := KNOWN[name](value)):
                self.add_error(name, f"It {problem}.")
        if not self.errors:
            self.check()
        return self.cleaned_data

    def check(self) -> None:
        """Add the errors that the service would raise, before anything is written."""
        data = self.cleaned_data
        try:
            check_privacy(data["private_until_votes"], data["private_until"], self.now)
        except CandidateError as error:
            self.add_candidate_error(error)

    def content(self) -> dict[str, Any]:
        """The fields of a candidate's content that the form has."""
        data = self.cleaned_data
        parameters = data["more_parameters"]
        if isinstance(parameters, dict):
            given = {name: data[name] for name in PARAMETERS if data[name] not in (None, "")}
            parameters = parameters | given
        fields = {name: data[name] for name in Candidate.CONTENT if name in data}
        return fields | {"parameters": parameters}

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

    def fingerprint(self) -> str:
        """A digest of the input, so that only what was previewed is saved."""
        return digest_of(
            {name: self.data.get(self.add_prefix(name), "") for name in sorted(self.fields)}
        )


class VersionForm(SettingsForm):
    """The next version of an `instance`; fields that the form does not show keep their values."""

    endpoint = forms.ChoiceField(
        label="Answers from",
        required=False,
        help_text="The site’s administrators configure the endpoints.",
    )

    class Meta(SettingsForm.Meta):
        # Files may name a variant; a person says the same by the candidate's name.
        fields = [name for name in Candidate.CONTENT if name not in ("variant", "parameters")]
        field_classes = {"messages": ConversationField}
        widgets = {
            **TEXT_WIDGETS,
            **SettingsForm.Meta.widgets,
            "model": forms.TextInput(
                attrs={"spellcheck": "false", "autocapitalize": "off", "list": "known-models"}
            ),
        }
        help_texts = {
            "model": "The name that the endpoint uses, ideally with its date or version. For the"
            f" scripted endpoint, {SCRIPTED_MODEL}.",
        }

    field_order = [
        *("system_prompt", "user_template", "messages", "endpoint", "model"),
        *(*PARAMETERS, "more_parameters"),
    ]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        endpoint = self.fields["endpoint"]
        assert isinstance(endpoint, forms.ChoiceField)
        endpoint.choices = endpoint_choices()
        endpoint.error_messages["invalid_choice"] = "There is no such endpoint."

    def check(self) -> None:
        try:
            self.configuration = clean_content(self.arena, self.instance.content | self.content())
        except CandidateError as error:
            self.add_candidate_error(error)
        else:
            super().check()

    def known_models(self) -> list[tuple[str, str]]:
        """Suggestions, as (endpoint, model)."""
        return known_models()


MOST_VARIANTS = 20
NO_VARIANT = "Enter at least one prompt, or a name if the model gets the prompts as they are."
TOO_FEW = "Enter at least {} prompts. To compare with no prompt at all, enter a name only."
ELSEWHERE = "elsewhere"
Row = Mapping[str, str]


class VariantForm(RowForm):
    """The name and texts of one of several candidates that are registered at once.

    `label`: its name, or the one that it gets if none is entered.
    """

    class Meta(RowForm.Meta):
        model = Candidate
        fields = list(TEXTS)
        field_classes = {"messages": ConversationField}
        widgets = TEXT_WIDGETS
        help_texts = {
            "name": "",
            "system_prompt": "If empty, no system prompt is sent.",
        }
        error_messages = {"name": {"required": "Enter a name for the candidate."}}

    def __init__(self, *args: Any, label: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.label = label
        self.fields["name"].widget.attrs["placeholder"] = label

    def clean_name(self) -> str:
        try:
            return clean_candidate_name(self.cleaned_data["name"])
        except CandidateError as error:
            raise forms.ValidationError(error.message) from None

    def skip_checks(self) -> None:
        """Show what was entered without errors."""
        self._errors, self.cleaned_data = ErrorDict(), {}

    @property
    def more_is_open(self) -> bool:
        """Whether the fields that most prompts do not need are in use, or have an error."""
        return _is_any_used([self[name] for name in TEXTS[2:]])


class ModelSelect(forms.Select):
    """Models without a price are listed, but cannot be chosen."""

    unpriced: Collection[str] = ()

    def create_option(self, name: str, value: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        option = super().create_option(name, value, *args, **kwargs)
        if value in self.unpriced:
            option["attrs"]["disabled"] = True
        return option


class FilesInput(forms.FileInput):
    allow_multiple_selected = True


class FilesField(forms.FileField):
    """Any number of files."""

    widget = FilesInput

    def clean(self, data: Any, initial: Any = None) -> list[UploadedFile]:
        return [super(FilesField, self).clean(file, initial) for file in data or ()]


class VariantsForm(SettingsForm):
    """One to twenty candidates with one model and the same settings.

    Pasted prompts and text files become rows of their own before anything is saved. `rows`: what
    an empty form begins with; `default_name`: what the nth without a name is called; `variables`:
    those of prompts that are not saved, in place of the arena's.
    """

    team = forms.ChoiceField(label="Team")
    model = forms.ChoiceField(
        label="Model",
        widget=ModelSelect,
        help_text="Prices are for a million tokens. The site’s administrators add models.",
        error_messages={
            "required": "Choose a model.",
            "invalid_choice": "This model is not in the list, or has no price. Choose another one.",
        },
    )
    uploaded_model = forms.CharField(
        label="Model that wrote uploaded answers", required=False, max_length=200
    )
    pasted = forms.CharField(
        label="Paste several prompts",
        required=False,
        widget=text_area(4),
        help_text="Separate them with a line ---. Each becomes a candidate that you can name"
        " before anything is saved.",
    )
    prompt_files = FilesField(
        label="Or choose text files",
        required=False,
        widget=FilesInput(attrs={"accept": ",".join(TEXT_FILES)}),
        help_text=f"Up to {MOST_VARIANTS} files (.txt or .md), one prompt each. Their names"
        " become the candidates’ names.",
    )
    cap = DollarsField(
        label="Spending cap in dollars",
        required=False,
        help_text="For all answers together. Runs pause before they exceed it.",
        error_messages={
            "min_value": "Enter 0 or more.",
            "max_value": f"Enter at most {MOST:,}.",
            "max_digits": "Enter fewer digits.",
            "max_decimal_places": "Enter at most nine decimal places.",
        },
    )

    def __init__(
        self,
        data: Any = None,
        files: Any = None,
        *,
        arena: Arena,
        teams: Sequence[Team | None],
        rows: Sequence[Row] = (),
        default_name: Callable[[int], str] = "Variant {}".format,
        variables: set[str] | None = None,
        like: Candidate | None = None,
        least: int = 1,
        **kwargs: Any,
    ) -> None:
        self.least = least
        self.rows_changed, self.problems = False, list[tuple[str, str]]()
        self.taken, self.default_name = _names_in(arena), default_name
        self.variables = variables
        if data is not None:
            data = data.copy()
            rows = self._take_rows(data, files)
        super().__init__(data, files, arena=arena, instance=like, **kwargs)
        self.sent = data
        self._set_teams(teams)
        self._set_models(like)
        labels = self._labels(rows)
        self.variants = [
            self._variant(number, row, label)
            for number, (row, label) in enumerate(zip(rows, labels, strict=True))
        ]
        if self.is_rearranged and data["do"] == "add":
            self.variants[-1].fields["name"].widget.attrs["autofocus"] = True

    def _take_rows(self, data: Any, files: Any) -> list[Row]:
        """Return what was entered, with what was pasted or chosen as rows of its own."""
        rows = posted_rows(data)
        added, self.problems = rows_of_files(files.getlist("prompt_files") if files else ())
        added = [{"system_prompt": text} for text in split_prompts(data.get("pasted", ""))] + added
        kept = [row for row in rows if _is_filled(row)] if added else rows
        if added and len(kept) + len(added) > MOST_VARIANTS:
            message = (
                f"You can add {MOST_VARIANTS} at once, and these would be {len(kept) + len(added)}."
            )
            self.problems.append(
                ("pasted" if data.get("pasted", "").strip() else "prompt_files", message)
            )
            return rows
        if added:
            data["pasted"] = ""
        do = data.get("do", "")
        if do == "add" and not added:
            kept = [*kept, {}][:MOST_VARIANTS]
        elif do.startswith("remove-"):
            kept = [row for number, row in enumerate(kept) if do != f"remove-{number}"]
        kept = [*kept, *added]
        named = [
            row if row.get("name", "").strip() or not _is_filled(row) else {**row, "name": label}
            for row, label in zip(kept, self._labels(kept), strict=True)
        ]
        self.rows_changed = [dict(row) for row in named] != [dict(row) for row in rows]
        return named

    def _labels(self, rows: Sequence[Row]) -> list[str]:
        """Return the rows' names; those without one get the name of their place if it is free."""
        entered = [row.get("name", "").strip() for row in rows]
        taken = self.taken | {name.casefold() for name in entered}
        labels = list[str]()
        for number, name in enumerate(entered, start=1):
            names = map(self.default_name, count(number))
            labels.append(name or next(free for free in names if free.casefold() not in taken))
            taken.add(labels[-1].casefold())
        return labels

    def _variant(self, number: int, row: Row, label: str) -> VariantForm:
        prefix = f"variant-{number}"
        if not self.is_bound:
            return VariantForm(initial=dict(row), prefix=prefix, label=label)
        data = {f"{prefix}-{name}": row.get(name, "") for name in TEXTS}
        return VariantForm(
            data, prefix=prefix, label=label, empty_permitted=True, use_required_attribute=False
        )

    def _set_teams(self, teams: Sequence[Team | None]) -> None:
        self.teams = {str(team.pk) if team else "": team for team in teams}
        field = self.fields["team"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(key, str(team or ADMINISTRATORS)) for key, team in self.teams.items()]
        field.required = "" not in self.teams
        field.initial = next(iter(self.teams))
        if len(self.teams) == 1:
            field.required, field.widget = False, forms.HiddenInput()

    def _set_models(self, like: Candidate | None) -> None:
        """Offer the models that have a price, and say of the arena's others that they lack one."""
        field = self.fields["model"]
        assert isinstance(field, forms.ChoiceField)
        own = Candidate.objects.none() if self.arena.pk is None else self.arena.candidates
        used = own.exclude(endpoint="").order_by("-pk").values_list("team", "endpoint", "model")
        teams = {team.pk if team else None for team in self.teams.values()}
        last = [(endpoint, model) for team, endpoint, model in used if team in teams]
        known = known_models()
        pairs = list(dict.fromkeys([*known, *last]))
        priced = [pair for pair in pairs if price_of(*pair) is not None]
        field.choices = [
            ("", "Choose a model"),
            *((model_key(*pair), model_label(*pair)) for pair in pairs),
            (ELSEWHERE, "None: upload the answers afterwards"),
        ]
        field.widget.unpriced = {model_key(*pair) for pair in pairs if pair not in priced}
        real = [pair for pair in known if pair[1] != SCRIPTED_MODEL] or known
        if like is not None:
            chosen = model_key(like.endpoint, like.model) if like.endpoint else ELSEWHERE
        elif last and last[0] in priced:
            chosen = model_key(*last[0])
        else:
            chosen = model_key(*real[0]) if len(real) == 1 else ""
        self.initial["model"] = chosen
        if like is not None and not like.endpoint:
            self.initial["uploaded_model"] = like.model

    @property
    def is_rearranged(self) -> bool:
        """Whether a row was to be added or removed, and no more; an unreadable file is reported."""
        do = self.data.get("do", "") if self.is_bound else ""
        return (do == "add" or do.startswith("remove-")) and not self.problems

    @property
    def is_checked(self) -> bool:
        return self.is_bound and not self.is_rearranged

    def full_clean(self) -> None:
        if self.is_rearranged:
            self._errors, self.cleaned_data = ErrorDict(), {}
            for variant in self.variants:
                variant.skip_checks()
        else:
            super().full_clean()

    def is_valid(self) -> bool:
        return super().is_valid() and not any(variant.errors for variant in self.variants)

    @property
    def is_ready(self) -> bool:
        """Whether the candidates can be registered as they are."""
        return self.is_checked and self.is_valid()

    @property
    def settings_are_open(self) -> bool:
        return _is_any_used([*self.parameter_fields, self["more_parameters"]])

    @property
    def details_are_open(self) -> bool:
        names = ("notes", "uploaded_model", *Candidate.PRIVACY)
        return _is_any_used([*self.details, *(self[name] for name in names)])

    @property
    def used(self) -> list[VariantForm]:
        """The rows in which something was entered."""
        return [variant for variant in self.variants if variant.has_changed()]

    @property
    def can_add(self) -> bool:
        return len(self.variants) < MOST_VARIANTS

    @property
    def team_chosen(self) -> Team | None:
        only = next(iter(self.teams.values())) if len(self.teams) == 1 else None
        return only or self.teams.get(self.cleaned_data["team"])

    def clean_model(self) -> str:
        model: str = self.cleaned_data["model"]
        if model in self.fields["model"].widget.unpriced:
            raise forms.ValidationError(self.fields["model"].error_messages["invalid_choice"])
        return model

    def clean(self) -> dict[str, Any]:
        for field, problem in self.problems:
            self.add_error(field, problem)
        if len(self.used) < self.least and not self.problems:
            self.add_error(None, NO_VARIANT if self.least == 1 else TOO_FEW.format(self.least))
        return super().clean()

    def check(self) -> None:
        """Check each variant with all others before it, and keep its content as a draft."""
        super().check()
        self.drafts = list[Candidate]()
        others = [] if self.arena.pk is None else list(own_active(self.arena, self.team_chosen))
        endpoint, model = self.endpoint_and_model()
        settings = self.content() | {"endpoint": endpoint, "model": model}
        for variant in self.used:
            if self.errors:
                break  # of the settings, which are those of all
            if variant.is_valid():
                try:
                    self.drafts.append(self._draft(variant, settings, [*others, *self.drafts]))
                except CandidateError as error:
                    self.add_variant_error(variant, error)

    def _draft(
        self, variant: VariantForm, settings: Mapping[str, Any], others: Sequence[Candidate]
    ) -> Candidate:
        """Return the candidate, unsaved. Raises CandidateError."""
        texts = {name: variant.cleaned_data[name] for name in TEXTS}
        name, team = texts.pop("name"), self.team_chosen
        fields = {**settings, **texts}
        content = clean_content(self.arena, Candidate().content | fields, variables=self.variables)
        if name.casefold() in (draft.name.casefold() for draft in self.drafts):
            raise CandidateError(f"Another candidate here is named {name}, too.", field="name")
        if self.arena.pk is not None:
            check_name_is_free(self.arena, name, team.pk if team else None)
        check_is_different(content, others)
        return Candidate(arena=self.arena, team=team, name=name, **content)

    def endpoint_and_model(self) -> tuple[str, str]:
        chosen: str = self.cleaned_data["model"]
        if chosen == ELSEWHERE:
            return "", self.cleaned_data["uploaded_model"]
        endpoint, _, model = chosen.partition(":")
        return endpoint, model

    def add_variant_error(self, variant: VariantForm, error: CandidateError) -> None:
        """Show an error beside its variant, or at the settings if it is about those."""
        if error.field in self.fields or error.field == "parameters":
            self.add_candidate_error(error)
        else:
            add_service_error(variant, error)

    def add_registration_error(self, error: VariantError) -> None:
        self.add_variant_error(self.used[error.number], error)

    def suggest_cap(self, cap: str) -> None:
        """Fill the cap in, unless another one was entered."""
        if self.sent.get("cap", "") in ("", self.sent.get("suggested", "")):
            self.sent["cap"] = cap

    def candidates(self) -> list[dict[str, Any]]:
        """The arguments of `register_candidate` for each variant."""
        return [{"name": draft.name, **draft.content, **self.privacy()} for draft in self.drafts]

    def fingerprint(self) -> str:
        """Of all but the cap, which may be changed once the price is shown."""
        settings = {name: self.data.get(name, "") for name in sorted(self.fields) if name != "cap"}
        return digest_of({**settings, "texts": [dict(variant.data) for variant in self.variants]})


def posted_rows(data: Any) -> list[Row]:
    """Return the names and texts of a sent form's rows, as they were typed."""
    number = data.get("variants", "")
    rows = min(int(number), MOST_VARIANTS) if number.isdecimal() and len(number) < 5 else 0
    return [{name: data.get(f"variant-{n}-{name}", "") for name in TEXTS} for n in range(rows)]


def _is_filled(row: Row) -> bool:
    return any(text.strip() for text in row.values())


def split_prompts(text: str) -> list[str]:
    """Return the prompts between lines of ---."""
    parts = re.split(r"^[ \t]*-{3,}[ \t]*$", text.replace("\r\n", "\n"), flags=re.MULTILINE)
    return [part.strip() for part in parts if part.strip()]


def rows_of_files(files: Iterable[UploadedFile]) -> tuple[list[Row], list[tuple[str, str]]]:
    """Return a row of each text file, and (field, problem) of those that cannot be read."""
    rows, problems = list[Row](), list[tuple[str, str]]()
    for file in files:
        name = PurePath(file.name or "").name
        try:
            rows.append({"name": PurePath(name).stem, "system_prompt": text_in(file)})
        except InputError as error:
            problems.append(("prompt_files", f"{name} {error.reason}."))
    return rows, problems


def _is_any_used(fields: Iterable[forms.BoundField]) -> bool:
    return any(field.value() or field.errors for field in fields)


def _names_in(arena: Arena) -> set[str]:
    if arena.pk is None:
        return set()
    return {name.casefold() for name in arena.candidates.values_list("name", flat=True)}


def free_name(name: str, arena: Arena) -> str:
    """Return `name` with the first number that makes it free in the arena."""
    taken = _names_in(arena)
    numbered = (f"{name} {number}" for number in count(2))
    return next(name for name in numbered if name.casefold() not in taken)


def model_key(endpoint: str, model: str) -> str:
    return f"{endpoint}:{model}"


def model_label(endpoint: str, model: str) -> str:
    """Name a model with its price, or say that it has none."""
    rate = price_of(endpoint, model)
    if rate is None:
        return f"{endpoint}:{model} (no price: cannot be generated)"
    if not rate.input_per_million and not rate.output_per_million:
        scripted = ", not a real model" if model == SCRIPTED_MODEL else ""
        return f"{endpoint}:{model} (free{scripted})"
    prices = dollars(rate.input_per_million), dollars(rate.output_per_million)
    return f"{endpoint}:{model} ({prices[0]} in, {prices[1]} out)"


def digest_of(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(repr(values).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def endpoint_choices() -> list[tuple[str, str]]:
    names = {"scripted": "scripted (not a real model, for testing)"}
    return [
        ("", "Uploads"),
        *((name, f"Generated at {names.get(name, name)}") for name in all_endpoints()),
    ]
