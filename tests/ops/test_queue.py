"""The queue of one machine, and workers that no longer take messages from theirs."""

import errno
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kombu import Connection, Queue
from kombu.exceptions import OperationalError

from arena.celery import STALLED_AFTER, Pulse, app
from arena.transport import Transport
from tests.ops.running import settings_for

FITS = Queue("fits", routing_key="fits")


def queue_in(folder: Path) -> Connection:
    options = {"data_folder_in": str(folder), "data_folder_out": str(folder)}
    return Connection("filesystem://localhost//", transport=Transport, transport_options=options)


def test_a_message_is_heard_by_another_connection(tmp_path: Path) -> None:
    heard: list[Any] = []
    with queue_in(tmp_path) as sender, queue_in(tmp_path) as worker:
        sender.Producer().publish({"n": 1}, routing_key="fits", declare=[FITS])
        with worker.Consumer([FITS], callbacks=[lambda body, _: heard.append(body)], no_ack=True):
            worker.drain_events(timeout=5)
    assert heard == [{"n": 1}]
    assert list(tmp_path.iterdir()) == []


def test_half_a_message_is_not_a_message_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that reads half a message ends with a traceback."""
    seen: list[str] = []
    write = Path.write_text

    def slowly(path: Path, text: str, **options: Any) -> int:
        write(path, text[:9])
        with (
            queue_in(tmp_path) as worker,
            worker.Consumer([FITS], callbacks=[print]),
            pytest.raises(TimeoutError),
        ):
            worker.drain_events(timeout=0.1)
        seen.append(path.name)
        return write(path, text, **options)

    monkeypatch.setattr(Path, "write_text", slowly)
    with queue_in(tmp_path) as sender:
        sender.Producer().publish({"n": 1}, routing_key="fits", declare=[FITS])
    assert len(seen) == 1
    assert len(list(tmp_path.glob("*.fits.msg"))) == 1


def test_a_queue_that_cannot_be_written_is_an_absent_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fail)
    with queue_in(tmp_path) as sender, pytest.raises(OperationalError, match="No space left"):
        sender.Producer().publish({"n": 1}, routing_key="fits", declare=[FITS])


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


@pytest.mark.parametrize(("stalls_after", "status"), [(0.5, 1), (60, 0)])
def test_a_worker_that_has_stalled_ends_itself(
    tmp_path: Path, stalls_after: float, status: int
) -> None:
    code = (
        "import time; from arena import celery, processes;"
        "processes.HANGS_AFTER, celery.PULSE_EVERY = 1.0, 0.1;"
        "silence = lambda pulse: time.monotonic() - pulse.received_at;"
        f"celery.Pulse.has_stalled = lambda pulse: silence(pulse) > {stalls_after};"
        "celery.Pulse(None).start(); time.sleep(3)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=settings_for(tmp_path, PULSE_FILE=str(tmp_path / "pulse")),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert ("Timeout (0:00:01)!" in done.stderr) == bool(status)
    assert (tmp_path / "pulse").exists()
