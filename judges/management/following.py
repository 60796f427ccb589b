"""Watching a run from the command line."""

import sys
import time

from django.utils import timezone
from kombu.exceptions import OperationalError
from tqdm import tqdm

from arena.models import Run
from judges import tasks
from judges.reports import RunReport, report_on

LOOK_EVERY = 0.5
SILENCE = 15.0
NO_WORKER = (
    "No worker is answering: nothing has moved for 15 seconds. The run is kept, and goes on as "
    "soon as a worker runs (`make run` starts one)."
)


def ring() -> str:
    """Ring for what is due; return a sentence where the broker does not answer."""
    try:
        tasks.ring_calls()
    except OperationalError as error:
        return f"The broker cannot be reached ({error}); the sweep will ring."
    return ""


def follow(run: Run) -> RunReport:
    """Show progress until the run ends, pauses, or nothing has moved for a while."""
    report = report_on(run.pk, timezone.now())
    moved_at = time.monotonic()
    with tqdm(total=report.total, initial=report.settled, unit="verdict", file=sys.stderr) as bar:
        while True:
            bar.update(report.settled - bar.n)
            if not report.goes_on or time.monotonic() - moved_at > SILENCE:
                return report
            time.sleep(LOOK_EVERY)
            before, report = report, report_on(run.pk, timezone.now())
            if _is_alive(before, report):
                moved_at = time.monotonic()


def _is_alive(before: RunReport, now: RunReport) -> bool:
    """Did something move, is a call under way, or is the server to be left alone for a while?"""
    moved = (before.requests, before.settled) != (now.requests, now.settled)
    resting = now.next_due_at is not None and now.next_due_at > timezone.now()
    return moved or bool(now.under_way) or resting
