"""A loopback server that speaks the wire formats of OpenAI's chat completions and of Anthropic's
messages.

Each request is answered by the next item of `script`, then by `otherwise`. An
answer is a function of the request's body, or one of the faults below; it need not mind the
format: it is handed its messages with the system's text as the first, and what it returns is put
into the format that was asked, word by word if the request asks for a stream.
"""

import gzip
import itertools
import json
import random
import re
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "judge-7b-2024-07-01"
ANTHROPIC = "/v1/messages"
PATHS = {"/v1/chat/completions", ANTHROPIC}
Answer = Callable[[dict[str, Any]], "Sent"]


@dataclass
class Said:
    """What the model says, before any format; `logprobs`: (token, logprob, [(token, logprob)]).

    In a stream, its `thought` comes before the text, an `error` in place of the end, and no token
    counts unless the server `counts`.
    """

    text: str | None
    finish: str = "stop"
    refusal: str | None = None
    model: str = MODEL
    tokens_in: int = 100
    tokens_out: int = 20
    tokens_cached: int | None = None
    logprobs: Sequence[tuple[str, float, Sequence[tuple[str, float]]]] | None = None
    thought: str = ""
    error: Any = None
    counts: bool = True


@dataclass
class Sent:
    """A response: a status, a body, headers, how long to think, how much to send.

    With a `drip`, head and body come one byte at a time, that many seconds apart. `spaces` come
    before the body. A stream sends `parts` instead, each after a `pause`: the first `cut_at` of
    them, or the last again and again if it is `endless`.
    """

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    cut_at: int | None = None
    drip: float = 0.0
    spaces: int = 0
    gzipped: bool = False
    parts: list[bytes] | None = None
    pause: float = 0.0
    endless: bool = False


class FakeServer:
    """Use as a context manager.

    `requests` and `headers` hold what was received, in order; `billed` the tokens in and out of
    every answer, including those cut off on the way. `left` is set once a client has closed its
    connection before the end.
    """

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.billed: list[tuple[int, int]] = []
        self.left = threading.Event()
        self.script: deque[Answer] = deque()
        self.otherwise: Answer = better_is("A")
        self.models: Sent = Sent({"object": "list", "data": [{"id": MODEL, "object": "model"}]})
        self._lock = threading.Lock()
        self._http = _Threads(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))

    @property
    def base_url(self) -> str:
        """The address for clients of OpenAI's format."""
        return f"{self.anthropic_url}/v1"

    @property
    def anthropic_url(self) -> str:
        """The address for clients of Anthropic's format."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def take(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> Sent:
        with self._lock:
            self.requests.append(body)
            self.headers.append(headers)
            answer = self.script.popleft() if self.script else self.otherwise
        sent = answer(_with_system_first(body))
        if isinstance(sent.body, Said):
            with self._lock:
                self.billed.append((sent.body.tokens_in, sent.body.tokens_out))
            if body.get("stream"):
                put_in_parts = _as_events if path == ANTHROPIC else _as_chunks
                sent.parts = put_in_parts(sent.body, body)
            else:
                put = _as_message if path == ANTHROPIC else _as_completion
                sent.body = put(sent.body)
        return sent

    def __enter__(self) -> "FakeServer":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class _Threads(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # fifty threads connect at once


class _Quiet(BaseHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        """Keep the tests' output clean."""


def _handler(server: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(_Quiet):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet: in two, the second waits for an ACK
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"]))
            if self.path not in PATHS:
                self._send(Sent({"error": {"message": f"no such path: {self.path}"}}, status=404))
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            sent = server.take(self.path, json.loads(raw), headers)
            time.sleep(sent.seconds)
            send = self._send if sent.parts is None else partial(_send_parts, self)
            try:
                send(sent)
            except (BrokenPipeError, ConnectionResetError):
                server.left.set()
                self.close_connection = True

        def do_GET(self) -> None:
            server.headers.append(dict(self.headers.items()))
            self._send(server.models)

        def _send(self, sent: Sent) -> None:
            body = sent.body if isinstance(sent.body, bytes) else json.dumps(sent.body).encode()
            body = b" " * sent.spaces + body
            headers = {"content-type": "application/json"} | sent.headers
            if sent.gzipped:
                body, headers["content-encoding"] = gzip.compress(body), "gzip"
            self.send_response(sent.status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            if sent.drip:
                head, self._headers_buffer = b"".join(self._headers_buffer), []
                for byte in head + b"\r\n" + body:
                    self.wfile.write(bytes([byte]))
                    self.wfile.flush()
                    time.sleep(sent.drip)
            else:
                self.end_headers()
                self.wfile.write(body[: sent.cut_at])
                self.wfile.flush()
            self.close_connection = sent.cut_at is not None

    return Handler


def _send_parts(handler: BaseHTTPRequestHandler, sent: Sent) -> None:
    """Send a stream. Raises ConnectionResetError once the client has closed its connection."""
    parts = sent.parts or []
    handler.send_response(sent.status)
    handler.send_header("content-type", "text/event-stream")
    handler.send_header("transfer-encoding", "chunked")
    handler.end_headers()
    handler.wfile.flush()
    more = itertools.repeat(parts[-1]) if sent.endless else ()
    for part in itertools.chain(parts[: sent.cut_at], more):
        # The client sends nothing more: there is only the end of its connection to read.
        if select.select([handler.connection], [], [], sent.pause)[0]:
            raise ConnectionResetError
        handler.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
        handler.wfile.flush()
    if sent.cut_at is None:
        handler.wfile.write(b"0\r\n\r\n")
        handler.wfile.flush()
    handler.close_connection = True


def _with_system_first(body: dict[str, Any]) -> dict[str, Any]:
    turns = [{"role": "system", "content": body["system"]}] if "system" in body else []
    turns += body["messages"]
    return body | {"messages": [one | {"content": _text_of(one["content"])} for one in turns]}


def _text_of(content: Any) -> str:
    """The text of a message, also of one in blocks."""
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


def _as_completion(said: Said) -> dict[str, Any]:
    message = {"role": "assistant", "content": said.text, "refusal": said.refusal}
    choice = {"index": 0, "finish_reason": said.finish, "message": message}
    if said.logprobs is not None:
        choice["logprobs"] = {"content": [_as_token(*one) for one in said.logprobs]}
    usage = {"prompt_tokens": said.tokens_in, "completion_tokens": said.tokens_out}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": said.model,
        "system_fingerprint": "fp_1",
        "choices": [choice],
        "usage": usage
        | {"total_tokens": said.tokens_in + said.tokens_out}
        | {"prompt_tokens_details": said.tokens_cached and {"cached_tokens": said.tokens_cached}},
    }


def _as_token(token: str, logprob: float, top: Sequence[tuple[str, float]]) -> dict[str, Any]:
    others = [{"token": other, "logprob": p, "bytes": None} for other, p in top]
    return {"token": token, "logprob": logprob, "bytes": None, "top_logprobs": others}


def _as_message(said: Said) -> dict[str, Any]:
    reasons = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
    text = said.text or said.refusal
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": said.model,
        "content": [{"type": "text", "text": text}] if text else [],
        "stop_reason": "refusal" if said.refusal else reasons[said.finish],
        "stop_sequence": None,
        "usage": {
            "input_tokens": said.tokens_in - (said.tokens_cached or 0),
            "cache_read_input_tokens": said.tokens_cached,
            "output_tokens": said.tokens_out,
        },
    }


def _as_chunks(said: Said, body: dict[str, Any]) -> list[bytes]:
    whole = _as_completion(said)
    usage = whole.pop("usage")
    whole |= {"object": "chat.completion.chunk"}
    deltas = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": word} for word in words_of(said.thought)]
    deltas += [{"content": word} for word in words_of(said.text)]
    deltas += [{"refusal": word} for word in words_of(said.refusal)]
    chunks = [
        whole | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    if said.error:
        chunks.append({"error": said.error})
    else:
        end = {"index": 0, "delta": {}, "finish_reason": said.finish}
        chunks.append(whole | {"choices": [end]})
        if said.counts and body.get("stream_options", {}).get("include_usage"):
            chunks.append(whole | {"choices": [], "usage": usage})
    return [*(b"data: %b\n\n" % json.dumps(one).encode() for one in chunks), b"data: [DONE]\n\n"]


def _as_events(said: Said, body: dict[str, Any]) -> list[bytes]:
    whole = _as_message(said)
    usage = whole["usage"]
    deltas = [{"type": "thinking_delta", "thinking": word} for word in words_of(said.thought)]
    deltas += [{"type": "text_delta", "text": word} for word in words_of(said.text or said.refusal)]
    start = whole | {"content": [], "stop_reason": None, "usage": usage | {"output_tokens": 1}}
    end = {
        "type": "message_delta",
        "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None},
        "usage": {"output_tokens": usage["output_tokens"]},
    }
    if not said.counts:
        del start["usage"], end["usage"]
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
    ]
    events += [{"type": "error", "error": said.error}] if said.error else [end]
    events += [{"type": "message_stop"}]
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]


def words_of(text: str | None) -> list[str]:
    """Cut a text before its spaces."""
    return re.findall(r"\s*\S+|\s+$", text or "")


def completion(text: str | None, **fields: Any) -> Sent:
    return Sent(Said(text, **fields))


def nonce_of(body: dict[str, Any]) -> str:
    """The nonce that the request asks to be repeated."""
    found = re.search(r"VERDICT-([0-9a-f]+)", body["messages"][0]["content"])
    assert found is not None
    return found.group(1)


def answers_in(body: dict[str, Any]) -> tuple[str, ...]:
    """The answers that the request shows, in order."""
    shown = re.findall(r"<answer-[ab]-\w+>\n(.*?)\n</", body["messages"][1]["content"], re.S)
    return tuple(shown)


def is_probe(body: dict[str, Any]) -> bool:
    """Whether this is a probe of the model's capabilities, with nothing to judge."""
    return not any("VERDICT-" in one["content"] for one in body["messages"])


def better_is(letter: str, *, seconds: float = 0.0) -> Answer:
    """Always the same letter, whatever is shown: a judge with a position bias."""

    def answer(body: dict[str, Any]) -> Sent:
        if is_probe(body):
            return completion("Yes.")
        sent = completion(f"It is better.\n\nVERDICT-{nonce_of(body)}: {letter}")
        sent.seconds = seconds
        return sent

    return answer


def prefers(sign: str, *, seconds: float = 0.0) -> Answer:
    """A consistent judge: the answer that contains `sign` wins; otherwise it is a tie."""

    def answer(body: dict[str, Any]) -> Sent:
        if is_probe(body):
            return completion("Yes.")
        shown = zip("AB", answers_in(body), strict=True)
        wins = [letter for letter, text in shown if sign in text]
        verdict = wins[0] if len(wins) == 1 else "TIE"
        sent = completion(f"Reasons.\nVERDICT-{nonce_of(body)}: {verdict}")
        sent.seconds = seconds
        return sent

    return answer


def says(text: str | None, **fields: Any) -> Answer:
    return lambda body: completion(text, **fields)


def replays(replies: Mapping[str, str]) -> Answer:
    """The stored reply for the first marker in the request; 404 without one."""

    def answer(body: dict[str, Any]) -> Sent:
        asked = "\n".join(message["content"] for message in body["messages"])
        for marker, reply in replies.items():
            if marker in asked:
                return completion(reply)
        return fails(404, "no reply is stored for this request")(body)

    return answer


def fails(
    status: int, message: str = "no", *, code: Any = None, param: Any = None, **headers: str
) -> Answer:
    error = {"message": message, "type": "error", "code": code, "param": param}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda body: Sent({"type": "error", "error": error}, status=status, headers=named)


def dislikes(name: str, message: str, otherwise: Answer, **fields: Any) -> Answer:
    """A server that rejects a parameter with this `message`."""
    complains = fails(400, message, **fields)
    return lambda body: complains(body) if name in body else otherwise(body)


def half_a_body(body: dict[str, Any]) -> Sent:
    sent = completion("Half of this never arrives.")
    sent.cut_at = 40
    return sent


def wrong_json(body: dict[str, Any]) -> Sent:
    return Sent(b'{"choices": [')


def no_choices(body: dict[str, Any]) -> Sent:
    return Sent({"id": "1", "object": "chat.completion", "created": 1, "model": MODEL})


def dripping(body: dict[str, Any]) -> Sent:
    """A good reply, one byte every 20 ms: each read succeeds, and all of them take 20 seconds."""
    sent = completion("A")
    sent.drip = 0.02
    return sent


def padded(spaces: int, *, gzipped: bool = False) -> Answer:
    """A good reply after that many spaces."""

    def answer(body: dict[str, Any]) -> Sent:
        sent = completion("A")
        sent.spaces, sent.gzipped = spaces, gzipped
        return sent

    return answer


def streams(text: str | None, *, thought: str = "", counts: bool = True, **fields: Any) -> Answer:
    """A stream of `text`; the fields are those of Sent."""
    return lambda body: Sent(Said(text, thought=thought, counts=counts), **fields)


def streams_parts(*parts: bytes, **fields: Any) -> Answer:
    """A stream of anything."""
    return lambda body: Sent(None, parts=list(parts), **fields)


def slow(seconds: float) -> Answer:
    return better_is("A", seconds=seconds)


def after(seconds: float, otherwise: Answer) -> Answer:
    """The same answer, later: the latency of a real model."""

    def answer(body: dict[str, Any]) -> Sent:
        sent = otherwise(body)
        sent.seconds += seconds
        return sent

    return answer


def with_faults(faults: Sequence[Answer], share: float, otherwise: Answer, seed: int = 0) -> Answer:
    """One of `faults` in `share` of the requests, at random by seed."""
    die, lock = random.Random(seed), threading.Lock()

    def answer(body: dict[str, Any]) -> Sent:
        with lock:
            fault = die.choice(faults) if die.random() < share else None
        return (fault or otherwise)(body)

    return answer
