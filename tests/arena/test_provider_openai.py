"""The wire format of OpenAI-compatible servers; `test_providers` has what all providers share."""

import dataclasses
from typing import Any

import pytest

from arena.calls.providers.base import (
    EndpointStoppedError,
    ModelRefusedError,
    ProviderError,
    RejectedError,
    Reply,
    Request,
    TokenLogprob,
    TooLongError,
    UnsupportedParameterError,
)
from tests.arena.providers import ASKED, KEY, SCHEMA, openai
from tests.judges import fake_server
from tests.judges.fake_server import MODEL, FakeServer, Sent, completion, dislikes, fails, says


def ask(server: FakeServer, asked: Request = ASKED) -> Reply:
    return openai(server).complete(asked)


def with_usage(**counts: Any) -> Any:
    """An answer with another count of tokens."""

    def answer(body: dict[str, Any]) -> Sent:
        sent = completion("A")
        sent.body = fake_server._as_completion(sent.body) | {"usage": counts}
        return sent

    return answer


def test_one_request_is_sent_in_the_wire_format(server: FakeServer) -> None:
    server.otherwise = says("A is better.")
    reply = ask(server)
    assert (reply.text, reply.model, reply.fingerprint) == ("A is better.", MODEL, "fp_1")
    assert (reply.tokens_in, reply.tokens_out, reply.cut_off) == (100, 20, False)
    (sent,) = server.requests
    assert sent["temperature"] == 0
    assert sent["max_tokens"] == 50
    assert [one["role"] for one in sent["messages"]] == ["system", "user"]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


def test_a_server_without_a_key_is_sent_none(server: FakeServer) -> None:
    server.otherwise = says("Hello.")
    openai(server, key="").complete(ASKED)
    assert server.headers[0]["authorization"] == "Bearer none"


def test_a_parameter_unknown_to_the_sdk_is_sent(server: FakeServer) -> None:
    server.otherwise = says("A")
    ask(server, dataclasses.replace(ASKED, parameters={"repetition_penalty": 1.03}))
    assert server.requests[0]["repetition_penalty"] == 1.03


def test_a_schema_is_sent_as_the_strict_format_of_the_response(server: FakeServer) -> None:
    server.otherwise = says('{"verdict": "A"}')
    assert ask(server, dataclasses.replace(ASKED, schema=SCHEMA)).text == '{"verdict": "A"}'
    sent = server.requests[0]["response_format"]
    assert sent["type"] == "json_schema"
    assert (sent["json_schema"]["strict"], sent["json_schema"]["schema"]) == (True, SCHEMA)


def test_log_probabilities_are_asked_for_and_read_back(server: FakeServer) -> None:
    given = [("VERDICT", -0.01, [("VERDICT", -0.01)]), (" A", -0.3, [(" A", -0.3), (" B", -1.4)])]
    server.otherwise = says("VERDICT A", logprobs=given)
    reply = ask(server, dataclasses.replace(ASKED, logprobs=True))
    assert (server.requests[0]["logprobs"], server.requests[0]["top_logprobs"]) == (True, 10)
    assert reply.logprobs[1] == TokenLogprob(" A", -0.3, ((" A", -0.3), (" B", -1.4)))
    assert "".join(one.token for one in reply.logprobs) == reply.text


def test_what_is_not_asked_for_is_not_sent(server: FakeServer) -> None:
    server.otherwise = says("A")
    assert ask(server).logprobs == ()
    assert set(server.requests[0]) == {"model", "messages", "temperature", "max_tokens"}


@pytest.mark.parametrize(
    ("counts", "billed"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}, (10, 5)),
        # Gemini and xAI leave the model's reasoning out of completion_tokens.
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 95}, (10, 85)),
        ({"prompt_tokens": 10, "completion_tokens": 5}, (10, 5)),
        ({"prompt_tokens": "many", "completion_tokens": -5}, (None, None)),
        # No model reads or writes so many, and PostgreSQL could not store their sum.
        ({"prompt_tokens": 2_000_000_000, "completion_tokens": 2_000_000_000}, (None, None)),
        ({}, (None, None)),
    ],
)
def test_what_is_billed_includes_reasoning_and_is_never_nonsense(
    server: FakeServer, counts: dict[str, Any], billed: tuple[int | None, int | None]
) -> None:
    server.otherwise = with_usage(**counts)
    reply = ask(server)
    assert (reply.tokens_in, reply.tokens_out) == billed


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (fails(404, "no such model"), EndpointStoppedError),
        (fails(429, "insufficient_quota"), EndpointStoppedError),
        (fails(400, "context_length_exceeded"), TooLongError),
        (fails(400, "blocked by content_policy"), ModelRefusedError),
        (fails(400, "temperature is not supported"), UnsupportedParameterError),
        (
            fails(400, "images are not supported at any temperature", param="messages"),
            RejectedError,
        ),
        (fails(400, "top_k is not supported"), RejectedError),  # we sent none
        (fails(400, "max_tokens is too large: 50", param="max_tokens"), RejectedError),
        (fails(422), RejectedError),
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


def test_what_an_operator_names_as_on_the_wire_is_removed_too(server: FakeServer) -> None:
    server.otherwise = dislikes("response_format", "response_format is not supported", says("A"))
    asked = dataclasses.replace(ASKED, parameters={"response_format": {"type": "json_object"}})
    with pytest.raises(UnsupportedParameterError) as caught:
        ask(server, asked)
    assert ask(server, asked.without(caught.value.parameter)).text == "A"


def test_an_answer_in_parts_is_put_together(server: FakeServer) -> None:
    parts = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "A"}, {"type": "text"}]
    server.otherwise = lambda body: Sent(
        {"choices": [{"message": {"content": parts}, "finish_reason": "stop"}]}
    )
    assert ask(server).text == "A"
