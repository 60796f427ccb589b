"""How often intervals are made: where that takes long, less often than scores."""

from datetime import datetime, timedelta

from ranking.models import Snapshot

QUICK = 2.0  # seconds; intervals that take less are made with every refresh
REST = 10  # others wait for so many times what they took


def due_at(snapshot: Snapshot) -> datetime:
    """When the intervals of a snapshot are to be followed by newer ones."""
    assert snapshot.measured_at is not None
    if snapshot.measured_seconds < QUICK:
        return snapshot.measured_at
    return snapshot.measured_at + timedelta(seconds=REST * snapshot.measured_seconds)
