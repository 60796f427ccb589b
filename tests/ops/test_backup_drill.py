"""The drill: votes arrive while a backup is made, the disk is lost, and Ringside stands again."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.environment import REPOSITORY
from tests.ops.running import manage, migrated_database, settings_for

pytestmark = pytest.mark.slow
PASSPHRASE = {"RINGSIDE_BACKUP_PASSPHRASE": "correct horse battery staple"}
VOTER = """
from django.utils import timezone
from arena.models import Arena, Rater
from arena.services.comparisons import next_comparison
from arena.services.voting import cast_vote
arena, rater = Arena.objects.get(), None
while True:
    comparison = rater and next_comparison(arena=arena, rater=rater, now=timezone.now())
    if comparison is None:
        rater = Rater.objects.create(kind=Rater.Kind.PERSON)
        continue
    cast_vote(comparison=comparison, rater=rater, outcome="left", now=timezone.now())
    print(comparison.pk, flush=True)
"""


@pytest.fixture
def new_database(postgres_url: str) -> Iterator[Any]:
    """A function that creates an empty PostgreSQL database and returns its address."""
    import psycopg

    names: list[str] = []

    def create() -> str:
        names.append(f"ringside_drill_{uuid4().hex[:12]}")
        server.execute(f"CREATE DATABASE {names[-1]}")
        return f"{postgres_url.rpartition('/')[0]}/{names[-1]}"

    with psycopg.connect(postgres_url, autocommit=True) as server:
        yield create
        for name in names:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def run(*command: str, home: Path, **settings: str) -> str:
    done = manage(*command, home=home, **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def exported_votes(folder: Path, home: Path, **settings: str) -> list[Any]:
    run("export_arena", "sample", str(folder), home=home, **settings)
    return [json.loads(line) for line in (folder / "votes.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("engine", ["SQLite", "PostgreSQL"])
def test_a_backup_made_while_people_vote_stands_again(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    lost, again = tmp_path / "lost", tmp_path / "again"
    first: dict[str, str] = {}
    second: dict[str, str] = {}
    if engine == "PostgreSQL":
        create = request.getfixturevalue("new_database")
        first, second = {"DATABASE_URL": create()}, {"DATABASE_URL": create()}
        run("migrate", home=lost, **first)
    else:
        lost.mkdir()
        (lost / "ringside.sqlite3").write_bytes(migrated_database().read_bytes())
    run("load_sample", home=lost, **first)
    run("refresh_boards", home=lost, **first)

    command = [sys.executable, str(REPOSITORY / "manage.py"), "shell", "--command", VOTER]
    environment = settings_for(lost, **first)
    voter = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert voter.stdout is not None
        for _ in range(20):
            assert voter.stdout.readline()
        backup = str(tmp_path / "backup")
        said = run("backup", backup, "--encrypt", home=lost, **first, **PASSPHRASE)
        assert "encrypted." in said
        before = time.monotonic()
        assert voter.stdout.readline(), "nobody voted any more"
        assert time.monotonic() - before < 5
    finally:
        voter.kill()
        voter.wait()

    checked = run("restore", "--check", backup, home=lost, **first, **PASSPHRASE)
    assert "sample: correct" in checked
    assert "is good" in checked
    run("restore", backup, home=again, **second, **PASSPHRASE)
    run("refresh_boards", home=again, **second)
    restored = exported_votes(tmp_path / "restored", again, **second)
    everything = exported_votes(tmp_path / "everything", lost, **first)
    assert 420 <= len(restored) <= len(everything)
    assert restored == everything[: len(restored)]


def test_sqlite_moves_to_postgresql_whole(tmp_path: Path, new_database: Any) -> None:
    (tmp_path / "ringside.sqlite3").write_bytes(migrated_database().read_bytes())
    run("load_sample", home=tmp_path)
    run("refresh_boards", home=tmp_path)
    url = new_database()
    said = run("move", url, home=tmp_path)
    assert "all leaderboards are the same" in said
    there = {"DATABASE_URL": url}
    assert run("refresh_boards", home=tmp_path, **there) == "sample: up to date\n"
    assert exported_votes(tmp_path / "a", tmp_path) == exported_votes(
        tmp_path / "b", tmp_path, **there
    )
    # New rows get numbers of their own.
    run("shell", "--command", "from arena.models import Rater; Rater.objects.create(kind='person')",
        home=tmp_path, **there)  # fmt: skip
    twice = manage("move", url, home=tmp_path)
    assert twice.returncode == 1
    assert "is not empty" in twice.stderr
