"""Amounts of money as people write them."""

from decimal import Decimal

from arena.calls.prices import NANO

MOST = 1_000_000  # dollars; more is a slip of the keyboard


def nano_dollars(usd: Decimal) -> int:
    """Return an amount of dollars in nano-dollars; raises ValueError for what is no amount."""
    if not usd.is_finite() or not 0 <= usd <= MOST:
        raise ValueError(f"An amount is between $0 and ${MOST:,}.")
    return int(usd * NANO)
