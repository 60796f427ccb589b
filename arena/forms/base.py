"""Service errors on forms, texts about a candidate's readers, and the forms of runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from django import forms
from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.db import models
from django.db.models import Q
from django.http import HttpRequest

from arena.errors import ServiceError
from arena.models import Arena, Candidate
from arena.models.fields import checks_of, length_limit
from arena.validation import MOST, InputError, nano_dollars

READERS = {
    Arena.Visibility.PUBLIC: "This arena is public: everyone can read",
    Arena.Visibility.UNLISTED: "This arena is unlisted: everyone with a link can read",
    Arena.Visibility.PRIVATE: "This arena is private: only its team can read",
}


def form_field(
    field: "models.Field[Any, Any]", *, limits_texts: bool = False, **options: Any
) -> forms.Field | None:
    """Return the field's form field as Django makes it, stripped only if the stored text is.

    `limits_texts`: the browser too refuses long texts, as it does long names.
    """
    if limits_texts and isinstance(field, models.TextField):
        options["max_length"] = length_limit(field.model, field.name)
    made: Any = field.formfield(show_hidden_initial=False, **options)
    if isinstance(made, forms.CharField):
        checks = checks_of(field.model, field.name)
        made.strip = all(check.options.get("strip", True) for check in checks)
    return made


class RowForm(forms.ModelForm):
    """A form whose fields are those of a model, with its labels, limits and help texts.

    A service checks and writes what was entered, in its own words, so the form saves no row.
    """

    class Meta:
        formfield_callback = form_field

    def _post_clean(self) -> None:
        """Leave `instance` as it is: pages compare it with what was entered."""


def candidate_choices(arena: Arena, chosen: int | None = None) -> list[tuple[str, str]]:
    """The candidates that can still be compared, and the one that was chosen already, by the names
    that the arena's team knows."""
    offered = Q(retired_at=None) | Q(pk=chosen)
    active = Candidate.objects.revealed().filter(offered, arena=arena).order_by("pk")
    return [
        (str(row.pk), row.own_name if row.team_id in (None, arena.team_id) else str(row))
        for row in active.only("name", "version", "disclosed_at", "team")
    ]


def add_service_error(form: forms.BaseForm, error: ServiceError) -> None:
    """Show a service's error at its field, or above the form if it has none."""
    form.add_error(error.field if error.field in form.fields else None, error.message)


@contextmanager
def errors_in(form: forms.BaseForm) -> Iterator[None]:
    try:
        yield
    except ServiceError as error:
        add_service_error(form, error)


@contextmanager
def errors_as_messages(request: HttpRequest) -> Iterator[None]:
    try:
        yield
    except ServiceError as error:
        messages.error(request, error.message)


def visibility_text(arena: Arena, when: str = "") -> str:
    """Return a sentence about who can read a candidate's texts, and from when."""
    readers = READERS[Arena.Visibility(arena.visibility)]
    if arena.visibility == Arena.Visibility.PRIVATE:
        return f"{readers} these texts."
    when = when or "at once or as soon as the candidate is no longer hidden"
    return f"{readers} these texts, {when}."


def disclosure_text(votes: int | None, until: datetime | None) -> str:
    """Return, in words, when a candidate with these privacy settings is disclosed."""
    by_votes = "" if votes is None else f"once the candidate has {votes:,} vote{'s'[: votes != 1]}"
    if until is None:
        return by_votes or "at once"
    day = until.astimezone(UTC)
    by_date = f"from {day.day} {day:%B %Y} on"
    return f"{by_votes} or {by_date}, whichever comes first" if by_votes else by_date


TEXT_FILES = (".txt", ".md")


def text_in(file: UploadedFile) -> str:
    """Return the text of a text file. Raises InputError for any other file."""
    if PurePath(file.name or "").suffix.lower() not in TEXT_FILES:
        raise InputError("is not a text file (.txt or .md)")
    try:
        text = file.read().decode("utf-8-sig").replace("\r\n", "\n").strip()
    except UnicodeDecodeError:
        raise InputError("is not UTF-8: save it as UTF-8") from None
    if "\0" in text:
        raise InputError("is not a text file (.txt or .md)")
    if not text:
        raise InputError("is empty")
    return text


class DollarsField(forms.DecimalField):
    """An amount in dollars; its cleaned value is in nano-dollars."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            min_value=0,
            max_value=MOST,
            max_digits=16,
            decimal_places=9,
            widget=forms.NumberInput(attrs={"step": "any", "inputmode": "decimal"}),
            **options,
        )

    def clean(self, value: Any) -> int | None:
        amount = super().clean(value)
        return None if amount is None else nano_dollars(amount)


class CapForm(forms.Form):
    cap = DollarsField(label="Spending cap in dollars", required=False)


class SteerForm(CapForm):
    """An action on a run; resuming may change the cap."""

    action = forms.ChoiceField(
        choices=[(name, name) for name in ("pause", "resume", "cancel", "ask_again")],
        error_messages={"invalid_choice": "A run can be paused, resumed, cancelled or retried."},
    )
    field_order = ["action", "cap"]
