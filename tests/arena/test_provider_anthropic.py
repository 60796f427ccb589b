"""The client of servers that speak Anthropic's messages, against a loopback server."""

import dataclasses
from typing import Any

import pytest

from arena.calls.providers.anthropic import AnthropicProvider
from arena.calls.providers.base import (
    EndpointStoppedError,
    Message,
    ModelRefusedError,
    ProviderError,
    RejectedError,
    Reply,
    Request,
    RetryableError,
    TooLongError,
    UnsupportedParameterError,
)
from tests.judges import fake_server
from tests.judges.fake_server import MODEL, FakeServer, Sent, completion, dislikes, fails, says

KEY = "sk-ant-very-secret-key-123"
ASKED = Request(
    MODEL,
    (Message("system", "Judge. VERDICT-00000000"), Message("user", "This.")),
    {"temperature": 0, "max_tokens": 50},
)
SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"type": "string", "enum": ["A", "B"]}},
    "required": ["verdict"],
    "additionalProperties": False,
}


def ask(server: FakeServer, asked: Request = ASKED, timeout: float = 5.0) -> Reply:
    provider = AnthropicProvider(base_url=server.anthropic_url, key=KEY, timeout=timeout)
    return provider.complete(asked)


def test_one_request_is_sent_in_the_wire_format(server: FakeServer) -> None:
    server.otherwise = says("A is better.")
    reply = ask(server)
    assert (reply.text, reply.model, reply.fingerprint) == ("A is better.", MODEL, "")
    assert (reply.tokens_in, reply.tokens_out, reply.cut_off) == (100, 20, False)
    assert server.requests == [
        {
            "model": MODEL,
            "max_tokens": 50,
            "temperature": 0,
            "system": "Judge. VERDICT-00000000",
            "messages": [{"role": "user", "content": "This."}],
        }
    ]


def test_nothing_of_the_environment_reaches_the_server(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-somebody")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token-of-somebody")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "x-mine: of-somebody\nx-api-key: of-somebody")
    server.otherwise = says("Hello.")
    AnthropicProvider(base_url=server.anthropic_url, key="", timeout=4.5).complete(ASKED)
    ask(server, timeout=4.5)
    assert "somebody" not in str(server.headers)
    assert KEY not in str(server.headers[0])
    assert KEY in str(server.headers[1])


def test_the_token_limit_has_a_default(server: FakeServer) -> None:
    server.otherwise = says("Hello.")
    ask(server, dataclasses.replace(ASKED, parameters={}))
    assert server.requests[0]["max_tokens"] == 1024


def test_a_long_answer_may_be_asked_for_at_the_sdks_own_timeout(server: FakeServer) -> None:
    server.otherwise = says("Hello.")
    ask(server, dataclasses.replace(ASKED, parameters={"max_tokens": 100_000}), timeout=600)
    assert server.requests[0]["max_tokens"] == 100_000


def test_a_conversation_keeps_its_turns(server: FakeServer) -> None:
    server.otherwise = says("A")
    turns = (*ASKED.messages, Message("assistant", "Hm."), Message("user", "And now?"))
    ask(server, dataclasses.replace(ASKED, messages=turns))
    sent = [(turn["role"], turn["content"]) for turn in server.requests[0]["messages"]]
    assert sent == [("user", "This."), ("assistant", "Hm."), ("user", "And now?")]


def test_a_schema_is_sent_as_the_format_of_the_output(server: FakeServer) -> None:
    server.otherwise = says('{"verdict": "A"}')
    assert ask(server, dataclasses.replace(ASKED, schema=SCHEMA)).text == '{"verdict": "A"}'
    sent = server.requests[0]["output_config"]["format"]
    assert sent["type"] == "json_schema"
    assert sent["schema"]["properties"]["verdict"]["enum"] == ["A", "B"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (fails(429), RetryableError),
        (fails(408), RetryableError),
        (fails(500), RetryableError),
        (fails(529, "Overloaded"), RetryableError),
        (fake_server.half_a_body, RetryableError),
        (fake_server.wrong_json, RetryableError),
        (fake_server.no_choices, RetryableError),
        (lambda body: Sent(b"<html>", headers={"content-type": "text/html"}), RetryableError),
        (lambda body: Sent(b"[" * 200_000), RetryableError),
        (fails(401), EndpointStoppedError),
        (fails(402), EndpointStoppedError),
        (fails(403), EndpointStoppedError),
        (fails(404, "model: judge-8"), EndpointStoppedError),
        (fails(400, "Your credit balance is too low"), EndpointStoppedError),
        (fails(400, "prompt is too long: 250000 tokens > 200000 maximum"), TooLongError),
        (fails(413), TooLongError),
        (fails(400, "Output blocked by content filtering policy"), ModelRefusedError),
        (fails(400, "messages: roles must alternate"), RejectedError),
        (fails(400, "max_tokens: 90000 > 8192, the maximum allowed for this model"), RejectedError),
        (says("", finish="content_filter"), ModelRefusedError),
        (says(None, refusal="I can't."), ModelRefusedError),
    ],
)
def test_each_fault_has_its_error_and_is_asked_once(
    server: FakeServer, answer: Any, error: type[Exception]
) -> None:
    server.otherwise = answer
    with pytest.raises(ProviderError) as caught:
        ask(server)
    assert type(caught.value) is error
    assert len(server.requests) == 1


def test_a_slow_server_times_out_and_may_bill(server: FakeServer) -> None:
    server.otherwise = fake_server.slow(1.0)
    with pytest.raises(RetryableError, match="in time") as caught:
        ask(server, timeout=0.2)
    assert caught.value.maybe_billed


@pytest.mark.parametrize(
    ("answer", "maybe"),
    [
        (fake_server.half_a_body, True),
        (fake_server.wrong_json, True),
        (fails(429), False),
        (fails(529), False),
    ],
)
def test_what_may_have_been_billed_is_told(server: FakeServer, answer: Any, maybe: bool) -> None:
    server.otherwise = answer
    with pytest.raises(RetryableError) as caught:
        ask(server)
    assert caught.value.maybe_billed is maybe


def test_a_server_that_is_down_bills_nothing() -> None:
    provider = AnthropicProvider(base_url="http://127.0.0.1:9", key="", timeout=1)
    with pytest.raises(RetryableError, match="No connection") as caught:
        provider.complete(ASKED)
    assert not caught.value.maybe_billed


def test_retry_after_is_read(server: FakeServer) -> None:
    server.otherwise = fails(529, retry_after="7")
    with pytest.raises(RetryableError) as caught:
        ask(server)
    assert caught.value.retry_after == 7.0


@pytest.mark.parametrize(
    ("wire", "message", "parameter"),
    [
        ("temperature", "`temperature` is deprecated for this model.", "temperature"),
        ("temperature", "temperature: Extra inputs are not permitted", "temperature"),
        ("output_config", "output_config.format: Extra inputs are not permitted", "json_schema"),
        ("output_config", "'old-1' does not support output format.", "json_schema"),
    ],
)
def test_an_unsupported_parameter_is_named_and_can_be_dropped(
    server: FakeServer, wire: str, message: str, parameter: str
) -> None:
    server.otherwise = dislikes(wire, message, says("Fine."))
    asked = dataclasses.replace(ASKED, schema=SCHEMA)
    with pytest.raises(UnsupportedParameterError) as caught:
        ask(server, asked)
    assert caught.value.parameter == parameter
    assert ask(server, asked.without(parameter)).text == "Fine."


@pytest.mark.parametrize(
    ("change", "parameter"),
    [({"parameters": {"seed": 1}}, "seed"), ({"logprobs": True}, "logprobs")],
)
def test_what_the_format_has_no_word_for_is_never_sent(
    server: FakeServer, change: dict[str, Any], parameter: str
) -> None:
    asked = dataclasses.replace(ASKED, **change)
    with pytest.raises(UnsupportedParameterError) as caught:
        ask(server, asked)
    assert (caught.value.parameter, caught.value.sent) == (parameter, False)
    assert server.requests == []
    server.otherwise = says("Fine.")
    assert ask(server, asked.without(parameter)).text == "Fine."


def test_thoughts_are_left_out_and_cached_tokens_are_counted(server: FakeServer) -> None:
    def answer(body: dict[str, Any]) -> Sent:
        sent = completion("A")
        sent.body = fake_server._as_message(sent.body)
        sent.body["content"].insert(0, {"type": "thinking", "thinking": "B?", "signature": "s"})
        sent.body["usage"] |= {"cache_read_input_tokens": 7, "cache_creation_input_tokens": 5}
        return sent

    server.otherwise = answer
    reply = ask(server)
    assert (reply.text, reply.tokens_in) == ("A", 112)


def test_a_refusal_carries_what_was_billed(server: FakeServer) -> None:
    server.otherwise = says(None, refusal="I can't.")
    with pytest.raises(ModelRefusedError, match="can't") as caught:
        ask(server)
    assert caught.value.reply is not None
    assert caught.value.reply.tokens_in == 100


def test_a_reply_cut_off_by_the_token_limit_says_so(server: FakeServer) -> None:
    server.otherwise = says("Let me", finish="length")
    assert ask(server).cut_off


def test_another_models_name_is_handed_on_as_it_came(server: FakeServer) -> None:
    server.otherwise = says("A", model="another-model-9")
    assert ask(server).model == "another-model-9"


@pytest.mark.parametrize("status", [400, 401, 429, 500])
def test_a_key_that_the_server_repeats_never_reaches_the_message(
    server: FakeServer, status: int
) -> None:
    server.otherwise = fails(status, f"invalid key: {KEY}")
    with pytest.raises(ProviderError, match="HTTP") as caught:
        ask(server)
    assert KEY not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_key_that_no_header_can_carry_is_refused_unquoted() -> None:
    with pytest.raises(EndpointStoppedError, match="characters") as caught:
        AnthropicProvider(base_url="http://127.0.0.1:9", key="sk-1\nsk-2", timeout=1)
    assert "sk-" not in str(caught.value)
