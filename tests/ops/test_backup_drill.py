"""The drill: votes arrive during a backup, the disk is lost, and Ringside is restored."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

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
arena, rater = Arena.objects.get(slug="sample"), None
while True:
    comparison = rater and next_comparison(arena=arena, rater=rater, now=timezone.now())
    if comparison is None:
        rater = Rater.objects.create(kind=Rater.Kind.PERSON)
        continue
    cast_vote(comparison=comparison, rater=rater, outcome="left", now=timezone.now())
    print(comparison.pk, flush=True)
"""


def run(*commands: list[str], home: Path, **settings: str) -> str:
    """Run commands of manage.py, one after the other in one process."""
    calls = "; ".join(f"call_command(*{command!r})" for command in commands)
    program = f"from django.core.management import call_command; {calls}"
    done = manage("shell", "--command", program, home=home, **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def votes_of(folder: Path) -> list[Any]:
    return [json.loads(line) for line in (folder / "votes.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("engine", ["SQLite", "PostgreSQL"])
def test_a_backup_made_while_people_vote_stands_again(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    lost, again, backup = tmp_path / "lost", tmp_path / "again", str(tmp_path / "backup")
    first: dict[str, str] = {}
    second: dict[str, str] = {}
    if engine == "PostgreSQL":
        create = request.getfixturevalue("new_database")
        first, second = {"DATABASE_URL": create(is_migrated=True)}, {"DATABASE_URL": create()}
    else:
        lost.mkdir()
        (lost / "ringside.sqlite3").write_bytes(migrated_database().read_bytes())
    run(["load_sample"], ["refresh_boards"], home=lost, **first)

    command = [sys.executable, str(REPOSITORY / "manage.py"), "shell", "--command", VOTER]
    environment = settings_for(lost, **first)
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as voter:
        try:
            assert voter.stdout is not None
            for _ in range(20):
                assert voter.stdout.readline()
            said = run(["backup", backup, "--encrypt"], home=lost, **first, **PASSPHRASE)
            assert "encrypted." in said
            assert voter.stdout.readline(), "nobody voted any more"
        finally:
            voter.kill()

    export = ["export_arena", "sample", str(tmp_path / "everything")]
    said = run(["restore", "--check", backup], export, home=lost, **first, **PASSPHRASE)
    assert "sample: correct" in said
    assert "is good" in said
    export[-1] = str(tmp_path / "restored")
    run(["restore", backup], ["refresh_boards"], export, home=again, **second, **PASSPHRASE)
    restored, everything = votes_of(tmp_path / "restored"), votes_of(tmp_path / "everything")
    assert 420 <= len(restored) <= len(everything)
    assert restored == everything[: len(restored)]


def test_sqlite_moves_to_postgresql_whole(tmp_path: Path, new_database: Any) -> None:
    (tmp_path / "ringside.sqlite3").write_bytes(migrated_database().read_bytes())
    url, here, there = new_database(), tmp_path / "here", tmp_path / "there"
    load = [["load_sample"], ["refresh_boards"]]
    said = run(*load, ["export_arena", "sample", str(here)], ["move", url], home=tmp_path)
    assert "all leaderboards are the same" in said
    export = ["export_arena", "sample", str(there)]
    # New rows get numbers of their own: none is used twice.
    more = ["import_arena", "more", str(there)]
    copied = run(["refresh_boards"], export, more, home=tmp_path, DATABASE_URL=url)
    assert "sample: up to date" in copied
    assert "votes added" in copied
    assert votes_of(here) == votes_of(there)
    twice = manage("move", url, home=tmp_path)
    assert twice.returncode == 1
    assert "is not empty" in twice.stderr
