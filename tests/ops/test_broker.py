"""The broker in memory: messages of this and other processes arrive at once."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection, Queue

from arena import broker
from tests.environment import REPOSITORY
from tests.ops.running import settings_for

UNWOKEN = 20.0  # seconds after which a worker that nothing woke looks anyway
FITS = Queue("fits", routing_key="fits")
SEND = "from arena.celery import app; app.send_task('some.task', args=[{0}], queue='fits')"


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    """A connection of the process that works on the queues."""
    monkeypatch.setattr(broker, "_socket_path", lambda: str(tmp_path / "broker.sock"))
    monkeypatch.setattr(broker, "_listening", threading.Event())
    broker.Channel.queues.clear()
    with Connection("memory://localhost//", transport=broker.Transport) as connection:
        yield connection
    broker.Channel.queues.clear()


def drain(connection: Connection) -> list[Any]:
    """Return the bodies of the messages that arrive until one has, or nothing for too long."""
    bodies: list[Any] = []
    with connection.Consumer([FITS], callbacks=[lambda body, message: bodies.append(body)]):
        for _ in range(3):
            with suppress(TimeoutError):
                connection.drain_events(timeout=UNWOKEN)
            if bodies:
                break
    return bodies


def test_a_message_of_another_thread_is_heard_at_once(worker: Connection) -> None:
    broker._listen()
    sent: list[float] = []

    def send() -> None:
        time.sleep(0.1)
        sent.append(time.monotonic())
        with Connection("memory://localhost//", transport=broker.Transport) as sender:
            sender.Producer().publish({"n": 1}, routing_key="fits", declare=[FITS])

    threading.Thread(target=send).start()
    assert drain(worker) == [{"n": 1}]
    assert time.monotonic() - sent[0] < UNWOKEN / 2


def send_from_elsewhere(home: Path, number: int) -> subprocess.CompletedProcess[str]:
    environment = settings_for(home) | {"SECRET_KEY": os.environ["SECRET_KEY"]}
    command = [sys.executable, "-c", SEND.format(number)]
    return subprocess.run(
        command, env=environment, cwd=REPOSITORY, check=False, capture_output=True, text=True
    )


def test_a_message_of_another_process_is_heard(worker: Connection, tmp_path: Path) -> None:
    broker._listen()
    sent = send_from_elsewhere(tmp_path, 7)
    assert sent.returncode == 0, sent.stderr
    ((arguments, *_),) = drain(worker)
    assert arguments == [7]


def test_a_message_without_a_listener_is_not_an_error(tmp_path: Path) -> None:
    sent = send_from_elsewhere(tmp_path, 7)
    assert sent.returncode == 0, sent.stderr


def test_a_folder_too_deep_for_a_socket_is_a_warning(
    worker: Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(broker, "_socket_path", lambda: "/tmp/" + "deep/" * 30 + "broker.sock")
    broker._listen()
    assert "starts seconds later" in caplog.text
    with Connection("memory://localhost//", transport=broker.Transport) as sender:
        sender.Producer().publish({"n": 2}, routing_key="fits", declare=[FITS])
    assert drain(worker) == [{"n": 2}]


def test_a_stop_request_ends_a_wait(worker: Connection) -> None:
    with worker.Consumer([FITS], callbacks=[print]):
        began = time.monotonic()
        threading.Timer(0.2, broker._wake).start()  # the signal itself would stop all workers
        with pytest.raises(TimeoutError):
            worker.drain_events(timeout=UNWOKEN)
    assert 0.1 < time.monotonic() - began < UNWOKEN / 2


def test_an_unreadable_message_is_logged_and_the_next_one_heard(
    worker: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    broker._listen()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"\xffnonsense", broker._socket_path())
        sender.sendto(b'["fits", {}', broker._socket_path())
    assert send_from_elsewhere(Path(broker._socket_path()).parent, 8).returncode == 0
    assert len(drain(worker)) == 1
    assert caplog.text.count("could not be read") == 2
