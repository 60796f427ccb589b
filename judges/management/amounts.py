"""Amounts of money as people type them."""

from decimal import Decimal, InvalidOperation

from django.core.management.base import CommandError

NANO = 1_000_000_000
MOST = Decimal(1_000_000)


def cap_in_nano(given: str | None) -> int | None:
    """Turn dollars into nano-dollars; raises CommandError for what is no amount."""
    if given is None:
        return None
    try:
        amount = Decimal(given)
        if not 0 <= amount <= MOST:
            raise InvalidOperation
    except InvalidOperation:
        raise CommandError(
            f"--cap must be an amount of dollars, like 5.00; not {given!r}."
        ) from None
    return int(amount * NANO)
