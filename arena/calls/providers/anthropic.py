"""Servers that speak Anthropic's messages."""

from functools import lru_cache
from typing import Any

import anthropic

from arena.calls.http_client import BoundedClient
from arena.calls.providers.base import (
    LOGPROBS,
    SCHEMA,
    UNREADABLE,
    Answered,
    ModelRefusedError,
    ProviderError,
    Reply,
    Request,
    UnsupportedParameterError,
    broken_off,
    checked_key,
    count_of,
    from_answer,
    hidden,
    too_slow,
    unreadable,
)

MAX_TOKENS = 1024  # the format requires a limit, even if the request has none
UNKNOWN = ("seed", LOGPROBS, "top_logprobs")  # this format has no equivalent
CUT_OFF = {"max_tokens", "model_context_window_exceeded"}


class AnthropicProvider:
    """A client of one server. The SDK's own retries are off, so that every attempt is counted."""

    def __init__(self, *, base_url: str, key: str, timeout: float) -> None:
        self._client = _shared_client(base_url, checked_key(key), timeout)
        self._key = key

    def complete(self, request: Request) -> Reply:
        """Send `request` once and return the answer.

        Raises one of the errors of `base`; their messages never contain the key.
        """
        _refuse_unknown(request)
        body = _request_body(request)
        try:
            return _reply_of_message(
                self._client.messages.create(
                    model=body["model"],
                    max_tokens=body["max_tokens"],
                    messages=body["messages"],
                    extra_body=body,
                    extra_headers=request.headers,
                )
            )
        except anthropic.APIStatusError as error:
            raise self._from_status(error, body) from None
        except anthropic.APITimeoutError as error:
            raise too_slow(error) from None
        except anthropic.APIConnectionError as error:
            raise broken_off(error, self._key) from None
        except (anthropic.AnthropicError, *UNREADABLE) as error:
            raise unreadable(hidden(f"The reply cannot be read: {error}", self._key)) from None

    def _from_status(self, error: anthropic.APIStatusError, body: dict[str, Any]) -> ProviderError:
        demanded = {"model", "messages", "system", "max_tokens", "output_config"}
        sent = {name: name for name in body if name not in demanded}
        if "output_config" in body:
            names = ("output_config", "output_format", "structured outputs", "output format")
            sent |= dict.fromkeys(names, SCHEMA)
        answer = Answered(
            status=error.status_code,
            message=hidden(error.api_message or error.message, self._key),
            code=error.error_code or error.type or "",
            parameter="",
            retry_after=error.response.headers.get("retry-after"),
            sent=sent,
        )
        return from_answer(answer)


@lru_cache(maxsize=32)
def _shared_client(base_url: str, key: str, timeout: float) -> anthropic.Anthropic:
    """Return one client per server: it keeps connections open and may be shared by threads."""
    client = anthropic.Anthropic(
        base_url=base_url,
        api_key=key or "none",  # without one the SDK looks for a key, a token or a profile itself
        http_client=BoundedClient(timeout),
        max_retries=0,
        open_telemetry=False,
    )
    # The SDK takes these from the environment; other servers must not get them.
    client._custom_headers = {}
    return client


def _refuse_unknown(request: Request) -> None:
    asked = [*request.parameters, *([LOGPROBS] if request.logprobs else [])]
    for name in UNKNOWN:
        if name in asked:
            raise UnsupportedParameterError(
                f"Anthropic's Messages API does not support {name}.", name, sent=False
            )


def _request_body(request: Request) -> dict[str, Any]:
    system = [message.content for message in request.messages if message.role == "system"]
    turns = [message for message in request.messages if message.role != "system"]
    body: dict[str, Any] = {"max_tokens": MAX_TOKENS} | dict(request.parameters)
    body["model"] = request.model
    body["messages"] = [{"role": message.role, "content": message.content} for message in turns]
    if system:
        body["system"] = "\n\n".join(system)
    if request.schema is not None:
        # The server supports only part of JSON Schema; the SDK moves the rest into descriptions.
        schema = anthropic.transform_schema(dict(request.schema))
        body["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
    return body


def _reply_of_message(message: Any) -> Reply:
    """Turn the SDK's object into a Reply, without the model's thinking."""
    texts = [block.text for block in message.content if block.type == "text"]
    reply = Reply(
        text="".join(texts),
        model=str(message.model or ""),
        tokens_in=_read_and_cached(message.usage),
        tokens_out=count_of(message.usage.output_tokens),
        tokens_cached=count_of(message.usage.cache_read_input_tokens) or 0,
        cut_off=message.stop_reason in CUT_OFF,
    )
    if message.stop_reason == "refusal":
        details = getattr(message, "stop_details", None)
        explanation = getattr(details, "explanation", None) or reply.text
        raise ModelRefusedError(explanation or "The model declined to answer.", reply)
    return reply


def _read_and_cached(usage: Any) -> int | None:
    """Tokens in, including those written to or read from a cache."""
    cached = (usage.cache_creation_input_tokens, usage.cache_read_input_tokens)
    fresh = count_of(usage.input_tokens)
    return None if fresh is None else fresh + sum(count_of(part) or 0 for part in cached)
