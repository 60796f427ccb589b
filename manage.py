#!/usr/bin/env python
"""Ringside's command line."""

import gc
import os
import signal
import sys

from django.core.management import execute_from_command_line

from arena import __version__


def main() -> None:
    """Run a command; end with one sentence if the database goes away meanwhile."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "arena.settings")
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"Ringside {__version__}\n")
        return
    if sys.argv[1:2] == ["rank"]:
        _rank()
        return
    try:
        execute_from_command_line(sys.argv)
    except Exception as error:
        if "--traceback" in sys.argv or not (sentence := _about_database(error)):
            raise
        sys.stderr.write(f"{sentence}\n")
        sys.exit(os.EX_TEMPFAIL)


def _rank() -> None:
    """Rank a file without the apps: loading them takes as long as reading a million votes."""
    gc.set_threshold(50_000)  # or collections would take a tenth of the time to start
    from django.conf import settings  # noqa: PLC0415  (only now)

    from ranking.management.commands.rank import Command  # noqa: PLC0415  (as above)

    settings.configure()  # nothing in the environment affects a ranking
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end as `cat` does when nobody reads on
    Command().run_from_argv(sys.argv)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # to take down the interpreter would take as long as reading a million votes


def _about_database(error: Exception) -> str:
    """Return what to do about an error of a database that is away or busy, else ''."""
    import psycopg  # noqa: PLC0415  (only now: commands start without it)
    from django.db import InterfaceError, OperationalError  # noqa: PLC0415  (as above)

    from arena.logs import outage  # noqa: PLC0415  (as above)

    # A COPY is the driver's own, so its errors are, too.
    lost = (OperationalError, InterfaceError, psycopg.OperationalError, psycopg.InterfaceError)
    if not isinstance(error, lost):
        return ""
    return (
        f"Stopped: {outage(error)}. Everything saved so far is kept, and runs already started "
        "continue on their own. Run the command again once the database is reachable."
    )


if __name__ == "__main__":
    main()
