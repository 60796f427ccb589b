"""The broker of the embedded mode: kombu's filesystem transport, made safe to share.

Each message is a file in its queue's folder. It is written under another name and then renamed, so
that nobody reads half a message; a reader takes it by renaming it again, so that only one reader
gets it. Messages that a killed worker had taken are lost: sweeps of the database enqueue the work
again.
"""

import json
import logging
import uuid
from collections import deque
from collections.abc import Callable
from pathlib import Path
from queue import Empty
from time import time_ns
from typing import Any, ClassVar
from urllib.parse import quote

from filelock import FileLock
from kombu.transport import filesystem
from kombu.transport.virtual import BrokerState
from kombu.utils.json import dumps, loads

# Celery drains for two seconds at a time and checks for a stop request only between two drains.
LONGEST_DRAIN = 0.25
log = logging.getLogger(__name__)

# Routing key, pattern, queue.
Binding = tuple[str, str, str]


class Channel(filesystem.Channel):
    """Queues as folders, messages as files, bindings as one small table per exchange."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._folders: dict[str, Path] = {}
        self._waiting: dict[str, deque[Path]] = {}
        super().__init__(*args, **kwargs)

    # -- Messages ----------------------------------------------------------------------------------

    # kombu's stubs name the arguments of one method differently on each level.
    def _put(self, queue: str, payload: Any, **kwargs: Any) -> None:  # type: ignore[override]
        name = f"{time_ns():020d}-{uuid.uuid4().hex}"
        folder = self._folder(queue)
        _write_whole(folder / f"{name}.msg", dumps(payload))

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        waiting = self._waiting.setdefault(queue, deque())
        if not waiting:
            waiting.extend(self._messages(queue))
        while waiting:
            text = _take(waiting.popleft())
            if text is not None:
                return text
        raise Empty

    def _size(self, queue: str) -> int:
        return len(self._messages(queue))

    def _purge(self, queue: str) -> int:
        return sum(_remove(message) for message in self._messages(queue))

    def _messages(self, queue: str) -> list[Path]:
        """The waiting messages, oldest first."""
        return sorted(path for path in self._folder(queue).iterdir() if path.suffix == ".msg")

    def _folder(self, queue: str) -> Path:
        if queue not in self._folders:
            folder = Path(self.transport_options["queue_folder"]) / quote(queue, safe="@")
            folder.mkdir(parents=True, exist_ok=True)
            self._folders[queue] = folder
        return self._folders[queue]

    # -- Bindings ----------------------------------------------------------------------------------

    def get_table(self, exchange: str) -> list[Any]:
        """Return the bindings of `exchange`."""
        try:
            rows = json.loads(self._table(exchange).read_text())
        except FileNotFoundError:
            return []
        return [(key, pattern, queue) for key, pattern, queue in rows]

    def _queue_bind(
        self, exchange: str, routing_key: str | None, pattern: str | None, queue: str
    ) -> None:
        binding = (routing_key or "", pattern or "", queue)
        if binding not in self.get_table(exchange):
            self._rebind(exchange, lambda table: [binding, *(b for b in table if b != binding)])

    def _delete(
        self, queue: str, exchange: str, routing_key: str, pattern: str, *args: Any, **kwargs: Any
    ) -> None:
        self._purge(queue)
        binding = (routing_key or "", pattern or "", queue)
        self._rebind(exchange, lambda table: [b for b in table if b != binding])

    def _rebind(self, exchange: str, change: Callable[[list[Binding]], list[Binding]]) -> None:
        with FileLock(self.control_folder / "bindings.lock"):
            table = change(self.get_table(exchange))
            _write_whole(self._table(exchange), json.dumps(table))

    def _table(self, exchange: str) -> Path:
        return self.control_folder / f"{quote(exchange, safe='')}.exchange"


class Transport(filesystem.Transport):
    """Messages as files; a stop request is seen within a quarter of a second."""

    Channel = Channel
    # The exchanges and bindings of each broker folder, as this process knows them.
    states: ClassVar[dict[str, BrokerState]] = {}

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        folder = client.transport_options["control_folder"]
        self.state = self.states.setdefault(folder, BrokerState())

    def drain_events(  # type: ignore[override]
        self, connection: Any, timeout: float | None = None
    ) -> None:
        """Deliver one message; raise TimeoutError if none arrives in time."""
        if timeout is not None:
            timeout = min(timeout, LONGEST_DRAIN)
        super().drain_events(connection, timeout=timeout)


def transport_options(folder: Path) -> dict[str, object]:
    """Return kombu's options for a broker in `folder`, which is created if it is missing."""
    for name in ("queue", "control"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    return {
        "queue_folder": str(folder / "queue"),
        "control_folder": str(folder / "control"),
        "polling_interval": 0.02,
    }


def _write_whole(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.{uuid.uuid4().hex}.draft")
    draft.write_text(text)
    draft.replace(path)


def _take(message: Path) -> Any | None:
    """Return the message's content; None if another reader took it or it is unreadable."""
    taken = message.with_suffix(f".{uuid.uuid4().hex}.taken")
    try:
        message.rename(taken)
    except FileNotFoundError:
        return None
    try:
        payload = loads(taken.read_bytes().decode())
    except ValueError as error:
        aside = message.with_suffix(".unreadable")
        taken.rename(aside)
        log.error("A message could not be read (%s); it was put aside as %s", error, aside)
        return None
    taken.unlink()
    return payload


def _remove(message: Path) -> bool:
    try:
        message.unlink()
    except FileNotFoundError:
        return False
    return True
