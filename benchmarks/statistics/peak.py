"""`python -m benchmarks.statistics.peak MODULE CONTEST PLACE`: prints megabytes (Linux)."""

import sys
from importlib import import_module
from pathlib import Path

from benchmarks.statistics.contest import Contest

PROCESS = Path("/proc/self")


def main(module: str, what: str, place: str) -> float:
    """The peak of resident memory during the first call, minus the memory before it."""
    contests: list[Contest] = import_module(module).CONTESTS
    contest = next(contest for contest in contests if contest.what == what)
    call = contest.contestants[int(place)].make()
    (PROCESS / "clear_refs").write_text("5")  # resets the high-water mark
    before = _kilobytes("VmRSS")
    call()
    return (_kilobytes("VmHWM") - before) / 1024


def _kilobytes(field: str) -> int:
    status = (PROCESS / "status").read_text()
    return int(status.partition(f"{field}:")[2].split()[0])


if __name__ == "__main__":
    print(f"{main(*sys.argv[1:]):.1f}")
