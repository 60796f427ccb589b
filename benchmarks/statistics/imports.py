"""The time of `import ranking.stats` beyond Python's own start."""

import subprocess
import sys
import time
from statistics import median

from benchmarks.results import Line

ROUNDS = 15
LONGEST = 0.15


def line() -> Line:
    """Time starts with and without the import, in turns; the median difference."""
    starts = [(_seconds("pass"), _seconds("import ranking.stats")) for _ in range(ROUNDS)]
    more = [with_it - without for without, with_it in starts]
    value = f"{median(more):.3f} s ({min(more):.3f} to {max(more):.3f})"
    what = "import ranking.stats, on top of Python's start"
    return Line(what, f"at most {LONGEST:g} s", value, median(more) <= LONGEST)


def _seconds(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - began
