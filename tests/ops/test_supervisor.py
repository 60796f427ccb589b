"""The program that keeps Ringside's processes running."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import pytest

from arena import supervisor
from arena.supervisor import Child, Supervisor, status_of
from tests.ops.running import PATIENCE, eventually


class Web(ThreadingHTTPServer):
    """Answers with the next of `statuses`, or with the last one again; `asked` is what came."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.statuses = [200]
        self.asked: list[tuple[str, str | None]] = []
        self.asked_at: list[float] = []


class Answer(BaseHTTPRequestHandler):
    server: Web

    def do_GET(self) -> None:
        statuses = self.server.statuses
        self.server.asked.append((self.path, self.headers["Host"]))
        if self.path == "/readyz":
            self.server.asked_at.append(time.monotonic())
        self.send_response(statuses.pop(0) if len(statuses) > 1 else statuses[0])
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def web() -> Iterator[Web]:
    with Web() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def child(web: Web, monkeypatch: pytest.MonkeyPatch) -> Iterator[Child]:
    """A child that sleeps; the web answers at its address."""
    for name in ("LOOK_EVERY", "FIRST_PAUSE", "ASK_EVERY"):
        monkeypatch.setattr(supervisor, name, 0.01)
    monkeypatch.setattr(supervisor, "LONGEST_READY_PAUSE", 0.04)
    monkeypatch.setattr(supervisor.signal, "signal", lambda *_: None)
    popen = subprocess.Popen
    monkeypatch.setattr(
        supervisor.subprocess, "Popen", lambda command, **named: popen(["sleep", "60"], **named)
    )
    child = Child("web", "web", shared=[])
    child.address = web.server_address[:2]  # type: ignore[assignment]
    yield child
    child.join(0)
    for number in child.files:
        socket.socket(fileno=number).close()


def run_until(crew: Supervisor, event: threading.Event, seconds: float = 60.0) -> None:
    """Run a supervisor until the event, or for so many seconds."""

    def stop() -> None:
        event.wait(seconds)
        crew._stopping.set()

    threading.Thread(target=stop).start()
    crew.run(greeting="It runs.\n")


class Greeted(threading.Event):
    """Set when the greeting is written."""

    def write(self, text: str) -> None:
        self.text = text
        self.set()

    def flush(self) -> None:
        pass


def test_it_greets_once_readyz_answers_200(
    web: Web, child: Child, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    web.statuses = [500, 500, 503, 200]
    child.check = lambda site: 1.0  # type: ignore[method-assign]
    greeted = Greeted()
    monkeypatch.setattr(supervisor.sys, "stdout", greeted)
    run_until(Supervisor([child], site="arena.example", patience=0), greeted)
    assert greeted.text == "It runs.\n"
    assert web.asked == [("/readyz", "arena.example")] * 4
    assert capsys.readouterr().err.splitlines() == [
        "Ringside is not ready: /readyz answers 500. Waiting.",
        "Ringside is not ready: /readyz answers 503. Waiting.",
    ]


def test_a_service_not_ready_is_never_called_running(
    web: Web, child: Child, capsys: pytest.CaptureFixture[str]
) -> None:
    web.statuses = [500]
    crew = Supervisor([child], site="localhost", patience=0)
    watching = threading.Thread(target=eventually, args=[lambda: len(web.asked_at) > 5])
    watching.start()
    threading.Thread(target=lambda: (watching.join(), crew._stopping.set())).start()
    crew.run(greeting="It runs.\n")
    pauses = [later - earlier for earlier, later in pairwise(web.asked_at)]
    assert min(pauses[2:]) >= supervisor.LONGEST_READY_PAUSE
    assert capsys.readouterr().out == ""


def test_nobody_listening_is_no_answer() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        assert status_of(closed.getsockname(), "/readyz", site="localhost", patience=1) == 0


def test_a_child_that_no_longer_answers_is_killed_and_started_again(
    web: Web, child: Child, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(supervisor, "monotonic", lambda: now[0])
    child.tend()
    first = child.process
    assert first is not None
    child.check("localhost")
    child.address = ("127.0.0.1", 1)  # where nobody listens
    child.check("localhost")
    assert capsys.readouterr().err == "", "it has answered a moment ago"
    now[0] += supervisor.HUNG + 1
    child.check("localhost")
    assert first.wait(60) == -signal.SIGKILL
    child.tend()
    now[0] += 1
    child.tend()
    assert child.process not in (None, first)
    assert "web does not answer.\nweb ended (SIGKILL)" in capsys.readouterr().err


def test_a_child_may_take_its_time_to_start(
    child: Child, capsys: pytest.CaptureFixture[str]
) -> None:
    child.tend()
    child.address = ("127.0.0.1", 1)
    child.check("localhost")
    assert child.process is not None
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("name", "value"), [("WEB_PROCESSES", "0"), ("PORT", "eighty")])
def test_a_bad_value_stops_the_start_with_a_sentence(name: str, value: str) -> None:
    ended = subprocess.run(
        [sys.executable, supervisor.__file__],
        env=os.environ | {"PORT": "0", name: value},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith(
        f"Ringside cannot start: {name} must be a whole number, at least "
    )
