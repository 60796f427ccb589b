"""Amounts of money as people type them into a command."""

from decimal import Decimal, InvalidOperation

from django.core.management.base import CommandError

from arena.calls.amounts import nano_dollars


def cap_in_nano(given: str | None) -> int | None:
    """Turn the dollars of --cap into nano-dollars; raises CommandError for what is no amount."""
    return None if given is None else amount_in_nano(given, "--cap")


def amount_in_nano(given: str, what: str) -> int:
    """Turn dollars into nano-dollars; raises CommandError, which names `what`."""
    try:
        return nano_dollars(Decimal(given))
    except (InvalidOperation, ValueError):
        said = f"{what} must be an amount of dollars, like 5.00; not {given!r}."
        raise CommandError(said) from None
