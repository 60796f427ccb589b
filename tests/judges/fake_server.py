"""A loopback server that speaks the wire format of OpenAI's chat completions.

Each request is answered by the next item of `script`, or by `otherwise` when that is used up. An
answer is a function of the request's body, or one of the faults below.
"""

import json
import re
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "judge-7b-2024-07-01"
ANSWER = re.compile(r"<answer-([ab])-\w+>\n(.*?)\n</", re.DOTALL)
Answer = Callable[[dict[str, Any]], "Sent"]


@dataclass
class Sent:
    """What goes over the wire: a status, a body, headers, how long to think, how much to send."""

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    cut_at: int | None = None


class FakeServer:
    """Use as a context manager; `requests` holds the bodies received, in order."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.script: deque[Answer] = deque()
        self.otherwise: Answer = better_is("A")
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def take(self, body: dict[str, Any], headers: dict[str, str]) -> Sent:
        with self._lock:
            self.requests.append(body)
            self.headers.append(headers)
            answer = self.script.popleft() if self.script else self.otherwise
        return answer(body)

    def __enter__(self) -> "FakeServer":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


def _handler(server: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"]))
            sent = server.take(json.loads(raw), {k.lower(): v for k, v in self.headers.items()})
            time.sleep(sent.seconds)
            body = sent.body if isinstance(sent.body, bytes) else json.dumps(sent.body).encode()
            try:
                self._send(sent, body)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def _send(self, sent: Sent, body: bytes) -> None:
            self.send_response(sent.status)
            for name, value in ({"content-type": "application/json"} | sent.headers).items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: sent.cut_at])
            self.close_connection = sent.cut_at is not None

        def log_message(self, *args: Any) -> None:
            """Keep the tests' output clean."""

    return Handler


# -- Answers ---------------------------------------------------------------------------------------


def completion(text: str | None, *, finish: str = "stop", refusal: str | None = None) -> Sent:
    return Sent(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": MODEL,
            "system_fingerprint": "fp_1",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": finish,
                    "message": {"role": "assistant", "content": text, "refusal": refusal},
                }
            ],
            "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
        }
    )


def nonce_of(body: dict[str, Any]) -> str:
    """The nonce that the request asks to be repeated."""
    found = re.search(r"VERDICT-([0-9a-f]+)", body["messages"][0]["content"])
    assert found is not None
    return found.group(1)


def better_is(letter: str, *, seconds: float = 0.0) -> Answer:
    """Always the same letter, whatever is shown: a judge with a position bias."""

    def answer(body: dict[str, Any]) -> Sent:
        sent = completion(f"It is better.\n\nVERDICT-{nonce_of(body)}: {letter}")
        sent.seconds = seconds
        return sent

    return answer


def prefers(sign: str, *, seconds: float = 0.0) -> Answer:
    """A consistent judge: the answer that contains `sign` wins, else it is a tie."""

    def answer(body: dict[str, Any]) -> Sent:
        shown = dict(
            re.findall(r"<answer-([ab])-\w+>\n(.*?)\n</", body["messages"][1]["content"], re.S)
        )
        wins = [letter.upper() for letter in "ab" if sign in shown[letter]]
        sent = completion(
            f"Reasons.\nVERDICT-{nonce_of(body)}: {wins[0] if len(wins) == 1 else 'TIE'}"
        )
        sent.seconds = seconds
        return sent

    return answer


def says(text: str | None, **fields: Any) -> Answer:
    return lambda body: completion(text, **fields)


def fails(status: int, message: str = "no", **headers: str) -> Answer:
    error = {"error": {"message": message, "type": "error", "code": None}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda body: Sent(error, status=status, headers=named)


def half_a_body(body: dict[str, Any]) -> Sent:
    sent = better_is("A")(body)
    sent.cut_at = 40
    return sent


def wrong_json(body: dict[str, Any]) -> Sent:
    return Sent(b'{"choices": [')


def no_choices(body: dict[str, Any]) -> Sent:
    return Sent({"id": "1", "object": "chat.completion", "created": 1, "model": MODEL})


def slow(seconds: float) -> Answer:
    return better_is("A", seconds=seconds)
