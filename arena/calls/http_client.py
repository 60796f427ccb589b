"""The HTTP client under the SDKs of all model servers: bounded in time and size, no redirects."""

from collections.abc import Iterable
from contextlib import closing
from typing import Any

import httpcore2
import httpx2

from arena.deadlines import BoundedStream, Deadline

MOST_BYTES = 4_000_000  # of a reply, unpacked
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
            packed = response.headers.get("content-encoding", "identity")
            # A piece of other encodings, or of several together, may unpack to gigabytes.
            if packed not in ("identity", "gzip"):
                raise httpx2.DecodingError(
                    f"The server packs its reply as {packed[:50]!r}, not as gzip."
                )
            body = bytearray()
            for part in response.iter_bytes():
                body += part
                if len(body) > MOST_BYTES:
                    raise httpx2.DecodingError(
                        f"The server's reply is larger than {MOST_BYTES // 1_000_000} MB."
                    )
        headers = [
            (name, value) for name, value in response.headers.multi_items() if name not in NOT_OURS
        ]
        return httpx2.Response(
            response.status_code, headers=headers, content=bytes(body), request=request
        )


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
