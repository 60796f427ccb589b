"""Webhooks: checked addresses, signatures, and one bounded POST.

A URL is checked when a team saves it. The addresses of its host are checked with every connection,
because a name can resolve to another address later.
"""

import base64
import hashlib
import hmac
import re
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from threading import Thread
from urllib.parse import SplitResult, urlsplit

import httpcore2

from arena.deadlines import BoundedStream, Deadline

Address = IPv4Address | IPv6Address

LONGEST_URL = 500  # as in the database
LONGEST_HOST = 253
LOOPBACK_NAME = "localhost"

# Ports below this, except for the web's, belong to mail, remote shells and name servers, which
# could interpret a request as commands. Receivers use higher ports, such as 3000, 8000 or 8443.
WEB_PORTS = frozenset({80, 443})
FIRST_PORT_OF_ANYONE = 1024
LAST_PORT = 65535
DEFAULT_PORTS = {"http": 80, "https": 443}

# Top-level names reserved for private networks or special use (RFC 6761, RFC 8375, ICANN).
PRIVATE_ENDINGS = frozenset(
    {
        "corp",
        "home",
        "home.arpa",
        "internal",
        "intranet",
        "invalid",
        "lan",
        "local",
        "localdomain",
        LOOPBACK_NAME,
        "onion",
        "private",
        "test",
    }
)

# Not public, although `is_global` is True for them in some versions of Python.
SPECIAL_V4 = tuple(
    ip_network(network)
    for network in (
        "168.63.129.16/32",  # the host of every Azure machine
        "192.0.0.0/24",  # IETF protocols, and one cloud's metadata service
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # relays of 6to4
        "192.175.48.0/24",  # AS112
        "224.0.0.0/4",  # multicast
    )
)
SPECIAL_V6 = tuple(
    ip_network(network)
    for network in (
        "2001::/23",  # IETF protocols: Teredo, ORCHID, benchmarks
        "2002::/16",  # 6to4, which carries any IPv4 address
        "2620:4f:8000::/48",  # AS112
        "3ffe::/16",  # the former 6bone
        "3fff::/20",  # documentation
    )
)
GLOBAL_UNICAST = ip_network("2000::/3")
NAT64 = ip_network("64:ff9b::/96")
LOW_32_BITS = 0xFFFFFFFF

PRINTABLE = re.compile(r"[!-~]+")
AUTHORITY = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::(?P<port>[0-9]{1,5}))?")
LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")

PRIVATE = (
    "This address leads to a private or special network. Enter an address on the public internet."
)


class TargetError(Exception):
    """An address that is not allowed; the message is for the person who entered it."""


@dataclass(frozen=True)
class Target:
    """A parsed URL, so that the request goes to exactly the URL that was checked.

    `host` is in lower case and without brackets; `path` includes the query.
    """

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


def check_target(
    url: str, *, allow_http: bool = False, allow_loopback_port: int | None = None
) -> None:
    """Raise TargetError if `url` is not allowed, without resolving its host.

    `allow_loopback_port` allows one port of this machine.
    """
    parse_target(url, allow_http=allow_http, allow_loopback_port=allow_loopback_port)


def parse_target(url: str, *, allow_http: bool, allow_loopback_port: int | None) -> Target:
    """Return the parts of `url`. Raises TargetError like `check_target`."""
    parts = _split(url, allow_http)
    matched = AUTHORITY.fullmatch(parts.netloc.lower())
    if matched is None:
        raise TargetError(
            "The host or port is not valid. Use a form such as hooks.example.com:8443."
        )
    port = _clean_port(matched["port"], parts.scheme)
    host = _clean_host(matched["host"], loopback=port == allow_loopback_port)
    query = f"?{parts.query}" if parts.query else ""
    return Target(parts.scheme, host, port, (parts.path or "/") + query)


def forbidden(address: Address) -> bool:
    """Whether requests to `address` are forbidden.

    A NAT64 address is judged by the IPv4 address in it; other addresses that embed one (mapped,
    6to4, Teredo) are forbidden.
    """
    if isinstance(address, IPv4Address):
        return not address.is_global or any(address in network for network in SPECIAL_V4)
    if address.scope_id is not None:
        return True
    if address in NAT64:
        return forbidden(IPv4Address(int(address) & LOW_32_BITS))
    special = address not in GLOBAL_UNICAST or any(address in network for network in SPECIAL_V6)
    return special or not address.is_global


def _split(url: str, allow_http: bool) -> SplitResult:
    """Split a URL; raise TargetError for anything that parsers interpret differently."""
    if len(url) > LONGEST_URL:
        raise TargetError(f"The address is longer than {LONGEST_URL} characters.")
    if not PRINTABLE.fullmatch(url) or "\\" in url:
        raise TargetError(
            "The address may contain only ASCII letters, digits and signs, without spaces or "
            "backslashes. Write international names in their xn-- form."
        )
    try:
        parts = urlsplit(url)
    except ValueError:
        raise TargetError("The address is not a complete URL.") from None
    _check_form(url, parts, allow_http)
    return parts


def _check_form(url: str, parts: SplitResult, allow_http: bool) -> None:
    if parts.scheme != "https" and not (allow_http and parts.scheme == "http"):
        wanted = "https:// or http://" if allow_http else "https://"
        raise TargetError(f"The address must begin with {wanted}.")
    if "@" in parts.netloc:
        raise TargetError("The address must not contain a user name or password.")
    if "#" in url:
        raise TargetError("The address must not contain a fragment (the part after #).")


def _clean_port(text: str | None, scheme: str) -> int:
    port = int(text) if text else DEFAULT_PORTS[scheme]
    if port not in WEB_PORTS and not FIRST_PORT_OF_ANYONE <= port <= LAST_PORT:
        raise TargetError(
            f"Port {port} is not allowed. Use 443, 80, "
            f"or a port from {FIRST_PORT_OF_ANYONE} to {LAST_PORT}."
        )
    return port


def _clean_host(text: str, *, loopback: bool) -> str:
    """Return the host without brackets; `loopback` allows this machine."""
    literal = _literal(text)
    if literal is None:
        if not (loopback and text == LOOPBACK_NAME):
            _check_name(text)
        return text
    if forbidden(literal) and not (loopback and literal.is_loopback):
        raise TargetError(PRIVATE)
    return str(literal)


def _literal(host: str) -> Address | None:
    """Return the host as an IP address, or None for a name."""
    try:
        if host.startswith("["):
            return IPv6Address(host[1:-1])
        return IPv4Address(host)
    except ValueError:
        return None


def _check_name(host: str) -> None:
    labels = host.split(".")
    if any(".".join(labels[start:]) in PRIVATE_ENDINGS for start in range(len(labels))):
        raise TargetError(PRIVATE)
    well_formed = len(host) <= LONGEST_HOST and all(map(LABEL.fullmatch, labels))
    # No top-level domain begins with a digit, but systems accept 127.1, 0x7f.1 and 2130706433 as IP
    # addresses.
    if not well_formed or len(labels) == 1 or labels[-1][0].isdigit():
        raise TargetError(
            "The host must be a full name such as hooks.example.com or an IP address in its usual "
            "form, without a final dot."
        )


# -- Signatures: Standard Webhooks 1.0.0 -----------------------------------------------------------

SECRET_PREFIX = "whsec_"  # noqa: S105  (the prefix of every secret)
VERSION = "v1"

# Without dots: the id and the timestamp are joined by a dot before signing, and with one in the id
# the same text could stand for another id and timestamp.
DELIVERY_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")


def sign(secret: str, *, body: bytes, timestamp: int, delivery_id: str) -> dict[str, str]:
    """Return the signature headers of `body`; `timestamp` is in seconds since 1970.

    A retry keeps the id but has a new timestamp. Raises ValueError for an invalid secret or id.
    """
    if not DELIVERY_ID.fullmatch(delivery_id):
        raise ValueError("The id of a delivery can contain only letters, digits, _ and -.")
    return {
        "webhook-id": delivery_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": _signature(secret, delivery_id, str(timestamp), body),
    }


def _signature(secret: str, delivery_id: str, timestamp: str, body: bytes) -> str:
    content = f"{delivery_id}.{timestamp}.".encode() + body
    digest = hmac.new(_key(secret), content, hashlib.sha256).digest()
    return f"{VERSION},{base64.b64encode(digest).decode()}"


def _key(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except ValueError:
        key = b""
    if not key:
        raise ValueError("A webhook secret is whsec_ followed by Base64.")
    return key


# -- Connections to checked addresses, bounded in time and size ------------------------------------

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
        addresses = self._addresses(host)
        if any(self._is_forbidden(address, port) for address in addresses):
            raise TargetError(PRIVATE)
        return CheckedStream(self._connect(addresses[:MOST_TRIED], port), self._deadline, MOST_READ)

    def _addresses(self, host: str) -> list[Address]:
        try:
            addresses = _call_within(self._deadline.left(), partial(self._resolve, host))
        except TimeoutError:
            raise httpcore2.ConnectTimeout from None
        except (OSError, UnicodeError):
            addresses = ()
        if not addresses:
            raise DeliveryError("The receiver's host name was not found.")
        return [ip_address(text) for text in dict.fromkeys(addresses)]

    def _is_forbidden(self, address: Address, port: int) -> bool:
        allowed = address.is_loopback and port == self._allow_loopback_port
        return forbidden(address) and not allowed

    def _connect(self, addresses: Sequence[Address], port: int) -> httpcore2.NetworkStream:
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


# -- Sending: one POST, without redirects, proxies or retries --------------------------------------

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
        status = _post(pool, target, body, headers)
    return _check_status(status)


@cache
def _system_authorities() -> ssl.SSLContext:
    # Cached, because reading the certificates takes longer than a request.
    return httpcore2.default_ssl_context()


def _post(
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


def _check_status(status: int) -> SentWebhook:
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
