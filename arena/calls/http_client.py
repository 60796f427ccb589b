"""The HTTP client under the SDKs of all model servers: bounded in time and size, no redirects."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import closing, contextmanager
from functools import lru_cache
from typing import Any

import httpcore2
import httpx2

from arena.deadlines import BoundedStream, Deadline

MOST_BYTES = 4_000_000  # of a reply, unpacked
MOST_PIECES = 1_000  # lines and parts of one event of a stream
END_OF_EVENT = re.compile(rb"\n\n|\r\n\r\n|\r\r(?!\n)")  # as the SDKs see it
NOT_OURS = {"content-encoding", "content-length", "transfer-encoding"}


class BoundedClient(httpx2.Client):
    """A client whose requests end within `seconds`, whatever the server does.

    Redirects are never followed: the prompts in the body would go to an address that no operator
    has entered. Proxies of the environment are used as usual.
    """

    def __init__(self, seconds: float) -> None:
        # A request has a connection of its own, which ends with the request.
        limits = httpx2.Limits(max_keepalive_connections=0)
        super().__init__(timeout=seconds, limits=limits, headers={"accept-encoding": "gzip"})
        # The library's own timeout is for each read, so a byte now and then would keep a request
        # alive for ever, and it has no setting for all of them together. Its transports cannot be
        # given a backend either; replacing them would lose the proxies.
        for transport in (self._transport, *self._mounts.values()):
            if isinstance(transport, httpx2.HTTPTransport):
                transport._pool._network_backend = BoundedBackend(seconds)

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send `request` and read the whole reply. Raises DecodingError if it is too large."""
        options |= {"stream": True, "follow_redirects": False}
        with closing(super().send(request, **options)) as response:
            _check_packing(response)
            body = bytearray()
            for part in response.iter_bytes():
                body += part
                _check_size(len(body))
        return httpx2.Response(
            response.status_code, headers=_ours(response), content=bytes(body), request=request
        )


def _check_packing(response: httpx2.Response) -> None:
    packed = response.headers.get("content-encoding", "identity")
    # A piece of other encodings, or of several together, may unpack to gigabytes.
    if packed not in ("identity", "gzip"):
        raise httpx2.DecodingError(f"The server packs its reply as {packed[:50]!r}, not as gzip.")


def _check_size(size: int) -> None:
    if size > MOST_BYTES:
        raise httpx2.DecodingError(
            f"The server's reply is larger than {MOST_BYTES // 1_000_000} MB."
        )


def _count_pieces(data: bytes, before: int) -> int:
    """Return how many pieces the last event in `data` has so far; the first one had `before`."""
    pieces = before
    for event in END_OF_EVENT.split(data):
        pieces = before + 1 + event.count(b"\n") + event.count(b"\r")
        if pieces > MOST_PIECES:
            raise httpx2.DecodingError("The server sends an event in too many pieces.")
        before = 0
    return pieces


def _ours(response: httpx2.Response) -> list[tuple[str, str]]:
    """Return the headers that are still true of the unpacked body.

    Without a charset, the body is read as UTF-8, as JSON and streams are: some of Python's codecs
    take hours for 4 MB, and others raise errors that nobody expects.
    """
    kept = [(name, value) for name, value in response.headers.multi_items() if name not in NOT_OURS]
    return [
        (name, value.partition(";")[0] if name == "content-type" else value) for name, value in kept
    ]


class BoundedBackend(httpcore2.SyncBackend):
    """Opens connections that end within `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        deadline = Deadline(self._seconds)
        stream = super().connect_tcp(host, port, deadline.left(), local_address, socket_options)
        return BoundedStream(stream, deadline, most=2 * MOST_BYTES)


class BoundedAsyncClient(httpx2.AsyncClient):
    """The same for an event loop, with replies that are read as they arrive."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            verify=_ssl_context(),
            timeout=seconds,
            limits=httpx2.Limits(max_keepalive_connections=0),
            headers={"accept-encoding": "gzip"},
        )
        self._seconds = seconds

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send `request`. Reading the reply raises DecodingError once it is too large."""
        options |= {"stream": True, "follow_redirects": False}
        end = asyncio.get_running_loop().time() + self._seconds
        with _too_late(request):
            async with asyncio.timeout_at(end):
                response = await super().send(request, **options)
        return httpx2.Response(
            response.status_code,
            headers=_ours(response),
            stream=BoundedBody(response, end),
            request=request,
        )


@lru_cache(maxsize=1)
def _ssl_context() -> ssl.SSLContext:
    """Share what takes long to make."""
    return httpx2.create_ssl_context()


@contextmanager
def _too_late(request: httpx2.Request) -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        raise httpx2.ReadTimeout("The deadline has passed.", request=request) from None


class BoundedBody(httpx2.AsyncByteStream):
    """The unpacked body of a reply, up to MOST_BYTES and until `end`, by the loop's clock.

    An SDK may copy what it has of an event for each line and part of it, so these are counted.
    """

    def __init__(self, response: httpx2.Response, end: float) -> None:
        self._response, self._end = response, end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        _check_packing(self._response)
        size, pieces, tail, parts = 0, 0, b"", self._response.aiter_bytes()
        while (part := await self._next(parts)) is not None:
            size += len(part)
            _check_size(size)
            if self._response.is_success:
                pieces = _count_pieces(tail + part, pieces)
                tail = (tail + part)[-3:]
            yield part
            await asyncio.sleep(0)  # or a fast server would keep other streams waiting

    async def _next(self, parts: AsyncIterator[bytes]) -> bytes | None:
        """Return the next part, None at the end; the client's timeout is for one read alone."""
        with _too_late(self._response.request):
            async with asyncio.timeout_at(self._end):
                return await anext(parts, None)

    async def aclose(self) -> None:
        await self._response.aclose()
