"""`python -m benchmarks [PART ...]`: measure all parts, or these; fail if a target is missed."""

import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable

from benchmarks.serving import REPOSITORY, fresh_database

SERVER = os.environ.get("TEST_DATABASE_URL", "postgres://postgres@127.0.0.1:5432/postgres")
# No benchmark reaches these limits, but the code that checks them still runs.
NO_LIMIT = str(10**6)

NAME = f"ringside_bench_{os.getpid()}"


def on_fresh_database(*command: str, **settings: str) -> int:
    """Run a management command of `benchmarks` on a new PostgreSQL database; return its exit code.

    `settings` are added to its environment.
    """
    with fresh_database(SERVER, NAME) as url:
        return on_sqlite(*command, DATABASE_URL=url, **settings)


def on_sqlite(*command: str, **settings: str) -> int:
    """Run a management command of `benchmarks` on a new SQLite database; return its exit code."""
    ours = {"CELERY_BROKER_URL", "DATABASE_URL"}
    with tempfile.TemporaryDirectory(prefix=NAME) as home:
        environment = {key: value for key, value in os.environ.items() if key not in ours}
        environment |= {
            "DJANGO_SETTINGS_MODULE": "benchmarks.settings",
            "RINGSIDE_HOME": home,
            "SECRET_KEY": "benchmarks-only-" + "k" * 50,
            "VOTES_PER_MINUTE": NO_LIMIT,
            "NAMES_PER_HOUR": NO_LIMIT,
            "NEW_RATERS_PER_HOUR": NO_LIMIT,
            "LOG_LEVEL": "ERROR",
            **settings,
        }
        return subprocess.run(
            [sys.executable, "manage.py", *command], cwd=REPOSITORY, env=environment, check=False
        ).returncode


def requests() -> int:
    return max(on_fresh_database("measure_requests"), on_sqlite("measure_requests"))


def clients() -> int:
    return on_fresh_database("measure_clients")


def boards() -> int:
    return max(on_fresh_database("measure_boards"), on_sqlite("measure_boards"))


def exports() -> int:
    return on_fresh_database("measure_exports")


PARTS: dict[str, Callable[[], int]] = {
    "requests": requests,
    "clients": clients,
    "boards": boards,
    "exports": exports,
}


def main() -> int:
    """Return 0 if all targets are met; parts run even if earlier ones missed their targets."""
    parser = ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    chosen = parser.parse_args().parts or list(PARTS)
    if unknown := [name for name in chosen if name not in PARTS]:
        parser.error(f"no such part: {', '.join(unknown)} (there are {', '.join(PARTS)})")
    return max([PARTS[name]() for name in chosen])


if __name__ == "__main__":
    sys.exit(main())
