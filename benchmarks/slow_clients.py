"""Clients that are slow on purpose, and how long /healthz takes while they are connected."""

import http.client
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

CLIENTS = 100
WATCHED = 5.0  # seconds
MOST_SECONDS = 1.5
Address = tuple[str, int]
LOGIN = b"POST /accounts/login/ HTTP/1.1\r\nHost: localhost\r\n"


def idle(client: socket.socket) -> None:
    """Connect, and send nothing."""


def half_sent_head(client: socket.socket) -> None:
    client.sendall(LOGIN)


def half_sent_body(client: socket.socket) -> None:
    client.sendall(LOGIN + b"Content-Type: application/x-www-form-urlencoded\r\n")
    client.sendall(b"Content-Length: 1000\r\n\r\nlogin=")


def lingering(client: socket.socket) -> None:
    client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    client.recv(100)


BEGINNINGS: dict[str, Callable[[socket.socket], None]] = {
    "idle connections": idle,
    "half-sent heads": half_sent_head,
    "half-sent bodies": half_sent_body,
    "sockets kept open": lingering,
}


def status(address: Address) -> tuple[int, float, str | None]:
    """The status of /healthz, the seconds that it took, and the name of the server."""
    began = time.monotonic()
    connection = http.client.HTTPConnection(*address, timeout=30)
    try:
        connection.request("GET", "/healthz", headers={"Host": f"localhost:{address[1]}"})
        answer = connection.getresponse()
        return answer.status, time.monotonic() - began, answer.getheader("Server")
    except OSError:
        return 0, time.monotonic() - began, None
    finally:
        connection.close()


def answers_beside(
    address: Address, begin: Callable[[socket.socket], None]
) -> list[tuple[int, float, str | None]]:
    """Hold this many such connections open for a while, and request /healthz meanwhile."""
    with ExitStack() as stack:
        for _ in range(CLIENTS):
            client = stack.enter_context(socket.create_connection(address, timeout=10))
            with suppress(TimeoutError):
                begin(client)
        answers = []
        deadline = time.monotonic() + WATCHED
        while time.monotonic() < deadline:
            answers.append(status(address))
            time.sleep(0.1)
    return answers
