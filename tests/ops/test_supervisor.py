"""What `manage.py up` waits for before it says that Ringside is running."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from arena.embedded import supervisor
from arena.embedded.supervisor import Supervisor, readiness


class Web(ThreadingHTTPServer):
    """Answers with the next of `statuses`, or with the last one again; `asked` is what came."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.statuses = [200]
        self.asked: list[tuple[str, str | None]] = []


class Answer(BaseHTTPRequestHandler):
    server: Web

    def do_GET(self) -> None:
        statuses = self.server.statuses
        self.server.asked.append((self.path, self.headers["Host"]))
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
def crew(web: Web, monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    """A supervisor without children: the web is there already."""
    monkeypatch.setattr(supervisor, "LOOK_EVERY", 0.01)
    monkeypatch.setattr(supervisor, "LONGEST_RESTART_PAUSE", 0.04)
    monkeypatch.setattr(supervisor.signal, "signal", lambda *_: None)
    crew = Supervisor(folder=Path(), listener=web.socket, site="arena.example")
    crew.children = ()
    return crew


def test_it_runs_once_readyz_answers_200(
    web: Web, crew: Supervisor, capsys: pytest.CaptureFixture[str]
) -> None:
    web.statuses = [500, 500, 503, 200]
    crew.run(on_ready=crew._stopping.set)
    assert web.asked == [("/readyz", "arena.example")] * 4
    assert capsys.readouterr().err.splitlines() == [
        "Ringside is not ready: /readyz answers 500. Waiting.",
        "Ringside is not ready: /readyz answers 503. Waiting.",
    ]


def test_a_service_not_ready_is_never_called_running(web: Web, crew: Supervisor) -> None:
    web.statuses = [500]
    threading.Timer(0.4, crew._stopping.set).start()
    crew.run(on_ready=lambda: pytest.fail("It was never ready."))
    assert 3 < len(web.asked) < 20


def test_nobody_listening_is_no_answer() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        assert readiness(closed, "localhost") == 0
