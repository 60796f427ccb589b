"""Contests between Ringside's call and its rivals: times, measured in turns, and peak memory."""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from benchmarks.results import Line

TURN = 0.5  # seconds

Call = Callable[[], object]
Make = Callable[[], Call]


@dataclass(frozen=True)
class Contestant:
    """``make`` prepares the input, untimed, and returns the call to time; one call produces
    ``unit`` results, such as replicates."""

    name: str
    make: Make
    unit: int = 1


@dataclass(frozen=True)
class Rival(Contestant):
    """A contestant that we must beat by the factor ``faster``; below 1, we may be slower."""

    faster: float = 1.0


@dataclass(frozen=True)
class Contest:
    """What is measured, our contestant, and its rivals."""

    what: str
    ours: Contestant
    rivals: tuple[Rival, ...]
    rounds: int = 5

    @property
    def contestants(self) -> tuple[Contestant, ...]:
        return (self.ours, *self.rivals)


@dataclass(frozen=True)
class Measured:
    """Seconds per unit, one for each round; megabytes above the input at the peak of a call."""

    seconds: list[float]
    megabytes: float


def compete(module: str, contest: Contest) -> list[Measured]:
    """Time every contestant once per round, in an order that is reversed each time."""
    calls = [contestant.make() for contestant in contest.contestants]
    for call in calls:  # to warm up compilers and caches
        call()
    seconds: list[list[float]] = [[] for _ in calls]
    for number in range(contest.rounds):
        places = range(len(calls))
        for place in places if number % 2 else reversed(places):
            unit = contest.contestants[place].unit
            seconds[place].append(_seconds(calls[place]) / unit)
    return [
        Measured(times, peak_megabytes(module, contest.what, place))
        for place, times in enumerate(seconds)
    ]


def peak_megabytes(module: str, what: str, place: int) -> float:
    """The peak memory that one call of a contestant adds to a fresh process."""
    command = [sys.executable, "-m", "benchmarks.statistics.peak", module, what, str(place)]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def lines(contest: Contest, measured: list[Measured]) -> list[Line]:
    """One line per rival: the ratio of the medians, and the smallest and largest in a round."""
    ours = measured[0].seconds
    return [
        _line(f"{contest.what}, compared with {rival.name}", rival.faster, ours, theirs.seconds)
        for rival, theirs in zip(contest.rivals, measured[1:], strict=True)
    ]


def _line(what: str, faster: float, ours: list[float], theirs: list[float]) -> Line:
    ratio = median(theirs) / median(ours)
    rounds = sorted(b / a for a, b in zip(ours, theirs, strict=True))
    if faster < 1:
        value = f"{1 / ratio:.3g} x ({1 / rounds[-1]:.3g} to {1 / rounds[0]:.3g})"
        return Line(what, f"at most {1 / faster:g} x the time", value, ratio >= faster)
    value = f"{ratio:,.3g} x ({rounds[0]:,.3g} to {rounds[-1]:,.3g})"
    return Line(what, f"at least {faster:g} x as fast", value, ratio >= faster)


def _seconds(call: Call) -> float:
    """The median of as many calls as fit into a turn, at least one; short calls vary most."""
    times: list[float] = []
    while sum(times) < TURN:
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return median(times)
