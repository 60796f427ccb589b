"""Sending a webhook: what arrives, what counts as accepted, and how each failure is reported."""

import logging
import socket
import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from arena.webhooks.client import MOST_READ, DeliveryError, SentWebhook, send, system_resolve
from arena.webhooks.targets import TargetError
from tests.arena.webhook_receiver import LONG, Receiver, drips, says

SECRET_PAGE = "internal-page-42"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver(says(200)) as running:
        yield running


def deliver(receiver: Receiver, path: str = "/hook?token=1", timeout: float = 5.0) -> SentWebhook:
    return send(
        f"http://127.0.0.1:{receiver.port}{path}",
        body=b'{"known": true}',
        headers={"Content-Type": "application/json", "webhook-id": "msg_1"},
        timeout=timeout,
        allow_http=True,
        allow_loopback_port=receiver.port,
    )


def failure(receiver: Receiver, timeout: float = 5.0) -> DeliveryError:
    with pytest.raises(DeliveryError, match=r"^[A-Z].*\.$") as caught:
        deliver(receiver, timeout=timeout)
    assert SECRET_PAGE not in str(caught.value)
    return caught.value


def resolves_to(*addresses: str) -> "Resolver":
    return Resolver([addresses])


class Resolver:
    """Gives its answers one after the other, then always the last, and counts the requests."""

    def __init__(self, answers: Sequence[Sequence[str]]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        return self.answers[min(len(self.asked), len(self.answers)) - 1]


def ask_name(resolve: Resolver, *, port: int, open_port: int | None = None) -> SentWebhook:
    return send(
        f"http://hooks.example.com:{port}/",
        body=b"{}",
        headers={},
        timeout=2.0,
        resolve=resolve,
        allow_http=True,
        allow_loopback_port=open_port,
    )


def test_a_webhook_arrives_as_it_was_given(receiver: Receiver) -> None:
    assert deliver(receiver) == SentWebhook(200)
    head, _, body = receiver.requests[0].partition(b"\r\n\r\n")
    lines = head.decode().splitlines()
    assert lines[0] == "POST /hook?token=1 HTTP/1.1"
    assert f"Host: 127.0.0.1:{receiver.port}" in lines
    assert "webhook-id: msg_1" in lines
    assert body == b'{"known": true}'


def test_a_long_body_arrives_whole(receiver: Receiver) -> None:
    body = bytes(range(256)) * 1000
    url = f"http://127.0.0.1:{receiver.port}/"
    send(url, body=body, headers={}, allow_http=True, allow_loopback_port=receiver.port)
    assert receiver.requests[0].endswith(b"\r\n\r\n" + body)


@pytest.mark.parametrize("status", [200, 202, 204, 299])
def test_every_success_is_taken(receiver: Receiver, status: int) -> None:
    receiver.answer = says(status)
    assert deliver(receiver) == SentWebhook(status)


@pytest.mark.parametrize(
    ("status", "retryable"),
    [(400, True), (404, True), (410, False), (429, True), (500, True), (503, True), (600, True)],
)
def test_a_refusal_is_recognised_by_its_status(
    receiver: Receiver, status: int, retryable: bool
) -> None:
    receiver.answer = says(status, text=SECRET_PAGE, headers=f"X-Secret: {SECRET_PAGE}\r\n")
    failed = failure(receiver)
    assert f"status {status}" in failed.reason
    assert failed.retryable is retryable
    assert len(receiver.requests) == 1


@pytest.mark.parametrize("status", [300, 301, 302, 304, 307, 308])
def test_a_redirect_is_a_failure_and_not_followed(receiver: Receiver, status: int) -> None:
    with Receiver(says(200)) as elsewhere:
        where = f"http://127.0.0.1:{elsewhere.port}/{SECRET_PAGE}"
        receiver.answer = says(status, headers=f"Location: {where}\r\n")
        failed = failure(receiver)
        assert elsewhere.requests == []
    assert len(receiver.requests) == 1
    assert "redirect" in failed.reason
    assert not failed.retryable


def test_a_change_of_protocol_is_a_failure(receiver: Receiver) -> None:
    receiver.answer = drips(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", then=b"x")
    assert "not valid HTTP" in failure(receiver).reason


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (f"{SECRET_PAGE}\r\n\r\n".encode(), "not valid HTTP"),
        (b"", "not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 2 * MOST_READ, "was lost"),
    ],
)
def test_what_is_no_answer_is_a_failure(receiver: Receiver, answer: bytes, sentence: str) -> None:
    receiver.answer = lambda connection, stopped: connection.sendall(answer)
    failed = failure(receiver)
    assert failed.retryable
    assert sentence in failed.reason


def test_nothing_of_the_receiver_is_in_the_traceback(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answer = lambda connection, stopped: connection.sendall(SECRET_PAGE.encode() * 9000)
    try:
        deliver(receiver)
    except DeliveryError:
        logging.getLogger("any").exception("It failed.")
    assert "It failed." in caplog.text
    assert SECRET_PAGE not in caplog.text


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (b"", b"H"),
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    ],
)
def test_a_dripping_answer_fails_in_time(receiver: Receiver, first: bytes, then: bytes) -> None:
    receiver.answer = drips(first, then=then)
    started = time.monotonic()
    failed = failure(receiver, timeout=0.3)
    assert 0.25 < time.monotonic() - started < LONG
    assert failed.reason == "The receiver did not answer within 0.3 seconds."
    assert failed.retryable


def test_a_silent_receiver_fails_in_time(receiver: Receiver) -> None:
    receiver.answer = drips(b"", then=b"", every=60)
    started = time.monotonic()
    assert "within 0.3 seconds" in failure(receiver, timeout=0.3).reason
    assert time.monotonic() - started < LONG


def test_a_receiver_that_reads_nothing_fails_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        port = listening.getsockname()[1]
        started = time.monotonic()
        with pytest.raises(DeliveryError, match=r"within 0\.3 seconds"):
            send(
                f"http://127.0.0.1:{port}/",
                body=bytes(20_000_000),
                headers={},
                timeout=0.3,
                allow_http=True,
                allow_loopback_port=port,
            )
        assert time.monotonic() - started < LONG


def test_a_body_that_drips_after_a_success_ends_in_time(receiver: Receiver) -> None:
    receiver.answer = drips(OK, then=b"x")
    started = time.monotonic()
    assert deliver(receiver, timeout=1.0) == SentWebhook(200)
    assert time.monotonic() - started < LONG


def test_an_answer_cut_off_after_a_success_changes_nothing(receiver: Receiver) -> None:
    receiver.answer = lambda connection, stopped: connection.sendall(OK + b"x")
    assert deliver(receiver) == SentWebhook(200)


def test_no_more_than_the_limit_is_read(receiver: Receiver) -> None:
    gone = threading.Event()

    def flood(connection: socket.socket, stopped: threading.Event) -> None:
        try:
            connection.sendall(OK)
            while not stopped.is_set():
                connection.sendall(bytes(MOST_READ))
        finally:
            gone.set()

    receiver.answer = flood
    started = time.monotonic()
    assert deliver(receiver, timeout=30) == SentWebhook(200)
    assert time.monotonic() - started < LONG
    assert gone.wait(LONG), "the connection was closed upon the flood"


def test_a_resolver_that_takes_its_time_is_not_waited_for(receiver: Receiver) -> None:
    released = threading.Event()

    def resolve(host: str) -> Sequence[str]:
        released.wait(60)
        return ["127.0.0.1"]

    started = time.monotonic()
    with pytest.raises(DeliveryError, match=r"within 0\.3 seconds"):
        send("https://hooks.example.com/", body=b"", headers={}, timeout=0.3, resolve=resolve)
    assert time.monotonic() - started < LONG
    released.set()


@pytest.mark.parametrize(
    "addresses",
    [
        ("127.0.0.1",),
        ("::1",),
        ("10.0.0.1",),
        ("169.254.169.254",),
        ("93.184.216.34", "10.0.0.1"),
        ("93.184.216.34", "1.1.1.1", "8.8.8.8", "9.9.9.9", "8.8.4.4", "127.0.0.1"),
        ("2606:4700:4700::1111", "fe80::1%lo"),
    ],
)
def test_a_name_with_any_forbidden_address_is_refused(
    receiver: Receiver, addresses: Sequence[str]
) -> None:
    with pytest.raises(TargetError, match="private or special"):
        ask_name(resolves_to(*addresses), port=receiver.port)
    assert receiver.requests == []


def test_a_rebound_name_is_asked_where_it_was_checked(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = Resolver([["93.184.216.34"], ["127.0.0.1"]])
    dialled: list[tuple[str, int]] = []

    def create_connection(address: tuple[str, int], *rest: object, **more: object) -> socket.socket:
        dialled.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", create_connection)
    with pytest.raises(DeliveryError, match="could not be reached"):
        ask_name(resolve, port=receiver.port)
    assert dialled == [("93.184.216.34", receiver.port)]
    assert resolve.asked == ["hooks.example.com"]
    with pytest.raises(TargetError):
        ask_name(resolve, port=receiver.port)
    assert len(dialled) == 1
    assert receiver.requests == []


def test_the_open_port_opens_this_machine_and_no_other(receiver: Receiver) -> None:
    assert ask_name(resolves_to("127.0.0.1"), port=receiver.port, open_port=receiver.port)
    assert f"Host: hooks.example.com:{receiver.port}".encode() in receiver.requests[0]
    for addresses in (["10.0.0.1"], ["127.0.0.1", "10.0.0.1"], ["0.0.0.0"]):
        with pytest.raises(TargetError):
            ask_name(Resolver([addresses]), port=receiver.port, open_port=receiver.port)
    with pytest.raises(TargetError):
        ask_name(resolves_to("127.0.0.1"), port=receiver.port, open_port=receiver.port + 1)
    assert len(receiver.requests) == 1


def test_a_forbidden_url_is_refused_before_its_name_is_looked_up() -> None:
    resolve = resolves_to("93.184.216.34")
    with pytest.raises(TargetError):
        send("https://printer.local/", body=b"", headers={}, resolve=resolve)
    assert resolve.asked == []


def test_the_next_address_is_tried_where_one_does_not_answer(receiver: Receiver) -> None:
    resolve = resolves_to("::1", "127.0.0.1")
    assert ask_name(resolve, port=receiver.port, open_port=receiver.port) == SentWebhook(200)


def test_silent_addresses_share_the_time_and_few_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    shares: list[float] = []

    def create_connection(address: object, timeout: float, **more: object) -> socket.socket:
        shares.append(timeout)
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", create_connection)
    with pytest.raises(DeliveryError, match="within 2 seconds"):
        ask_name(resolves_to(*(f"1.1.1.{last}" for last in range(9))), port=8080)
    assert shares == pytest.approx([2 / 4, 2 / 3, 2 / 2, 2], abs=0.2)


def test_an_address_that_is_named_twice_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    dialled: list[object] = []

    def create_connection(address: object, *rest: object, **more: object) -> socket.socket:
        dialled.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", create_connection)
    with pytest.raises(DeliveryError):
        ask_name(resolves_to("1.1.1.1", "1.1.1.1", "8.8.8.8"), port=8080)
    assert dialled == [("1.1.1.1", 8080), ("8.8.8.8", 8080)]


@pytest.mark.parametrize("error", [socket.gaierror(-2, SECRET_PAGE), UnicodeError(SECRET_PAGE)])
def test_a_name_that_is_not_found_may_be_tried_again(error: Exception) -> None:
    def resolve(host: str) -> Sequence[str]:
        raise error

    with pytest.raises(DeliveryError, match=r"host name was not found\.$") as caught:
        send("https://hooks.example.com/", body=b"", headers={}, resolve=resolve)
    assert caught.value.retryable


def test_a_name_without_addresses_is_not_found() -> None:
    with pytest.raises(DeliveryError, match="not found"):
        ask_name(resolves_to(), port=8080)


def test_nobody_listening_may_be_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(DeliveryError, match="could not be reached") as caught:
        ask_name(resolves_to("127.0.0.1"), port=port, open_port=port)
    assert caught.value.retryable


def test_the_systems_resolver_is_the_default() -> None:
    assert set(system_resolve("localhost")) & {"127.0.0.1", "::1"}


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
def test_proxies_of_the_environment_are_not_used(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with Receiver(says(500)) as proxy:
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert deliver(receiver) == SentWebhook(200)
        assert proxy.requests == []
