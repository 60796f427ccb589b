"""RESULTS.md: one section per part, each written by the run that measured it."""

import os
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")
HEAD = """# Benchmarks

Written by `make bench`; `python -m benchmarks PART` runs a single part. Ratios compare measurements taken in turns within one run; seconds and megabytes apply to that machine only.
"""  # noqa: E501
# In the order of the page. A part that has not been measured has no section.
TITLES = {
    "votes": "Votes and pages",
    "ballot": "The vote page",
    "clients": "Slow clients",
    "statistics": "Statistics",
    "names": "Statistics from names and files",
    "boards": "Leaderboards",
    "judging": "Judging",
    "api": "The API",
    "imports": "Imports",
    "imports_sqlite": "Imports on SQLite",
}


@dataclass(frozen=True)
class Line:
    what: str
    target: str
    measured: str
    met: bool

    def __str__(self) -> str:
        return f"| {self.what} | {self.target} | {self.measured} | {'yes' if self.met else 'NO'} |"


def targets(lines: Iterable[Line]) -> list[str]:
    return ["| What | Target | Measured | Met |", "|---|---|---|---|", *map(str, lines)]


def keep(part: str, text: str) -> None:
    """Write the section of a part; the other sections stay as they are."""
    sections = _sections(RESULTS.read_text() if RESULTS.exists() else "")
    sections[TITLES[part]] = f"## {TITLES[part]}\n\n{spaced(text.strip())}\n"
    known = (sections[title] for title in TITLES.values() if title in sections)
    RESULTS.write_text("\n".join([HEAD, *known]))


def spaced(text: str) -> str:
    """With a space before each percent sign, as on all pages."""
    return re.sub(r"(?<=\d)%", " %", text)


def missed(lines: Iterable[Line]) -> str:
    """What did not meet its target, in one sentence; empty if everything did."""
    names = "; ".join(line.what for line in lines if not line.met)
    return f"Missed: {names}." if names else ""


def machine() -> str:
    return f"Python {platform.python_version()}, {os.cpu_count()} cores"


def _sections(text: str) -> dict[str, str]:
    """The existing sections, by title."""
    parts = text.split("\n## ")[1:]
    return {part.partition("\n")[0]: f"## {part.strip()}\n" for part in parts}
