"""The HTTP client under the SDKs of all model servers: bounded in time and size, no redirects."""

import ssl
import time
import zlib
from collections.abc import Iterable
from contextlib import closing
from contextvars import ContextVar
from typing import Any

import httpcore2
import httpx2

MOST_BYTES = 4_000_000  # of a reply, unpacked
AT_ONCE = 16_384  # a writable socket accepts this much, so no write outlasts the deadline
GZIP = zlib.MAX_WBITS | 16
NOT_OURS = {"content-encoding", "content-length", "transfer-encoding"}

_ends_at: ContextVar[float] = ContextVar("ends_at")


class BoundedClient(httpx2.Client):
    """A client whose requests end within `seconds`, whatever the server does.

    Redirects are never followed: the prompts in the body would go to an address that no operator
    has entered. Proxies of the environment are used as usual.
    """

    def __init__(self, seconds: float) -> None:
        limits = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)
        super().__init__(timeout=seconds, limits=limits, headers={"accept-encoding": "gzip"})
        self._seconds = seconds
        # The library's own timeout is for each read, so a byte now and then would keep a request
        # alive for ever. It has no setting for all of them together.
        for transport in (self._transport, *self._mounts.values()):
            if isinstance(transport, httpx2.HTTPTransport):
                transport._pool._network_backend = _Backend()

    def __del__(self) -> None:
        """Close its connections: nobody else does once the provider is dropped."""
        if not self.is_closed:
            self.close()

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send `request` and read the whole reply. Raises DecodingError if it is too large."""
        options |= {"stream": True, "follow_redirects": False}
        until = _ends_at.set(time.monotonic() + self._seconds)
        try:
            with closing(super().send(request, **options)) as response:
                body = _unpacked(_read(response), response.headers.get("content-encoding", ""))
        finally:
            _ends_at.reset(until)
        headers = [
            (name, value) for name, value in response.headers.multi_items() if name not in NOT_OURS
        ]
        return httpx2.Response(response.status_code, headers=headers, content=body, request=request)


def _read(response: httpx2.Response) -> bytes:
    body = bytearray()
    for part in response.iter_raw():
        body += part
        if len(body) > MOST_BYTES:
            raise _too_large()
    return bytes(body)


def _unpacked(body: bytes, encoding: str) -> bytes:
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise httpx2.DecodingError(f"The server packs its reply as {encoding[:50]!r}, not as gzip.")
    decoder = zlib.decompressobj(GZIP)
    try:
        unpacked = decoder.decompress(body, MOST_BYTES + 1)
    except zlib.error as error:
        raise httpx2.DecodingError(f"The server's reply is not valid gzip: {error}") from None
    if len(unpacked) > MOST_BYTES:
        raise _too_large()
    return unpacked


def _too_large() -> httpx2.DecodingError:
    return httpx2.DecodingError(f"The server's reply is larger than {MOST_BYTES // 1_000_000} MB.")


class _Backend(httpcore2.SyncBackend):
    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        return _Stream(super().connect_tcp(host, port, timeout, local_address, socket_options))


class _Stream(httpcore2.NetworkStream):
    """A connection that serves one request at a time, each until its own end."""

    def __init__(self, stream: httpcore2.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(httpcore2.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), AT_ONCE):
            piece = buffer[start : start + AT_ONCE]
            self._stream.write(piece, _left(httpcore2.WriteTimeout))

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        left = _left(httpcore2.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, left))

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _left(error: type[httpcore2.TimeoutException]) -> float:
    """The seconds that are left of this thread's request, or `error`."""
    left = _ends_at.get() - time.monotonic()
    if left <= 0:
        raise error
    return left
