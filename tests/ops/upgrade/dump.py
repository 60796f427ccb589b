"""`python -m tests.ops.upgrade.dump`: keep a database of this version, which later ones upgrade.

Writes `VERSION.sql.gz` beside this file, from which tests/ops/test_upgrade.py starts: the sample
arena with its votes, three of them voided, its leaderboards and its log, an account, a team and
its private arena.
"""

import gzip
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from arena import __version__
from tests.environment import REPOSITORY
from tests.ops.running import settings_for

KEY = {"VOTE_LOG_KEY": "bm90IGEgc2VjcmV0OiBzaWducyB0ZXN0IGRhdGEuLi4="}  # of the dumped vote log
FILL = """
from django.core.management import call_command
from arena.models import Vote
from tests.factories import make_arena, make_person, make_team, make_user, make_vote, void_vote
call_command("migrate", verbosity=0)
call_command("load_sample", quiet=True)
team = make_team(owner=make_user("olga"), name="Support")
arena = make_arena(slug="private", team=team)
a, b, _ = arena.candidates.order_by("pk")
rater = make_person()
for prompt in arena.prompts.all():
    make_vote(arena, a, b, "left", prompt, rater)
for vote in Vote.objects.order_by("pk")[:3]:
    void_vote(vote)
call_command("refresh_boards")
"""


def main() -> None:
    with TemporaryDirectory() as folder:
        command = [sys.executable, "manage.py", "shell", "--verbosity=0", "--command", FILL]
        environment = settings_for(Path(folder), **KEY)
        subprocess.run(command, cwd=REPOSITORY, env=environment, check=True)
        with closing(sqlite3.connect(Path(folder, "ringside.sqlite3"))) as database:
            statements = "\n".join(database.iterdump())
    target = Path(__file__).with_name(f"{__version__}.sql.gz")
    target.write_bytes(gzip.compress(statements.encode(), mtime=0))
    print(f"{target}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
