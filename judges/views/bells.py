"""Ringing for judges' calls from a page."""

from arena.views import bells
from judges import tasks


def ring_on_commit() -> None:
    """Have workers start at once what has just been ordered or let go on."""
    bells.ring_on_commit(tasks.ring_calls)
