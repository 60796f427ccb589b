"""What a refresh costs that publishes every leaderboard of an arena: processor time and memory."""

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from django.utils import timezone

from arena.models import Arena
from benchmarks.results import Line, machine, targets
from benchmarks.stored import cast
from ranking.models import ArenaRefresh, Counted, Snapshot
from ranking.services import refresh
from ranking.tasks import add_elo_intervals

NEW_VOTES = 1000
Result = TypeVar("Result")
PUT_OFF = 10.0**6  # stored as the seconds of the last intervals, so the next are not due soon


@dataclass(frozen=True)
class Bounds:
    """The most that a refresh may take: seconds of this process, and its memory in megabytes."""

    cpu: float
    megabytes: int | None = None


@dataclass(frozen=True)
class Refreshed:
    """The refreshes of one arena.

    `first`: of votes that no refresh has read, with all intervals. `again`: once there are
    `NEW_VOTES` more. `elo`: the intervals of Elo ratings, which come later.
    """

    what: str
    bounds: Bounds
    n_boards: int
    first: float
    again: float
    wall: float
    elo: float
    megabytes: int

    def lines(self) -> list[Line]:
        most, used = self.bounds, f"{self.what}: {self.n_boards} leaderboards"
        lines = [
            Line(
                f"{used}, CPU",
                f"at most {most.cpu:g} s",
                f"{self.again:.2f} s",
                self.again <= most.cpu,
            )
        ]
        if most.megabytes is not None:
            is_met = self.megabytes <= most.megabytes
            target = f"at most {most.megabytes:,} MB"
            lines.append(
                Line(f"{self.what}: peak memory", target, f"{self.megabytes:,} MB", is_met)
            )
        return lines

    def row(self) -> str:
        times = (self.first, self.again, self.wall, self.elo)
        columns = " | ".join(f"{seconds:.2f}" for seconds in times)
        return f"| {self.what} | {columns} | {self.megabytes:,} |"


def measure(arena: Arena, what: str, bounds: Bounds, *, borrows: bool = False) -> Refreshed:
    """Publish the arena, cast new votes and publish it again; `borrows`: with older intervals."""
    first, _, _ = _timed(lambda: _refresh(arena))
    elo, _, _ = _timed(lambda: add_elo_intervals(arena.pk))
    older = {"measured_seconds": PUT_OFF} if borrows else {"measured_at": None}
    Snapshot.objects.filter(board__arena=arena).update(**older)
    cast(arena, NEW_VOTES, np.random.default_rng(NEW_VOTES), timezone.now())
    again, wall, published = _timed(lambda: _refresh(arena))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return Refreshed(what, bounds, len(published), first, again, wall, elo, peak)


def _timed(work: Callable[[], Result]) -> tuple[float, float, Result]:
    """Seconds of CPU of this process and all its threads, and of the clock, and the result."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = work()
    return time.process_time() - cpu, time.perf_counter() - wall, result


def _refresh(arena: Arena) -> list[int]:
    """Publish the arena's leaderboards, whatever the pause; return the ids of those that are not
    copies, as combined ones are while no judge is trusted."""
    ArenaRefresh.objects.filter(arena=arena).update(not_before=None)
    published = refresh.refresh_arena(arena_id=arena.pk, now=timezone.now())
    own = arena.boards.filter(pk__in=published).exclude(raters=Counted.COMBINED)
    return list(own.values_list("pk", flat=True))


def table(fresh: list[Line], refreshed: list[Refreshed]) -> str:
    return "\n".join(
        [
            f"{machine()}; {NEW_VOTES:,} new votes before each refresh. A database server's own"
            " work is not in the CPU time.",
            "",
            *targets([*fresh, *(line for one in refreshed for line in one.lines())]),
            "",
            "| | first, s of CPU | again, s of CPU | again, s | Elo intervals, s of CPU | MB |",
            "|---|---:|---:|---:|---:|---:|",
            *(one.row() for one in refreshed),
        ]
    )
