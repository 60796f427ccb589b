"""The base of the errors that services raise, and of those about one field of a model."""

import errno
import os
from collections.abc import Mapping
from typing import Any

from django.db import OperationalError
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


def is_disk_full(error: BaseException | None) -> bool:
    """Whether a file, SQLite or PostgreSQL could not be written for want of room."""
    if isinstance(error, OperationalError):
        return "disk is full" in str(error) or os.strerror(errno.ENOSPC) in str(error)
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


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
