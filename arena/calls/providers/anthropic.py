"""Servers that speak Anthropic's messages."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import anthropic
import httpx2
from anthropic.types import Message

from arena.calls.http_client import BoundedAsyncClient, BoundedClient
from arena.calls.providers.base import (
    CACHE,
    EFFORT,
    LOGPROBS,
    SCHEMA,
    UNREADABLE,
    Answered,
    AnswerPart,
    ModelRefusedError,
    ProviderError,
    RejectedError,
    Reply,
    Request,
    ThoughtFilter,
    UnsupportedParameterError,
    broken_off,
    checked_key,
    count_of,
    error_inside,
    from_answer,
    hidden,
    too_slow,
    unreadable,
    without_key,
)

MAX_TOKENS = 1024  # the format requires a limit, even if the request has none
UNKNOWN = ("seed", LOGPROBS, "top_logprobs")  # this format has no equivalent
# The most that a model may think, in tokens, within the request's limit.
BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 24_576}
LEAST_BUDGET = 1024
# Newer models take an effort instead of a budget.
ADAPTIVE = "adaptive_effort"
NOT_WITH_THOUGHT = ("temperature", "top_p", "top_k")
KEEP = {"cache_control": {"type": "ephemeral"}}
TOKENS = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)
CUT_OFF = {"max_tokens", "model_context_window_exceeded"}


class AnthropicProvider:
    """A client of one server. The SDK's own retries are off, so that every attempt is counted."""

    def __init__(self, *, base_url: str, key: str, timeout: float) -> None:
        self._client = _shared_client(base_url, checked_key(key), timeout)
        self._base_url, self._key, self._timeout = base_url, key, timeout

    def complete(self, request: Request) -> Reply:
        """Send `request` once and return the answer.

        Raises one of the errors of `base`; their messages never contain the key.
        """
        _refuse_unknown(request)
        body = _request_body(request)
        with self._errors(body):
            message = self._client.messages.create(
                model=body["model"],
                max_tokens=body["max_tokens"],
                messages=body["messages"],
                extra_body=body,
                extra_headers=request.headers,
                timeout=self._timeout,  # or the SDK refuses large limits, if it is its default
            )
            if error := getattr(message, "error", None):
                raise error_inside(error, self._key, _names_sent(body))
            return _reply_of_message(message, self._key)

    async def stream(self, request: Request) -> AsyncGenerator[AnswerPart | Reply, None]:
        """Yield the answer piece by piece, and last the whole of it. Raises the same errors."""
        _refuse_unknown(request)
        body = _request_body(request)
        gathered = GatheredMessage(self._key)
        with self._errors(body):
            async with (
                _new_client(self._base_url, self._key, self._timeout) as client,
                # The SDK's objects of events would cost more time than all the rest.
                await client.post(
                    "/v1/messages",
                    cast_to=object,
                    body=body | {"stream": True},
                    options={"headers": request.headers},
                    stream=True,
                    stream_cls=anthropic.AsyncStream[Any],
                ) as events,
            ):
                async for event in events:
                    if (piece := gathered.add(event)) != AnswerPart():
                        yield piece
            if (piece := gathered.visible.end()) != AnswerPart():
                yield piece
            yield _reply_of_message(gathered.as_message(), self._key)

    def models(self) -> list[str]:
        with self._errors({}):
            found = self._client.models.list(limit=1000).data
            return sorted({without_key(str(model.id), self._key) for model in found})

    @contextmanager
    def _errors(self, sent: dict[str, Any]) -> Iterator[None]:
        """Raise the SDK's errors as ours."""
        try:
            yield
        except anthropic.APIStatusError as error:
            raise self._from_status(error, sent) from None
        # Once a stream has begun, the SDK lets the HTTP library's errors pass.
        except (anthropic.APITimeoutError, httpx2.TimeoutException) as error:
            raise too_slow(error) from None
        except (anthropic.APIConnectionError, httpx2.HTTPError) as error:
            raise broken_off(error, self._key) from None
        except (anthropic.AnthropicError, *UNREADABLE) as error:
            raise unreadable(hidden(f"The reply cannot be read: {error}", self._key)) from None

    def _from_status(self, error: anthropic.APIStatusError, body: dict[str, Any]) -> ProviderError:
        if error.status_code == 200:  # of an event in a stream
            inside = error.body.get("error") if isinstance(error.body, dict) else error.body
            return error_inside(inside, self._key, _names_sent(body))
        message = hidden(str(error.api_message or error.message), self._key)
        if body.get("thinking", {}).get("type") == "enabled" and "adaptive" in message:
            return UnsupportedParameterError(
                f"HTTP {error.status_code}: {message}", EFFORT, ADAPTIVE
            )
        answer = Answered(
            status=error.status_code,
            message=message,
            code=str(error.error_code or error.type or ""),
            parameter="",
            headers=error.response.headers,
            sent=_names_sent(body),
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


def _new_client(base_url: str, key: str, timeout: float) -> anthropic.AsyncAnthropic:
    """Return a client for one stream: it costs little, and cannot outlive its event loop."""
    client = anthropic.AsyncAnthropic(
        base_url=base_url,
        api_key=key or "none",
        http_client=BoundedAsyncClient(timeout),
        max_retries=0,
        open_telemetry=False,
    )
    client._custom_headers = {}
    return client


def _names_sent(body: dict[str, Any]) -> dict[str, str]:
    """Map the names that errors may mention to those of a Request."""
    demanded = {"model", "messages", "system", "max_tokens", "output_config", "thinking"}
    sent = {name: name for name in body if name not in demanded}
    if "format" in body.get("output_config", {}):
        names = ("output_config", "output_format", "structured outputs", "output format")
        sent |= dict.fromkeys(names, SCHEMA)
    if thinking := body.get("thinking"):
        effort = EFFORT if thinking["type"] == "enabled" else ADAPTIVE
        sent |= {"thinking": effort, "effort": effort}
    return sent | {"cache_control": CACHE}


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
    _keep_what_is_stable(body, request.stable - len(system))
    _let_think(body)
    if request.schema is not None:
        # The server supports only part of JSON Schema; the SDK moves the rest into descriptions.
        schema = anthropic.transform_schema(dict(request.schema))
        wanted = {"format": {"type": "json_schema", "schema": schema}}
        body["output_config"] = body.get("output_config", {}) | wanted
    return body


def _keep_what_is_stable(body: dict[str, Any], turns: int) -> None:
    """Mark the end of what other requests begin with: the system's text, and so many turns."""
    if turns >= 0 and "system" in body:
        body["system"] = [{"type": "text", "text": body["system"]} | KEEP]
    if turns > 0:
        last = body["messages"][turns - 1]
        last["content"] = [{"type": "text", "text": last["content"]} | KEEP]


def _let_think(body: dict[str, Any]) -> None:
    """Turn an effort into a budget for thought, which leaves a quarter of the limit to the reply.

    Raises RejectedError if the limit has no room for thought.
    """
    effort, adaptive = body.pop(EFFORT, None), body.pop(ADAPTIVE, None)
    if effort is None and adaptive is None:
        return
    if adaptive is not None:
        body["thinking"] = {"type": "adaptive"}
        body["output_config"] = {"effort": "low" if adaptive == "minimal" else adaptive}
    else:
        if effort not in BUDGETS:
            raise UnsupportedParameterError(f"There is no effort {effort}.", EFFORT, sent=False)
        budget = min(BUDGETS[effort], body["max_tokens"] * 3 // 4)
        if budget < LEAST_BUDGET:
            raise RejectedError(
                f"An output limit of {body['max_tokens']:,} tokens leaves no room for thought:"
                f" it takes {LEAST_BUDGET * 4 // 3 + 1:,}."
            )
        body["thinking"] = {"type": "enabled", "budget_tokens": budget}
    for name in NOT_WITH_THOUGHT:
        body.pop(name, None)


class GatheredMessage:
    """What the events of a stream add up to."""

    def __init__(self, key: str) -> None:
        self.visible = ThoughtFilter(key)
        self._model = ""
        self._usage: dict[str, Any] = {}
        self._end: dict[str, Any] = {}

    def add(self, event: dict[str, Any]) -> AnswerPart:
        kind = event["type"]
        if kind == "message_start":
            self._model = event["message"]["model"]
            self._count(event["message"].get("usage"))
            self._usage.pop("output_tokens", None)  # of nothing yet
        elif kind == "message_delta":
            self._end |= event["delta"]
            self._count(event.get("usage"))
        elif kind == "content_block_start":
            return self._part(event["content_block"])
        elif kind == "content_block_delta":
            return self._part(event["delta"])
        return AnswerPart()

    def _part(self, part: dict[str, Any]) -> AnswerPart:
        if "thinking" in part:
            return AnswerPart(thought=len(part["thinking"]))
        return self.visible.add(part.get("text") or "")

    def _count(self, usage: dict[str, Any] | None) -> None:
        self._usage |= {name: count for name, count in (usage or {}).items() if count}

    def as_message(self) -> Message:
        """Return the message that the server would have sent in one piece."""
        if not self._end.get("stop_reason"):
            raise unreadable("The server's stream ended before the answer did.")
        return Message.construct(
            model=self._model,
            content=[{"type": "text", "text": self.visible.answer}],
            usage={name: self._usage.get(name) for name in TOKENS},
            stop_reason=self._end["stop_reason"],
            stop_details=self._end.get("stop_details"),
        )


def _reply_of_message(message: Any, key: str) -> Reply:
    """Turn the SDK's object into a Reply, without the model's thinking and the key."""
    texts = [block.text for block in message.content if block.type == "text"]
    reply = Reply(
        text=without_key("".join(texts), key),
        model=without_key(str(message.model or ""), key),
        tokens_in=_read_and_cached(message.usage),
        tokens_out=count_of(message.usage.output_tokens),
        tokens_cached=count_of(message.usage.cache_read_input_tokens) or 0,
        tokens_kept=count_of(message.usage.cache_creation_input_tokens) or 0,
        cut_off=message.stop_reason in CUT_OFF,
    )
    if message.stop_reason == "refusal":
        details = getattr(message, "stop_details", None)
        explanation = getattr(details, "explanation", None) or reply.text
        says = explanation or "The model declined to answer."
        raise ModelRefusedError(without_key(str(says), key), reply)
    return reply


def _read_and_cached(usage: Any) -> int | None:
    """Tokens in, including those written to or read from a cache."""
    cached = (usage.cache_creation_input_tokens, usage.cache_read_input_tokens)
    fresh = count_of(usage.input_tokens)
    return None if fresh is None else fresh + sum(count_of(part) or 0 for part in cached)
