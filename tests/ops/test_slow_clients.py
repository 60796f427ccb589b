"""Clients that are slow on purpose stop neither `make run` nor what compose.yaml starts."""

import http.client
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from benchmarks.serving import serving
from tests.environment import REPOSITORY, everything_required
from tests.ops.running import eventually, migrated_database, settings_for, up

pytestmark = pytest.mark.slow
CLIENTS = 100
WATCHED = 5.0
Address = tuple[str, int]
LOGIN = b"POST /accounts/login/ HTTP/1.1\r\nHost: localhost\r\n"


@contextmanager
def caddy_in_front(home: Path, stack: ExitStack) -> Iterator[Address]:
    """Two web processes behind the project's Caddyfile, as in compose.yaml."""
    if shutil.which("caddy") is None:
        (pytest.fail if everything_required() else pytest.skip)("needs caddy")
    shutil.copy(migrated_database(), home)
    web = stack.enter_context(serving(settings_for(home, TRUSTED_PROXIES="1"), threads=8))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "SITE": f"http://localhost:{port}",
        "PORT": str(web.address[1]),
        "HOME": str(home),
    }
    caddy = subprocess.Popen(
        ["caddy", "run", "--config", str(REPOSITORY / "Caddyfile"), "--adapter", "caddyfile"],
        env=os.environ | settings,
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually(lambda: status(("127.0.0.1", port))[0] == 200)
        yield "127.0.0.1", port
    finally:
        caddy.send_signal(signal.SIGTERM)
        caddy.wait(20)


@pytest.fixture(scope="module", params=["make run", "compose"])
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Address]:
    home = tmp_path_factory.mktemp("home")
    with ExitStack() as stack:
        if request.param == "compose":
            yield stack.enter_context(caddy_in_front(home, stack))
        else:
            url = urlsplit(stack.enter_context(up(home, is_migrated=True)).url())
            yield str(url.hostname), int(url.port or 0)


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


def half_sent_body(client: socket.socket) -> None:
    client.sendall(LOGIN + b"Content-Type: application/x-www-form-urlencoded\r\n")
    client.sendall(b"Content-Length: 1000\r\n\r\nlogin=")


def lingering(client: socket.socket) -> None:
    client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    client.recv(100)


@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(lambda client: None, id="idle connections"),
        pytest.param(lambda client: client.sendall(LOGIN), id="half-sent heads"),
        pytest.param(half_sent_body, id="half-sent bodies"),
        pytest.param(lingering, id="sockets kept open"),
    ],
)
def test_healthz_answers_within_a_second_beside(
    site: Address, begin: Callable[[socket.socket], None]
) -> None:
    with ExitStack() as stack:
        for _ in range(CLIENTS):
            client = stack.enter_context(socket.create_connection(site, timeout=10))
            with suppress(TimeoutError):
                begin(client)
        answers = []
        deadline = time.monotonic() + WATCHED
        while time.monotonic() < deadline:
            answers.append(status(site))
            time.sleep(0.1)
    assert {code for code, _, _ in answers} == {200}
    slowest = max(seconds for _, seconds, _ in answers)
    print(f"slowest of {len(answers)}: {slowest:.3f} s")
    assert slowest < 1
    assert {server for _, _, server in answers} == {None}
