"""The broker of one machine: messages in the memory of the process that works on them.

Other processes, such as commands, send theirs as datagrams to a socket in RINGSIDE_HOME. A
message without a listener is lost, and so is every message when the process ends; sweeps of the
database enqueue the work again.
"""

import logging
import socket
import threading
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from celery.signals import worker_init, worker_shutting_down
from kombu.transport import memory
from kombu.utils.json import dumps, loads

from arena.celery import app

LARGEST_MESSAGE = 64 * 1024
log = logging.getLogger(__name__)
_listening = threading.Event()
_arrived = threading.Event()
drained_at = monotonic()


def _socket_path() -> str:
    return str(Path(app.conf.broker_transport_options["folder"]) / "broker.sock")


class Channel(memory.Channel):
    """The queues of this process if it works on them, otherwise a channel to the process that
    does."""

    def _put(self, queue: str, message: Any, **kwargs: Any) -> None:
        if _listening.is_set():
            super()._put(queue, message, **kwargs)
            _arrived.set()
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(dumps([queue, message]).encode(), _socket_path())

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        super().basic_ack(delivery_tag, multiple)
        _arrived.set()  # a worker at its limit may now take the next message


class Transport(memory.Transport):
    """Memory that wakes a thread waiting for a message, so that nobody has to poll it."""

    Channel = Channel

    def drain_events(  # type: ignore[override]
        self, connection: Any, timeout: float | None = None
    ) -> None:
        """Deliver one message; raise TimeoutError if there is none."""
        global drained_at
        drained_at = monotonic()
        _arrived.clear()
        try:
            super().drain_events(connection, timeout=0)
        except TimeoutError:
            _arrived.wait(timeout)
            raise


def is_ours() -> bool:
    """Whether this installation uses this broker."""
    return bool(app.conf.broker_transport == f"{__name__}:Transport")


@worker_shutting_down.connect
def _wake(**kwargs: object) -> None:
    """Wake the worker to see a stop request, which it checks only between two drains.

    This runs in a signal handler, which may have interrupted the wait while it held its lock.
    """
    threading.Thread(target=_arrived.set).start()


@worker_init.connect
def _listen(**kwargs: object) -> None:
    """Receive other processes' messages, in a thread; a folder has one such process."""
    if not is_ours():
        return
    _listening.set()
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        Path(_socket_path()).unlink(missing_ok=True)
        receiver.bind(_socket_path())
    except OSError as error:  # such as a path too long for a socket
        log.warning("Work requested by commands will start a few seconds late (%s).", error)
        receiver.close()
        return
    threading.Thread(target=_receive, args=[receiver], daemon=True).start()


def _receive(receiver: socket.socket) -> None:
    with app.connection() as connection:
        channel: Any = connection.channel()
        while True:
            try:
                queue, message = loads(receiver.recv(LARGEST_MESSAGE).decode())
            except ValueError as error:
                log.error("A message could not be read (%s).", error)
                continue
            channel._put(queue, message)
