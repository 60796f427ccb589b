"""Words that sentences everywhere are made of. Pure: whoever speaks may import it."""

from collections.abc import Iterable


def listed(names: Iterable[str], most: int = 10) -> str:
    """Name the first few, and say how many more there are."""
    names = list(names)
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
