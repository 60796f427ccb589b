"""Translates HTTP errors of model servers into the errors of `base`."""

import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from arena.calls.providers.base import (
    EndpointStoppedError,
    ModelRefusedError,
    ProviderError,
    RejectedError,
    RetryableError,
    TooLongError,
    UnsupportedParameterError,
)

BUSY = {408, 409, 425, 429}
CLOSED = {401, 402, 403, 404}
INVALID = {400, 422}
NO_MONEY_SIGNS = ("insufficient_quota", "credit balance")
TOO_LONG_SIGNS = ("context_length", "context length", "maximum context", "too long", "too many tok")
FILTER_SIGNS = (
    "content_filter",
    "content_policy",
    "content policy",
    "content management policy",
    "content filtering policy",
)
UNKNOWN_SIGNS = (
    "unsupported",
    "not support",  # "does not support", "is not supported"
    "unrecognized",
    "unknown",
    "unexpected",
    "extra inputs",
    "extra_forbidden",
    "not permitted",
    "not allowed",
    "not available",
    "not enabled",
    "deprecated",
    "max allowed",  # vLLM: more log probabilities than its operator allows
    "cannot both",  # Anthropic: temperature and top_p
)
MAX_TOKENS = ("max_tokens", "max_completion_tokens")
LONGEST_WAIT = 86_400.0
LONGEST_MESSAGE = 500
MOST_TOKENS = 2_000_000_000
# Errors of the HTTP library before a request has left; by name, because the SDKs own that library.
NOT_SENT = {"ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "ProxyError"}
# Errors of parsing an unexpected reply.
UNREADABLE = (ValueError, TypeError, AttributeError, LookupError, RecursionError)


@dataclass(frozen=True)
class Answered:
    """A server's error response; `sent` maps names on the wire to those of `Request`."""

    status: int
    message: str
    code: str
    parameter: str
    retry_after: str | None
    sent: Mapping[str, str]


def from_answer(answer: Answered) -> ProviderError:
    """Return the error for a status and message."""
    said = f"HTTP {answer.status}: {answer.message}"[:LONGEST_MESSAGE]
    hint = f"{answer.code} {answer.message}".lower()
    if answer.status in CLOSED or any(sign in hint for sign in NO_MONEY_SIGNS):
        return EndpointStoppedError(said)
    if answer.status in BUSY or answer.status >= 500:
        return RetryableError(said, seconds_of(answer.retry_after))
    return _from_invalid(answer, said, hint)


def _from_invalid(answer: Answered, said: str, hint: str) -> ProviderError:
    if answer.status == 413 or any(sign in hint for sign in TOO_LONG_SIGNS):
        return TooLongError(said)
    if any(sign in hint for sign in FILTER_SIGNS):
        return ModelRefusedError(said)
    parameter = _unknown_parameter(answer, hint) if answer.status in INVALID else ""
    if parameter:
        return UnsupportedParameterError(said, parameter, _instead(parameter, hint))
    return RejectedError(said)


def _unknown_parameter(answer: Answered, hint: str) -> str:
    """Name the sent parameter that the server does not know; '' for other errors."""
    if not any(sign in hint for sign in UNKNOWN_SIGNS):
        return ""
    if answer.parameter:
        return answer.sent.get(re.split(r"[.\[]", answer.parameter)[0], "")
    # Several may be mentioned, as in "use max_completion_tokens instead"; the first is meant.
    places = {_place(name, hint): name for name in answer.sent}
    first = min((place for place in places if place >= 0), default=-1)
    return answer.sent[places[first]] if first >= 0 else ""


def _place(name: str, hint: str) -> int:
    words = rf"(?<!\w){re.escape(name)}(?!\w)"
    found = re.search(words, hint)
    return found.start() if found else -1


def _instead(parameter: str, hint: str) -> str:
    """The server's own name for the token limit; two are in use."""
    if parameter not in MAX_TOKENS:
        return ""
    other = next(name for name in MAX_TOKENS if name != parameter)
    return other if _place(other, hint) >= 0 else ""


def too_slow(error: Exception) -> RetryableError:
    """Return the error for a server that did not answer in time."""
    return RetryableError("The server did not answer in time.", maybe_billed=_was_sent(error))


def broken_off(error: Exception, key: str) -> RetryableError:
    """Return the error for a connection that failed or was lost."""
    sent = _was_sent(error)
    said = f"{'The connection broke' if sent else 'No connection'}: {error.__cause__ or error}"
    return RetryableError(hidden(said, key)[:LONGEST_MESSAGE], maybe_billed=sent)


def _was_sent(error: Exception) -> bool:
    """Whether the request left; the SDK's error has the HTTP library's as its cause."""
    return type(error.__cause__).__name__ not in NOT_SENT


def unreadable(said: str) -> RetryableError:
    """Return the error for a reply that cannot be parsed; it may have been billed."""
    return RetryableError(said[:LONGEST_MESSAGE], maybe_billed=True)


def hidden(message: str, key: str) -> str:
    """Return `message` without the key, which some servers quote."""
    return message.replace(key, "[key]") if key else message


def checked_key(key: str) -> str:
    """Return `key` if a header can carry it. Raises EndpointStoppedError; an SDK would quote it."""
    if not (key.isascii() and key.isprintable()):
        raise EndpointStoppedError(
            "The key holds characters that no key has: is it in the right file?"
        )
    return key


def seconds_of(header: str | None) -> float | None:
    """Read Retry-After, a number of seconds or a date; at most a day."""
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        return _until(header)
    return min(max(0.0, seconds), LONGEST_WAIT) if math.isfinite(seconds) else None


def _until(date: str) -> float | None:
    try:
        wanted = parsedate_to_datetime(date)
    except ValueError:
        return None
    wanted = wanted if wanted.tzinfo else wanted.replace(tzinfo=UTC)
    now = datetime.fromtimestamp(time.time(), UTC)
    return min(max(0.0, (wanted - now).total_seconds()), LONGEST_WAIT)


def count_of(value: Any) -> int | None:
    """Return a token count, or None for anything else a server may send."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value <= MOST_TOKENS else None
