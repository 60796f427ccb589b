"""Amounts of money as people type them into a command."""

from decimal import Decimal, InvalidOperation

from django.core.management.base import CommandError

from judges.amounts import nano_dollars


def cap_in_nano(given: str | None) -> int | None:
    """Turn dollars into nano-dollars; raises CommandError for what is no amount."""
    if given is None:
        return None
    try:
        return nano_dollars(Decimal(given))
    except (InvalidOperation, ValueError):
        said = f"--cap must be an amount of dollars, like 5.00; not {given!r}."
        raise CommandError(said) from None
