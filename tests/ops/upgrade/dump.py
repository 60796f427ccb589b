"""`python -m tests.ops.upgrade.dump [NAME]`: keep a database, which later versions upgrade.

Writes NAME (this version, if none is given) with the ending `.sql.gz` for SQLite, and
`.postgres.sql.gz` for PostgreSQL, beside this file; tests/ops/test_upgrade.py starts from them.
`contents.py` says what is in them.
"""

import gzip
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import psycopg

from arena import __version__
from tests.environment import POSTGRES_URL, REPOSITORY
from tests.ops.running import settings_for

KEY = {"VOTE_LOG_KEY": "bm90IGEgc2VjcmV0OiBzaWducyB0ZXN0IGRhdGEuLi4="}  # of the dumped vote log
FILL = "from tests.ops.upgrade.contents import fill; fill()"


def main(name: str = __version__) -> None:
    with TemporaryDirectory() as folder:
        fill(Path(folder))
        with closing(sqlite3.connect(Path(folder, "ringside.sqlite3"))) as database:
            keep(name, "\n".join(database.iterdump()))
    database = f"ringside_dump_{uuid4().hex[:12]}"
    url = f"{POSTGRES_URL.rpartition('/')[0]}/{database}"
    with psycopg.connect(POSTGRES_URL, autocommit=True) as server, TemporaryDirectory() as folder:
        server.execute(f"CREATE DATABASE {database}")
        try:
            fill(Path(folder), DATABASE_URL=url)
            keep(f"{name}.postgres", dump(url))
        finally:
            server.execute(f"DROP DATABASE {database} WITH (FORCE)")


def fill(home: Path, **settings: str) -> None:
    command = [sys.executable, "manage.py", "shell", "--verbosity=0", "--command", FILL]
    subprocess.run(command, cwd=REPOSITORY, env=settings_for(home, **KEY, **settings), check=True)


def dump(url: str) -> str:
    """The database as statements that psycopg can execute, which COPY is not."""
    command = ["pg_dump", "--inserts", "--rows-per-insert=500", "--no-owner", f"--dbname={url}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    # What psql alone understands, such as \\restrict of newer programs.
    return "".join(line for line in done.stdout.splitlines(True) if not line.startswith("\\"))


def keep(name: str, statements: str) -> None:
    target = Path(__file__).with_name(f"{name}.sql.gz")
    target.write_bytes(gzip.compress(statements.encode(), mtime=0))
    print(f"{target}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
