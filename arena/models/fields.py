"""Validators, limits and labels of fields, for forms, serializers and services."""

from collections.abc import Callable
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.utils.deconstruct import deconstructible
from django.utils.text import capfirst

from arena.validation import InputError

PLURALS = {"criteria": "text of the criteria", "notes": "text of the notes"}


@deconstructible(path="arena.models.fields.Check")
class Check:
    """A `clean_*` function of `arena.validation` as the validator of a field.

    Forms, serializers and services use it through `clean_field`; `full_clean` runs it when one row
    is edited. Votes, imports and the ledger do not use it: their rows have schemas of their own.
    """

    def __init__(self, clean: Callable[..., Any], **options: Any) -> None:
        self.clean, self.options = clean, options

    def __call__(self, value: Any) -> None:
        try:
            self.clean(value, **self.options)
        except InputError as error:
            raise ValidationError(f"It {error.reason}.") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Check) and (
            (self.clean, self.options) == (other.clean, other.options)
        )

    def __hash__(self) -> int:
        return hash((self.clean, *sorted(self.options.items())))


def clean_field(model: type[models.Model], name: str, value: Any) -> Any:
    """Return `value` as the field stores it, or raise InputError with the field as its column."""
    for validator in checks_of(model, name):
        try:
            value = validator.clean(value, **validator.options)
        except InputError as error:
            raise InputError(error.reason, name) from None
    return value


def label_of(model: type[models.Model], name: str) -> str:
    """Return the field's label on pages."""
    return capfirst(str(model._meta.get_field(name).verbose_name))  # type: ignore[union-attr]


def name_in_messages(name: str) -> str:
    """Return the field's name, in the singular, so that "is empty" can follow."""
    return PLURALS.get(name, name.replace("_", " "))


def length_limit(model: type[models.Model], name: str) -> int | None:
    """Return the maximum length of the field in characters; None if only its bytes are limited."""
    field: Any = model._meta.get_field(name)
    limits = [check.options.get("limit") for check in checks_of(model, name)]
    return min(filter(None, [*limits, field.max_length]), default=None)


def checks_of(model: type[models.Model], name: str) -> list[Check]:
    field: Any = model._meta.get_field(name)
    return [check for check in field.validators if isinstance(check, Check)]
