"""A database of each release, and of two commits between, is upgraded with its data by `migrate`.

Each was dumped by its own code, the newer ones by `python -m tests.ops.upgrade.dump`:
`upgrade/contents.py` says what is in it. 415a895 and 0.1.0 have the sample arena with its votes,
three of them voided, its leaderboards, an account, a team and its private arena.
"""

import gzip
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.ops.running import manage, migrated_database
from tests.ops.upgrade.dump import KEY

FOLDER = Path(__file__).parent / "upgrade"
POSTGRES_DUMPS = sorted(FOLDER.glob("*.postgres.sql.gz"))
SQLITE_DUMPS = sorted({*FOLDER.glob("*.sql.gz")} - {*POSTGRES_DUMPS})
TABLES = (
    *("arena_arena", "arena_prompt", "arena_candidate", "arena_response", "arena_comparison"),
    *("arena_vote", "arena_rater", "arena_team", "arena_membership", "auth_user"),
)
SCORES = """
    SELECT a.slug, b.raters, b.category, c.name, s.score FROM ranking_standing s
    JOIN ranking_snapshot n ON n.id = s.snapshot_id JOIN ranking_board b ON b.id = n.board_id
    JOIN arena_candidate c ON c.id = s.candidate_id JOIN arena_arena a ON a.id = b.arena_id
    WHERE n.is_current AND b.raters <> 'combined' AND a.slug <> 'interrupted' ORDER BY 1, 2, 3, 4
"""
SUCCESSORS = "SELECT count(*) FROM judges_epoch WHERE reader <> '' AND number > 1"
STALE = "SELECT count(*) FROM judges_epoch WHERE reader = '' AND ended_at IS NULL"
SCHEMA = """
    SELECT m.name, c.name, c.type, c."notnull" FROM sqlite_master m, pragma_table_info(m.name) c
    UNION SELECT tbl_name, name, type, 0 FROM sqlite_master WHERE type = 'index'
    UNION SELECT name, '', type, length(sql) FROM sqlite_master WHERE type = 'table'
    ORDER BY 1, 2
"""
# Without names of indexes and keys, which Django made from a table's former name, and without
# conditions, which PostgreSQL spells differently after they were dumped.
POSTGRES_SCHEMA = """
    SELECT table_name || '', column_name || '', data_type || is_nullable
    FROM information_schema.columns WHERE table_schema = 'public'
    UNION ALL SELECT conrelid::regclass::text, '',
        CASE contype WHEN 'c' THEN conname ELSE pg_get_constraintdef(oid) END
    FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    UNION ALL SELECT tablename || '', '',
        regexp_replace(indexdef, 'INDEX \\S+ ON| WHERE .*', '', 'g')
    FROM pg_indexes WHERE schemaname = 'public'
    ORDER BY 1, 2, 3
"""
CHECK = """
import json
from django.core.management import call_command
from django.test import Client
from arena.models import Vote
from ranking.models import Snapshot
call_command("refresh_boards")
call_command("verify_log")
interrupted = Vote.objects.filter(arena__slug="interrupted").count()
current = Snapshot.objects.current().filter(board__arena__slug="interrupted", board__category="")
assert interrupted in (0, current.values_list("n_votes", flat=True).first()), "not all is counted"
print(json.dumps([Client().get(page).status_code for page in ("/", "/a/sample/")]))
"""
Query = Callable[[str], list[tuple[Any, ...]]]


def contents(query: Query) -> tuple[dict[str, int], list[tuple[Any, ...]]]:
    """The rows of each table, and every current score."""
    counts = {table: query(f"SELECT count(*) FROM {table}")[0][0] for table in TABLES}
    return counts, query(SCORES)


def check_upgrade(query: Query, home: Path, **settings: str) -> None:
    """Migrate, count again and read pages: nothing is lost, and no score moves."""
    counts, scores = contents(query)
    assert counts["arena_vote"] >= 400
    assert counts["auth_user"] == counts["arena_team"] == 1

    migrated = manage("migrate", "--verbosity=0", home=home, **settings)
    assert migrated.returncode == 0, migrated.stderr
    # A judge's successor takes over its rater and votes, and leaves a rater without any.
    counts["arena_rater"] += query(SUCCESSORS)[0][0]
    assert contents(query) == (counts, scores)
    assert query(STALE) == [(0,)]

    settings |= KEY
    checked = manage("shell", "--verbosity=0", "--command", CHECK, home=home, **settings)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert json.loads(checked.stdout.splitlines()[-1]) == [200, 200]
    counts_now, scores_now = contents(query)
    assert counts_now == counts
    now, before = ({row[:4]: row[4] for row in rows} for rows in (scores_now, scores))
    # The oldest had no leaderboard of juries.
    assert {board for board in now if board[1] != "juries" or board in before} == before.keys()
    for board, score in before.items():
        assert now[board] == pytest.approx(score, abs=0.5) or score is None


def named(dump: Path) -> str:
    return dump.name.removesuffix(".sql.gz")


@pytest.mark.slow
@pytest.mark.any_database
@pytest.mark.parametrize("dump", SQLITE_DUMPS, ids=named)
def test_an_earlier_database_is_upgraded_with_its_data(dump: Path, tmp_path: Path) -> None:
    def query(statement: str, path: Path = tmp_path / "ringside.sqlite3") -> list[Any]:
        with sqlite3.connect(path) as database:
            return database.execute(statement).fetchall()

    with sqlite3.connect(tmp_path / "ringside.sqlite3") as database:
        database.executescript(gzip.decompress(dump.read_bytes()).decode())
    check_upgrade(query, tmp_path)
    assert query(SCHEMA) == query(SCHEMA, migrated_database())


@pytest.mark.slow
@pytest.mark.any_database
@pytest.mark.services
@pytest.mark.parametrize("dump", POSTGRES_DUMPS, ids=named)
def test_an_earlier_postgresql_is_upgraded_with_its_data(
    dump: Path, tmp_path: Path, new_database: Callable[..., str]
) -> None:
    url, fresh = new_database(), new_database(is_migrated=True)

    def query(statement: str, url: str = url) -> list[Any]:
        with psycopg.connect(url) as database:
            return database.execute(statement).fetchall()

    with psycopg.connect(url) as database:
        database.execute(gzip.decompress(dump.read_bytes()))
    check_upgrade(query, tmp_path, DATABASE_URL=url)
    assert query(POSTGRES_SCHEMA) == query(POSTGRES_SCHEMA, fresh)
