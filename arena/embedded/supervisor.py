"""Runs the web process and the worker of `manage.py up`, and restarts them.

A child ends when its parent does, however the parent ended.

The parent holds the writing end of a pipe and never writes. The kernel closes it when the parent
dies, even by SIGKILL, and the child's read returns. On Linux the kernel also sends a signal, which
reaches a child whose threads are stuck.
"""

import ctypes
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import IO, NoReturn

from arena.conf import local_url

PIPE = "RINGSIDE_LIFELINE"
GRACE = 2.0
PR_SET_PDEATHSIG = 1


def hold() -> None:
    """End this process soon after its parent, which holds the other end of the lifeline."""
    end_with_parent()
    watch = threading.Thread(target=_watch, args=[int(os.environ[PIPE])], daemon=True)
    watch.start()


def end_with_parent() -> None:
    """Ask Linux to send SIGTERM when the parent's starting thread ends; elsewhere do nothing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _watch(pipe: int) -> NoReturn:
    """Wait for the pipe to close; then send SIGTERM, and SIGKILL after `GRACE` seconds."""
    os.read(pipe, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL cannot be survived")


# -- Child processes -------------------------------------------------------------------------------

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
# A child that ran this long has started well, so its next pause is the shortest again.
SETTLED = 30.0


class Lifeline:
    """A pipe that closes when the parent ends, which tells its children."""

    def __init__(self) -> None:
        self.reading, self._writing = os.pipe()


@dataclass
class Child:
    """A process `python -m module name arguments` in its own process group."""

    name: str
    arguments: Sequence[str]
    folder: Path
    lifeline: Lifeline
    files: Sequence[int] = ()
    module: str = "arena.embedded.processes"

    def __post_init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None
        self._pause = FIRST_PAUSE
        self._started = self._due = 0.0

    def tend(self) -> None:
        """Start the child if it is not running and the pause after its last end is over."""
        if self.process is not None and self.process.poll() is not None:
            self._bury(self.process.returncode)
        if self.process is None and monotonic() >= self._due:
            self._start()

    def terminate(self) -> None:
        """Ask the child to end."""
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
        self.process = subprocess.Popen(  # noqa: S603  (our own module, no shell)
            [sys.executable, "-m", self.module, self.name, *self.arguments],
            cwd=self.folder,
            env=os.environ | {PIPE: str(self.lifeline.reading), "PYTHONUNBUFFERED": "1"},
            pass_fds=[self.lifeline.reading, *self.files],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # the terminal's Ctrl-C must reach the parent only
        )
        assert self.process.stdout is not None
        threading.Thread(target=self._echo, args=[self.process.stdout], daemon=True).start()

    def _bury(self, code: int) -> None:
        self._kill_group()
        self.process = None
        if monotonic() - self._started > SETTLED:
            self._pause = FIRST_PAUSE
        self._due = monotonic() + self._pause
        self._say(f"ended ({_describe(code)}); starting it again in {self._pause:g} s")
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _kill_group(self) -> None:
        """Kill the whole group: gunicorn's worker outlives its killed master for a second."""
        assert self.process is not None
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def _echo(self, lines: IO[str]) -> None:
        with lines:
            for line in filter(None, map(str.rstrip, lines)):
                self._say(line)

    def _say(self, line: str) -> None:
        sys.stderr.write(f"{self.name:>6} | {line}\n")


def _describe(code: int) -> str:
    return f"exit status {code}" if code >= 0 else signal.Signals(-code).name


# -- The supervisor --------------------------------------------------------------------------------

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Idle children end within a second; one in the middle of a task is killed after this.
PATIENCE = 1.8
LOOK_EVERY = 0.1
# A server that is not ready may log every request, so it is asked less and less often.
LONGEST_RESTART_PAUSE = 5.0
ANSWER_WITHIN = 10.0


def listen(host: str, port: int) -> socket.socket:
    """Open the web server's socket, which outlives web processes. Port 0 is any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=512)


def address(listener: socket.socket) -> str:
    """Return the URL of `listener` for a browser on this machine."""
    host, port = listener.getsockname()[:2]
    return f"{local_url(host, port)}/"


def readiness(listener: socket.socket, site: str) -> int:
    """Return the status of /readyz for the host `site`; 0 for no answer."""
    host, port = listener.getsockname()[:2]
    connection = http.client.HTTPConnection(host, port, timeout=ANSWER_WITHIN)
    try:
        connection.request("GET", "/readyz", headers={"Host": site})
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


class Supervisor:
    """Runs the web process and the worker until it is told to stop."""

    def __init__(self, *, folder: Path, listener: socket.socket, site: str) -> None:
        lifeline = Lifeline()
        number = listener.fileno()
        self.listener, self.site = listener, site
        self._stopping = threading.Event()
        self._serving = threading.Event()
        self.children: Sequence[Child] = (
            Child("web", [str(number)], folder, lifeline, [number]),
            Child("worker", [], folder, lifeline),
        )

    def run(self, *, on_ready: Callable[[], None]) -> None:
        """Keep the children alive until a stop signal; call `on_ready` once the site is up."""
        for number in STOP_SIGNALS:
            signal.signal(number, self._stop)
        threading.Thread(target=self._await_web, daemon=True).start()
        try:
            self._tend_until(self._serving)
            if not self._stopping.is_set():
                on_ready()
            self._tend_until(self._stopping)
        finally:
            self._end_all()

    def _tend_until(self, event: threading.Event) -> None:
        while not (event.is_set() or self._stopping.is_set()):
            for child in self.children:
                child.tend()
            event.wait(LOOK_EVERY)

    def _await_web(self) -> None:
        """Set `_serving` once /readyz answers 200; print any other status."""
        pause, told = LOOK_EVERY, 0
        while not self._stopping.wait(pause):
            status = readiness(self.listener, self.site)
            if status == http.HTTPStatus.OK:
                self._serving.set()
                return
            if status and status != told:
                sys.stderr.write(f"Ringside is not ready: /readyz answers {status}. Waiting.\n")
            told = status or told
            pause = min(2 * pause, LONGEST_RESTART_PAUSE) if status else LOOK_EVERY

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping.set()

    def _end_all(self) -> None:
        deadline = monotonic() + PATIENCE
        for child in self.children:
            child.terminate()
        for child in self.children:
            child.join(deadline)
