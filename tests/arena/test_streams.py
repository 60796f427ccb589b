"""Streamed answers of all providers. Those that speak a wire format ask a loopback server."""

import asyncio
import dataclasses
import time
from collections.abc import Callable
from contextlib import aclosing
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.calls import http_client
from arena.calls.providers.base import (
    AnswerPart,
    EndpointStoppedError,
    Message,
    ModelRefusedError,
    Provider,
    ProviderError,
    RejectedError,
    Reply,
    RetryableError,
    ThoughtFilter,
    TooLongError,
    UnsupportedParameterError,
)
from arena.calls.providers.scripted import CONTEXT
from tests.arena.providers import ASKED, DOWN, KEY, PROVIDERS, WIRES, anthropic, openai, scripted
from tests.arena.test_providers import ENVIRONMENT
from tests.judges import fake_server
from tests.judges.fake_server import (
    FakeServer,
    Sent,
    dislikes,
    fails,
    says,
    streams,
    streams_parts,
)

Make = Callable[..., Provider]
every_provider = pytest.mark.parametrize("provider", PROVIDERS)
every_wire = pytest.mark.parametrize("provider", WIRES)
TEXT = "A is better.\n\nIt says why.\n"


async def gather(provider: Provider, asked: Any, pieces: list[AnswerPart]) -> Reply:
    """Add the pieces to `pieces` as they come, and return the reply after them."""
    replies = []
    async with aclosing(provider.stream(asked)) as stream:
        async for one in stream:
            assert not replies, "the reply comes last"
            (replies if isinstance(one, Reply) else pieces).append(one)
    (reply,) = replies
    return reply


def read(
    provider: Make, server: Any, asked: Any = ASKED, **fields: Any
) -> tuple[list[AnswerPart], Reply]:
    pieces: list[AnswerPart] = []
    reply = asyncio.run(gather(provider(server, **fields), asked, pieces))
    assert "".join(piece.text for piece in pieces) == reply.text
    assert AnswerPart() not in pieces
    return pieces, reply


def failure(provider: Make, server: Any, asked: Any = ASKED, **fields: Any) -> Any:
    """The error that a stream ends in."""
    with pytest.raises(ProviderError) as caught:
        read(provider, server, asked, **fields)
    return caught.value


def is_unreadable(error: Any) -> bool:
    return (type(error), error.maybe_billed) == (RetryableError, True)


@every_provider
def test_the_pieces_add_up_to_a_reply_like_that_of_complete(
    provider: Make, server: FakeServer
) -> None:
    server.otherwise = says(TEXT, tokens_cached=80)
    pieces, reply = read(provider, server)
    assert len(pieces) > 3
    assert reply == provider(server).complete(ASKED)
    assert (reply.tokens_in or 0) > 0 < (reply.tokens_out or 0)


@every_wire
def test_pieces_arrive_before_the_end(provider: Make, server: FakeServer) -> None:
    server.otherwise = streams("one two three four", pause=0.2)

    async def times() -> list[float]:
        return [time.monotonic() async for _ in provider(server).stream(ASKED)]

    came = asyncio.run(times())
    assert sum(later - earlier > 0.1 for earlier, later in pairwise(came)) >= 3


@every_wire
def test_the_request_is_that_of_complete(provider: Make, server: FakeServer) -> None:
    server.otherwise = says(TEXT)
    asked = dataclasses.replace(ASKED, idempotency_key="key-1")
    read(provider, server, asked)
    provider(server).complete(asked)
    streamed, complete = server.requests
    assert streamed.pop("stream") is True
    assert streamed.pop("stream_options", None) == (
        {"include_usage": True} if provider is openai else None
    )
    assert streamed == complete
    names = ("authorization", "x-api-key", "anthropic-version", "idempotency-key")
    of_streamed, of_complete = ({name: one.get(name) for name in names} for one in server.headers)
    assert of_streamed == of_complete
    assert KEY in str(of_streamed)


@every_wire
def test_nothing_of_the_environment_reaches_the_server(
    provider: Make, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT[provider.__name__].items():
        monkeypatch.setenv(name, value)
    server.otherwise = says(TEXT)
    for key in ("", KEY):
        read(provider, server, key=key)
    assert "somebody" not in str(server.headers)
    assert (KEY in str(server.headers[0]), KEY in str(server.headers[1])) == (False, True)


@every_wire
def test_thought_is_counted_and_never_shown(provider: Make, server: FakeServer) -> None:
    server.otherwise = streams(TEXT, thought="Let me think.")
    pieces, reply = read(provider, server)
    assert (reply.text, sum(piece.thought for piece in pieces)) == (TEXT, len("Let me think."))


def test_other_servers_call_thought_reasoning(server: FakeServer) -> None:
    def answer(body: dict[str, Any]) -> Sent:
        parts = fake_server._as_chunks(fake_server.Said(TEXT, thought="Hm."), body)
        parts = [part.replace(b"reasoning_content", b"reasoning") for part in parts]
        return Sent(None, parts=parts)

    server.otherwise = answer
    pieces, reply = read(openai, server)
    assert (reply.text, sum(piece.thought for piece in pieces)) == (TEXT, 3)


@every_wire
def test_a_block_of_thought_at_the_beginning_is_no_text(provider: Make, server: FakeServer) -> None:
    server.otherwise = says(f"<think>\nLet me see.\n</think>\n\n{TEXT}")
    pieces, reply = read(provider, server)
    assert (reply.text, sum(piece.thought for piece in pieces)) == (TEXT, 13)


@pytest.mark.parametrize(
    ("text", "answer", "thought"),
    [
        ("Plain <think>text</think>.", "Plain <think>text</think>.", 0),
        (" \n<think>Hm.</think>\n\n Yes. <think>", "Yes. <think>", 3),
        ("<think></think>Yes.</think>", "Yes.</think>", 0),
        ("<think>a < b </thin </think>Yes.", "Yes.", 13),
        ("<think>No end </thin", "", 13),
        ("<thin", "<thin", 0),
        ("  ", "  ", 0),
        ("<thinking", "<thinking", 0),
        ("<thinker>", "<thinker>", 0),
        ("<Thinking>Hm.</THINKING> Yes.", "Yes.", 3),
        ("", "", 0),
    ],
)
@given(cuts=st.lists(st.integers(0, 40)))
def test_thought_is_told_from_text_wherever_the_text_is_cut(
    text: str, answer: str, thought: int, cuts: list[int]
) -> None:
    thoughts = ThoughtFilter()
    places = [0, *sorted(cuts), len(text)]
    pieces = [thoughts.add(text[start:end]) for start, end in pairwise(places)]
    pieces.append(thoughts.end())
    assert "".join(piece.text for piece in pieces) == thoughts.answer == answer
    assert sum(piece.thought for piece in pieces) == thought


@given(
    st.lists(
        st.sampled_from(
            ["<think>", "</think>", "<th", "ink>", "</THINKING>", "ing>", "a", " ", "</"]
        )
    )
)
def test_a_cut_text_is_read_like_a_whole_one(parts: list[str]) -> None:
    cut, whole = ThoughtFilter(), ThoughtFilter()
    thoughts = [cut.add(part).thought for part in parts] + [cut.end().thought]
    assert whole.add("".join(parts)).thought + whole.end().thought == sum(thoughts)
    assert cut.answer == whole.answer


@every_wire
def test_a_server_that_counts_no_tokens_is_read(provider: Make, server: FakeServer) -> None:
    server.otherwise = streams(TEXT, counts=False)
    _, reply = read(provider, server)
    assert (reply.text, reply.tokens_in, reply.tokens_out) == (TEXT, None, None)


@every_wire
def test_an_answer_cut_off_by_the_token_limit_says_so(provider: Make, server: FakeServer) -> None:
    server.otherwise = says("Let me", finish="length")
    assert read(provider, server)[1].cut_off
    server.otherwise = says("Let me")
    assert not read(provider, server)[1].cut_off


@every_wire
def test_a_refusal_carries_what_was_said_and_billed(provider: Make, server: FakeServer) -> None:
    server.otherwise = says("First,", finish="content_filter")
    error = failure(provider, server)
    assert type(error) is ModelRefusedError
    assert (error.reply.text, error.reply.tokens_in, error.reply.tokens_out) == ("First,", 100, 20)
    server.otherwise = says(None, refusal="I can't do that.")
    assert str(failure(provider, server)) == "I can't do that."


@every_wire
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((status, RetryableError) for status in (408, 409, 429, 500, 503, 529)),
        *((status, EndpointStoppedError) for status in (301, 307, 401, 402, 403, 404)),
        (413, TooLongError),
        (400, RejectedError),
    ],
)
def test_a_status_before_the_stream_has_its_error(
    provider: Make, server: FakeServer, status: int, kind: type[ProviderError]
) -> None:
    with FakeServer() as elsewhere:
        location = f"{elsewhere.base_url}/chat/completions"
        server.otherwise = fails(status, f"No: {KEY}", retry_after="7", location=location)
        error = failure(provider, server)
        assert not elsewhere.requests
    assert type(error) is kind
    assert (getattr(error, "retry_after", 7.0), getattr(error, "maybe_billed", False)) == (7, False)
    assert len(server.requests) == 1
    assert KEY not in str(error)
    assert str(status) in str(error)


@every_wire
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 429, "message": f"Busy, {KEY}"}, RetryableError),
        ({"type": "overloaded_error", "message": f"Overloaded, {KEY}"}, RetryableError),
        ({"code": "content_policy_violation", "message": f"Not that, {KEY}"}, ModelRefusedError),
        (f"Something odd, {KEY}", RejectedError),
    ],
)
def test_an_error_in_the_middle_is_shown_as_what_it_is(
    provider: Make, server: FakeServer, error: Any, kind: type[ProviderError]
) -> None:
    server.otherwise = says(TEXT, error=error)
    pieces: list[AnswerPart] = []
    with pytest.raises(ProviderError) as caught:
        asyncio.run(gather(provider(server), ASKED, pieces))
    assert type(caught.value) is kind
    message = error if isinstance(error, str) else error["message"]
    assert str(caught.value) == f"The reply is an error: {message.replace(KEY, '[key]')}"
    assert pieces


def test_an_error_in_the_only_choice_is_shown_too(server: FakeServer) -> None:
    server.otherwise = streams_parts(
        b'data: {"choices": [{"delta": {}, "error": {"code": 502, "message": "Upstream"}}]}\n\n'
    )
    assert str(failure(openai, server)) == "The reply is an error: Upstream"


GARBAGE = {
    "empty": (b"",),
    "html": (b"<html>",),
    "json": (b'{"choices": [{"message": {"content": "A"}, "finish_reason": "stop"}]}',),
    "half of an event": (b'data: {"choices": [',),
    "no JSON": (b"event: message_start\ndata: {a\n\n",),
    "list": (b"event: message_start\ndata: []\n\n",),
    "null": (b"event: message_start\ndata: null\n\n",),
    "number": (b"event: message_start\ndata: 5\n\n",),
    "other keys": (b'event: message_start\ndata: {"a": 1}\n\n',),
    "choices": (b'data: {"choices": {"a": 1}}\n\n',),
    "delta": (b'data: {"choices": [{"delta": []}]}\n\n',),
    "content": (b'data: {"choices": [{"delta": {"content": [1]}}]}\n\n',),
    "message": (b'event: message_start\ndata: {"type": "message_start", "message": []}\n\n',),
    "not UTF-8": (b"event: message_start\ndata: \xff\xfe\n\n",),
    "deep": (b"event: message_start\ndata: " + b"[" * 200_000 + b"\n\n",),
}


@every_wire
@pytest.mark.parametrize("parts", GARBAGE.values(), ids=GARBAGE)
def test_garbage_is_retryable_and_may_be_billed(
    provider: Make, server: FakeServer, parts: tuple[bytes, ...]
) -> None:
    server.otherwise = streams_parts(*filter(None, parts))
    assert is_unreadable(failure(provider, server))
    assert len(server.requests) == 1


@every_wire
def test_what_is_no_stream_at_all_is_unreadable(provider: Make, server: FakeServer) -> None:
    for body in (b"", b"<html>", {"choices": []}):
        server.otherwise = lambda _, body=body: Sent(body)  # type: ignore[misc]
        assert is_unreadable(failure(provider, server))


@every_wire
@pytest.mark.parametrize("ends_well", [False, True], ids=["broken off", "ended too early"])
def test_half_an_answer_is_no_answer(provider: Make, server: FakeServer, ends_well: bool) -> None:
    def answer(body: dict[str, Any]) -> Sent:
        put = fake_server._as_chunks if provider is openai else fake_server._as_events
        parts = put(fake_server.Said(TEXT), body)[:4]
        return Sent(None, parts=parts, cut_at=None if ends_well else 4)

    server.otherwise = answer
    error = failure(provider, server)
    assert is_unreadable(error)
    assert ("ended before" if ends_well else "connection broke") in str(error)


@every_wire
@pytest.mark.parametrize("kind", ["silent", "silent in the middle", "for ever"])
def test_a_stream_that_never_ends_times_out(provider: Make, server: FakeServer, kind: str) -> None:
    server.otherwise = {
        "silent": says(TEXT),
        "silent in the middle": streams(TEXT, pause=0.5),
        "for ever": streams_parts(b": wait\n\n", pause=0.02, endless=True),
    }[kind]
    if kind == "silent":
        server.otherwise = fake_server.after(3.0, server.otherwise)
    began = time.monotonic()
    error = failure(provider, server, timeout=0.8)
    assert time.monotonic() - began < 2.5
    assert is_unreadable(error)
    assert "in time" in str(error)


@every_wire
def test_the_time_of_the_consumer_is_no_excuse(provider: Make, server: FakeServer) -> None:
    """The limit must not interrupt what the consumer does between two pieces."""
    server.otherwise = streams("one two three four", pause=0.1)

    async def dawdle() -> str:
        seen = ""
        async for _ in provider(server, timeout=0.6).stream(ASKED):
            seen += "."
            await asyncio.sleep(1.0)
        return seen

    with pytest.raises(RetryableError, match="in time"):
        asyncio.run(dawdle())


@every_wire
def test_a_stream_that_is_too_large_is_not_read_to_its_end(
    provider: Make, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "MOST_BYTES", 1_000_000)
    server.otherwise = streams_parts(b": " + b"x" * 10_000 + b"\n\n", endless=True)
    error = failure(provider, server)
    assert is_unreadable(error)
    assert "larger than 1 MB" in str(error)
    assert server.left.wait(1)


@every_wire
def test_a_key_that_the_server_repeats_is_in_no_piece(provider: Make, server: FakeServer) -> None:
    halves = f"You are {KEY[:9]} {KEY[9:]}, {KEY} or {KEY[:-1]}"
    server.otherwise = streams(halves)
    pieces, reply = read(provider, server, key=KEY.replace(KEY[:9], f"{KEY[:9]} "))
    assert reply.text == f"You are [key], {KEY} or {KEY[:-1]}"
    assert len(pieces) > 2


@every_wire
@pytest.mark.parametrize("piece", [b"x", b"a\n" * 1_000, b"a\r\r\n" * 1_000])
def test_an_event_of_countless_pieces_is_not_read_to_its_end(
    provider: Make, server: FakeServer, piece: bytes
) -> None:
    """All streams share a processor, and each piece costs a copy of those before it."""
    server.otherwise = streams_parts(piece, endless=True)
    began = time.process_time()
    error = failure(provider, server, timeout=3.0)
    assert is_unreadable(error)
    assert "pieces" in str(error)
    assert time.process_time() - began < 1
    assert server.left.wait(1)


@every_wire
def test_a_reply_is_measured_unpacked(provider: Make, server: FakeServer) -> None:
    server.otherwise = lambda _: Sent(b":" + b" " * 4_000_000, gzipped=True)
    assert "larger than 4 MB" in str(failure(provider, server))
    server.otherwise = lambda _: Sent(b"", headers={"content-encoding": "br"})
    assert "not as gzip" in str(failure(provider, server))


@every_wire
def test_a_server_that_is_down_bills_nothing(provider: Make) -> None:
    error = failure(provider, DOWN, timeout=1)
    assert (type(error), error.maybe_billed) == (RetryableError, False)
    assert "No connection" in str(error)


@every_wire
@pytest.mark.parametrize("how", ["closed", "cancelled"])
def test_who_stops_reading_ends_the_connection(
    provider: Make, server: FakeServer, how: str
) -> None:
    server.otherwise = streams("one two " * 50, pause=0.2)

    async def stop() -> float:
        stream = provider(server).stream(ASKED)
        await anext(stream)
        began = time.monotonic()
        if how == "closed":
            await stream.aclose()
        else:
            task = asyncio.create_task(gather_rest(stream))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert task.cancelled()
        assert await asyncio.to_thread(server.left.wait, 1)
        return time.monotonic() - began

    async def gather_rest(stream: Any) -> None:
        async for _ in stream:
            pass

    assert asyncio.run(stop()) < 0.5


def test_a_server_may_not_know_the_option_that_asks_for_counts(server: FakeServer) -> None:
    server.otherwise = dislikes("stream_options", "Unknown field: stream_options", says(TEXT))
    error = failure(openai, server)
    assert type(error) is UnsupportedParameterError
    _, reply = read(openai, server, ASKED.without(error.parameter))
    assert (reply.text, reply.tokens_in) == (TEXT, None)


def test_counts_may_come_with_the_last_of_the_text(server: FakeServer) -> None:
    usage = b'"usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}'
    server.otherwise = streams_parts(
        b'data: {"model": "m", "choices": [{"delta": {"content": "A"}, "finish_reason": "stop"}], '
        + usage
        + b"}\n\n",
        b'data: {"model": "m", "choices": [], "usage": null}\n\n',
    )
    assert read(openai, server)[1] == Reply("A", "m", tokens_in=7, tokens_out=2)


def test_the_first_count_of_an_answer_is_not_its_last(server: FakeServer) -> None:
    """Anthropic's format counts one token out before there is any."""

    def answer(body: dict[str, Any]) -> Sent:
        parts = fake_server._as_events(fake_server.Said(TEXT), body)
        end = b'"usage": {"output_tokens": 20}'
        assert any(end in part for part in parts)
        return Sent(None, parts=[part.replace(end, b'"usage": null') for part in parts])

    server.otherwise = answer
    _, reply = read(anthropic, server)
    assert (reply.tokens_in, reply.tokens_out) == (100, None)


def test_many_streams_share_a_loop(server: FakeServer) -> None:
    server.otherwise = streams("one two three four", pause=0.1)

    async def at_once() -> list[Reply]:
        every = [gather(openai(server), ASKED, []) for _ in range(20)]
        return await asyncio.gather(*every)

    began = time.monotonic()
    assert {reply.text for reply in asyncio.run(at_once())} == {"one two three four"}
    assert time.monotonic() - began < 5


def test_scripted_models_write_at_a_pace_of_their_own() -> None:
    async def seconds(model: str) -> float:
        began = time.monotonic()
        messages = (Message("user", "How do bees find their way home?"),)
        asked = dataclasses.replace(ASKED, model=model, messages=messages)
        stream = scripted(None).stream(asked)  # type: ignore[arg-type]
        await anext(stream)
        assert 0.1 < time.monotonic() - began < 0.4
        return len([one async for one in stream]) / (time.monotonic() - began)

    async def race() -> list[float]:
        return await asyncio.gather(seconds("scripted-1"), seconds("scripted-2"))

    first, second = asyncio.run(race())
    assert first != second


def test_a_scripted_model_refuses_before_it_writes() -> None:
    long = dataclasses.replace(ASKED, messages=(Message("user", "x" * (CONTEXT + 1)),))
    assert type(failure(scripted, None, long)) is TooLongError
