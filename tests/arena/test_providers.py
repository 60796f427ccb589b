"""What all providers have in common. Those that speak a wire format ask a loopback server."""

import dataclasses
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.calls.providers.base import (
    LONGEST_WAIT,
    EndpointStoppedError,
    Message,
    ModelRefusedError,
    Provider,
    ProviderError,
    RejectedError,
    RetryableError,
    TooLongError,
    UnsupportedParameterError,
    seconds_of,
    wait_of,
)
from arena.calls.providers.scripted import CONTEXT
from tests.arena.providers import ASKED, DOWN, KEY, PROVIDERS, SCHEMA, WIRES, anthropic, openai
from tests.judges import fake_server
from tests.judges.fake_server import MODEL, FakeServer, Sent, completion, fails, says

Make = Callable[..., Provider]
every_provider = pytest.mark.parametrize("provider", PROVIDERS)
every_wire = pytest.mark.parametrize("provider", WIRES)


def failure(provider: Make, server: Any, asked: Any = ASKED, **fields: Any) -> Any:
    """The error that a request ends in."""
    with pytest.raises(ProviderError) as caught:
        provider(server, **fields).complete(asked)
    return caught.value


@every_provider
def test_a_reply_has_text_model_and_tokens(provider: Make, server: FakeServer) -> None:
    server.otherwise = says("A is better.")
    reply = provider(server).complete(ASKED)
    assert (bool(reply.text), reply.model, reply.cut_off) == (True, MODEL, False)
    assert (reply.tokens_in or 0) > 0 < (reply.tokens_out or 0)
    assert reply.logprobs == ()


@every_provider
def test_a_schema_is_answered_in_json(provider: Make, server: FakeServer) -> None:
    server.otherwise = says('{"verdict": "A"}')
    reply = provider(server).complete(dataclasses.replace(ASKED, schema=SCHEMA))
    assert json.loads(reply.text)["verdict"] in ("A", "B")


@every_provider
def test_a_text_beyond_the_context_is_too_long(provider: Make, server: FakeServer) -> None:
    server.otherwise = fails(413)
    asked = dataclasses.replace(ASKED, messages=(Message("user", "x" * (CONTEXT + 1)),))
    assert type(failure(provider, server, asked)) is TooLongError


@every_wire
def test_cached_tokens_are_reported(provider: Make, server: FakeServer) -> None:
    server.otherwise = says("A", tokens_in=100, tokens_cached=80)
    reply = provider(server).complete(ASKED)
    assert (reply.tokens_in, reply.tokens_cached) == (100, 80)
    server.otherwise = says("A")
    assert provider(server).complete(ASKED).tokens_cached == 0


@every_wire
def test_an_idempotency_key_is_a_header(provider: Make, server: FakeServer) -> None:
    asked = dataclasses.replace(ASKED, idempotency_key="key-1")
    for request in (asked, ASKED):
        provider(server).complete(request)
    assert [sent.get("idempotency-key") for sent in server.headers] == ["key-1", None]
    server.otherwise = fails(409)
    error = failure(provider, server, asked)
    assert (type(error), error.in_progress, error.maybe_billed) == (RetryableError, True, False)


@every_wire
def test_a_reply_cut_off_by_the_token_limit_says_so(provider: Make, server: FakeServer) -> None:
    server.otherwise = says("Let me", finish="length")
    assert provider(server).complete(ASKED).cut_off


@every_wire
def test_another_models_name_is_returned_as_it_came(provider: Make, server: FakeServer) -> None:
    server.otherwise = says("A", model="another-model-9")
    assert provider(server).complete(ASKED).model == "another-model-9"


@every_wire
def test_a_refusal_carries_what_was_billed(provider: Make, server: FakeServer) -> None:
    server.otherwise = says(None, refusal="I can't.")
    error = failure(provider, server)
    assert (str(error), error.reply.tokens_in) == ("I can't.", 100)


@every_wire
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        *(pytest.param(fails(s), RetryableError, id=str(s)) for s in (408, 409, 429, 500, 503)),
        *(pytest.param(fails(s), EndpointStoppedError, id=str(s)) for s in (401, 402, 403, 404)),
        pytest.param(fails(413), TooLongError, id="413"),
        pytest.param(says("", finish="content_filter"), ModelRefusedError, id="filtered"),
        pytest.param(says(None, refusal="I can't."), ModelRefusedError, id="refused"),
    ],
)
def test_each_fault_has_its_error_and_is_asked_once(
    provider: Make, server: FakeServer, answer: Any, error: type[Exception]
) -> None:
    server.otherwise = answer
    assert type(failure(provider, server)) is error
    assert len(server.requests) == 1


@every_wire
@pytest.mark.parametrize(
    "answer",
    [
        fake_server.half_a_body,
        fake_server.wrong_json,
        fake_server.no_choices,
        pytest.param(lambda body: Sent(b""), id="empty"),
        pytest.param(lambda body: Sent([]), id="list"),
        pytest.param(lambda body: Sent({"choices": {"a": 1}}), id="choices"),
        pytest.param(
            lambda body: Sent({"choices": [{"message": None, "finish_reason": None}]}), id="message"
        ),
        pytest.param(
            lambda body: Sent(b"<html>", headers={"content-type": "text/html"}), id="html"
        ),
        pytest.param(lambda body: Sent(b"[" * 200_000), id="deep"),
    ],
)
def test_an_unreadable_body_is_retryable_and_may_be_billed(
    provider: Make, server: FakeServer, answer: Any
) -> None:
    server.otherwise = answer
    error = failure(provider, server)
    assert (type(error), error.maybe_billed) == (RetryableError, True)
    assert len(server.requests) == 1


@every_wire
@pytest.mark.parametrize("status", [429, 503, 529])
def test_a_busy_server_bills_nothing(provider: Make, server: FakeServer, status: int) -> None:
    server.otherwise = fails(status)
    assert not failure(provider, server).maybe_billed


@every_wire
def test_a_slow_server_times_out_and_may_bill(provider: Make, server: FakeServer) -> None:
    server.otherwise = fake_server.slow(1.0)
    error = failure(provider, server, timeout=0.2)
    assert (type(error), error.maybe_billed) == (RetryableError, True)
    assert "in time" in str(error)


@every_wire
@pytest.mark.parametrize("drip", ["head", "body"])
def test_a_reply_that_never_ends_times_out(provider: Make, server: FakeServer, drip: str) -> None:
    def answer(body: dict[str, Any]) -> Sent:
        sent = fake_server.dripping(body)
        sent.headers = {"x-filler": "x" * 2000} if drip == "head" else {}
        return sent

    server.otherwise = answer
    began = time.monotonic()
    error = failure(provider, server, timeout=1.5 if drip == "head" else 5.0)
    assert (type(error), error.maybe_billed, "in time" in str(error)) == (
        RetryableError,
        True,
        True,
    )
    assert time.monotonic() - began < 10


@every_wire
@pytest.mark.parametrize("gzipped", [False, True])
def test_a_reply_of_more_than_4_mb_is_not_read(
    provider: Make, server: FakeServer, gzipped: bool
) -> None:
    server.otherwise = fake_server.padded(4_000_000, gzipped=gzipped)
    error = failure(provider, server)
    assert (type(error), error.maybe_billed) == (RetryableError, True)
    assert "larger than 4 MB" in str(error)
    server.otherwise = fake_server.padded(3_900_000, gzipped=gzipped)
    assert provider(server).complete(ASKED).text == "A"


@every_wire
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(provider: Make, server: FakeServer, status: int) -> None:
    with FakeServer() as elsewhere:
        server.otherwise = fails(status, location=f"{elsewhere.base_url}/chat/completions")
        error = failure(provider, server)
        assert type(error) is EndpointStoppedError
        assert "redirect" in str(error)
        assert not elsewhere.requests


@every_wire
def test_a_server_that_is_down_bills_nothing(provider: Make) -> None:
    error = failure(provider, DOWN, timeout=1)
    assert (type(error), error.maybe_billed) == (RetryableError, False)
    assert "No connection" in str(error)


@every_wire
@pytest.mark.parametrize("status", [429, 529])
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
        ("Wed, 21 Oct 29150000000000000000 07:28:00 GMT", None),
        ("Wed, 21 Oct 2015 07:28:00 +99999999999999999999", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_date(
    provider: Make, server: FakeServer, status: int, header: str, seconds: float | None
) -> None:
    server.otherwise = fails(status, retry_after=header)
    assert failure(provider, server).retry_after == seconds


@every_wire
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0.5s"}, 360.5),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "20ms"}, 0.02),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "12"}, 12.0),
        ({"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "12"}, None),
        (
            {
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-input-tokens-reset": "2915-10-21T07:28:00Z",
            },
            LONGEST_WAIT,
        ),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "soon"}, None),
    ],
)
def test_a_server_names_the_wait_in_one_of_several_headers(
    provider: Make, server: FakeServer, headers: dict[str, str], seconds: float | None
) -> None:
    server.otherwise = lambda body: Sent({"error": {"message": "slow down"}}, 429, headers)
    assert failure(provider, server).retry_after == seconds


@every_wire
@pytest.mark.parametrize("charset", ["punycode", "base64"])
def test_a_reply_is_utf_8_whatever_the_server_calls_it(
    provider: Make, server: FakeServer, charset: str
) -> None:
    """Some codecs take hours for a few MB, and others raise what nobody expects."""
    named = {"content-type": f"text/plain; charset={charset}"}
    server.otherwise = lambda _: Sent("é".encode() + b"a" * 200_000, status=500, headers=named)
    began = time.monotonic()
    assert str(failure(provider, server)).startswith("HTTP 500")
    assert time.monotonic() - began < 1


@given(st.text())
def test_no_header_raises(header: str) -> None:
    used_up = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": header}
    for seconds in (seconds_of(header), wait_of({"retry-after-ms": header}), wait_of(used_up)):
        assert seconds is None or 0 <= seconds <= LONGEST_WAIT


@every_wire
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 429, "message": "Provider is busy"}, RetryableError),
        ({"code": 402, "message": "No credits left"}, EndpointStoppedError),
        ({"code": 400, "message": "maximum context length is 8192"}, TooLongError),
        ({"type": "overloaded_error", "message": "Overloaded"}, RetryableError),
        ({"code": "content_policy_violation", "message": "Not that."}, ModelRefusedError),
        ("Something odd", RejectedError),
    ],
)
def test_an_error_in_a_reply_with_status_200_is_shown_as_what_it_is(
    provider: Make, server: FakeServer, error: Any, kind: type[ProviderError]
) -> None:
    server.otherwise = lambda body: Sent({"type": "error", "error": error})
    found = failure(provider, server)
    assert isinstance(found, kind)
    message = error if isinstance(error, str) else error["message"]
    assert str(found) == f"The reply is an error: {message}"
    assert not getattr(found, "maybe_billed", False)


def test_an_error_in_the_only_choice_is_shown_too(server: FakeServer) -> None:
    def answer(body: dict[str, Any]) -> Sent:
        sent = completion("")
        sent.body = fake_server._as_completion(sent.body)
        sent.body["choices"][0]["error"] = {"code": 502, "message": f"Upstream failed for {KEY}"}
        return sent

    server.otherwise = answer
    found = failure(openai, server)
    assert isinstance(found, RetryableError)
    assert str(found) == "The reply is an error: Upstream failed for [key]"


USE_OTHER = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. "
    "Use 'max_completion_tokens' instead."
)
UNSUPPORTED = {
    "openai": dataclasses.replace(
        ASKED,
        parameters={"temperature": 0, "seed": 1, "max_tokens": 50},
        schema=SCHEMA,
        logprobs=True,
    ),
    "anthropic": dataclasses.replace(ASKED, schema=SCHEMA),
}


@pytest.mark.parametrize(
    ("provider", "wire", "complaint", "parameter"),
    [
        (openai, "max_tokens", fails(400, USE_OTHER, param="max_tokens"), "max_tokens"),
        (openai, "max_tokens", fails(400, USE_OTHER), "max_tokens"),
        (
            openai,
            "temperature",
            fails(400, "no", code="unsupported_value", param="temperature"),
            "temperature",
        ),
        (
            openai,
            "seed",
            fails(422, "[{'type': 'extra_forbidden', 'loc': ('body', 'seed')}]"),
            "seed",
        ),
        (
            openai,
            "seed",
            fails(400, 'Invalid JSON payload. Unknown name "seed": Cannot find it'),
            "seed",
        ),
        (
            openai,
            "response_format",
            fails(400, "'response_format' of type 'json_schema' is not supported"),
            "json_schema",
        ),
        (
            openai,
            "response_format",
            fails(400, "json_schema is not supported by this model"),
            "json_schema",
        ),
        (
            openai,
            "logprobs",
            fails(400, "logprobs are not supported with reasoning models"),
            "logprobs",
        ),
        (
            openai,
            "top_logprobs",
            fails(400, "Requested logprobs of 10, greater than max allowed: 5"),
            "logprobs",
        ),
        (
            openai,
            "top_logprobs",
            fails(400, "no", code="unsupported_parameter", param="top_logprobs"),
            "logprobs",
        ),
        (
            anthropic,
            "temperature",
            fails(400, "`temperature` is deprecated for this model."),
            "temperature",
        ),
        (
            anthropic,
            "temperature",
            fails(400, "temperature: Extra inputs are not permitted"),
            "temperature",
        ),
        (
            anthropic,
            "output_config",
            fails(400, "output_config.format: Extra inputs are not permitted"),
            "json_schema",
        ),
        (
            anthropic,
            "output_config",
            fails(400, "'old-1' does not support output format."),
            "json_schema",
        ),
    ],
)
def test_an_unsupported_parameter_is_named_and_can_be_dropped(
    provider: Make, server: FakeServer, wire: str, complaint: Any, parameter: str
) -> None:
    server.otherwise = lambda body: complaint(body) if wire in body else completion("Fine.")
    asked, instead = UNSUPPORTED[provider.__name__], ""
    if parameter == "max_tokens":
        instead = "max_completion_tokens"
    error = failure(provider, server, asked)
    assert type(error) is UnsupportedParameterError
    assert (error.parameter, error.instead) == (parameter, instead)
    assert provider(server).complete(asked.without(parameter, instead)).text == "Fine."
    if instead:
        assert server.requests[-1][instead] == 50


ENVIRONMENT = {
    "openai": {
        **{
            f"OPENAI_{name}": f"{name}-of-somebody"
            for name in ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID", "WEBHOOK_SECRET")
        },
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        "OPENAI_CUSTOM_HEADERS": "x-mine: of-somebody\nauthorization: of-somebody",
    },
    "anthropic": {
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        "ANTHROPIC_API_KEY": "sk-of-somebody",
        "ANTHROPIC_AUTH_TOKEN": "token-of-somebody",
        "ANTHROPIC_CUSTOM_HEADERS": "x-mine: of-somebody\nx-api-key: of-somebody",
    },
}


@every_wire
def test_nothing_of_the_environment_reaches_the_server(
    provider: Make, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT[provider.__name__].items():
        monkeypatch.setenv(name, value)
    server.otherwise = says("Hello.")
    for key in ("", KEY):
        # A timeout that no other test has: clients are remembered.
        provider(server, key=key, timeout=4.5).complete(ASKED)
    assert "somebody" not in str(server.headers)
    assert (KEY in str(server.headers[0]), KEY in str(server.headers[1])) == (False, True)


@every_wire
@pytest.mark.parametrize("status", [400, 401, 429, 500])
def test_a_key_that_the_server_repeats_never_reaches_the_message(
    provider: Make, server: FakeServer, status: int
) -> None:
    server.otherwise = fails(status, f"Incorrect key: {KEY}")
    error = failure(provider, server)
    assert "HTTP" in str(error)
    assert KEY not in str(error)
    assert error.__suppress_context__


@every_wire
def test_a_key_that_the_server_repeats_is_in_no_reply(provider: Make, server: FakeServer) -> None:
    server.otherwise = says(f"You are {KEY}.", model=KEY)
    reply = provider(server).complete(ASKED)
    assert (reply.text, reply.model) == ("You are [key].", "[key]")
    server.otherwise = says(None, refusal=f"I do not talk to {KEY}.")
    refusal = failure(provider, server)
    assert str(refusal) == "I do not talk to [key]."
    assert KEY not in str(refusal.reply)


@every_wire
def test_an_answer_keeps_a_word_that_serves_as_a_key(provider: Make, server: FakeServer) -> None:
    server.otherwise = says("Install ollama first.")
    assert provider(server, key="ollama").complete(ASKED).text == "Install ollama first."


@every_wire
@pytest.mark.parametrize("key", ["sk-é", "sk-1\nsk-2"])
def test_a_key_that_no_header_can_carry_is_refused_unquoted(provider: Make, key: str) -> None:
    with pytest.raises(EndpointStoppedError, match="characters") as caught:
        provider(DOWN, key=key)
    assert "sk-" not in str(caught.value)
