"""Money, in whole nano-dollars: what a request may cost, what it did cost, how that is written."""

from dataclasses import replace
from decimal import Decimal

from arena.calls.amounts import NANO
from arena.calls.prices import Rate
from arena.calls.providers.base import Reply, Request
from arena.calls.sent import what_is_sent

DEFAULT_MAX_TOKENS = 2048
LIMITS = ("max_tokens", "max_completion_tokens")
# What chat templates put around each message, and around all of them, in tokens.
TOKENS_PER_MESSAGE = 16
TOKENS_PER_REQUEST = 64
CHARACTERS_PER_TOKEN = 4
MILLION = 1_000_000


def cost(rate: Rate, tokens_in: int, tokens_out: int) -> int:
    """Return what so many tokens cost, rounded up."""
    millionths = tokens_in * rate.input_per_million + tokens_out * rate.output_per_million
    return -(-millionths // MILLION)


def limited(request: Request) -> Request:
    """Return `request` with a limit on its answer: without one its price would have none."""
    if output_limit(request) is not None:
        return request
    return replace(request, parameters={**request.parameters, "max_tokens": DEFAULT_MAX_TOKENS})


def output_limit(request: Request) -> int | None:
    """Return the most tokens that `request` lets the model answer; None where it names none.

    Of two limits the larger counts, since a server may know only one of the names.
    """
    given = [request.parameters.get(name) for name in LIMITS]
    limits = [int(value) for value in given if isinstance(value, int) and value > 0]
    return max(limits, default=None)


def worst_cost(rate: Rate, request: Request) -> int:
    """Return what `request` costs at most.

    No tokenizer makes more tokens of a text than its UTF-8 has bytes; what a server adds by itself
    (roles, separators) is covered by a fixed number per message and per request. Several answers
    (`n`, `best_of`) are paid each.
    """
    texts, messages = what_is_sent(request)
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    tokens_in = size + TOKENS_PER_REQUEST + messages * TOKENS_PER_MESSAGE
    return cost(rate, tokens_in, most_out(request))


def most_out(request: Request) -> int:
    """Return the most tokens that the answers to `request` may have together."""
    answers = [request.parameters.get(name) for name in ("n", "best_of")]
    several = max([1, *(int(n) for n in answers if isinstance(n, int))])
    return several * (output_limit(request) or DEFAULT_MAX_TOKENS)


def expected_cost(rate: Rate, request: Request, tokens_out: int) -> int:
    """Return what `request` will cost, if four characters are a token and it is answered so."""
    return cost(rate, expected_tokens_in(request), tokens_out)


def expected_tokens_in(request: Request) -> int:
    """Estimate the tokens of what is sent by the rule of thumb of four characters each."""
    texts, _ = what_is_sent(request)
    return -(-sum(map(len, texts)) // CHARACTERS_PER_TOKEN)


def billed(rate: Rate, reply: Reply, at_most: int) -> int:
    """Return what `reply` costs; `at_most` where the server does not say how long it was."""
    if reply.tokens_in is None or reply.tokens_out is None:
        return at_most
    return cost(rate, reply.tokens_in, reply.tokens_out)


def cap_in_words(nano: int | None) -> str:
    """Write a run's cap for the trail: only what costs nothing needs none."""
    return "nothing to pay" if nano is None else dollars(nano)


def dollars(nano: int | None) -> str:
    """Write an amount as people do: $12.30, and $0.0012 where cents are too coarse."""
    if nano is None:
        return "no limit"
    amount = Decimal(nano) / NANO
    places = next((n for n in (2, 4, 6) if not amount or abs(amount) >= Decimal(10) ** (1 - n)), 9)
    return f"-${-amount:,.{places}f}" if amount < 0 else f"${amount:,.{places}f}"
