"""The base of the errors that services raise, and of those about one field of a model."""

from collections.abc import Mapping
from typing import Any

from django.db.models import Model

from arena.models.fields import clean_field, name_in_messages
from arena.validation import InputError


class ServiceError(Exception):
    """An action that cannot be done; `message` is a sentence for people.

    `field` names the input field at fault, if there is one; `kind` identifies the error for
    programs.
    """

    kind = "refused"

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.field = field


class BusyError(ServiceError):
    """Somebody does the same at this moment: it can be tried again soon."""


def checked_fields(
    model: type[Model], values: Mapping[str, Any], error: type[ServiceError]
) -> dict[str, Any]:
    """Return `values` as the model's fields store them; raise `error` about the first bad one."""
    stored = {}
    for name, value in values.items():
        try:
            stored[name] = clean_field(model, name, value)
        except InputError as wrong:
            raise error(f"The {name_in_messages(name)} {wrong.reason}.", field=name) from None
    return stored
