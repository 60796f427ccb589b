"""The broker made of files: no message is torn, doubled or able to stop the worker."""

import json
import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
from kombu import Connection, Exchange, Queue

from arena.embedded.transport import LONGEST_DRAIN, transport_options
from tests.environment import REPOSITORY
from tests.ops.running import eventually

FITS = Queue("fits", Exchange("fits"), routing_key="fits")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Connection]:
    with connect(tmp_path) as connection:
        yield connection


def connect(folder: Path) -> Connection:
    return Connection(
        "filesystem://localhost//",
        transport="arena.embedded.transport:Transport",
        transport_options=transport_options(folder),
    )


def send(connection: Connection, number: int) -> None:
    with connection.Producer() as producer:
        producer.publish(
            {"number": number}, exchange=FITS.exchange, routing_key="fits", declare=[FITS]
        )


def receive(connection: Connection) -> list[int]:
    """Take all that waits in the queue."""
    numbers = []
    with connection.channel() as channel:
        queue = FITS(channel)
        queue.declare()
        while message := queue.get(no_ack=True):
            numbers.append(message.payload["number"])
    return numbers


def files(folder: Path) -> list[str]:
    return [path.name for path in (folder / "queue").rglob("*") if path.is_file()]


def test_messages_arrive_in_order_and_leave_no_file(broker: Connection, tmp_path: Path) -> None:
    for number in range(20):
        send(broker, number)
    assert len(files(tmp_path)) == 20
    assert receive(broker) == list(range(20))
    assert files(tmp_path) == []


def test_each_message_goes_to_one_of_many_readers(tmp_path: Path) -> None:
    with connect(tmp_path) as connection:
        for number in range(200):
            send(connection, number)

    def read(_: int) -> list[int]:
        with connect(tmp_path) as connection:
            return receive(connection)

    with ThreadPoolExecutor(8) as pool:
        taken = [number for numbers in pool.map(read, range(8)) for number in numbers]
    assert sorted(taken) == list(range(200))


def test_a_reader_never_sees_half_a_message(tmp_path: Path) -> None:
    """Writers and readers at once, with messages large enough to be written in pieces."""
    seen: list[int] = []
    written = threading.Event()

    def write() -> None:
        with connect(tmp_path) as connection, connection.channel() as channel:
            channel.queue_declare("large")
            for number in range(40):
                channel._put("large", {"number": number, "text": "x" * 500_000})
        written.set()

    def read() -> None:
        with connect(tmp_path) as connection, connection.channel() as channel:
            while not (written.is_set() and channel._size("large") == 0):
                try:
                    message = channel._get("large")
                except Empty:
                    continue
                assert len(message["text"]) == 500_000
                seen.append(message["number"])

    with ThreadPoolExecutor(3) as pool:
        for ended in [pool.submit(read), pool.submit(read), pool.submit(write)]:
            ended.result(timeout=60)
    assert sorted(seen) == list(range(40))


def test_an_unreadable_message_is_put_aside(
    broker: Connection, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "queue" / "fits").mkdir()
    (tmp_path / "queue" / "fits" / "0.msg").write_bytes(b'{"body": "\xff')
    (tmp_path / "queue" / "fits" / "1.msg").write_text("")
    send(broker, 7)
    with caplog.at_level(logging.ERROR):
        assert receive(broker) == [7]
    assert caplog.text.count("could not be read") == 2
    assert sorted(files(tmp_path)) == ["0.unreadable", "1.unreadable"]


def test_queues_bound_at_once_by_many_are_all_bound(tmp_path: Path) -> None:
    def bind(number: int) -> None:
        with connect(tmp_path) as connection, connection.channel() as channel:
            channel._queue_bind("shared", "", "", f"queue-{number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(bind, range(40)))
    table = json.loads((tmp_path / "control" / "shared.exchange").read_text())
    assert {queue for *_, queue in table} == {f"queue-{number}" for number in range(40)}


def test_a_wait_ends_soon_enough_to_see_a_stop_request(broker: Connection) -> None:
    with broker.Consumer([FITS], callbacks=[print]):
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            broker.drain_events(timeout=2)
    assert time.monotonic() - began < LONGEST_DRAIN + 1


WORKER = """
import sys
from pathlib import Path
from celery import Celery
from arena.embedded.transport import transport_options

folder = Path(sys.argv[1])
app = Celery("probe", broker="filesystem://localhost//")
app.conf.update(
    broker_transport="arena.embedded.transport:Transport",
    broker_transport_options=transport_options(folder),
    worker_prefetch_multiplier=1, task_acks_late=True, task_ignore_result=True,
    worker_enable_remote_control=False, worker_redirect_stdouts=False,
)

@app.task
def count(number):
    (folder / f"done-{number}").touch()

for number in range(int(sys.argv[2])):
    count.delay(number)
print("sent", flush=True)
app.worker_main(["--quiet", "worker", "--pool=threads", "--concurrency=8", "--without-gossip",
                 "--without-mingle", "--without-heartbeat", "--loglevel=ERROR"])
"""


def start_worker(folder: Path, tasks: int) -> subprocess.Popen[Any]:
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, str(folder), str(tasks)],
        cwd=REPOSITORY,
        stdout=subprocess.DEVNULL,
    )


@pytest.mark.slow
def test_a_worker_of_threads_does_all_tasks_and_stops_at_once(tmp_path: Path) -> None:
    worker = start_worker(tmp_path, 100)
    try:
        eventually(lambda: len(list(tmp_path.glob("done-*"))) == 100)
        began = time.monotonic()
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(20) == 0
        assert time.monotonic() - began < 4
    finally:
        worker.kill()
        worker.wait()
    assert files(tmp_path) == []
