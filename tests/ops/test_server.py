"""The web server between clients and pages: order, slow readers, bodies, ends."""

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from arena import server
from tests.ops.running import eventually

Address = tuple[str, int]
BIG = 3_000_000
BEGUN, END = threading.Event(), threading.Event()
PIECES = [b"%07d\n" % number * 1000 for number in range(300)]


def pages(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer with the path, the body, a big answer or one in pieces."""
    path = environ["PATH_INFO"]
    if path == "/broken":
        raise RuntimeError("a page with a defect")
    if path == "/long":
        BEGUN.set()
        END.wait(30)
    answers = {
        "/body": [environ["wsgi.input"].read()],
        "/big": [b"x" * BIG],
        "/pieces": PIECES,
        "/none": [],
    }
    answer = answers.get(path, [path.encode()])
    lengths = [("Content-Length", str(sum(map(len, answer))))] if path != "/pieces" else []
    start_response("204 No Content" if path == "/none" else "200 OK", lengths)
    return answer if environ["REQUEST_METHOD"] != "HEAD" else []


@pytest.fixture
def stopping() -> threading.Event:
    return threading.Event()


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch, stopping: threading.Event) -> Iterator[Address]:
    """The product's server with pages of this test, in a thread."""
    monkeypatch.setattr(server, "application", pages)
    monkeypatch.setattr(server, "CHECK_EVERY", 0.1)
    here = {"channel_timeout": 1, "cleanup_interval": 0.2, "connection_limit": 40}
    here["outbuf_overflow"] = 1 << 28  # waitress leaves temporary files to be closed by themselves
    monkeypatch.setattr(server, "WEB", server.WEB | here)
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    address = listener.getsockname()
    connections = server.make_server([listener.detach()])
    epoll = connections._epoll

    def poll(seconds: float) -> Any:
        if stopping.is_set():
            raise SystemExit
        return epoll.poll(seconds)

    connections._epoll = SimpleNamespace(
        poll=poll, register=epoll.register, modify=epoll.modify, unregister=epoll.unregister
    )
    thread = threading.Thread(target=connections.run)
    thread.start()
    yield address
    stopping.set()
    thread.join(30)
    for opened in list(connections.values()):
        opened.close()
    epoll.close()


def get(path: str, *more: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *more, "", ""]).encode()


def whole(client: socket.socket) -> bytes:
    return b"".join(iter(lambda: client.recv(1 << 16), b""))


def ask(address: Address, sent: bytes) -> bytes:
    """All that the server sends on a connection, which it must close."""
    with socket.create_connection(address, timeout=30) as client:
        client.sendall(sent)
        return whole(client)


def test_requests_sent_at_once_are_answered_in_order(address: Address) -> None:
    asked = [get("/one"), get("/head", method="HEAD"), get("/two"), get("/none")]
    answers = ask(address, b"".join(asked))  # waitress closes the connection after a 204
    bodies = [answer.partition(b"\r\n\r\n")[2] for answer in answers.split(b"HTTP/1.1 ")[1:]]
    assert bodies == [b"/one", b"", b"/two", b""]


def test_a_connection_is_used_again(address: Address) -> None:
    with socket.create_connection(address, timeout=30) as client:
        for number in range(50):
            client.sendall(get(f"/{number}"))
            assert client.recv(1000).endswith(b"\r\n\r\n/%d" % number)


def test_head_and_body_leave_together(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []
    send = server.Connection.send

    def noted(channel: Any, data: bytes, **options: Any) -> Any:
        sent.append(data)
        return send(channel, data, **options)

    monkeypatch.setattr(server.Connection, "send", noted)
    for path in ("/one", "/none"):
        assert [ask(address, get(path, "Connection: close"))] == sent
        sent.clear()


def test_slow_readers_hold_no_thread_and_get_everything(address: Address) -> None:
    with ExitStack() as stack:
        slow = [stack.enter_context(socket.socket()) for _ in range(20)]
        for client in slow:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(30)
            client.connect(address)
            client.sendall(get("/big", "Connection: close"))
        for client in slow:
            assert client.recv(17) == b"HTTP/1.1 200 OK\r\n"
        assert b"/quick" in ask(address, get("/quick", "Connection: close"))
        for client in slow:
            assert whole(client).partition(b"\r\n\r\n")[2] == b"x" * BIG


def test_an_answer_in_pieces_arrives_whole(address: Address) -> None:
    answer = ask(address, get("/pieces", "Connection: close"))
    assert b"Transfer-Encoding: chunked" in answer
    received = answer.partition(b"\r\n\r\n")[2]
    pieces = []
    while received:
        size, _, received = received.partition(b"\r\n")
        pieces.append(received[: int(size, 16)])
        received = received[int(size, 16) + 2 :]
    assert pieces == [*PIECES, b""]


def test_a_body_may_arrive_after_its_head_in_parts(address: Address) -> None:
    head = ["Content-Length: 10", "Expect: 100-continue", "Connection: close"]
    with socket.create_connection(address, timeout=30) as client:
        client.sendall(get("/body", *head, method="POST"))
        assert client.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        for part in (b"01234", b"56789"):
            client.sendall(part)
            time.sleep(0.05)
        assert whole(client).endswith(b"\r\n\r\n0123456789")


def test_a_defect_of_a_page_is_a_500_and_ends_nothing(address: Address) -> None:
    assert ask(address, get("/broken")).startswith(b"HTTP/1.1 500 ")
    assert b"/next" in ask(address, get("/next", "Connection: close"))


def test_silent_connections_are_closed_and_make_room(address: Address) -> None:
    with ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(address, timeout=30)) for _ in range(60)
        ]
        assert b"/late" in ask(address, get("/late", "Connection: close"))
        assert [client.recv(1) for client in clients] == [b""] * 60


def test_clients_that_go_away_leave_no_connection(address: Address) -> None:
    for _ in range(60):  # more than the limit
        with socket.create_connection(address, timeout=30) as client:
            client.sendall(get("/big"))
    eventually(lambda: b"/still" in ask(address, get("/still", "Connection: close")))


def test_a_stop_answers_what_is_under_way(address: Address, stopping: threading.Event) -> None:
    with socket.create_connection(address, timeout=30) as client:
        client.sendall(get("/long"))
        assert BEGUN.wait(30)
        stopping.set()
        END.set()
        assert client.recv(1000).endswith(b"\r\n\r\n/long")
