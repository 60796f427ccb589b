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
from types import SimpleNamespace
from typing import Any

import pytest
from kombu import Connection, Queue

from arena import broker
from arena.celery import STALLED_AFTER, Pulse, app
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
    assert "a few seconds late" in caplog.text
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


@pytest.mark.parametrize(
    ("waiting", "concurrency", "silence", "has_stalled"),
    [
        pytest.param(1, 2, STALLED_AFTER + 1, True, id="free, and takes no message"),
        pytest.param(1, 0, STALLED_AFTER + 1, False, id="its hands are full"),
        pytest.param(1, 2, 0, False, id="took a message a moment ago"),
        pytest.param(0, 2, STALLED_AFTER + 1, False, id="nothing waits"),
    ],
)
def test_a_worker_has_stalled_if_it_is_free_and_takes_none_of_the_messages(
    monkeypatch: pytest.MonkeyPatch,
    waiting: int,
    concurrency: int,
    silence: float,
    has_stalled: bool,
) -> None:
    monkeypatch.setattr(app, "connection_for_read", lambda: Connection("memory://"))
    with Connection("memory://") as sender:
        name = next(iter(app.amqp.queues.consume_from))
        queue = app.amqp.queues[name](sender.default_channel)
        queue.declare()
        queue.purge()
        for _ in range(waiting):
            sender.Producer().publish({}, routing_key=queue.routing_key, exchange=queue.exchange)
        pulse = Pulse(SimpleNamespace(concurrency=concurrency))
        pulse.received_at = time.monotonic() - silence
        assert pulse.has_stalled() == has_stalled
        queue.purge()


def test_a_worker_whose_broker_is_away_has_not_stalled(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = Connection("redis://127.0.0.1:1/0", transport_options={"max_retries": 0})
    monkeypatch.setattr(app, "connection_for_read", lambda: nowhere)
    pulse = Pulse(SimpleNamespace(concurrency=2))
    pulse.received_at = time.monotonic() - STALLED_AFTER - 1
    assert not pulse.has_stalled()
