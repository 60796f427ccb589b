"""The web server between clients and pages: crowds, bodies, slow readers, ends."""

import http.client
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from email.message import Message
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from arena import wsgi
from benchmarks.serving import Web, serving
from benchmarks.slow_clients import Address
from tests.ops.running import (
    caddy_in_front,
    children,
    eventually,
    is_alive,
    migrated_database,
    settings_for,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]
THREADS = 4
SLOW_SITE = {"DJANGO_SETTINGS_MODULE": "tests.ops.slow_site"}
Serve = Callable[..., AbstractContextManager[Web]]


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Serve:
    home = tmp_path_factory.mktemp("home")
    shutil.copy(migrated_database(), home)

    def start(**settings: str) -> Any:
        return serving(settings_for(home, **SLOW_SITE, **settings), processes=1, threads=THREADS)

    return start


@pytest.fixture(scope="module")
def web(serve: Serve) -> Iterator[Web]:
    with serve(TRUSTED_PROXIES="1") as running:
        yield running


def get(web: Web, path: str) -> tuple[int, str, Message]:
    """Status, body and headers of a page; status 0 if the connection broke."""
    connection = http.client.HTTPConnection(*web.address, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers
    except (OSError, http.client.HTTPException):
        return 0, "", Message()
    finally:
        connection.close()


def request(path: str, *more: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *more, "", ""]).encode()


def whole(client: socket.socket) -> bytes:
    return b"".join(iter(lambda: client.recv(1 << 16), b""))


def ask(address: Address, sent: bytes) -> bytes:
    """All that the server sends on a connection, which it must close."""
    with socket.create_connection(address, timeout=30) as client:
        client.sendall(sent)
        return whole(client)


def echoed(answer: bytes) -> Any:
    return json.loads(answer.partition(b"\r\n\r\n")[2])


def test_a_crowd_waits_and_whoever_is_too_many_is_told_so(serve: Serve) -> None:
    with serve() as web, ThreadPoolExecutor(350) as clients:
        resource.prlimit(web.process.pid, resource.RLIMIT_NOFILE, (1024, 1024))
        [worker] = children(web.process.pid)
        resource.prlimit(worker, resource.RLIMIT_NOFILE, (1024, 1024))
        crowd = [clients.submit(get, web, "/slow/100/") for _ in range(350)]
        time.sleep(1)
        began = time.monotonic()
        assert get(web, "/healthz")[0] == 200
        healthy_after = time.monotonic() - began
        answers = [each.result() for each in crowd]
        assert healthy_after < (time.monotonic() - began) / 2  # however slow the machine is
        statuses = Counter(status for status, _, _ in answers)
        assert set(statuses) == {200, 503}
        assert statuses[200] >= THREADS + 200
        refusals = [answer for answer in answers if answer[0] == 503]
        assert all("Too many people" in body for _, body, _ in refusals)
        assert {headers["Retry-After"] for _, _, headers in refusals} == {"5"}
        assert get(web, "/slow/1/")[0] == 200


def test_whoever_has_waited_for_long_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, end = threading.Event(), threading.Event()

    def pages(environ: dict[str, Any], start_response: Any) -> Any:
        if "ringside.is_crowded" in environ:
            return Answer([b"refused"])
        begun.set()
        end.wait(30)
        return Answer([b"done"])

    class Answer(list[bytes]):
        streaming = False

        def close(self) -> None:
            pass

    monkeypatch.setattr(wsgi, "_pages", pages)
    monkeypatch.setattr(wsgi, "PATIENCE", 0.1)
    with ThreadPoolExecutor(1) as threads, ThreadPoolExecutor(1) as client:
        monkeypatch.setattr(wsgi, "_threads", threads)
        environ = {"PATH_INFO": "/", "QUERY_STRING": ""}
        under_way = client.submit(wsgi.application, environ, print)
        assert begun.wait(30)
        assert wsgi.application(environ, print) == [b"refused"]
        end.set()
        assert under_way.result(30) == [b"done"]


def test_requests_sent_at_once_are_answered_in_order(web: Web) -> None:
    close = "Connection: close"
    asked = [
        request("/slow/30/"),
        request("/slow/1/", method="HEAD"),
        request("/robots.txt", close),
    ]
    answers = ask(web.address, b"".join(asked)).split(b"HTTP/1.1 ")[1:]
    bodies = [answer.partition(b"\r\n\r\n")[2] for answer in answers]
    assert bodies[:2] == [b"slow but sure", b""]
    assert bodies[2].startswith(b"User-agent")


def test_a_body_may_arrive_after_its_head_in_parts(web: Web) -> None:
    head = ["Content-Length: 10", "Expect: 100-continue", "Connection: close"]
    with socket.create_connection(web.address, timeout=30) as client:
        client.sendall(request("/echo/", *head, method="POST"))
        assert client.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        for part in (b"01234", b"56789"):
            client.sendall(part)
            time.sleep(0.05)
        assert echoed(whole(client))["body"] == "0123456789"


def test_a_body_in_chunks_arrives_whole(web: Web) -> None:
    head = request("/echo/", "Transfer-Encoding: chunked", "Connection: close", method="POST")
    answer = ask(web.address, head + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
    assert echoed(answer)["body"] == "abcde"


def test_half_a_body_reaches_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        pytest.fail("a page was asked")

    said: list[str] = []
    monkeypatch.setattr(wsgi, "_pages", fail)
    environ = {"PATH_INFO": "/", "CONTENT_LENGTH": "10", "wsgi.input": BytesIO(b"12345")}
    wsgi.application(environ, lambda status, _: said.append(status))
    assert [status[:4] for status in said] == ["400 "]


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_large_body_is_refused_while_the_client_still_sends(web: Web, is_chunked: bool) -> None:
    head = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {1 << 40}"
    sent = request("/echo/", head, method="POST")
    if is_chunked:
        chunk = b"x" * (1 << 16)
        sent += (b"%x\r\n%s\r\n" % (len(chunk), chunk)) * 17
    with socket.create_connection(web.address, timeout=30) as client:
        client.sendall(sent)
        assert client.recv(12) == b"HTTP/1.1 413"


def test_addresses_of_several_proxies_are_all_read(web: Web) -> None:
    hops = ["X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: 198.51.100.7", "Connection: close"]
    assert echoed(ask(web.address, request("/echo/", *hops)))["address"] == "198.51.100.7"


def test_behind_caddy_nobody_forges_an_address(tmp_path: Path) -> None:
    """For programs like ours, `X_Forwarded_For` is `X-Forwarded-For`: Caddy must drop it."""
    forged = [f"X{between}Forwarded_For: 203.0.113.9" for between in "-_"]
    forged += ["X-Forwarded-For: 203.0.113.9", "Connection: close"]
    with caddy_in_front(tmp_path, **SLOW_SITE) as address:
        asked = request("/echo/", *forged).replace(b"localhost", b"localhost:%d" % address[1])
        assert echoed(ask(address, asked))["address"] == "127.0.0.1"


def test_an_answer_in_pieces_arrives_whole(web: Web) -> None:
    answer = get(web, "/pieces/")
    assert answer[1] == "".join(f"{number:07}\n" * 1000 for number in range(300))


def test_slow_readers_hold_no_thread_and_get_everything(web: Web) -> None:
    with ExitStack() as stack:
        slow = [stack.enter_context(socket.socket()) for _ in range(20)]
        for client in slow:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(30)
            client.connect(web.address)
            client.sendall(request("/big/", "Connection: close"))
        for client in slow:
            assert client.recv(17) == b"HTTP/1.1 200 OK\r\n"
        assert get(web, "/slow/1/")[1] == "slow but sure"
        for client in slow:
            assert whole(client).partition(b"\r\n\r\n")[2] == b"x" * 3_000_000


def test_clients_that_go_away_leave_no_connection(web: Web) -> None:
    for _ in range(450):  # more than the limit
        with socket.create_connection(web.address, timeout=30) as client:
            client.sendall(request("/slow/1/"))
    eventually(lambda: get(web, "/slow/1/")[0] == 200, patience=30)


def test_a_killed_worker_is_replaced_within_a_second(serve: Serve) -> None:
    with serve() as web:
        [worker] = children(web.process.pid)
        os.kill(worker, signal.SIGKILL)
        eventually(lambda: get(web, "/slow/1/")[0] == 200, patience=1)


def test_a_reload_loses_no_request(serve: Serve) -> None:
    """Caddy and browsers ask again if a connection ends before anything was read from it.

    A few end so if the machine is busy: those that the kernel had given to the old worker.
    """
    ended = threading.Event()

    def visit() -> list[int]:
        statuses = []
        while not ended.is_set():
            statuses.append(get(web, "/slow/5/")[0] or get(web, "/slow/5/")[0])
        return statuses

    with serve() as web, ThreadPoolExecutor(4) as visitors:
        visits = [visitors.submit(visit) for _ in range(4)]
        [old] = children(web.process.pid)
        os.kill(web.process.pid, signal.SIGHUP)
        eventually(lambda: not is_alive(old))
        ended.set()
        assert {status for each in visits for status in each.result()} == {200}
        assert children(web.process.pid)


@pytest.mark.parametrize(("milliseconds", "status"), [(3000, 200), (60000, 0)])
def test_a_stop_answers_what_is_under_way_but_not_for_ever(
    serve: Serve, milliseconds: int, status: int
) -> None:
    with serve() as web, ThreadPoolExecutor(1) as client:
        family = [web.process.pid, *children(web.process.pid)]
        under_way = client.submit(get, web, f"/slow/{milliseconds}/")
        time.sleep(0.5)
        began = time.monotonic()
        web.process.send_signal(signal.SIGTERM)
        web.process.wait(30)
        assert time.monotonic() - began < 6
        assert under_way.result()[0] == status
        assert not any(map(is_alive, family))


def test_a_killed_server_leaves_no_worker(serve: Serve) -> None:
    with serve() as web:
        [worker] = children(web.process.pid)
        web.process.kill()
        web.process.wait(30)
        eventually(lambda: not is_alive(worker), patience=6)


@pytest.mark.parametrize(
    ("work", "status"),
    # At once: how long Python takes to end is not the question.
    [("re.match('(a+)+$', 'a' * 60 + 'b')", 1), ("time.sleep(3); os._exit(0)", 0)],
)
def test_a_process_in_which_no_thread_can_run_ends_itself(
    tmp_path: Path, work: str, status: int
) -> None:
    code = (
        "import os, re, time; from arena import processes; processes.HANGS_AFTER = 1.0;"
        "from arena.management.commands.serve import load_application;"
        f"load_application(os.getppid()); {work}"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=settings_for(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == status
    assert ("Timeout (0:00:01)!" in done.stderr) == bool(status)


def test_the_container_s_check_knows_whether_it_answers(serve: Serve) -> None:
    check = [sys.executable, "arena/healthcheck.py"]
    with serve() as web:
        environment = os.environ | {
            "PORT": str(web.address[1]),
            "ALLOWED_HOSTS": "localhost, x.org",
        }
        answering = subprocess.run(check, env=environment, check=False)
    silent = subprocess.run(check, env=environment, check=False, capture_output=True, text=True)
    assert answering.returncode == 0
    assert silent.returncode == 1
    assert silent.stderr.startswith("The web server does not answer (")


@pytest.mark.parametrize(("name", "value"), [("WEB_PROCESSES", "0"), ("PORT", "eighty")])
def test_a_bad_value_stops_the_start_with_a_sentence(tmp_path: Path, name: str, value: str) -> None:
    ended = subprocess.run(
        [sys.executable, "manage.py", "serve"],
        env=settings_for(tmp_path) | {name: value},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"Ringside cannot start: {name}: ")
