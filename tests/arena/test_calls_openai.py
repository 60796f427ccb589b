"""The client of OpenAI-compatible servers, against a loopback server."""

from collections.abc import Iterator
from typing import Any

import pytest

from arena.calls.providers.base import (
    Message,
    Refused,
    Rejected,
    Request,
    Retryable,
    Stopped,
    TooLong,
)
from arena.calls.providers.openai import OpenAIProvider
from tests.judges import fake_server
from tests.judges.fake_server import MODEL, FakeServer, Sent, fails, says

KEY = "sk-very-secret-key-123"
ASKED = Request(
    MODEL,
    (Message("system", "Judge. VERDICT-00000000"), Message("user", "This.")),
    {"temperature": 0, "max_tokens": 50},
)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        yield running


def ask(server: FakeServer, timeout: float = 5.0) -> Any:
    return OpenAIProvider(base_url=server.base_url, key=KEY, timeout=timeout).complete(ASKED)


def test_one_request_is_sent_and_the_answer_comes_back_with_what_it_cost(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-somebody")
    server.otherwise = says("A is better.")
    reply = ask(server)
    assert (reply.text, reply.model, reply.fingerprint) == ("A is better.", MODEL, "fp_1")
    assert (reply.tokens_in, reply.tokens_out, reply.cut_off) == (100, 20, False)
    (sent,) = server.requests
    assert sent["temperature"] == 0
    assert sent["max_tokens"] == 50
    assert [one["role"] for one in sent["messages"]] == ["system", "user"]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert "openai-organization" not in server.headers[0]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (fails(429), Retryable),
        (fails(408), Retryable),
        (fails(409), Retryable),
        (fails(500), Retryable),
        (fails(503), Retryable),
        (fake_server.half_a_body, Retryable),
        (fake_server.wrong_json, Retryable),
        (fake_server.no_choices, Retryable),
        (fails(401), Stopped),
        (fails(403), Stopped),
        (fails(404, "no such model"), Stopped),
        (fails(429, "insufficient_quota"), Stopped),
        (fails(400, "context_length_exceeded"), TooLong),
        (fails(413), TooLong),
        (fails(400, "blocked by content_policy"), Refused),
        (fails(400, "temperature is not supported"), Rejected),
        (fails(422), Rejected),
        (says("", finish="content_filter"), Refused),
        (says(None, refusal="I can't."), Refused),
    ],
)
def test_each_fault_has_its_error_and_is_asked_once(
    server: FakeServer, answer: Any, error: type[Exception]
) -> None:
    server.otherwise = answer
    with pytest.raises(error):
        ask(server)
    assert len(server.requests) == 1


def test_a_slow_server_times_out(server: FakeServer) -> None:
    server.otherwise = fake_server.slow(1.0)
    with pytest.raises(Retryable, match="in time"):
        ask(server, timeout=0.2)


def test_a_server_that_is_down_is_retryable() -> None:
    provider = OpenAIProvider(base_url="http://127.0.0.1:9/v1", key="", timeout=1)
    with pytest.raises(Retryable, match="No connection"):
        provider.complete(ASKED)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("0.5", 0.5), ("soon", None), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0)],
)
def test_retry_after_is_read_as_seconds_or_date(
    server: FakeServer, header: str, seconds: float | None
) -> None:
    server.otherwise = fails(429, retry_after=header)
    with pytest.raises(Retryable) as caught:
        ask(server)
    assert caught.value.retry_after == seconds


def test_a_refusal_carries_what_was_billed(server: FakeServer) -> None:
    server.otherwise = says(None, refusal="I can't.")
    with pytest.raises(Refused) as caught:
        ask(server)
    assert caught.value.reply is not None
    assert caught.value.reply.tokens_in == 100


@pytest.mark.parametrize("status", [400, 401, 429, 500])
def test_a_key_that_the_server_repeats_never_reaches_the_message(
    server: FakeServer, status: int
) -> None:
    server.otherwise = fails(status, f"Incorrect key: {KEY}")
    with pytest.raises(Exception, match="HTTP") as caught:
        ask(server)
    assert KEY not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_reply_cut_off_by_the_token_limit_says_so(server: FakeServer) -> None:
    server.otherwise = says("Let me", finish="length")
    assert ask(server).cut_off


def test_a_body_of_another_kind_is_retryable(server: FakeServer) -> None:
    server.otherwise = lambda body: Sent({"choices": [{"message": None, "finish_reason": None}]})
    with pytest.raises(Retryable):
        ask(server)
    server.otherwise = lambda body: Sent(b"<html>", headers={"content-type": "text/html"})
    with pytest.raises(Retryable):
        ask(server)
