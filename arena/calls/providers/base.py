"""Requests, replies and errors that all providers share, and the errors behind HTTP statuses."""

import hashlib
import json
import math
import re
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal, Protocol

from arena.shown_text import CLOSING_TAG, LONGEST_CLOSING_TAG, OPENING_TAGS

SCHEMA = "json_schema"
LOGPROBS = "logprobs"
CACHE = "cache_control"
EFFORT = "reasoning_effort"
STREAM_OPTIONS = "stream_options"
# Their names on the wire, which an operator's parameters may use as well.
ON_THE_WIRE = {SCHEMA: ("response_format", "output_config"), LOGPROBS: ("top_logprobs",)}


@dataclass(frozen=True)
class Message:
    """One turn of a conversation; `role` is "system", "user" or "assistant"."""

    role: str
    content: str


@dataclass(frozen=True)
class Request:
    """One question to a model. `parameters` are the sampling parameters by their usual names.

    With a JSON `schema` the reply must be an object that follows it; `logprobs` asks for the
    probabilities of the reply's tokens and of their alternatives. A server that already knows the
    `idempotency_key` repeats its answer instead of doing the work again. The first `stable`
    messages are the same in other requests, so a server may keep what it made of them. `usage` asks
    for the token counts of a stream, if the format sends none unasked.
    """

    model: str
    messages: tuple[Message, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    schema: Mapping[str, Any] | None = None
    logprobs: bool = False
    idempotency_key: str = ""
    stable: int = 0
    usage: bool = True

    @property
    def headers(self) -> dict[str, str]:
        return {"Idempotency-Key": self.idempotency_key} if self.idempotency_key else {}

    def without(self, parameter: str, instead: str = "") -> "Request":
        """Return this request without an unsupported parameter, or with it renamed."""
        gone = {parameter, *ON_THE_WIRE.get(parameter, ())}
        left = {name: value for name, value in self.parameters.items() if name not in gone}
        if instead and parameter in self.parameters:
            left[instead] = self.parameters[parameter]
        return replace(
            self,
            parameters=left,
            schema=None if parameter == SCHEMA else self.schema,
            logprobs=self.logprobs and parameter != LOGPROBS,
            stable=0 if parameter == CACHE else self.stable,
            usage=self.usage and parameter != STREAM_OPTIONS,
        )


@dataclass(frozen=True)
class TokenLogprob:
    """One token of a reply: the natural logarithm of its probability, and its alternatives'.

    `top` holds (token, logprob), the likeliest first; the token itself is usually among them.
    """

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Reply:
    """What a model answered, and what the server said about it.

    `tokens_out` counts what is billed, including hidden reasoning tokens; `tokens_cached` are those
    of `tokens_in` that the server had in its cache, `tokens_kept` those that it billed for keeping
    there.
    """

    text: str
    model: str = ""
    fingerprint: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_cached: int = 0
    tokens_kept: int = 0
    cut_off: bool = False
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True)
class AnswerPart:
    """A part of a streamed answer: its visible text, and how many characters of hidden thought came
    with it.
    """

    text: str = ""
    thought: int = 0


class Provider(Protocol):
    """A client that sends one request once; callers decide about retries."""

    def complete(self, request: Request) -> Reply: ...

    def stream(self, request: Request) -> AsyncGenerator[AnswerPart | Reply, None]:
        """Yield the answer piece by piece, and last the whole of it. Raises the same errors.

        The connection is closed with the generator, so use it with `contextlib.aclosing`.
        """
        ...

    def models(self) -> list[str]:
        """Return the names of the server's models. Raises the same errors."""
        ...


class ProviderError(Exception):
    """A request without an answer. `reply` is what was billed anyway, if anything."""

    def __init__(self, message: str, reply: Reply | None = None) -> None:
        super().__init__(message)
        self.reply = reply


class RetryableError(ProviderError):
    """The server is busy, broken or out of reach; `retry_after`: the seconds that it asked for, if
    any.

    `maybe_billed` if the request had been sent and its answer was lost on the way: the server may
    have done the work, and may bill it. `in_progress` if the server is still at work on an earlier
    request with the same idempotency key. `is_broken` if no answer arrived, sent or not.
    """

    def __init__(
        self,
        message: str,
        retry_after: float | None = None,
        maybe_billed: bool = False,
        in_progress: bool = False,
        is_broken: bool = False,
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.maybe_billed = maybe_billed
        self.in_progress = in_progress
        self.is_broken = is_broken or maybe_billed


class EndpointStoppedError(ProviderError):
    """No request can succeed until the operator acts: wrong key, no permission, no such model."""


class RejectedError(ProviderError):
    """The server rejects this request, and would reject it again."""


class UnsupportedParameterError(RejectedError):
    """The server does not know a parameter that was sent; `Request.without` removes it.

    `parameter` is a key of `Request.parameters`, or "json_schema", or "logprobs". `instead` is the
    name that the server expects. `sent` is false if the provider knew beforehand and sent no
    request.
    """

    def __init__(
        self, message: str, parameter: str, instead: str = "", *, sent: bool = True
    ) -> None:
        super().__init__(message)
        self.parameter = parameter
        self.instead = instead
        self.sent = sent


class ModelRefusedError(ProviderError):
    """The model, or a filter in front of it, declines to answer."""


class TooLongError(ProviderError):
    """The request exceeds the model's context."""


def what_is_sent(request: Request) -> tuple[Sequence[str], int]:
    """Return every text that `request` sends, and the number of its messages.

    Parameters that hold texts or objects (tools, stop words) may be read by the model, so they
    count as texts too.
    """
    texts = [message.content for message in request.messages]
    values = request.parameters.values()
    texts += [_as_json(value) for value in values if isinstance(value, str | list | tuple | dict)]
    if request.schema is not None:
        texts.append(_as_json(request.schema))
    return texts, len(request.messages)


def digest_of(request: Request) -> str:
    """Return the SHA-256 of everything that is sent."""
    messages = [[message.role, message.content] for message in request.messages]
    sent: list[object] = [request.model, messages, dict(request.parameters)]
    if request.schema is not None or request.logprobs:
        sent.append({"schema": request.schema, "logprobs": request.logprobs})
    return hashlib.sha256(_as_json(sent).encode("utf-8", "surrogatepass")).hexdigest()


def _as_json(value: object) -> str:
    return json.dumps(value, sort_keys=True)


class ThoughtFilter:
    """Separates an answer from the block of thought that it may begin with, and hides the key.

    The text may be split anywhere. `answer` is what was visible so far.
    """

    def __init__(self, key: str = "") -> None:
        self.answer = ""
        self._key = key if len(key) >= LEAST_SECRET else ""
        self._held = ""
        self._phase: Literal["start", "thought", "gap", "answer"] = "start"

    def add(self, text: str) -> AnswerPart:
        """Return what is certain after the next part of the text; hold the rest back."""
        text, self._held, thought = self._held + text, "", 0
        if self._phase == "start":
            start = text.lstrip()
            tag = next((tag for tag in OPENING_TAGS if start.lower().startswith(tag)), "")
            if tag:
                text, self._phase = start[len(tag) :], "thought"
            elif any(tag.startswith(start.lower()) for tag in OPENING_TAGS):
                text, self._held = "", text
            else:
                self._phase = "answer"
        if self._phase == "thought":
            if closed := CLOSING_TAG.search(text):
                text, thought, self._phase = text[closed.end() :], closed.start(), "gap"
            else:
                self._held = text[1 - LONGEST_CLOSING_TAG :]
                text, thought = "", len(text) - len(self._held)
        if self._phase == "gap":
            text = text.lstrip()
            self._phase = "answer" if text else "gap"
        if self._phase == "answer" and self._key:
            text = hidden(text, self._key)
            begun = range(1, min(len(self._key), len(text) + 1))
            held = max((n for n in begun if text.endswith(self._key[:n])), default=0)
            text, self._held = text[: len(text) - held], text[len(text) - held :]
        self.answer += text
        return AnswerPart(text, thought)

    def end(self) -> AnswerPart:
        """Return what was held back."""
        if self._phase == "thought":
            return AnswerPart(thought=len(self._held))
        self.answer += self._held
        return AnswerPart(self._held)


CONFLICT = 409
BUSY = {408, CONFLICT, 425, 429}
CLOSED = {401, 402, 403, 404}
REDIRECTED = (
    "The server redirects to another address, and redirects are not followed."
    " The endpoint's base_url must be the final address."
)
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
# In an error without a status: what passes by itself.
PASSING_SIGNS = ("overload", "rate_limit", "rate limit", "timeout", "unavailable", "internal")
MAX_TOKENS = ("max_tokens", "max_completion_tokens")
LONGEST_WAIT = 86_400.0
LONGEST_MESSAGE = 500
LEAST_SECRET = 16  # characters of a key that is hidden in answers
MOST_TOKENS = 100_000_000  # of one count; a call's column has room for twenty
# Errors of the HTTP library before a request has left, and of a reply too large or badly packed; by
# name, because only workers should take the time to import that library.
NOT_SENT = {"ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "ProxyError"}
NOT_READ = "DecodingError"
# Errors of parsing an unexpected reply.
UNREADABLE = (ValueError, TypeError, AttributeError, LookupError, RecursionError)


@dataclass(frozen=True)
class Answered:
    """A server's error response; `sent` maps names on the wire to those of `Request`.

    `is_inside`: the error was in a reply with status 200.
    """

    status: int
    message: str
    code: str
    parameter: str
    headers: Mapping[str, str]
    sent: Mapping[str, str]
    is_inside: bool = False


def from_answer(answer: Answered) -> ProviderError:
    """Return the error for a status and message."""
    what = "The reply is an error" if answer.is_inside else f"HTTP {answer.status}"
    sentence = f"{what}: {answer.message}"[:LONGEST_MESSAGE]
    hint = f"{answer.code} {answer.message}".lower()
    if 300 <= answer.status < 400:
        return EndpointStoppedError(f"HTTP {answer.status}: {REDIRECTED}")
    if answer.status in CLOSED or any(sign in hint for sign in NO_MONEY_SIGNS):
        return EndpointStoppedError(sentence)
    if answer.status in BUSY or answer.status >= 500:
        seconds = wait_of(answer.headers)
        return RetryableError(sentence, seconds, in_progress=answer.status == CONFLICT)
    return _from_invalid(answer, sentence, hint)


def _from_invalid(answer: Answered, sentence: str, hint: str) -> ProviderError:
    if answer.status == 413 or any(sign in hint for sign in TOO_LONG_SIGNS):
        return TooLongError(sentence)
    if any(sign in hint for sign in FILTER_SIGNS):
        return ModelRefusedError(sentence)
    parameter = _unknown_parameter(answer, hint) if answer.status in INVALID else ""
    if parameter:
        return UnsupportedParameterError(sentence, parameter, _named_instead(parameter, hint))
    return RejectedError(sentence)


def _unknown_parameter(answer: Answered, hint: str) -> str:
    """Name the sent parameter that the server does not know; '' for other errors."""
    if not any(sign in hint for sign in UNKNOWN_SIGNS):
        return ""
    if answer.parameter:
        return answer.sent.get(re.split(r"[.\[]", answer.parameter)[0], "")
    # Several may be mentioned, as in "use max_completion_tokens instead"; the first is meant.
    places = {_place_in_request(name, hint): name for name in answer.sent}
    first = min((place for place in places if place >= 0), default=-1)
    return answer.sent[places[first]] if first >= 0 else ""


def _place_in_request(name: str, hint: str) -> int:
    words = rf"(?<!\w){re.escape(name)}(?!\w)"
    match = re.search(words, hint)
    return match.start() if match else -1


def _named_instead(parameter: str, hint: str) -> str:
    """The server's own name for the token limit; two are in use."""
    if parameter not in MAX_TOKENS:
        return ""
    other = next(name for name in MAX_TOKENS if name != parameter)
    return other if _place_in_request(other, hint) >= 0 else ""


def too_slow(error: Exception) -> RetryableError:
    """Return the error for a server that did not respond in time."""
    sent = _was_sent(error)
    return RetryableError("The server did not answer in time.", maybe_billed=sent, is_broken=True)


def broken_off(error: Exception, key: str) -> RetryableError:
    """Return the error for a connection that failed or was lost, or a reply that was not read."""
    if NOT_READ in (type(error).__name__, type(error.__cause__).__name__):
        return unreadable(hidden(str(error.__cause__ or error), key))
    sent = _was_sent(error)
    sentence = f"{'The connection broke' if sent else 'No connection'}: {error.__cause__ or error}"
    message = hidden(sentence, key)[:LONGEST_MESSAGE]
    return RetryableError(message, maybe_billed=sent, is_broken=True)


def _was_sent(error: Exception) -> bool:
    """Whether the request left; the SDK's error has the HTTP library's as its cause."""
    return type(error.__cause__).__name__ not in NOT_SENT


def unreadable(sentence: str) -> RetryableError:
    """Return the error for a reply that cannot be parsed; it may have been billed."""
    return RetryableError(sentence[:LONGEST_MESSAGE], maybe_billed=True)


def hidden(message: str, key: str) -> str:
    """Return `message` without the key, which some servers quote."""
    return message.replace(key, "[key]") if key else message


def without_key(text: str, key: str) -> str:
    """Return a model's words without the key. A short one may be a word: servers that need no key
    get any."""
    return hidden(text, key) if len(key) >= LEAST_SECRET else text


def checked_key(key: str) -> str:
    """Return `key` if a header can carry it. Raises EndpointStoppedError; an SDK would quote it."""
    if not (key.isascii() and key.isprintable()):
        raise EndpointStoppedError(
            "The key contains characters that are not allowed in a key. Is this the right file?"
        )
    return key


# Names of the limits whose headers say how much is left, and when there will be more.
LIMITS = ("requests", "tokens", "input-tokens", "output-tokens")
DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:([\d.]+)s)?(?:([\d.]+)ms)?")


def wait_of(headers: Mapping[str, str]) -> float | None:
    """Return the seconds for which a server asks not to be asked; None if it names none.

    `retry-after-ms` and `retry-after` come first; else the latest reset of the limits that are used
    up, as OpenAI's (`x-ratelimit-reset-tokens: 6m0.5s`) and Anthropic's headers tell it
    (`anthropic-ratelimit-tokens-reset: 2026-11-29T15:00:00Z`).
    """
    if (milliseconds := seconds_of(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    if (seconds := seconds_of(headers.get("retry-after"))) is not None:
        return seconds
    resets = [
        _seconds_until(headers.get(reset, ""))
        for limit in LIMITS
        for left, reset in (
            (f"x-ratelimit-remaining-{limit}", f"x-ratelimit-reset-{limit}"),
            (f"anthropic-ratelimit-{limit}-remaining", f"anthropic-ratelimit-{limit}-reset"),
        )
        if headers.get(left) == "0"
    ]
    return max((seconds for seconds in resets if seconds is not None), default=None)


def _seconds_until(reset: str) -> float | None:
    """Read a duration such as `1m30s` or `20ms`, a number of seconds, or a time (ISO 8601)."""
    parts = DURATION.fullmatch(reset)
    try:
        if parts and any(parts.groups()):
            sizes = (86_400, 3600, 60, 1, 0.001)
            sums = zip(parts.groups(), sizes, strict=True)
            return min(sum(float(n) * size for n, size in sums if n), LONGEST_WAIT)
        wanted = datetime.fromisoformat(reset)
    except ValueError:
        return seconds_of(reset)
    return _until(wanted)


def _until(wanted: datetime) -> float:
    """Return the seconds until a time, UTC unless it says otherwise; at most a day."""
    wanted = wanted if wanted.tzinfo else wanted.replace(tzinfo=UTC)
    now = datetime.fromtimestamp(time.time(), UTC)
    return min(max(0.0, (wanted - now).total_seconds()), LONGEST_WAIT)


def error_inside(error: Any, key: str, sent: Mapping[str, str]) -> ProviderError:
    """Return the error that a server reported in the body of a reply with status 200.

    Its code is that of an HTTP status, as OpenRouter has it, or a word.
    """
    facts = error if isinstance(error, Mapping) else {"message": error}
    code = str(facts.get("code") or facts.get("type") or "")
    message = hidden(str(facts.get("message") or code or facts), key)
    status = int(code) if re.fullmatch(r"[45]\d\d", code) else 0
    if not status:
        passes = any(sign in f"{code} {message}".lower() for sign in PASSING_SIGNS)
        status = 503 if passes else 400
    parameter = str(facts.get("param") or "")
    return from_answer(Answered(status, message, code, parameter, {}, sent, is_inside=True))


def seconds_of(header: str | None) -> float | None:
    """Read Retry-After, a number of seconds or a date; at most a day."""
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            return _until(parsedate_to_datetime(header))
        except (ValueError, OverflowError):
            return None
    return min(max(0.0, seconds), LONGEST_WAIT) if math.isfinite(seconds) else None


def count_of(value: Any) -> int | None:
    """Return a token count, or None for anything else a server may send."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value <= MOST_TOKENS else None
