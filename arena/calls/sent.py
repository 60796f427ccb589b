"""What of a request goes over the wire."""

import hashlib
import json
from collections.abc import Sequence

from arena.calls.providers.base import Request


def what_is_sent(request: Request) -> tuple[Sequence[str], int]:
    """Return every text that `request` sends, and the number of its messages.

    Parameters that hold texts or objects (tools, stop words) may be read by the model, so they
    count as texts too.
    """
    texts = [message.content for message in request.messages]
    texts += [_as_json(value) for value in request.parameters.values() if _is_long(value)]
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


def _is_long(value: object) -> bool:
    return isinstance(value, str | list | tuple | dict)


def _as_json(value: object) -> str:
    return json.dumps(value, sort_keys=True)
