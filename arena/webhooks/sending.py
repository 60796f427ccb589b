"""One POST to a receiver, once: no redirect, no proxy, no second try."""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache

import httpcore2

from arena.webhooks.addresses import Target, parse_target
from arena.webhooks.connecting import (
    CheckedBackend,
    Deadline,
    DeliveryFailed,
    ReceiverGone,
    Resolve,
    system_resolve,
)

GONE = 410


@dataclass(frozen=True)
class Sent:
    """A webhook that its receiver took."""

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
) -> Sent:
    """POST `body` to `url`; `timeout` is for everything together, in seconds.

    Raises TargetRefused where the URL, or any address that its host resolves to, is not public,
    and DeliveryFailed where no receiver took it. `ssl_context` replaces the system's authorities.
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
        status = _post(pool, target, body, headers)
    return _taken(status)


@cache
def _system_authorities() -> ssl.SSLContext:
    """Reading the system's certificates takes longer than a request, so it is done once."""
    return httpcore2.default_ssl_context()


def _post(
    pool: httpcore2.ConnectionPool, target: Target, body: bytes, headers: Mapping[str, str]
) -> int:
    """Return the status of the answer; its text is read, up to a limit, and thrown away."""
    url = httpcore2.URL(
        scheme=target.scheme, host=target.host, port=target.port, target=target.path
    )
    sent = [("Host", target.authority), *headers.items()]
    with pool.stream("POST", url, headers=sent, content=body) as response:
        # A receiver may still be at work while it writes, but the status has been said.
        with suppress(
            httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.RemoteProtocolError
        ):
            for _ in response.iter_stream():
                pass
        return response.status


def _taken(status: int) -> Sent:
    if 200 <= status < 300:
        return Sent(status)
    said = f"The receiver answered with status {status}"
    if 300 <= status < 400:
        raise DeliveryFailed(
            f"{said}, a redirect, and redirects are not followed. Enter the final address.",
            retryable=False,
        )
    if status == GONE:
        raise ReceiverGone(f"{said}: it wants no more of these.")
    # Receivers that are being deployed answer 401 or 404 for a while, so these are tried again.
    raise DeliveryFailed(f"{said}.")


@contextmanager
def _failures_in_words(timeout: float) -> Iterator[None]:
    """Say what went wrong without a word of the receiver's, in tracebacks too."""
    try:
        yield
    except httpcore2.TimeoutException:
        raise DeliveryFailed(f"The receiver did not answer within {timeout:g} seconds.") from None
    except httpcore2.ConnectError:
        raise DeliveryFailed("The receiver could not be reached.") from None
    except httpcore2.NetworkError:
        raise DeliveryFailed("The connection to the receiver broke off.") from None
    except httpcore2.RemoteProtocolError:
        raise DeliveryFailed("The receiver did not answer in HTTP.") from None
