"""Watching a run from the command line, whatever it is for."""

import sys
import time
from collections.abc import Callable
from datetime import datetime
from typing import Protocol, TypeVar

from django.utils import timezone
from tqdm import tqdm

LOOK_EVERY = 0.5
SILENCE = 15.0
NO_WORKER = (
    "No worker is answering: nothing has moved for 15 seconds. The run is kept, and goes on as "
    "soon as a worker runs (`make run` starts one)."
)


class Report(Protocol):
    """How a run stands."""

    @property
    def total(self) -> int: ...

    @property
    def settled(self) -> int: ...

    @property
    def requests(self) -> int: ...

    @property
    def under_way(self) -> int: ...

    @property
    def next_due_at(self) -> datetime | None: ...

    @property
    def goes_on(self) -> bool: ...


AnyReport = TypeVar("AnyReport", bound=Report)


def follow(look: Callable[[], AnyReport], unit: str) -> AnyReport:
    """Show progress until the run ends, pauses, or nothing has moved for a while."""
    report = look()
    moved_at = time.monotonic()
    with tqdm(total=report.total, initial=report.settled, unit=unit, file=sys.stderr) as bar:
        while True:
            bar.update(report.settled - bar.n)
            if not report.goes_on or time.monotonic() - moved_at > SILENCE:
                return report
            time.sleep(LOOK_EVERY)
            before, report = report, look()
            if _is_alive(before, report):
                moved_at = time.monotonic()


def _is_alive(before: Report, now: Report) -> bool:
    """Did something move, is a call under way, or is the server to be left alone for a while?"""
    moved = (before.requests, before.settled) != (now.requests, now.settled)
    resting = now.next_due_at is not None and now.next_due_at > timezone.now()
    return moved or bool(now.under_way) or resting
