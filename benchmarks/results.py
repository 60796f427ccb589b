"""What was measured, beside its target, as a Markdown table."""

import os
import platform
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from django.db import connection


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


def missed(lines: Iterable[Line]) -> str:
    """What did not meet its target, in one sentence; empty if everything did."""
    names = "; ".join(line.what for line in lines if not line.met)
    return f"Missed: {names}." if names else ""


def machine() -> str:
    if connection.vendor == "sqlite":
        database = f"SQLite {sqlite3.sqlite_version}"
    else:
        version = connection.pg_version
        database = f"PostgreSQL {version // 10000}.{version % 10000}"
    return f"Python {platform.python_version()}, {os.cpu_count()} cores, {database}"
