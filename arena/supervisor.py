"""Keeps Ringside's processes running: restarts one that ends, or that no longer answers.

    python arena/supervisor.py          serves pages, as the container does
    python arena/supervisor.py check    exit status 0 if pages are served: the container's check

`manage.py up` also turns into this program, with one process that does everything. It imports
nothing from Ringside, so that it takes little memory and starts at once.

A child ends when its parent does, however the parent ended: the parent holds the writing end of a
pipe and never writes. The kernel closes it when the parent dies, even by SIGKILL, and the child's
read returns. On Linux the kernel also sends a signal, which reaches a child whose threads are
stuck.
"""

import argparse
import ctypes
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import NoReturn

PR_SET_PDEATHSIG = 1
GRACE = 2.0


def end_with_parent(lifeline: int) -> None:
    """End this process soon after its parent, which holds the other end of `lifeline`."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    threading.Thread(target=_await_end, args=[lifeline], daemon=True).start()


def _await_end(lifeline: int) -> NoReturn:
    os.read(lifeline, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL cannot be survived")


# -- Sockets ---------------------------------------------------------------------------------------


def listen(host: str, port: int) -> socket.socket:
    """Open the web server's socket, which outlives web processes. Port 0 is any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=1024)


def status_of(address: tuple[str, int], path: str, *, site: str, patience: float) -> int:
    """Return the status of the answer to `GET path` for the host `site`; 0 for no answer."""
    connection = http.client.HTTPConnection(*address, timeout=patience)
    try:
        connection.request("GET", path, headers={"Host": site})
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


# -- Child processes -------------------------------------------------------------------------------

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
# A child that ran this long has started well, so its next pause is the shortest again.
SETTLED = 30.0
# How long a child may fail to answer: after its first answer, and before.
HUNG, STARTS_WITHIN = 30.0, 300.0
ANSWER_WITHIN, ASK_EVERY = 10.0, 5.0


class Child:
    """A process `python -m arena.server <role>` in its own group.

    It answers on the site's socket, which children share, and on a port of its own.
    """

    def __init__(self, name: str, role: str, *, shared: Sequence[int]) -> None:
        self.name, self.role = name, role
        own = listen("127.0.0.1", 0)
        self.address: tuple[str, int] = own.getsockname()
        self.files = [*shared, own.detach()]
        self.process: subprocess.Popen[bytes] | None = None
        self._pause = FIRST_PAUSE
        self._started = self._due = 0.0
        self._answers_until = 0.0

    def tend(self) -> None:
        """Start the child if it is not running and the pause after its last end is over."""
        if self.process is not None and self.process.poll() is not None:
            self._bury(self.process.returncode)
        if self.process is None and monotonic() >= self._due:
            self._start()

    def check(self, site: str) -> float:
        """Kill the child if it has not answered for too long; return when to ask again."""
        process = self.process
        if process is None:
            return LOOK_EVERY
        if status_of(self.address, "/healthz", site=site, patience=ANSWER_WITHIN):
            self._answers_until = monotonic() + HUNG
            return ASK_EVERY
        if process is self.process and monotonic() > self._answers_until:
            _say(f"{self.name} does not answer")
            process.kill()
        return LOOK_EVERY

    def terminate(self) -> None:
        if self.process is not None:
            self.process.terminate()

    def join(self, deadline: float) -> None:
        """Wait for the child's end until `deadline` (monotonic), then kill its whole group."""
        if self.process is None:
            return
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(max(0.0, deadline - monotonic()))
        self._kill_group()
        self.process.wait()

    def _start(self) -> None:
        self._started = monotonic()
        self._answers_until = self._started + STARTS_WITHIN
        self.process = subprocess.Popen(  # noqa: S603  (our own module, no shell)
            [sys.executable, "-m", "arena.server", self.role, *map(str, self.files)],
            cwd=Path(__file__).parent.parent,
            # With more arenas, threads that fit boards leave memory behind in each of them.
            env={"MALLOC_ARENA_MAX": "2"} | os.environ,
            pass_fds=self.files,
            start_new_session=True,  # the terminal's Ctrl-C must reach the parent only
        )

    def _bury(self, code: int) -> None:
        self._kill_group()
        self.process = None
        if monotonic() - self._started > SETTLED:
            self._pause = FIRST_PAUSE
        self._due = monotonic() + self._pause
        _say(f"{self.name} ended ({_describe(code)}); restarting it in {self._pause:g} s")
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _kill_group(self) -> None:
        assert self.process is not None
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def _describe(code: int) -> str:
    return f"exit status {code}" if code >= 0 else signal.Signals(-code).name


def _say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}.\n")
    sys.stderr.flush()


# -- The supervisor --------------------------------------------------------------------------------

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LOOK_EVERY = 0.5
# A server that is not ready may log every request, so it is asked less and less often.
LONGEST_READY_PAUSE = 5.0


class Supervisor:
    """Runs children until it is told to stop; then they have `patience` seconds to end."""

    def __init__(self, children: Sequence[Child], *, site: str, patience: float) -> None:
        self.children, self.site, self.patience = children, site, patience
        self._stopping = threading.Event()

    def run(self, *, greeting: str = "") -> None:
        """Keep the children alive until a stop signal; print `greeting` once the site is up."""
        for number in STOP_SIGNALS:
            signal.signal(number, self._stop)
        threading.Thread(target=self._greet, args=[greeting], daemon=True).start()
        for child in self.children:
            threading.Thread(target=self._check, args=[child], daemon=True).start()
        try:
            while not self._stopping.wait(LOOK_EVERY):
                for child in self.children:
                    child.tend()
        finally:
            self._end_all()

    def _greet(self, greeting: str) -> None:
        """Wait until /readyz answers 200; print any other status."""
        pause, reported = LOOK_EVERY, 0
        address = self.children[0].address
        while not self._stopping.wait(pause):
            status = status_of(address, "/readyz", site=self.site, patience=ANSWER_WITHIN)
            if status == http.HTTPStatus.OK:
                sys.stdout.write(greeting)
                sys.stdout.flush()
                return
            if status and status != reported:
                _say(f"Ringside is not ready: /readyz answers {status}. Waiting")
            reported = status or reported
            pause = min(2 * pause, LONGEST_READY_PAUSE) if status else LOOK_EVERY

    def _check(self, child: Child) -> None:
        pause = LOOK_EVERY
        while not self._stopping.wait(pause):
            pause = child.check(self.site)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping.set()

    def _end_all(self) -> None:
        deadline = monotonic() + self.patience
        for child in self.children:
            child.terminate()
        for child in self.children:
            child.join(deadline)


# -- Programs --------------------------------------------------------------------------------------


def main() -> None:
    arguments = argparse.ArgumentParser(description="Serves Ringside's pages.")
    arguments.add_argument("command", nargs="?", choices=["check"])
    arguments.add_argument("--listener", type=int, help="an open socket instead of HOST and PORT")
    arguments.add_argument("--greeting", type=int, help="do everything; print this pipe's text")
    options = arguments.parse_args()
    if options.command == "check":
        sys.exit(not _is_alive())
    given, lifeline = options.listener, os.pipe()[0]
    listener = socket.socket(fileno=given) if given is not None else listen(*_address())
    shared = [lifeline, listener.fileno()]
    if options.greeting is None:
        _serve(shared)
    else:
        _run_everything(shared, options.greeting)


def _serve(shared: Sequence[int]) -> None:
    names = [f"web-{number + 1}" for number in range(_number("WEB_PROCESSES", 2, least=1))]
    children = [Child(name, "web", shared=shared) for name in names]
    Supervisor(children, site=_site(), patience=8.0).run()


def _run_everything(shared: Sequence[int], greeting: int) -> None:
    with os.fdopen(greeting, encoding="utf-8") as pipe:
        text = pipe.read()
    child = Child("ringside", "all", shared=shared)
    # An idle child ends within a second; one in the middle of a task is killed after this.
    Supervisor([child], site=_site(), patience=1.8).run(greeting=text)
    sys.stdout.write("Stopped.\n")


def _address() -> tuple[str, int]:
    return os.environ.get("HOST", "127.0.0.1"), _number("PORT", 8000)


def _number(name: str, default: int, least: int = 0) -> int:
    try:
        number = int(os.environ.get(name, default))
    except ValueError:
        number = -1
    if number < least:
        sys.exit(f"Ringside cannot start: {name} must be a whole number, at least {least}.")
    return number


def _site() -> str:
    """Return a host name that ALLOWED_HOSTS allows."""
    return os.environ.get("ALLOWED_HOSTS", "").split(",")[0].strip(" *.") or "localhost"


def _is_alive() -> bool:
    host, port = _address()
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  (read, not bound)
    return status_of((here, port), "/healthz", site=_site(), patience=4) == http.HTTPStatus.OK


if __name__ == "__main__":
    main()
