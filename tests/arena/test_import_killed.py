"""SIGKILL in the middle of an import: nothing is visible, and the same command finishes it."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import environment
from tests.ops.running import migrated_database

ROWS = 8_000
pytestmark = [pytest.mark.slow]
Ask = Callable[[str], Any]


@pytest.fixture
def sqlite(tmp_path) -> tuple[str, Ask]:
    import sqlite3

    path = tmp_path / "ringside.sqlite3"
    shutil.copy(migrated_database(), path)

    def ask(query: str) -> Any:
        connection = sqlite3.connect(path, timeout=10)
        try:
            return connection.execute(query).fetchone()[0]
        finally:
            connection.close()

    return f"sqlite:///{path}", ask


@pytest.fixture
def postgres(new_database) -> tuple[str, Ask]:
    import psycopg

    url = new_database(is_migrated=True)

    def ask(query: str) -> Any:
        with psycopg.connect(url) as connection:
            return connection.execute(query).fetchone()[0]

    return url, ask


@pytest.mark.parametrize(
    "database", ["sqlite", pytest.param("postgres", marks=pytest.mark.services)]
)
def test_a_killed_import_is_hidden_until_the_command_ends_it(database, request, tmp_path):
    url, ask = request.getfixturevalue(database)
    path = tmp_path / "pairs.csv"
    lines = [f"A{i % 50},B{i % 47},left,{i % 11},w{i % 300}" for i in range(ROWS)]
    path.write_text("left,right,winner,prompt,worker\n" + "\n".join(lines) + "\n")
    start = _starter(url, tmp_path)

    for wanted in (1, ROWS // 2):
        _kill_when(start("import_arena", "big", str(path)), lambda n=wanted: _votes(ask) >= n)
        there = _votes(ask)
        assert wanted <= there < ROWS
        assert ask("SELECT count(*) FROM arena_vote") == ask(
            "SELECT count(*) FROM arena_comparison"
        )
        assert ask("SELECT count(*) FROM arena_import WHERE revealed_at IS NOT NULL") == 0
        assert ask("SELECT count(*) FROM arena_arena WHERE founded_by_id IS NULL") == 0

    assert start("import_arena", "big", str(path)).wait() == 0
    assert _votes(ask) == ROWS
    assert ask("SELECT count(DISTINCT source_row) FROM arena_vote") == ROWS
    assert ask("SELECT count(*) FROM arena_import WHERE revealed_at IS NOT NULL") == 1
    in_order = (
        "SELECT count(*) FROM (SELECT source_row - lag(source_row) OVER (ORDER BY id) AS step"
    )
    assert ask(f"{in_order} FROM arena_vote) AS steps WHERE step <> 1") == 0


def _votes(ask: Ask) -> int:
    return ask("SELECT count(*) FROM arena_vote")


def _starter(url: str, home: Path) -> Callable[..., subprocess.Popen]:
    settings = {"RINGSIDE_HOME": str(home), "DATABASE_URL": url, "SECRET_KEY": "k" * 50}

    def start(*arguments: str) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "manage.py", *arguments],
            cwd=environment.REPOSITORY,
            env=os.environ | settings,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    return start


def _kill_when(process: subprocess.Popen, reached: Callable[[], bool]) -> None:
    try:
        while not reached():
            assert process.poll() is None, "the import ended before it could be killed"
            time.sleep(0.005)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
