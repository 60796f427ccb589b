"""Webhooks over TLS: the certificate must match the name, whatever the address."""

import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from arena.webhooks.client import DeliveryError, SentWebhook, send
from tests.arena.webhook_receiver import LONG, Receiver, drips, says

NAME = "hooks.example.com"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for NAME, and its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs the openssl command")
    folder = tmp_path_factory.mktemp("tls")
    made, key = folder / "certificate.pem", folder / "key.pem"
    asked = f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={NAME}"
    named = ["-addext", f"subjectAltName=DNS:{NAME}", "-keyout", key, "-out", made]
    subprocess.run([openssl, *asked.split(), *named], check=True, capture_output=True)
    return made, key


@pytest.fixture
def receiver(certificate: tuple[Path, Path]) -> Iterator[Receiver]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)
    with Receiver(says(200), tls) as running:
        yield running


@pytest.fixture
def trusted(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate[0])


def deliver(
    port: int, trusted: ssl.SSLContext | None, name: str = NAME, timeout: float = 5.0
) -> SentWebhook:
    return send(
        f"https://{name}:{port}/",
        body=b"{}",
        headers={},
        timeout=timeout,
        resolve=lambda host: ["127.0.0.1"],
        allow_loopback_port=port,
        ssl_context=trusted,
    )


def test_a_receiver_with_a_certificate_for_its_name_is_sent_to(
    receiver: Receiver, trusted: ssl.SSLContext
) -> None:
    assert deliver(receiver.port, trusted) == SentWebhook(200)
    assert f"Host: {NAME}:{receiver.port}".encode() in receiver.requests[0]


def test_a_certificate_for_another_name_is_not_taken(
    receiver: Receiver, trusted: ssl.SSLContext
) -> None:
    with pytest.raises(DeliveryError, match="no valid certificate for its name") as caught:
        deliver(receiver.port, trusted, name="other.example.com")
    assert caught.value.retryable
    assert receiver.requests == []


def test_a_certificate_that_nobody_vouches_for_is_not_taken(receiver: Receiver) -> None:
    with pytest.raises(DeliveryError, match="no valid certificate"):
        deliver(receiver.port, None)
    assert receiver.requests == []


def test_a_receiver_without_tls_is_refused(trusted: ssl.SSLContext) -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain, ThreadPoolExecutor(1) as beside:
        beside.submit(_answer_plainly, plain)
        with pytest.raises(DeliveryError, match="does not speak TLS"):
            deliver(plain.getsockname()[1], trusted)


def _answer_plainly(plain: socket.socket) -> None:
    connection, _ = plain.accept()
    with connection:
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        connection.recv(65536)


def test_a_handshake_that_never_ends_fails_in_time(trusted: ssl.SSLContext) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        started = time.monotonic()
        with pytest.raises(DeliveryError, match=r"within 0\.3 seconds"):
            deliver(silent.getsockname()[1], trusted, timeout=0.3)
        assert time.monotonic() - started < LONG


def test_an_answer_that_drips_through_tls_fails_in_time(
    receiver: Receiver, trusted: ssl.SSLContext
) -> None:
    receiver.answer = drips(b"HTTP/1.1 200 OK\r\n", then=b"X: y\r\n")
    started = time.monotonic()
    with pytest.raises(DeliveryError, match=r"within 0\.3 seconds"):
        deliver(receiver.port, trusted, timeout=0.3)
    assert time.monotonic() - started < LONG
