"""Anthropic's wire format; `test_providers` has what all providers share."""

import dataclasses
from typing import Any

import pytest

from arena.calls.money import billed
from arena.calls.prices import Rate
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
from tests.arena.providers import ASKED, SCHEMA, anthropic
from tests.judges import fake_server
from tests.judges.fake_server import MODEL, FakeServer, Sent, completion, fails, says


def ask(server: FakeServer, asked: Request = ASKED, timeout: float = 5.0) -> Reply:
    return anthropic(server, timeout=timeout).complete(asked)


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
        (fails(529, "Overloaded"), RetryableError),
        (fails(404, "model: judge-8"), EndpointStoppedError),
        (fails(400, "Your credit balance is too low"), EndpointStoppedError),
        (fails(400, "prompt is too long: 250000 tokens > 200000 maximum"), TooLongError),
        (fails(400, "Output blocked by content filtering policy"), ModelRefusedError),
        (fails(400, "messages: roles must alternate"), RejectedError),
        (fails(400, "max_tokens: 90000 > 8192, the maximum allowed for this model"), RejectedError),
    ],
)
def test_each_complaint_has_its_error_and_is_asked_once(
    server: FakeServer, answer: Any, error: type[Exception]
) -> None:
    server.otherwise = answer
    with pytest.raises(ProviderError) as caught:
        ask(server)
    assert type(caught.value) is error
    assert len(server.requests) == 1


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


def test_what_other_requests_begin_with_is_kept_by_the_server(server: FakeServer) -> None:
    server.otherwise = says("A")
    turns = (Message("assistant", "An example."), Message("user", "Now this."))
    example = (*ASKED.messages, *turns)
    ask(server, dataclasses.replace(ASKED, stable=1))
    ask(server, dataclasses.replace(ASKED, messages=example, stable=3))
    rubric, shown = server.requests
    kept = {"cache_control": {"type": "ephemeral"}}
    assert rubric["system"] == [{"type": "text", "text": "Judge. VERDICT-00000000"} | kept]
    assert rubric["messages"] == [{"role": "user", "content": "This."}]
    assert shown["system"] == rubric["system"]
    assert [turn["content"] for turn in shown["messages"]] == [
        "This.",
        [{"type": "text", "text": "An example."} | kept],
        "Now this.",
    ]


def test_what_the_server_keeps_costs_a_quarter_more(server: FakeServer) -> None:
    def answer(body: dict[str, Any]) -> Sent:
        sent = completion("A")
        sent.body = fake_server._as_message(sent.body)
        sent.body["usage"]["cache_creation_input_tokens"] = 1000
        return sent

    server.otherwise = answer
    reply = ask(server)
    assert (reply.tokens_in, reply.tokens_kept) == (1100, 1000)
    assert billed(Rate(4_000_000, 0), reply, 10**9) == 4 * 1350


@pytest.mark.parametrize(
    ("effort", "limit", "budget"),
    [("low", 4096, 2048), ("high", 32_768, 24_576), ("high", 2048, 1536)],
)
def test_an_effort_is_a_budget_that_leaves_room_for_the_reply(
    server: FakeServer, effort: str, limit: int, budget: int
) -> None:
    server.otherwise = says("A")
    given = {"temperature": 0, "max_tokens": limit, "reasoning_effort": effort}
    ask(server, dataclasses.replace(ASKED, parameters=given))
    (body,) = server.requests
    assert body["thinking"] == {"type": "enabled", "budget_tokens": budget}
    assert body["max_tokens"] == limit
    assert not {"temperature", "reasoning_effort"} & body.keys()


def test_a_limit_without_room_for_thought_is_refused_and_not_sent(server: FakeServer) -> None:
    given = {"max_tokens": 1024, "reasoning_effort": "low"}
    with pytest.raises(RejectedError, match=r"1,024 tokens leaves no room for thought"):
        ask(server, dataclasses.replace(ASKED, parameters=given))
    assert server.requests == []


def test_a_model_that_takes_no_budget_is_told_the_effort_itself(server: FakeServer) -> None:
    server.script.append(
        fails(400, 'thinking.type.enabled is not supported. Use "thinking.type.adaptive".')
    )
    server.otherwise = says('{"verdict": "A"}')
    given = {"max_tokens": 4096, "reasoning_effort": "low"}
    asked = dataclasses.replace(ASKED, parameters=given, schema=SCHEMA)
    with pytest.raises(UnsupportedParameterError) as caught:
        ask(server, asked)
    ask(server, asked.without(caught.value.parameter, caught.value.instead))
    body = server.requests[-1]
    assert (body["thinking"], body["output_config"]["effort"]) == ({"type": "adaptive"}, "low")
    assert body["output_config"]["format"]["type"] == "json_schema"


@pytest.mark.parametrize("message", [5, ["x"], {"a": 1}])
def test_an_error_whose_message_is_no_text(server: FakeServer, message: object) -> None:
    error = {"type": "error", "error": {"type": ["a"], "message": message}}
    server.otherwise = lambda _: Sent(error, status=400)
    with pytest.raises(ProviderError):
        ask(server, ASKED)


def test_a_model_that_cannot_think_is_asked_without(server: FakeServer) -> None:
    server.otherwise = fails(400, "thinking is not supported on this model")
    given = {"max_tokens": 4096, "reasoning_effort": "low"}
    with pytest.raises(UnsupportedParameterError) as caught:
        ask(server, dataclasses.replace(ASKED, parameters=given))
    assert (caught.value.parameter, caught.value.instead) == ("reasoning_effort", "")
