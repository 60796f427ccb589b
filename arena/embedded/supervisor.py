"""Everything on one machine under one foreground command."""

import http.client
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from types import FrameType

from arena.conf.addresses import local_url
from arena.embedded.children import Child, Lifeline

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Both children end within a second when idle; one in the middle of a task is killed after this.
PATIENCE = 1.8
LOOK_EVERY = 0.1
# Who answers that it is not ready may log it each time: it is asked less and less often.
LONGEST_PAUSE = 5.0
ANSWER_WITHIN = 10.0


def listen(host: str, port: int) -> socket.socket:
    """Open the web server's socket; it outlives a web process that dies. Port 0: any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=512)


def address(listener: socket.socket) -> str:
    """Return the URL under which a browser on this machine reaches `listener`."""
    host, port = listener.getsockname()[:2]
    return f"{local_url(host, port)}/"


def readiness(listener: socket.socket, site: str) -> int:
    """Return the status that /readyz answers, asked for by the name `site`; 0 for no answer."""
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
            Child("web", "arena.embedded.web", [str(number)], folder, lifeline, [number]),
            Child("worker", "arena.embedded.worker", [], folder, lifeline),
        )

    def run(self, *, on_ready: Callable[[], None]) -> None:
        """Keep the children alive until a stop signal; call `on_ready` once the web is."""
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
        """Set `_serving` once /readyz answers 200; say so where it answers something else."""
        pause, told = LOOK_EVERY, 0
        while not self._stopping.wait(pause):
            status = readiness(self.listener, self.site)
            if status == http.HTTPStatus.OK:
                self._serving.set()
                return
            if status and status != told:
                sys.stderr.write(f"Ringside is not ready: /readyz answers {status}. Waiting.\n")
            told = status or told
            pause = min(2 * pause, LONGEST_PAUSE) if status else LOOK_EVERY

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping.set()

    def _end_all(self) -> None:
        deadline = monotonic() + PATIENCE
        for child in self.children:
            child.terminate()
        for child in self.children:
            child.join(deadline)
