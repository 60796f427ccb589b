"""What commands share: finding arenas, showing progress, and confirming a deletion."""

import sys
import time
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Protocol, TypeVar

from django.core.management.base import CommandError
from django.utils import timezone
from tqdm import tqdm

from arena.models import Arena, Candidate

LOOK_EVERY = 0.5  # seconds
SILENCE = 15.0  # seconds without progress, after which no worker seems to be running
NO_WORKER = (
    "No worker is answering: nothing has happened for 15 seconds. The run continues as soon as a "
    "worker is running (`make run` starts one)."
)


def find_arena(slug: str, *, hidden_too: bool = False) -> Arena:
    """Return an arena; without `hidden_too`, not while it is imported or deleted.

    Raises CommandError.
    """
    return find_arenas([slug], hidden_too=hidden_too)[0]


def find_arenas(slugs: Collection[str], *, hidden_too: bool = False) -> list[Arena]:
    """Like `find_arena`, for several arenas; for all of them if no slug is given."""
    arenas = Arena.objects.contests() if hidden_too else Arena.objects.revealed().contests()
    arenas = arenas.order_by("slug")
    chosen = list(arenas.filter(slug__in=slugs) if slugs else arenas)
    if missing := sorted(set(slugs) - {arena.slug for arena in chosen}):
        raise CommandError(f"There is no arena {', '.join(map(repr, missing))}.")
    return chosen


def find_candidate(arena: Arena, name_or_id: str) -> Candidate:
    """Return the newest version of a name, or the candidate with that id. Raises CommandError."""
    candidates = arena.candidates.revealed().select_related("arena__team", "team")
    candidate = candidates.filter(name=name_or_id).order_by("-version").first()
    if candidate is None and name_or_id.isdecimal():
        candidate = candidates.filter(pk=int(name_or_id)).first()
    if candidate is None:
        raise CommandError(f"The arena has no candidate {name_or_id!r}.")
    return candidate


def confirm(question: str, answer: str) -> None:
    """Raise CommandError unless somebody types `answer`; without a terminal, --yes is needed."""
    try:
        typed = input(f"{question} ")
    except EOFError:
        raise CommandError("Cannot ask for confirmation here. Add --yes to skip it.") from None
    if typed.strip() != answer:
        raise CommandError("Nothing was changed.")


class Report(Protocol):
    @property
    def total(self) -> int: ...

    @property
    def settled(self) -> int: ...

    @property
    def requests(self) -> int: ...

    @property
    def next_due_at(self) -> datetime | None: ...

    @property
    def goes_on(self) -> bool: ...

    @property
    def waiting_for(self) -> Mapping[str, int]: ...


AnyReport = TypeVar("AnyReport", bound=Report)


def follow(load_report: Callable[[], AnyReport], unit: str) -> AnyReport:
    """Show progress until the run ends or pauses, or until no worker seems to be running."""
    report = load_report()
    moved_at = time.monotonic()
    with tqdm(total=report.total, initial=report.settled, unit=unit, file=sys.stderr) as bar:
        while True:
            bar.update(report.settled - bar.n)
            if (waiting := _calls_waiting(report)) != bar.postfix:
                bar.set_postfix_str(waiting)
            if not report.goes_on or time.monotonic() - moved_at > SILENCE:
                return report
            time.sleep(LOOK_EVERY)
            previous, report = report, load_report()
            if _has_moved_or_waits(previous, report):
                moved_at = time.monotonic()


def _has_moved_or_waits(previous: Report, report: Report) -> bool:
    """Return whether there was progress, or calls are in progress or not due yet."""
    moved = (previous.requests, previous.settled) != (report.requests, report.settled)
    waits = report.next_due_at is not None and report.next_due_at > timezone.now()
    return moved or bool(report.waiting_for) or waits


def _calls_waiting(report: Report) -> str:
    return ", ".join(
        f"{calls} call{'s are' if calls > 1 else ' is'} waiting for {endpoint}"
        for endpoint, calls in report.waiting_for.items()
    )
