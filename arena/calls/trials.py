"""Tests by operators: one question to a model, and the names of the models at an address."""

import re
import time
from dataclasses import dataclass, replace
from datetime import datetime

from arena.calls.models import Capability
from arena.calls.money import cost
from arena.calls.prices import price_of
from arena.calls.providers.base import (
    EndpointStoppedError,
    Message,
    ProviderError,
    Reply,
    Request,
)
from arena.endpoints import Endpoint, endpoint_named, provider_for
from arena.validation import in_dollars

PATIENCE = 20.0  # seconds: an operator waits for the page
QUESTION = (Message("user", "What is the capital of France? One word."),)
MOST_MODELS = 500
LONGEST_ANSWER = 60
STATUS = re.compile(r"HTTP (\d{3}): ?(.*)", re.DOTALL)
MEANINGS = {
    "400": "request rejected",
    "401": "key refused",
    "402": "no credit left",
    "403": "key not allowed to do this",
    "404": "model or address unknown",
    "408": "no answer in time",
    "429": "too many requests, or no credit left",
}


@dataclass(frozen=True)
class Tested:
    """What a test found. `sentence` is for the operator who waits for it, `problem` for lists."""

    sentence: str
    seconds: float = 0.0
    problem: str = ""

    @property
    def works(self) -> bool:
        return not self.problem


def try_model(endpoint: str, model: str, now: datetime) -> Tested:
    """Ask `model` one question, and remember whether it answered. Raises UnknownEndpointError."""
    tested = _ask(endpoint_named(endpoint), model)
    facts = {"tested_at": now, "test_seconds": tested.seconds, "test_error": tested.problem}
    Capability.objects.update_or_create(endpoint=endpoint, model=model, defaults=facts)
    return tested


def _ask(endpoint: Endpoint, model: str) -> Tested:
    began = time.monotonic()
    try:
        provider = provider_for(_impatient(endpoint))
        reply = provider.complete(Request(model, QUESTION))
    except ProviderError as error:
        problem = in_plain_words(error)
        server = STATUS.search(str(error))
        said = f" The server says: {server[2].strip()}" if server and server[2].strip() else ""
        return Tested(f"{model} does not work. {problem}.{said}", problem=problem[:300])
    seconds = time.monotonic() - began
    answer = " ".join(reply.text.split())[:LONGEST_ANSWER] or "(an empty answer)"
    paid = _paid(endpoint.name, model, reply)
    return Tested(f"{model} works. “{answer}” after {seconds:.1f} s{paid}.", seconds)


def _paid(endpoint: str, model: str, reply: Reply) -> str:
    rate = price_of(endpoint, model)
    if rate is None:
        return "; it has no price yet, so nobody can use it"
    if reply.tokens_in is None or reply.tokens_out is None:
        return "; the server counts no tokens, so runs book the most that a reply can cost"
    return f", ${in_dollars(cost(rate, reply.tokens_in, reply.tokens_out))}"


def models_at(endpoint: Endpoint) -> list[str]:
    """Return the names of the models that the server lists. Raises ProviderError."""
    return provider_for(_impatient(endpoint)).models()[:MOST_MODELS]


def _impatient(endpoint: Endpoint) -> Endpoint:
    return replace(endpoint, timeout=min(endpoint.timeout, PATIENCE))


def in_plain_words(error: ProviderError) -> str:
    """Return why a server gave no answer: short, without what the server wrote."""
    text = str(error)
    if status := STATUS.search(text):
        code = status[1]
        if code.startswith("3"):
            return f"{code}: the server redirects; enter the final address"
        default = "server error" if code.startswith("5") else "request rejected"
        return f"{code}: {MEANINGS.get(code, default)}"
    if text.startswith("No connection"):
        return "Not reachable"
    if "in time" in text:
        return f"No answer within {PATIENCE:.0f} s"
    return text.rstrip(".") if isinstance(error, EndpointStoppedError) else text[:200].rstrip(".")
