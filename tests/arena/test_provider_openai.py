"""The client of OpenAI-compatible servers, against a loopback server."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.calls.providers.base import (
    LONGEST_WAIT,
    EndpointStoppedError,
    Message,
    ModelRefusedError,
    ProviderError,
    RejectedError,
    Reply,
    Request,
    RetryableError,
    TokenLogprob,
    TooLongError,
    UnsupportedParameterError,
    seconds_of,
)
from arena.calls.providers.openai import OpenAIProvider
from tests.judges import fake_server
from tests.judges.fake_server import MODEL, FakeServer, Sent, completion, dislikes, fails, says

KEY = "sk-very-secret-key-123"
ASKED = Request(
    MODEL,
    (Message("system", "Judge. VERDICT-00000000"), Message("user", "This.")),
    {"temperature": 0, "max_tokens": 50},
)
SCHEMA = {"type": "object", "properties": {"verdict": {"enum": ["A", "B"]}}}
USE_OTHER = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. "
    "Use 'max_completion_tokens' instead."
)


def ask(server: FakeServer, asked: Request = ASKED, timeout: float = 5.0) -> Reply:
    return OpenAIProvider(base_url=server.base_url, key=KEY, timeout=timeout).complete(asked)


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


def test_nothing_of_the_environment_reaches_the_server(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID", "WEBHOOK_SECRET"):
        monkeypatch.setenv(f"OPENAI_{name}", f"{name}-of-somebody")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "x-mine: of-somebody\nauthorization: of-somebody")
    server.otherwise = says("Hello.")
    OpenAIProvider(base_url=server.base_url, key="", timeout=4.5).complete(ASKED)
    ask(server, timeout=4.5)
    assert "somebody" not in str(server.headers)
    assert server.headers[0]["authorization"] == "Bearer none"
    assert server.headers[1]["authorization"] == f"Bearer {KEY}"


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
        (fails(429), RetryableError),
        (fails(408), RetryableError),
        (fails(409), RetryableError),
        (fails(500), RetryableError),
        (fails(503), RetryableError),
        (fake_server.half_a_body, RetryableError),
        (fake_server.wrong_json, RetryableError),
        (fake_server.no_choices, RetryableError),
        (fails(401), EndpointStoppedError),
        (fails(403), EndpointStoppedError),
        (fails(404, "no such model"), EndpointStoppedError),
        (fails(429, "insufficient_quota"), EndpointStoppedError),
        (fails(400, "context_length_exceeded"), TooLongError),
        (fails(413), TooLongError),
        (fails(400, "blocked by content_policy"), ModelRefusedError),
        (fails(402), EndpointStoppedError),
        (fails(400, "temperature is not supported"), UnsupportedParameterError),
        (
            fails(400, "images are not supported at any temperature", param="messages"),
            RejectedError,
        ),
        (fails(400, "top_k is not supported"), RejectedError),  # we sent none
        (fails(400, "max_tokens is too large: 50", param="max_tokens"), RejectedError),
        (fails(422), RejectedError),
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
        (fake_server.no_choices, True),
        (fails(429), False),
        (fails(503), False),
    ],
)
def test_what_may_have_been_billed_is_told(server: FakeServer, answer: Any, maybe: bool) -> None:
    server.otherwise = answer
    with pytest.raises(RetryableError) as caught:
        ask(server)
    assert caught.value.maybe_billed is maybe


@pytest.mark.parametrize(
    ("wire", "complaint", "parameter", "instead"),
    [
        (
            "max_tokens",
            fails(400, USE_OTHER, param="max_tokens"),
            "max_tokens",
            "max_completion_tokens",
        ),
        ("max_tokens", fails(400, USE_OTHER), "max_tokens", "max_completion_tokens"),
        (
            "temperature",
            fails(400, "no", code="unsupported_value", param="temperature"),
            "temperature",
            "",
        ),
        ("seed", fails(422, "[{'type': 'extra_forbidden', 'loc': ('body', 'seed')}]"), "seed", ""),
        (
            "seed",
            fails(400, 'Invalid JSON payload. Unknown name "seed": Cannot find it'),
            "seed",
            "",
        ),
        (
            "response_format",
            fails(400, "'response_format' of type 'json_schema' is not supported"),
            "json_schema",
            "",
        ),
        (
            "response_format",
            fails(400, "json_schema is not supported by this model"),
            "json_schema",
            "",
        ),
        (
            "logprobs",
            fails(400, "logprobs are not supported with reasoning models"),
            "logprobs",
            "",
        ),
        (
            "top_logprobs",
            fails(400, "Requested logprobs of 10, greater than max allowed: 5"),
            "logprobs",
            "",
        ),
        (
            "top_logprobs",
            fails(400, "no", code="unsupported_parameter", param="top_logprobs"),
            "logprobs",
            "",
        ),
    ],
)
def test_an_unsupported_parameter_is_named_and_can_be_dropped(
    server: FakeServer, wire: str, complaint: Any, parameter: str, instead: str
) -> None:
    server.otherwise = lambda body: complaint(body) if wire in body else completion("Fine.")
    full = {"temperature": 0, "seed": 1, "max_tokens": 50}
    asked = dataclasses.replace(ASKED, parameters=full, schema=SCHEMA, logprobs=True)
    with pytest.raises(UnsupportedParameterError) as caught:
        ask(server, asked)
    assert (caught.value.parameter, caught.value.instead) == (parameter, instead)
    assert ask(server, asked.without(parameter, instead)).text == "Fine."
    if instead:
        assert server.requests[-1][instead] == 50


def test_what_an_operator_names_as_on_the_wire_is_taken_out_too(server: FakeServer) -> None:
    server.otherwise = dislikes("response_format", "response_format is not supported", says("A"))
    asked = dataclasses.replace(ASKED, parameters={"response_format": {"type": "json_object"}})
    with pytest.raises(UnsupportedParameterError) as caught:
        ask(server, asked)
    assert ask(server, asked.without(caught.value.parameter)).text == "A"


def test_a_server_that_is_down_is_retryable() -> None:
    provider = OpenAIProvider(base_url="http://127.0.0.1:9/v1", key="", timeout=1)
    with pytest.raises(RetryableError, match="No connection") as caught:
        provider.complete(ASKED)
    assert not caught.value.maybe_billed


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        ("soon", None),
        ("nan", None),
        ("1e300", LONGEST_WAIT),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 -0000", 0.0),
        ("Wed, 21 Oct 2915 07:28:00 GMT", LONGEST_WAIT),
    ],
)
def test_retry_after_is_read_as_seconds_or_date(
    server: FakeServer, header: str, seconds: float | None
) -> None:
    server.otherwise = fails(429, retry_after=header)
    with pytest.raises(RetryableError) as caught:
        ask(server)
    assert caught.value.retry_after == seconds


@given(st.text())
def test_no_header_raises(header: str) -> None:
    seconds = seconds_of(header)
    assert seconds is None or 0 <= seconds <= LONGEST_WAIT


def test_a_refusal_carries_what_was_billed(server: FakeServer) -> None:
    server.otherwise = says(None, refusal="I can't.")
    with pytest.raises(ModelRefusedError) as caught:
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


def test_another_models_name_is_handed_on_as_it_came(server: FakeServer) -> None:
    server.otherwise = says("A", model="another-model-9")
    assert ask(server).model == "another-model-9"


def test_an_answer_in_parts_is_put_together(server: FakeServer) -> None:
    parts = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "A"}, {"type": "text"}]
    server.otherwise = lambda body: Sent(
        {"choices": [{"message": {"content": parts}, "finish_reason": "stop"}]}
    )
    assert ask(server).text == "A"


@pytest.mark.parametrize(
    "sent",
    [
        Sent({"choices": [{"message": None, "finish_reason": None}]}),
        Sent({"choices": {"a": 1}}),
        Sent([]),
        Sent(b"<html>", headers={"content-type": "text/html"}),
        Sent(b"[" * 200_000),
        Sent(b""),
    ],
)
def test_a_body_of_another_kind_is_retryable(server: FakeServer, sent: Sent) -> None:
    server.otherwise = lambda body: sent
    with pytest.raises(RetryableError) as caught:
        ask(server)
    assert caught.value.maybe_billed


def test_a_key_that_no_header_can_carry_is_refused_unquoted() -> None:
    with pytest.raises(EndpointStoppedError, match="characters") as caught:
        OpenAIProvider(base_url="http://127.0.0.1:9/v1", key="sk-é", timeout=1)
    assert "sk-" not in str(caught.value)
