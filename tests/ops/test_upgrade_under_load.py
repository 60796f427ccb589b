"""Votes go on while the last release's database is migrated: none that was acknowledged is lost.

There is no code of the old release here, so its votes are the rows that it writes, with the columns
of its tables, in one transaction. It waits for a lock, or is refused whole, which a page answers
with an error.
"""

import gzip
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from tests.ops.running import manage
from tests.ops.upgrade.dump import KEY

pytestmark = [pytest.mark.slow, pytest.mark.any_database, pytest.mark.services]
DUMP = Path(__file__).parent / "upgrade" / "0.2.0.postgres.sql.gz"
NEW = {"id", "key"}


class OldRelease:
    """Votes as 0.2.0 does, by copying the rows of a vote that is there, until it is stopped."""

    def __init__(self, url: str) -> None:
        self.url, self.stop = url, threading.Event()
        self.acknowledged: list[str] = []
        self.refused: list[str] = []
        self.longest = 0.0
        with psycopg.connect(url) as database:
            self.columns = {
                table: [
                    name
                    for (name,) in database.execute(
                        "SELECT column_name FROM information_schema.columns WHERE table_name = %s",
                        [table],
                    )
                    if name not in NEW
                ]
                for table in ("arena_rater", "arena_comparison", "arena_vote")
            }

    def vote(self) -> None:
        with closing(psycopg.connect(self.url, autocommit=True)) as database:
            while not self.stop.is_set():
                key, began = str(uuid4()), time.monotonic()
                try:
                    with database.transaction():
                        self._insert(database, key)
                    self.acknowledged.append(key)
                except psycopg.Error as error:
                    self.refused.append(str(error))
                self.longest = max(self.longest, time.monotonic() - began)
                time.sleep(0.1)

    def _insert(self, database: psycopg.Connection, key: str) -> None:
        """A new rater's comparison and vote."""
        vote = "SELECT max(v.id) FROM arena_vote v JOIN arena_comparison c ON c.id = comparison_id "
        vote += "WHERE c.run_id IS NULL AND c.source_id IS NULL AND v.source_id IS NULL"
        rater = self._copy(
            database,
            "arena_rater",
            f"(SELECT rater_id FROM arena_vote WHERE id = ({vote}))",
            {"user_id": None},
        )
        comparison = self._copy(
            database,
            "arena_comparison",
            f"(SELECT comparison_id FROM arena_vote WHERE id = ({vote}))",
            {"key": key, "rater_id": rater},
        )
        new = {"rater_id": rater, "comparison_id": comparison, "logged": False}
        self._copy(database, "arena_vote", f"({vote})", new)

    def _copy(self, database: psycopg.Connection, table: str, of: str, values: dict) -> int:
        columns = [*self.columns[table], *(["key"] if "key" in values else [])]
        content = [
            sql.Literal(values[name]) if name in values else sql.Identifier(name)
            for name in columns
        ]
        statement = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} WHERE id = {} RETURNING id")
        made = database.execute(
            statement.format(
                sql.Identifier(table),
                sql.SQL(", ").join(map(sql.Identifier, columns)),
                sql.SQL(", ").join(content),
                sql.Identifier(table),
                sql.SQL(of),
            )
        ).fetchone()
        assert made
        return int(made[0])


def test_votes_of_the_last_release_survive_the_migration(
    new_database: Callable[..., str], tmp_path: Path
) -> None:
    """Whoever does not stop the site first may see `migrate` stopped by a deadlock: it says so, and
    goes on where it was."""
    url = new_database()
    with psycopg.connect(url) as database:
        database.execute(gzip.decompress(DUMP.read_bytes()))
    old = OldRelease(url)
    voters = [threading.Thread(target=old.vote) for _ in range(2)]
    for voter in voters:
        voter.start()
    try:
        first = manage("migrate", "--verbosity=0", home=tmp_path, DATABASE_URL=url)
    finally:
        old.stop.set()
        for voter in voters:
            voter.join()
    print(len(old.acknowledged), "votes,", len(old.refused), "refused,", f"{old.longest:.1f} s")
    assert first.returncode == 0 or "Run the command again" in first.stderr
    again = manage("migrate", "--verbosity=0", home=tmp_path, DATABASE_URL=url)
    assert again.returncode == 0, again.stderr
    assert len(old.acknowledged) > 10
    voted = "SELECT c.key::text FROM arena_comparison c JOIN arena_vote v ON v.comparison_id = c.id"
    with psycopg.connect(url) as database:
        stored = {key for (key,) in database.execute(voted)}
    assert not set(old.acknowledged) - stored
    commands = 'call_command("refresh_boards"); call_command("verify_log")'
    check = f"from django.core.management import call_command; {commands}"
    done = manage("shell", "--verbosity=0", "-c", check, home=tmp_path, DATABASE_URL=url, **KEY)
    assert done.returncode == 0, done.stdout + done.stderr
