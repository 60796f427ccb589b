"""Signals to the apps above, sent after the commit unless stated otherwise.

`votes_changed(arena_id, reason)`: votes were cast ("vote"), voided ("void") or revealed, by an
import ("import") or the end of an order that hid names ("order").
`trust_changed(arena_id)`: trust in a judge or jury has changed; sent within the transaction,
because no vote tells a sweep of it.
`arena_created(arena_id)`: an arena was created.
`answers_changed(arena_id)`: answers were added, so statistics about them may be outdated.
`forgetting(arena_id)`: a rater of the arena is about to be forgotten; sent within the transaction,
before a vote is locked, as whoever appends to the log locks in this order.
`run_cancelled(run_id, now)`: sent within the transaction that cancels a run, before its row is
locked: whatever waits in the run is closed with it.
"""

from functools import partial

from django.db import transaction
from django.dispatch import Signal

votes_changed = Signal()
trust_changed = Signal()
arena_created = Signal()
answers_changed = Signal()
forgetting = Signal()
run_cancelled = Signal()


def announce(signal: Signal, *, arena_id: int, reason: str = "vote") -> None:
    """Send `signal` after the current transaction commits; errors of receivers are logged."""
    transaction.on_commit(
        partial(signal.send_robust, sender=None, arena_id=arena_id, reason=reason)
    )
