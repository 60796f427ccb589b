"""A model in a process of its own, which streams OpenAI's format to everybody at once.

    python -m tests.stress.model_server PORT FIRST RATE TOKENS

The first token comes after FIRST seconds, the others RATE a second (0: all at once). `GET /seen`
returns one row per request: what was asked, when it ended, and whether the client had left.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

FIRST, RATE, TOKENS = (float(given) for given in sys.argv[2:])
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\n%b\r\n\r\n"
CHUNKED = b"transfer-encoding: chunked"
seen: list[dict[str, Any]] = []


def events(body: dict[str, Any]) -> Iterator[bytes]:
    """The answer as OpenAI's server sends it, one event a token."""
    whole = {
        "id": "chatcmpl-BzV3mQd7nFJ1x9TtGk2uYpLsWcR4e",
        "object": "chat.completion.chunk",
        "created": 1_760_000_000,
        "model": body["model"],
        "service_tier": "default",
        "system_fingerprint": "fp_50cad350e4",
    }

    def event(**fields: Any) -> bytes:
        data = b"data: %b\n\n" % json.dumps(whole | fields).encode()
        return b"%x\r\n%b\r\n" % (len(data), data)

    def choice(finish: str | None = None, **delta: str) -> bytes:
        one = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return event(choices=[one], usage=None)

    for number in range(int(TOKENS)):
        yield choice(content=f" {'abcdefgh'[number % 8] * 3}")
    usage = {"prompt_tokens": 20, "completion_tokens": int(TOKENS), "total_tokens": 20 + TOKENS}
    yield choice("stop") + event(choices=[], usage=usage) + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


class Client(asyncio.Protocol):
    """One connection, with one request."""

    def __init__(self) -> None:
        self.received = b""
        self.row: dict[str, Any] | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        head, _, body = self.received.partition(b"\r\n\r\n")
        if self.received.startswith(b"GET"):
            told = json.dumps(seen).encode()
            length = b"content-length: %d" % len(told)
            self.transport.write(HEAD % (b"application/json", length) + told)
            self.transport.close()
        elif self.row is None and len(body) >= _length_in(head) > 0:
            asked = json.loads(body)
            self.row = {"model": asked["model"], "question": asked["messages"][-1]["content"]}
            self.row |= {"ended": None, "left": False}
            seen.append(self.row)
            self.parts = list(events(asked))
            self.began = asyncio.get_running_loop().time()
            self.transport.write(HEAD % (b"text/event-stream", CHUNKED))
            self.next_part(0)

    def next_part(self, number: int) -> None:
        """Send the part that is due, and all others if there is no pace."""
        if self.transport.is_closing():
            return
        if number:
            end = number if RATE else len(self.parts)
            self.transport.write(b"".join(self.parts[number - 1 : end]))
            number = end
        if number == len(self.parts):
            self.finish()
        else:
            due = self.began + FIRST + (number / RATE if RATE else 0)
            asyncio.get_running_loop().call_at(due, self.next_part, number + 1)

    def finish(self) -> None:
        assert self.row is not None
        self.row["ended"] = time.monotonic()
        self.transport.close()

    def connection_lost(self, _: Exception | None) -> None:
        if self.row is not None and self.row["ended"] is None:
            self.row |= {"ended": time.monotonic(), "left": True}


def _length_in(head: bytes) -> int:
    return int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Client, "127.0.0.1", port, backlog=512)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
