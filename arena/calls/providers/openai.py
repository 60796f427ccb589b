"""Every server that speaks OpenAI's chat completions: OpenAI, vLLM, Ollama, OpenRouter ..."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

import openai
from openai.types.chat import ChatCompletion

from arena.calls.http_client import BoundedAsyncClient, BoundedClient
from arena.calls.providers.base import (
    LOGPROBS,
    SCHEMA,
    STREAM_OPTIONS,
    UNREADABLE,
    Answered,
    AnswerPart,
    ModelRefusedError,
    ProviderError,
    Reply,
    Request,
    ThoughtFilter,
    TokenLogprob,
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

FACTS = ("model", "system_fingerprint", "usage")  # of a stream; servers repeat them as they like
ALTERNATIVES = 10  # per token: enough for the labels of a scale; OpenAI gives 20 at most


class OpenAIProvider:
    """A client of one server. The SDK's own retries are off, so that every attempt is counted."""

    def __init__(self, *, base_url: str, key: str, timeout: float) -> None:
        self._client = _shared_client(base_url, checked_key(key), timeout)
        self._base_url, self._key, self._timeout = base_url, key, timeout

    def complete(self, request: Request) -> Reply:
        """Send `request` once and return the answer.

        Raises one of the errors of `base`; their messages never contain the key.
        """
        extra = _parameters_sent(request)
        with self._errors(extra):
            # Sent in the body, because servers have parameters that the SDK does not know.
            completion = self._client.chat.completions.create(
                model=request.model,
                messages=_messages_sent(request),
                extra_body=extra,
                extra_headers=request.headers,
            )
            if error := _error_in(completion):
                raise error_inside(error, self._key, _names_sent(extra))
            return _reply_of_completion(completion, self._key)

    async def stream(self, request: Request) -> AsyncGenerator[AnswerPart | Reply, None]:
        """Yield the answer piece by piece, and last the whole of it. Raises the same errors."""
        extra = _parameters_sent(request)
        if request.usage:
            extra[STREAM_OPTIONS] = {"include_usage": True}
        gathered = GatheredCompletion(self._key)
        with self._errors(extra):
            async with (
                _new_client(self._base_url, self._key, self._timeout) as client,
                # The SDK's objects of events would cost more time than all the rest.
                await client.post(
                    "/chat/completions",
                    cast_to=object,
                    body={
                        "model": request.model,
                        "messages": _messages_sent(request),
                        "stream": True,
                    }
                    | extra,
                    options={"headers": request.headers},
                    stream=True,
                    stream_cls=openai.AsyncStream[Any],
                ) as events,
            ):
                async for event in events:
                    if error := _error_in_event(event):
                        raise error_inside(error, self._key, _names_sent(extra))
                    if (piece := gathered.add(event)) != AnswerPart():
                        yield piece
            if (piece := gathered.visible.end()) != AnswerPart():
                yield piece
            yield _reply_of_completion(gathered.as_completion(), self._key)

    def models(self) -> list[str]:
        with self._errors({}):
            # Only the first page: the SDK would follow its pages wherever they lead.
            found = self._client.models.list().data
            return sorted({without_key(str(model.id), self._key) for model in found})

    @contextmanager
    def _errors(self, sent: dict[str, Any]) -> Iterator[None]:
        """Raise the SDK's errors as ours."""
        try:
            yield
        except openai.APIStatusError as error:
            raise self._from_status(error, sent) from None
        except openai.APITimeoutError as error:
            raise too_slow(error) from None
        except openai.APIConnectionError as error:
            raise broken_off(error, self._key) from None
        except (openai.OpenAIError, *UNREADABLE) as error:
            if type(error) is openai.APIError:  # of an event in a stream
                raise error_inside(error.body, self._key, _names_sent(sent)) from None
            raise unreadable(hidden(f"The reply cannot be read: {error}", self._key)) from None

    def _from_status(self, error: openai.APIStatusError, extra: dict[str, Any]) -> ProviderError:
        answer = Answered(
            status=error.status_code,
            message=hidden(error.message, self._key),
            code=error.code or "",
            parameter=str(error.param or ""),
            headers=error.response.headers,
            sent=_names_sent(extra),
        )
        return from_answer(answer)


@lru_cache(maxsize=32)
def _shared_client(base_url: str, key: str, timeout: float) -> openai.OpenAI:
    """Return one client per server: it keeps connections open and may be shared by threads."""
    client = openai.OpenAI(
        base_url=base_url,
        api_key=key or "none",  # the SDK insists on one; servers without keys ignore it
        http_client=BoundedClient(timeout),
        max_retries=0,
    )
    _forget_environment(client)
    return client


def _new_client(base_url: str, key: str, timeout: float) -> openai.AsyncOpenAI:
    """Return a client for one stream: it costs little, and cannot outlive its event loop."""
    client = openai.AsyncOpenAI(
        base_url=base_url,
        api_key=key or "none",
        http_client=BoundedAsyncClient(timeout),
        max_retries=0,
    )
    _forget_environment(client)
    return client


def _forget_environment(client: openai.OpenAI | openai.AsyncOpenAI) -> None:
    """Remove what the SDK takes from there; other companies' servers must not get it."""
    client.organization = client.project = None
    client._custom_headers = {}


def _messages_sent(request: Request) -> Any:
    return [{"role": message.role, "content": message.content} for message in request.messages]


def _parameters_sent(request: Request) -> dict[str, Any]:
    extra = dict(request.parameters)
    if request.schema is not None:
        wanted = {"name": "reply", "schema": dict(request.schema), "strict": True}
        extra["response_format"] = {"type": "json_schema", "json_schema": wanted}
    if request.logprobs:
        extra |= {"logprobs": True, "top_logprobs": ALTERNATIVES}
    return extra


def _names_sent(extra: dict[str, Any]) -> dict[str, str]:
    """Map the names that errors may mention to those of a Request."""
    names = {"response_format": SCHEMA, "json_schema": SCHEMA, "top_logprobs": LOGPROBS}
    sent = {name: names.get(name, name) for name in extra}
    return sent | ({"json_schema": SCHEMA} if "response_format" in extra else {})


def _error_in_event(event: Any) -> Any:
    """Return the error of the only choice; the SDK raises those of the whole event."""
    choices = event.get("choices")
    return choices[0].get("error") if choices else None


def _error_in(completion: Any) -> Any:
    """Return what a server reports as an error in a reply, or in its only choice."""
    choices = getattr(completion, "choices", None)
    inside = choices[0] if choices else completion
    return getattr(inside, "error", None)


class GatheredCompletion:
    """What the events of a stream add up to."""

    def __init__(self, key: str) -> None:
        self.visible = ThoughtFilter(key)
        self._refusal = ""
        self._finish = ""
        self._facts: dict[str, Any] = {}

    def add(self, event: dict[str, Any]) -> AnswerPart:
        self._facts |= {name: event[name] for name in FACTS if event.get(name)}
        if not event.get("choices"):
            return AnswerPart()
        choice = event["choices"][0]
        delta = choice["delta"]
        self._finish = choice.get("finish_reason") or self._finish
        self._refusal += delta.get("refusal") or ""
        piece = self.visible.add(_text_of_content(delta.get("content")))
        hidden_thought = delta.get("reasoning_content") or delta.get("reasoning") or ""
        return replace(piece, thought=piece.thought + len(hidden_thought))

    def as_completion(self) -> ChatCompletion:
        """Return the completion that the server would have sent in one piece."""
        if not self._finish:
            raise unreadable("The server's stream ended before the answer did.")
        message = {"content": self.visible.answer, "refusal": self._refusal}
        choice = {"finish_reason": self._finish, "message": message}
        return ChatCompletion.construct(**self._facts, choices=[choice])


def _reply_of_completion(completion: Any, key: str) -> Reply:
    """Turn the SDK's object into a Reply without the key; servers differ in what they leave out."""
    if not getattr(completion, "choices", None):
        raise unreadable("The server's reply has no choices.")
    choice = completion.choices[0]
    tokens_in, tokens_out = _tokens_billed(completion.usage)
    details = getattr(completion.usage, "prompt_tokens_details", None)
    given = getattr(details, "cached_tokens", None) or getattr(
        completion.usage, "prompt_cache_hit_tokens", None
    )
    reply = Reply(
        text=without_key(_text_of_content(choice.message.content), key),
        model=without_key(str(completion.model or ""), key),
        fingerprint=without_key(str(getattr(completion, "system_fingerprint", None) or ""), key),
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        tokens_cached=(count_of(given) or 0),
        cut_off=choice.finish_reason == "length",
        logprobs=_logprobs_of_tokens(getattr(choice, "logprobs", None)),
    )
    if choice.finish_reason == "content_filter" or getattr(choice.message, "refusal", None):
        says = choice.message.refusal or "A content filter stopped the answer."
        raise ModelRefusedError(without_key(str(says), key), reply)
    return reply


def _text_of_content(content: Any) -> str:
    """Join the texts of a reply in parts: some reasoning models answer with a list of them."""
    if not isinstance(content, list):
        return str(content or "")
    return "".join(str(part.get("text", "")) for part in content if part.get("type") == "text")


def _tokens_billed(usage: Any) -> tuple[int | None, int | None]:
    """Tokens in and out. Some servers count a model's reasoning only in the total."""
    if usage is None:
        return None, None
    asked, answered = count_of(usage.prompt_tokens), count_of(usage.completion_tokens)
    total = count_of(usage.total_tokens)
    if asked is not None and total is not None:
        answered = max(answered or 0, total - asked)
    return asked, answered


def _logprobs_of_tokens(given: Any) -> tuple[TokenLogprob, ...]:
    return tuple(
        TokenLogprob(
            str(token.token),
            float(token.logprob),
            tuple((str(other.token), float(other.logprob)) for other in token.top_logprobs or ()),
        )
        for token in getattr(given, "content", None) or ()
    )
