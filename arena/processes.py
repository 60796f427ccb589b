"""The processes of one machine, and the small program that starts them.

`manage.py up` turns into it; Django's memory would cost 150 MB.
"""

import ctypes
import faulthandler
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterable
from contextlib import closing, suppress
from functools import partial
from time import monotonic, sleep

PROGRAMS = {
    "The web server": ["manage.py", "serve"],
    "The worker": [
        # As root, as in a container where somebody tries this, it would warn at each start.
        *("-W", "ignore:You're running the worker with superuser", "-m"),
        *("celery", "-A", "arena", "--quiet", "worker", "--pool=threads", "--concurrency=36"),
        *("--queues=fits,large-fits,sweeps,calls,exports", "--beat"),
        "--scheduler=arena.celery:Scheduler",
        *("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=WARNING"),
    ],
}
LOOK_EVERY = 1.0
PATIENCE = 6.0  # seconds to finish what is under way; then all is killed
PR_SET_PDEATHSIG = 1
HANGS_AFTER = 120.0
Running = subprocess.Popen[bytes]


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process as soon as its parent has ended, even by SIGKILL.

    Only Linux can do this. Elsewhere the next `manage.py up` ends what was left.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended already
        os.kill(os.getpid(), signal.SIGKILL)


def postpone_end() -> None:
    """Have this process end, with the traceback of each thread, if it does not call this again.

    Python's watchdog is a thread in C, which also ends a process in which no other thread can run.
    Whoever has started the process starts it again.
    """
    faulthandler.dump_traceback_later(HANGS_AFTER, exit=True)


def end_if_it_hangs() -> None:
    """Have this process end once none of its threads has been able to run for HANGS_AFTER."""

    def live() -> None:
        while True:
            postpone_end()
            sleep(HANGS_AFTER / 10)

    threading.Thread(target=live, name="watchdog", daemon=True).start()


def run(groups: int, database: str, greeting: str) -> None:
    """Run all programs until a signal, and start again what has ended.

    `groups` is the open file in which their process groups are kept, and `database` SQLite's file,
    if that is used. `greeting` is printed once the web server listens.
    """
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stopping.set())
    running: dict[str, Running] = {}
    try:
        while not stopping.is_set():
            for name, program in PROGRAMS.items():
                if name in running:
                    if running[name].poll() is None:
                        continue
                    say(f"{name} ended (status {running[name].returncode}). Starting it again.")
                    end([running[name]])
                running[name] = start(program, groups)
            os.ftruncate(groups, 0)
            os.write(groups, " ".join(str(each.pid) for each in running.values()).encode())
            if greeting and is_listening():
                say(greeting)
                greeting = ""
            stopping.wait(LOOK_EVERY)
    finally:
        end(running.values())
        join_log(database)
        say("Stopped.")


def start(program: list[str], groups: int) -> Running:
    return subprocess.Popen(  # noqa: S603  (our own programs, no shell)
        [sys.executable, *program],
        # With more arenas, threads that fit boards leave memory behind in each of them.
        env={"MALLOC_ARENA_MAX": "2"} | os.environ,
        pass_fds=[groups],
        preexec_fn=partial(end_with_parent, os.getpid()),
        start_new_session=True,  # the terminal's Ctrl-C must reach this process only
    )


def end(running: Iterable[Running]) -> None:
    """Let processes finish what is under way; after PATIENCE kill them and theirs."""
    deadline = monotonic() + PATIENCE
    for process in running:
        process.terminate()
    for process in running:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - monotonic()))
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def join_log(database: str) -> None:
    """Let SQLite write its log into the database, so that whoever copies one file has all.

    It does so when the last connection is closed, which processes that were killed never did.
    """
    if database:
        with suppress(sqlite3.Error), closing(sqlite3.connect(database)) as last:
            last.execute("SELECT 1 FROM sqlite_schema").fetchall()


def is_listening() -> bool:
    address = os.environ["HOST"], int(os.environ["PORT"])
    with suppress(OSError), socket.create_connection(address, timeout=LOOK_EVERY):
        return True
    return False


def say(sentence: str) -> None:
    sys.stdout.write(f"{sentence}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    # The first is a lock, to be kept.
    _, groups, pipe, database = sys.argv[1:]
    with os.fdopen(int(pipe), encoding="utf-8") as text:
        greeting = text.read()
    run(int(groups), database, greeting)
