"""A database of each release, and of one commit before, is upgraded with its data by `migrate`.

`upgrade/415a895.sql.gz` was dumped by that commit's own code, those of releases by
`python -m tests.ops.upgrade.dump`: the sample arena with its votes, three of them voided, its
leaderboards, an account, a team and its private arena.
"""

import gzip
import json
import sqlite3
from pathlib import Path

import pytest

from tests.ops.running import manage, migrated_database
from tests.ops.upgrade.dump import KEY

DUMPS = sorted((Path(__file__).parent / "upgrade").glob("*.sql.gz"))
TABLES = (
    *("arena_arena", "arena_prompt", "arena_candidate", "arena_response", "arena_comparison"),
    *("arena_vote", "arena_rater", "arena_team", "arena_membership", "auth_user"),
)
SCORES = """
    SELECT b.raters, b.category, c.name, s.score FROM ranking_standing s
    JOIN ranking_snapshot n ON n.id = s.snapshot_id JOIN ranking_board b ON b.id = n.board_id
    JOIN arena_candidate c ON c.id = s.candidate_id
    WHERE n.is_current AND b.raters <> 'combined' ORDER BY 1, 2, 3
"""
SCHEMA = """
    SELECT m.name, c.name, c.type, c."notnull" FROM sqlite_master m, pragma_table_info(m.name) c
    UNION SELECT tbl_name, name, type, 0 FROM sqlite_master WHERE type = 'index'
    UNION SELECT name, '', type, length(sql) FROM sqlite_master WHERE type = 'table'
    ORDER BY 1, 2
"""
CHECK = """
import json
from django.core.management import call_command
from django.test import Client
from arena.models import Vote
call_command("rebuild_tallies")
call_command("refresh_boards")
call_command("verify_log")
print(json.dumps([Client().get(page).status_code for page in ("/", "/a/sample/")]))
"""


def contents(path: Path) -> tuple[dict[str, int], list[tuple[object, ...]]]:
    """The rows of each table, and every current score."""
    with sqlite3.connect(path) as database:
        counts = {
            table: database.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in TABLES
        }
        return counts, database.execute(SCORES).fetchall()


def schema(path: Path) -> list[tuple[object, ...]]:
    """Columns, indexes, and the length of each definition, which tells of its constraints."""
    with sqlite3.connect(path) as database:
        return database.execute(SCHEMA).fetchall()


@pytest.mark.slow
@pytest.mark.parametrize("dump", DUMPS, ids=lambda path: path.name.removesuffix(".sql.gz"))
def test_an_earlier_database_is_upgraded_with_its_data(dump: Path, tmp_path: Path) -> None:
    path = tmp_path / "ringside.sqlite3"
    with sqlite3.connect(path) as database:
        database.executescript(gzip.decompress(dump.read_bytes()).decode())
    counts, scores = contents(path)
    assert counts["arena_vote"] >= 400
    assert counts["auth_user"] == counts["arena_team"] == 1

    migrated = manage("migrate", "--verbosity=0", home=tmp_path)
    assert migrated.returncode == 0, migrated.stderr
    assert contents(path) == (counts, scores)
    assert schema(path) == schema(migrated_database())

    checked = manage("shell", "--verbosity=0", "--command", CHECK, home=tmp_path, **KEY)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert json.loads(checked.stdout.splitlines()[-1]) == [200, 200]
    counts_now, scores_now = contents(path)
    assert counts_now == counts
    now, before = ({row[:3]: row[3] for row in rows} for rows in (scores_now, scores))
    # That commit had no leaderboard of juries.
    assert {board for board in now if board[0] != "juries" or board in before} == before.keys()
    for board, score in before.items():
        assert now[board] == pytest.approx(score, abs=0.5) or score is None
