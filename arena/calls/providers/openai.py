"""Every server that speaks OpenAI's chat completions: OpenAI, vLLM, Ollama, OpenRouter ..."""

import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

import openai

from arena.calls.providers.base import (
    ProviderError,
    Refused,
    Rejected,
    Reply,
    Request,
    Retryable,
    Stopped,
    TooLong,
)

BUSY = {408, 409, 425, 429}
CLOSED = {401, 403, 404}
TOO_LONG_SIGNS = ("context_length", "context length", "maximum context", "too long", "too many tok")
FILTER_SIGNS = ("content_filter", "content_policy", "content policy", "content management policy")


class OpenAIProvider:
    """A client of one server. The SDK's own retries are off, so that every attempt is counted."""

    def __init__(self, *, base_url: str, key: str, timeout: float) -> None:
        self._client = _client(base_url, key, timeout)
        self._key = key

    def complete(self, request: Request) -> Reply:
        """Send `request` once and return the answer.

        Raises one of the errors of `base`; their messages never contain the key.
        """
        try:
            return _read(self._send(request))
        except openai.APIStatusError as error:
            raise self._from_status(error) from None
        except openai.APITimeoutError:
            raise Retryable("The server did not answer in time.") from None
        except openai.APIConnectionError as error:
            raise Retryable(self._clean(f"No connection: {error.__cause__ or error}")) from None
        except (openai.OpenAIError, ValueError, TypeError, AttributeError) as error:
            raise Retryable(self._clean(f"The reply cannot be read: {error}")) from None

    def _send(self, request: Request) -> Any:
        messages: Any = [{"role": one.role, "content": one.content} for one in request.messages]
        parameters: dict[str, Any] = dict(request.parameters)
        return self._client.chat.completions.create(
            model=request.model, messages=messages, **parameters
        )

    def _from_status(self, error: openai.APIStatusError) -> ProviderError:
        status = error.status_code
        said = self._clean(f"HTTP {status}: {error.message}")
        hint = f"{error.code or ''} {error.message}".lower()
        if status in CLOSED or "insufficient_quota" in hint:
            return Stopped(said)
        if status in BUSY or status >= 500:
            return Retryable(said, _retry_after(error.response.headers.get("retry-after")))
        if status == 413 or any(sign in hint for sign in TOO_LONG_SIGNS):
            return TooLong(said)
        if any(sign in hint for sign in FILTER_SIGNS):
            return Refused(said)
        return Rejected(said)

    def _clean(self, message: str) -> str:
        return message.replace(self._key, "[key]") if self._key else message


@lru_cache(maxsize=32)
def _client(base_url: str, key: str, timeout: float) -> openai.OpenAI:
    """Return one client per server: it keeps connections open and may be shared by threads."""
    client = openai.OpenAI(
        base_url=base_url,
        api_key=key or "none",  # the SDK insists on one; servers without keys ignore it
        timeout=timeout,
        max_retries=0,
    )
    # The SDK takes these from the environment; they are nothing to other companies' servers.
    client.organization = client.project = None
    return client


def _read(completion: Any) -> Reply:
    """Turn the SDK's object into a Reply; servers differ in what they leave out."""
    if not getattr(completion, "choices", None):
        raise Retryable("The server answered without a choice.")
    choice = completion.choices[0]
    usage = completion.usage
    reply = Reply(
        text=choice.message.content or "",
        model=completion.model or "",
        fingerprint=getattr(completion, "system_fingerprint", None) or "",
        tokens_in=usage.prompt_tokens if usage else None,
        tokens_out=usage.completion_tokens if usage else None,
        cut_off=choice.finish_reason == "length",
    )
    if choice.finish_reason == "content_filter" or getattr(choice.message, "refusal", None):
        raise Refused(choice.message.refusal or "A content filter stopped the answer.", reply)
    return reply


def _retry_after(header: str | None) -> float | None:
    """Read Retry-After, which is a number of seconds or a date."""
    if not header:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        wanted = parsedate_to_datetime(header)
    except ValueError:
        return None
    now = datetime.fromtimestamp(time.time(), UTC)
    return max(0.0, (wanted - now).total_seconds())
