"""What the arena announces to the floors above, always after the commit.

`votes_changed(arena_id, reason)`: votes were cast ("vote"), voided ("void"), or revealed by an
import ("import"); or a judge's or jury's votes are trusted now, or no longer ("trust").
`arena_created(arena_id)`: an arena exists now.
`answers_changed(arena_id)`: answers were added; what is said of them may be counted anew.
"""

from functools import partial

from django.db import transaction
from django.dispatch import Signal

votes_changed = Signal()
arena_created = Signal()
answers_changed = Signal()


def announce(signal: Signal, *, arena_id: int, reason: str = "vote") -> None:
    """Send `signal` once the current transaction has committed; a failing listener is logged."""
    transaction.on_commit(
        partial(signal.send_robust, sender=None, arena_id=arena_id, reason=reason)
    )
