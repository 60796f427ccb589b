"""Everything on one machine under one foreground command."""

import http.client
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from types import FrameType

from arena.embedded.children import Child, Lifeline

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Both children end within a second when idle; one in the middle of a task is killed after this.
PATIENCE = 1.8
LOOK_EVERY = 0.1


def listen(host: str, port: int) -> socket.socket:
    """Open the web server's socket; it outlives a web process that dies. Port 0: any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=512)


def address(listener: socket.socket) -> str:
    """Return the URL under which a browser on this machine reaches `listener`."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104  (read, not bound)
        host = "localhost"
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def is_serving(listener: socket.socket) -> bool:
    """Does the web process answer? Any answer will do: /healthz may redirect to https."""
    host, port = listener.getsockname()[:2]
    connection = http.client.HTTPConnection(host, port, timeout=2)
    try:
        connection.request("GET", "/healthz")
        connection.getresponse()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True


class Supervisor:
    """Runs the web process and the worker until it is told to stop."""

    def __init__(self, *, folder: Path, listener: socket.socket) -> None:
        lifeline = Lifeline()
        number = listener.fileno()
        self.listener = listener
        self._stopping = threading.Event()
        self._serving = threading.Event()
        self.children: Sequence[Child] = (
            Child("web", "arena.embedded.web", [str(number)], folder, lifeline, [number]),
            Child("worker", "arena.embedded.worker", [], folder, lifeline),
        )

    def run(self, *, on_ready: Callable[[], None]) -> None:
        """Keep the children alive until a stop signal; call `on_ready` once the web answers."""
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
        while not is_serving(self.listener):
            self._stopping.wait(LOOK_EVERY)
        self._serving.set()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping.set()

    def _end_all(self) -> None:
        deadline = monotonic() + PATIENCE
        for child in self.children:
            child.terminate()
        for child in self.children:
            child.join(deadline)
