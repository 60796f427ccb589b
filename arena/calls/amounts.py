"""Amounts of money as people write them. Pure: whoever takes an amount may import it."""

from decimal import Decimal

NANO = 10**9
MOST = 1_000_000  # dollars; more is a slip of the keyboard


def nano_dollars(usd: Decimal) -> int:
    """Return an amount of dollars in nano-dollars; raises ValueError for what is no amount."""
    if not usd.is_finite() or not 0 <= usd <= MOST:
        raise ValueError(f"An amount is between $0 and ${MOST:,}.")
    return int(usd * NANO)


def in_dollars(nano: int | None) -> str:
    """Return an amount of nano-dollars as a form takes it: as few digits as say it; '' for None."""
    return "" if nano is None else f"{(Decimal(nano) / NANO).normalize():f}"
