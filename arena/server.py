"""Ringside's processes: `python -m arena.server ROLE LIFELINE SOCKET...`, by the supervisor.

The role `web` serves pages on the open sockets; `all` also works on the queue and runs its
schedule.
"""

import atexit
import logging
import os
import select
import signal
import socket
import sqlite3
import sys
import threading
import time
import warnings
from contextlib import suppress
from time import monotonic
from typing import Any

import waitress
from celery.beat import Service
from celery.exceptions import SecurityWarning
from celery.signals import worker_ready
from django.conf import settings
from django.db import connections
from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.server import TcpWSGIServer
from waitress.task import ThreadedTaskDispatcher, WSGITask

from arena import broker
from arena.celery import Scheduler, app
from arena.supervisor import end_with_parent
from arena.wsgi import application

# waitress reads requests and sends answers in one thread, however slow the clients are; its other
# threads only compute. What a client sends or is sent waits in memory, then in a file.
WEB = {
    "connection_limit": 2000,
    "asyncore_use_poll": True,
    "channel_timeout": 60,
    "cleanup_interval": 5,
    "max_request_body_size": 1 << 28,
    "outbuf_high_watermark": 1 << 28,
    "ident": "",
    "clear_untrusted_proxy_headers": False,  # `TRUSTED_PROXIES` decides
}
WORKER_ARGUMENTS = [
    "--quiet",
    "worker",
    "--pool=threads",
    "--concurrency=36",
    "--queues=fits,calls",
    "--without-gossip",
    "--without-mingle",
    "--without-heartbeat",
    "--loglevel=WARNING",
]
# While the database is away, pages should say so before waiting ones hold all threads; a worker's
# calls and fits should wait for their turn in the pool instead.
LONGEST_CONNECT = 5.0
CHECK_EVERY = 1.0
SILENCE = 60.0
STUCK = 20.0
log = logging.getLogger(__name__)


class Dispatcher(ThreadedTaskDispatcher):
    """Threads that answer requests, and one more for `/healthz`.

    So slow pages do not delay it. If pages are waiting and no thread has taken one for a while,
    `/healthz` waits with them, and the supervisor restarts this process.
    """

    def __init__(self) -> None:
        super().__init__()
        self._health = ThreadedTaskDispatcher()
        self._health.set_thread_count(1)
        self._oldest: Any = None  # the oldest waiting page at the last `/healthz`
        self._moved_at = monotonic()

    def add_task(self, task: Any) -> None:
        """Queue a connection whose first request is complete."""
        first = task.requests[0]  # without a path if its first line is malformed
        is_health = getattr(first, "path", "") == "/healthz" and not first.query
        if is_health and not self._is_stuck():
            self._health.add_task(task)
        else:
            super().add_task(task)

    def _is_stuck(self) -> bool:
        oldest = next(iter(self.queue), None)
        if oldest is None or oldest is not self._oldest:
            self._oldest, self._moved_at = oldest, monotonic()
        return monotonic() - self._moved_at > STUCK


class Task(WSGITask):
    """An answer whose head leaves with the first bytes of its body, not in a packet of its own."""

    def build_response_header(self) -> bytes:
        self.channel.head = super().build_response_header()
        return b""

    def finish(self) -> None:
        super().finish()
        head, self.channel.head = self.channel.head, b""
        self.channel.write_soon(head)  # of an answer without a body


class Connection(HTTPChannel):
    """A connection, which the thread that has answered it gives back to `Connections`."""

    task_class = Task
    head = b""

    def write_soon(self, data: Any) -> int:
        if not data:
            return 0
        head, self.head = self.head, b""
        if isinstance(data, bytes):
            data = head + data
        else:  # an open file
            super().write_soon(head)
        written: int = super().write_soon(data)
        if self.total_outbufs_len:
            self._map.watch(self)
        return written

    def service(self) -> None:
        super().service()
        self._map.watch(self)


class WebServer(TcpWSGIServer):
    channel_class = Connection

    def pull_trigger(self) -> None:
        """Do nothing: `Connection` does what this would ask the main thread to do."""


class Connections(dict[int, Any]):
    """All open sockets by file number, and the main thread's loop over them.

    waitress's own loop builds its list of sockets anew for each event, and a thread that has
    answered a request must interrupt it. Here the kernel keeps the list: it reports a socket once,
    and whoever has dealt with that watches the socket again.
    """

    def __init__(self) -> None:
        super().__init__()
        self._epoll = select.epoll()

    def __setitem__(self, number: int, opened: Any) -> None:
        super().__setitem__(number, opened)
        self._epoll.register(number, select.EPOLLIN | select.EPOLLONESHOT)

    def __delitem__(self, number: int) -> None:
        super().__delitem__(number)
        self._epoll.unregister(number)

    def watch(self, opened: Any) -> None:
        """Let the kernel report what this socket waits for; nothing while a thread answers it."""
        events = select.EPOLLIN * opened.readable() | select.EPOLLOUT * bool(opened.writable())
        if events:
            with suppress(OSError, TypeError):  # it has been closed
                self._epoll.modify(opened._fileno, events | select.EPOLLONESHOT)

    def run(self) -> None:
        """Read requests and send answers until SystemExit; then wait for those under way."""
        [dispatcher] = {each.task_dispatcher for each in self.values() if each.accepting}
        checked_at = monotonic()
        with suppress(SystemExit):
            while True:
                for number, events in self._epoll.poll(CHECK_EVERY):
                    if opened := self.get(number):
                        wasyncore.readwrite(opened, events)
                        self.watch(opened)
                if monotonic() - checked_at > CHECK_EVERY:
                    checked_at = monotonic()
                    for opened in list(self.values()):  # silent ones, and too many
                        self.watch(opened)
        dispatcher.shutdown()


def make_server(sockets: list[int]) -> Any:
    dispatcher = Dispatcher()
    dispatcher.set_thread_count(settings.WEB_THREADS)
    opened = [socket.socket(fileno=number) for number in sockets]
    if not hasattr(select, "epoll"):  # not on Linux
        return waitress.create_server(application, sockets=opened, _dispatcher=dispatcher, **WEB)
    adjustments, connections = Adjustments(**WEB), Connections()
    for each in opened:
        info = each.family, each.type, each.proto, each.getsockname()
        WebServer(application, connections, True, each, dispatcher, adjustments, info, False)
    return connections


def keep_sqlite_open() -> None:
    """Hold a connection to SQLite's file until this process ends; does nothing on PostgreSQL.

    Closing the last connection removes the files beside the database, and the next one creates them
    again. That would slow every request of a quiet site, and fail while the disk is full.
    """
    if connections["default"].vendor == "sqlite":
        name = connections["default"].settings_dict["NAME"]
        with suppress(sqlite3.Error):  # requests say what is wrong with it
            kept = sqlite3.connect(name, check_same_thread=False)
            atexit.register(kept.close)
            kept.execute("SELECT 1 FROM django_migrations LIMIT 1").fetchall()


def serve(sockets: list[int]) -> None:
    """Serve pages until SIGTERM; requests under way are answered."""

    def stop(*_: object) -> None:
        raise SystemExit

    if pool := connections["default"].settings_dict["OPTIONS"].get("pool"):
        pool["timeout"] = LONGEST_CONNECT
    keep_sqlite_open()
    server = make_server(sockets)
    signal.signal(signal.SIGTERM, stop)
    server.run()


class Beat(Scheduler):
    """Celery's schedule in memory; `ticked_at`: when it last checked what is due."""

    ticked_at = monotonic()

    def tick(self, *args: Any, **kwargs: Any) -> Any:
        Beat.ticked_at = monotonic()
        return super().tick(*args, **kwargs)


def beat() -> None:
    app.set_current()
    Service(app, scheduler_cls=Beat, max_interval=5).start()


def watch() -> None:
    """End this process, to be restarted, if beat or the worker has stalled."""
    while True:
        time.sleep(SILENCE / 10)
        drained_at = broker.drained_at if broker.is_ours() else monotonic()
        if monotonic() - min(Beat.ticked_at, drained_at) > SILENCE:
            log.error("The worker has been stuck for a minute. Restarting.")
            os.kill(os.getpid(), signal.SIGKILL)


def do_everything(sockets: list[int]) -> None:
    """Serve pages, and run Celery's worker threads and beat.

    Celery's own `-B` forks beat into a process that outlives a killed parent.
    """

    def start_threads(**kwargs: Any) -> None:
        for target in (beat, watch):
            threading.Thread(target=target, name=target.__name__, daemon=True).start()

    keep_sqlite_open()
    server = make_server(sockets)
    threading.Thread(target=server.run, name="web", daemon=True).start()
    # Celery warns when it runs as root, which is usual when somebody tries this in a container.
    warnings.simplefilter("ignore", SecurityWarning)
    worker_ready.connect(start_threads, weak=False)
    app.worker_main(WORKER_ARGUMENTS)


if __name__ == "__main__":
    lifeline, *numbers = map(int, sys.argv[2:])
    end_with_parent(lifeline)
    {"web": serve, "all": do_everything}[sys.argv[1]](numbers)
