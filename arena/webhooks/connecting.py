"""Connections to the very addresses that were checked, with an end to how long and how much."""

import socket
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from ipaddress import ip_address
from threading import Thread
from typing import Any

import httpcore2

from arena.webhooks.addresses import PRIVATE, Address, TargetRefused, forbidden

Resolve = Callable[[str], Sequence[str]]

MOST_READ = 64 * 1024
# A socket that can be written to takes this much at once, so no write waits longer than it should.
WRITTEN_AT_ONCE = 1024
# All addresses of a name are checked, and this many of them tried.
MOST_TRIED = 4


class DeliveryFailed(Exception):
    """A webhook that did not arrive; `reason` is a sentence without anything the receiver said.

    `retryable` where the same request may succeed later with nobody's help.
    """

    def __init__(self, reason: str, retryable: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retryable = retryable


class ReceiverGone(DeliveryFailed):
    """A receiver that wants no more webhooks, ever: it answered with status 410."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, retryable=False)


class Deadline:
    """A moment by which everything is over, however many steps it takes."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Return the seconds that remain, more than none, or raise TimeoutException."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise httpcore2.TimeoutException
        return left


def system_resolve(host: str) -> list[str]:
    """Return the addresses that this machine's resolver knows for `host`; OSError where none."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(row[4][0]) for row in found]


class CheckedBackend(httpcore2.NetworkBackend):
    """Opens TCP connections to public addresses alone.

    A name is resolved once per connection, and the connection goes to an address of that answer:
    a name that leads elsewhere a moment later changes nothing.
    """

    def __init__(
        self, *, deadline: Deadline, resolve: Resolve, allow_loopback_port: int | None
    ) -> None:
        self._deadline = deadline
        self._resolve = resolve
        self._allow_loopback_port = allow_loopback_port
        self._tcp = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        """Connect to `host`; raises TargetRefused where any of its addresses is forbidden."""
        addresses = self._addresses(host)
        if any(self._refused(address, port) for address in addresses):
            raise TargetRefused(PRIVATE)
        return BoundedStream(self._connect(addresses[:MOST_TRIED], port), self._deadline)

    def _addresses(self, host: str) -> list[Address]:
        try:
            found = _call_within(self._deadline.left(), partial(self._resolve, host))
        except TimeoutError:
            raise httpcore2.ConnectTimeout from None
        except (OSError, UnicodeError):
            found = ()
        if not found:
            raise DeliveryFailed("The name of the receiver's host was not found.")
        return [ip_address(text) for text in dict.fromkeys(found)]

    def _refused(self, address: Address, port: int) -> bool:
        allowed = address.is_loopback and port == self._allow_loopback_port
        return forbidden(address) and not allowed

    def _connect(self, addresses: Sequence[Address], port: int) -> httpcore2.NetworkStream:
        """Try one address after the other; each has its share of the time that is left."""
        failure: Exception = httpcore2.ConnectError()
        for tried, address in enumerate(addresses):
            share = self._deadline.left() / (len(addresses) - tried)
            try:
                return self._tcp.connect_tcp(str(address), port, timeout=share)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure


class BoundedStream(httpcore2.NetworkStream):
    """A connection that ends at its deadline, and after so many bytes, however slowly they come."""

    def __init__(self, stream: httpcore2.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline
        self._unread = MOST_READ

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if not self._unread:
            raise httpcore2.ReadError
        data = self._stream.read(min(max_bytes, self._unread), self._deadline.left())
        self._unread -= len(data)
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), WRITTEN_AT_ONCE):
            piece = buffer[start : start + WRITTEN_AT_ONCE]
            self._stream.write(piece, self._deadline.left())

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        try:
            inner = self._stream.start_tls(ssl_context, server_hostname, self._deadline.left())
        except httpcore2.TimeoutException:
            self.close()
            raise
        except httpcore2.ConnectError as error:
            if isinstance(error.__cause__, ssl.SSLError):
                raise DeliveryFailed(
                    "The receiver has no valid certificate for its name, or does not speak TLS."
                ) from None
            raise
        return BoundedStream(inner, self._deadline)

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _call_within(seconds: float, call: Callable[[], Sequence[str]]) -> Sequence[str]:
    """Return what `call` returns, or raise TimeoutError; the system's resolver knows no timeout.

    A call that takes longer is left to a daemon thread, which keeps no process from ending.
    """
    answer: Future[Sequence[str]] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except Exception as error:
            answer.set_exception(error)

    Thread(target=run, name="webhook-resolve", daemon=True).start()
    return answer.result(timeout=seconds)
