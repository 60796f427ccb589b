"""One import into an arena at a time."""

from contextlib import AbstractContextManager

from arena.services.locks import one_at_a_time

BUSY = "Another import into this arena is running. Wait until it has ended, then try again."


class ImportRefused(Exception):
    """An import that was not made; the message is a sentence for people."""


def one_import_at_a_time(slug: str) -> AbstractContextManager[None]:
    """Hold the arena's import lock; raises ImportRefused while somebody else holds it."""
    return one_at_a_time(f"import-{slug}", busy=ImportRefused(BUSY))
