"""A receiver of webhooks on loopback that answers as a test wants it to."""

import socket
import socketserver
import ssl
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

LONG = 15.0  # seconds: only what waits for its receiver takes that long
Answer = Callable[[socket.socket, threading.Event], None]


def says(status: int, *, text: str = "", headers: str = "") -> Answer:
    """Answer at once, and completely."""

    def answer(connection: socket.socket, stopped: threading.Event) -> None:
        head = f"HTTP/1.1 {status} Said\r\nContent-Length: {len(text)}\r\n{headers}\r\n"
        connection.sendall((head + text).encode())

    return answer


def drips(first: bytes, *, then: bytes, every: float = 0.02) -> Answer:
    """Answer with `first`, and then always with `then`."""

    def answer(connection: socket.socket, stopped: threading.Event) -> None:
        connection.sendall(first)
        while not stopped.wait(every):
            connection.sendall(then)

    return answer


class Receiver:
    """Listens on its own port; `requests` holds what arrived, byte for byte."""

    def __init__(self, answer: Answer, tls: ssl.SSLContext | None = None) -> None:
        self.answer = answer
        self.requests: list[bytes] = []
        self.stopped = threading.Event()
        self._tls = tls
        self._server = socketserver.ThreadingTCPServer(
            ("127.0.0.1", 0), self._handle, bind_and_activate=True
        )
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]

    def __enter__(self) -> Self:
        serve = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        serve.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()

    def _handle(self, connection: socket.socket, *_: object) -> None:
        connection.settimeout(5)
        try:
            if self._tls:
                connection = self._tls.wrap_socket(connection, server_side=True)
            self.requests.append(_request(connection))
            self.answer(connection, self.stopped)
        except OSError:
            pass  # the sender went away, which is what some tests are about
        finally:
            connection.close()


def _request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += _more(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    lines = [line.partition(b":") for line in head.lower().splitlines()]
    wanted = next(int(value) for name, _, value in lines if name == b"content-length")
    while len(body) < wanted:
        body += _more(connection)
    return head + b"\r\n\r\n" + body


def _more(connection: socket.socket) -> bytes:
    data = connection.recv(65536)
    if not data:
        raise ConnectionError
    return data
