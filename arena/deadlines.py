"""Connections that end at a deadline, however slowly the other side reads and writes."""

import ssl
import time
from typing import Any

import httpcore2

# A writable socket accepts this much at once, so no write outlasts the deadline.
WRITTEN_AT_ONCE = 1024


class Deadline:
    """A total deadline over any number of steps."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Return the seconds that remain, above 0. Raises TimeoutException."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise httpcore2.TimeoutException
        return left


class BoundedStream(httpcore2.NetworkStream):
    """A connection that ends at its deadline, or after `most` bytes were read."""

    def __init__(self, stream: httpcore2.NetworkStream, deadline: Deadline, most: int) -> None:
        self.stream, self.deadline, self.most = stream, deadline, most

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if not self.most:
            raise httpcore2.ReadError
        data = self.stream.read(min(max_bytes, self.most), self.deadline.left())
        self.most -= len(data)
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), WRITTEN_AT_ONCE):
            self.stream.write(buffer[start : start + WRITTEN_AT_ONCE], self.deadline.left())

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> "BoundedStream":
        inner = self.stream.start_tls(ssl_context, server_hostname, self.deadline.left())
        return type(self)(inner, self.deadline, self.most)

    def close(self) -> None:
        self.stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self.stream.get_extra_info(info)
