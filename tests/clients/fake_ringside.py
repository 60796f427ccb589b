"""A loopback server that answers like a Ringside, well or badly, and records its requests."""

import json
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PROBLEM = "urn:ringside:problem:"


@dataclass
class Said:
    """A response. `cut` ends the connection in the middle of the body."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False


@dataclass
class Asked:
    """A request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def key(self) -> str:
        return self.headers.get("idempotency-key", "")

    @property
    def said(self) -> Any:
        return json.loads(self.body)


def listed(*rows: Any) -> Said:
    """One page of a list."""
    return Said({"next": None, "previous": None, "results": rows})


def problem(status: int, detail: str, kind: str = "refused", **more: Any) -> Said:
    said = {"type": PROBLEM + kind, "title": "Title", "status": status, "detail": detail}
    return Said(said | more, status)


class FakeRingside:
    """Use as a context manager. Each request is answered by the next of `answers`, or by the last
    one again."""

    def __init__(self, *answers: Said) -> None:
        self.answers = deque(answers)
        self.asked: list[Asked] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                body = self.rfile.read(length)
                fake.asked.append(Asked(self.command, self.path, headers, body))
                fake.answer(self)

            def do_GET(self) -> None:
                self.do_POST()

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        said = self.answers.popleft() if len(self.answers) > 1 else self.answers[0]
        body = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
        handler.send_response(said.status)
        for name, value in said.headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body) + 10 * said.cut))
        handler.end_headers()
        if said.status != 304:
            handler.wfile.write(body)

    def __enter__(self) -> "FakeRingside":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
