"""A load generator that leaves the processor to the server: raw sockets, one thread, epoll.

Each connection is driven by a script: a generator that yields the bytes of a request and is sent
the response. So a script behaves like a rater: ask, read, ask again.
"""

import selectors
import socket
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

CHUNK = 1 << 18
PATIENCE = 300.0
REFUSED = 0.05


@dataclass(frozen=True)
class Answer:
    """A response; its status is 0 if the connection broke before it was complete."""

    status: int
    head: bytes
    body: bytes
    seconds: float


Script = Generator[bytes, Answer, None]
Listener = Callable[[Answer], None]


def request(
    method: str,
    path: str,
    *,
    cookies: Mapping[str, str] | None = None,
    form: Mapping[str, str] | None = None,
    **headers: str,
) -> bytes:
    """Return the bytes of a request; in header names `_` stands for `-`."""
    body = urlencode(form or {}).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if cookies:
        lines.append("Cookie: " + "; ".join(f"{name}={value}" for name, value in cookies.items()))
    if form is not None:
        lines += [
            "Content-Type: application/x-www-form-urlencoded",
            f"Content-Length: {len(body)}",
        ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def play(
    address: tuple[str, int],
    scripts: Iterable[Script],
    *,
    seconds: float = PATIENCE,
    on_answer: Listener = lambda answer: None,
) -> None:
    """Play all scripts concurrently, one connection each, until they end or the time is up."""
    deadline = time.perf_counter() + seconds
    with selectors.DefaultSelector() as selector:
        clients = [_Client(script, address, selector, on_answer) for script in scripts]
        try:
            for client in clients:
                client.go_on(None)
            while selector.get_map() and (left := deadline - time.perf_counter()) > 0:
                for key, _ in selector.select(left):
                    key.data.hear()
        finally:
            for client in clients:
                client.leave()


class _Client:
    """One connection, kept alive, and the script that it plays."""

    def __init__(
        self,
        script: Script,
        address: tuple[str, int],
        selector: selectors.BaseSelector,
        on_answer: Listener,
    ) -> None:
        self.script = script
        self.address = address
        self.selector = selector
        self.on_answer = on_answer
        self.socket: socket.socket | None = None
        self.received = bytearray()
        self.began = 0.0

    def go_on(self, answer: Answer | None) -> None:
        """Pass the response to the script (None at the start), and send its next request."""
        while True:
            if answer is not None:
                self.on_answer(answer)
            wanted = self._wanted(answer)
            if wanted is None:
                self.leave()
                return
            answer = self._ask(wanted)
            if answer is None:
                return

    def hear(self) -> None:
        """Read what has arrived; continue once the response is complete."""
        assert self.socket is not None
        try:
            chunk = self.socket.recv(CHUNK)
        except ConnectionError:
            chunk = b""
        self.received += chunk
        answer = self._whole() if chunk else self._broken()
        if answer is not None:
            self.go_on(answer)

    def leave(self) -> None:
        """End the script and the connection."""
        self.script.close()
        self._hang_up()

    def _wanted(self, answer: Answer | None) -> bytes | None:
        try:
            return next(self.script) if answer is None else self.script.send(answer)
        except StopIteration:
            return None

    def _ask(self, wanted: bytes) -> Answer | None:
        """Send a request; return a response only if the server has hung up meanwhile."""
        self.received.clear()
        self.began = time.perf_counter()
        try:
            if self.socket is None:
                self.socket = socket.create_connection(self.address, timeout=PATIENCE)
                self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.selector.register(self.socket, selectors.EVENT_READ, self)
            self.socket.sendall(wanted)
        except ConnectionRefusedError:  # it is being started
            time.sleep(REFUSED)
            return self._broken()
        except ConnectionError:
            return self._broken()
        return None

    def _broken(self) -> Answer:
        self._hang_up()
        return Answer(0, b"", b"", time.perf_counter() - self.began)

    def _hang_up(self) -> None:
        if self.socket is not None:
            self.selector.unregister(self.socket)
            self.socket.close()
            self.socket = None

    def _whole(self) -> Answer | None:
        """The response once it is complete, else None."""
        end = self.received.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = bytes(self.received[:end])
        if len(self.received) - end - 4 < _length(head):
            return None
        body = bytes(self.received[end + 4 :])
        return Answer(int(head[9:12]), head, body, time.perf_counter() - self.began)


def _length(head: bytes) -> int:
    length = head.lower().partition(b"\r\ncontent-length:")[2]
    return int(length.partition(b"\r\n")[0] or 0)
