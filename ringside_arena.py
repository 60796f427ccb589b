"""The command `ringside-arena`. In the wheel, the product lies in the package made of this file."""

import os
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
USAGE = """\
usage: ringside-arena                        start everything, at first with a sample arena
       ringside-arena manage COMMAND ...     run a command; `manage help` lists them
       ringside-arena --version

Everything is kept in RINGSIDE_HOME, by default {home}.
HOST and PORT say where it listens, by default 127.0.0.1 and 8000.
"""


def main() -> None:
    """Start everything on this machine, or run a command of manage.py."""
    shared = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    home = os.environ.setdefault("RINGSIDE_HOME", str(Path(shared) / "ringside"))
    sys.path.insert(0, str(FOLDER))
    match sys.argv[1:]:
        case []:
            run("up")
        case ["manage", *command]:
            run(*command)
        case ["--version"]:
            run("--version")
        case ["-h" | "--help"]:
            sys.stdout.write(USAGE.format(home=home))
        case _:
            sys.exit(USAGE.format(home=home))


def run(*command: str) -> None:
    import manage  # noqa: PLC0415  (it is found only now)

    sys.argv = ["ringside-arena manage", *command]
    manage.main()
