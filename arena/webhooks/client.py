"""Sends a webhook: one POST to a checked address, bounded in time and size, without redirects,
proxies or retries."""

import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from ipaddress import ip_address
from threading import Thread

import httpcore2

from arena.deadlines import BoundedStream, Deadline
from arena.webhooks.targets import PRIVATE, Address, Target, TargetError, forbidden, parse_target

Resolve = Callable[[str], Sequence[str]]

MOST_READ = 64 * 1024
# All addresses of a name are checked, but at most this many are tried.
MOST_TRIED = 4


class DeliveryError(Exception):
    """A webhook that did not arrive; `reason` never quotes the receiver.

    `retryable`: the same request may succeed later.
    """

    def __init__(self, reason: str, retryable: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retryable = retryable


class ReceiverGoneError(DeliveryError):
    """A receiver that wants no more webhooks: it answered with status 410."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, retryable=False)


def system_resolve(host: str) -> list[str]:
    """Resolve `host`. Raises OSError if it has no address."""
    rows = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(row[4][0]) for row in rows]


class CheckedBackend(httpcore2.NetworkBackend):
    """Opens TCP connections to public addresses only.

    A name is resolved once per connection, and the connection goes to one of the checked addresses,
    so a later change of the name has no effect.
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
        """Connect to `host`. Raises TargetError if any of its addresses is forbidden."""
        try:
            found = _call_within(self._deadline.left(), partial(self._resolve, host))
        except TimeoutError:
            raise httpcore2.ConnectTimeout from None
        except (OSError, UnicodeError):
            found = ()
        if not found:
            raise DeliveryError("The receiver's host name was not found.")
        addresses = [ip_address(text) for text in dict.fromkeys(found)]
        is_allowed_port = port == self._allow_loopback_port
        if any(
            forbidden(each) and not (each.is_loopback and is_allowed_port) for each in addresses
        ):
            raise TargetError(PRIVATE)
        return CheckedStream(
            self._connect_to_any(addresses[:MOST_TRIED], port), self._deadline, MOST_READ
        )

    def _connect_to_any(self, addresses: Sequence[Address], port: int) -> httpcore2.NetworkStream:
        """Try one address after another, each with its share of the remaining time."""
        failure: Exception = httpcore2.ConnectError()
        for tried, address in enumerate(addresses):
            share = self._deadline.left() / (len(addresses) - tried)
            try:
                return self._tcp.connect_tcp(str(address), port, timeout=share)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure


class CheckedStream(BoundedStream):
    """A connection to a receiver, which says in words that its certificate is not valid."""

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> BoundedStream:
        try:
            return super().start_tls(ssl_context, server_hostname)
        except httpcore2.TimeoutException:
            self.close()
            raise
        except httpcore2.ConnectError as error:
            if isinstance(error.__cause__, ssl.SSLError):
                raise DeliveryError(
                    "The receiver has no valid certificate for its name, or does not speak TLS."
                ) from None
            raise


def _call_within(seconds: float, call: Callable[[], Sequence[str]]) -> Sequence[str]:
    """Return the result of `call`, or raise TimeoutError; the system's resolver has no timeout.

    A slower call is left to a daemon thread, which does not keep the process alive.
    """
    answer: Future[Sequence[str]] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except Exception as error:
            answer.set_exception(error)

    Thread(target=run, name="webhook-resolve", daemon=True).start()
    return answer.result(timeout=seconds)


GONE = 410


@dataclass(frozen=True)
class SentWebhook:
    """A webhook that its receiver accepted."""

    status: int


def send(
    url: str,
    *,
    body: bytes,
    headers: Mapping[str, str],
    timeout: float = 10.0,
    resolve: Resolve = system_resolve,
    allow_http: bool = False,
    allow_loopback_port: int | None = None,
    ssl_context: ssl.SSLContext | None = None,
) -> SentWebhook:
    """POST `body` to `url`; `timeout` is the total, in seconds.

    Raises TargetError if the URL or any address of its host is not allowed, and DeliveryError if
    the webhook was not accepted. `ssl_context` replaces the system's certificate authorities.
    """
    target = parse_target(url, allow_http=allow_http, allow_loopback_port=allow_loopback_port)
    backend = CheckedBackend(
        deadline=Deadline(timeout), resolve=resolve, allow_loopback_port=allow_loopback_port
    )
    trusted = ssl_context or _system_authorities()
    with (
        _failures_in_words(timeout),
        httpcore2.ConnectionPool(ssl_context=trusted, network_backend=backend) as pool,
    ):
        status = _post_to_target(pool, target, body, headers)
    return _accepted(status)


@cache
def _system_authorities() -> ssl.SSLContext:
    # Cached, because reading the certificates takes longer than a request.
    return httpcore2.default_ssl_context()


def _post_to_target(
    pool: httpcore2.ConnectionPool, target: Target, body: bytes, headers: Mapping[str, str]
) -> int:
    """Return the status of the response; its body is read, up to a limit, and discarded."""
    url = httpcore2.URL(
        scheme=target.scheme, host=target.host, port=target.port, target=target.path
    )
    sent = [("Host", target.authority), *headers.items()]
    with pool.stream("POST", url, headers=sent, content=body) as response:
        # The status is known; the rest of the response does not matter.
        with suppress(
            httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.RemoteProtocolError
        ):
            for _ in response.iter_stream():
                pass
        return response.status


def _accepted(status: int) -> SentWebhook:
    if 200 <= status < 300:
        return SentWebhook(status)
    answer = f"The receiver answered with status {status}"
    if 300 <= status < 400:
        raise DeliveryError(
            f"{answer}, a redirect. Redirects are not followed; enter the final address.",
            retryable=False,
        )
    if status == GONE:
        raise ReceiverGoneError(f"{answer}: it no longer wants webhooks.")
    # Receivers that are being deployed answer 401 or 404 for a while, so these are retried.
    raise DeliveryError(f"{answer}.")


@contextmanager
def _failures_in_words(timeout: float) -> Iterator[None]:
    """Translate errors without quoting the receiver, not even in tracebacks."""
    try:
        yield
    except httpcore2.TimeoutException:
        raise DeliveryError(f"The receiver did not answer within {timeout:g} seconds.") from None
    except httpcore2.ConnectError:
        raise DeliveryError("The receiver could not be reached.") from None
    except httpcore2.NetworkError:
        raise DeliveryError("The connection to the receiver was lost.") from None
    except httpcore2.RemoteProtocolError:
        raise DeliveryError("The receiver's reply was not valid HTTP.") from None
