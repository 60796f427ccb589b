"""Money in whole nano-dollars: costs of requests, how amounts are written, and a run's sums."""

from dataclasses import replace
from decimal import Decimal

from django.core.exceptions import ValidationError

from arena.calls.models import Price
from arena.calls.prices import Rate
from arena.calls.providers.base import Reply, Request, what_is_sent
from arena.db import sql
from arena.models import Run
from arena.validation import NANO

DEFAULT_MAX_TOKENS = 2048
LIMITS = ("max_tokens", "max_completion_tokens")
# What chat templates put around each message, and around all of them, in tokens.
TOKENS_PER_MESSAGE = 16
TOKENS_PER_REQUEST = 64
CHARACTERS_PER_TOKEN = 4
MILLION = 1_000_000


def cost(rate: Rate, tokens_in: int, tokens_out: int, cached: int = 0, kept: int = 0) -> int:
    """Return the cost of these tokens, rounded up; `cached` of `tokens_in` came from a cache, and
    `kept` of them were put there, for a quarter more (Anthropic's price)."""
    millionths = tokens_in * rate.input_per_million + tokens_out * rate.output_per_million
    millionths += -(-kept * rate.input_per_million // 4)
    if rate.cached_per_million is not None:
        saved = rate.input_per_million - rate.cached_per_million
        millionths -= min(cached, tokens_in) * saved
    return -(-millionths // MILLION)


def limited(request: Request) -> Request:
    """Return `request` with an output limit, without which its cost would be unbounded."""
    if output_limit(request) is not None:
        return request
    return replace(request, parameters={**request.parameters, "max_tokens": DEFAULT_MAX_TOKENS})


def with_room(request: Request, times: int) -> Request:
    """Return `request` with that many times its output limit."""
    room = {
        name: value * times
        for name in LIMITS
        if isinstance(value := request.parameters.get(name), int)
    }
    return replace(request, parameters={**request.parameters, **room})


def output_limit(request: Request) -> int | None:
    """Return the output limit of `request` in tokens, or None.

    Of two limits the larger counts, because a server may know only one of the names.
    """
    given = [request.parameters.get(name) for name in LIMITS]
    limits = [int(value) for value in given if isinstance(value, int) and value > 0]
    return max(limits, default=None)


def worst_cost(rate: Rate, request: Request) -> int:
    """Return the most that `request` can cost.

    No tokenizer produces more tokens than the text has bytes of UTF-8; what a server adds (roles,
    separators) is covered by a fixed number per message and per request. `n` and `best_of` multiply
    the answers.
    """
    texts, messages = what_is_sent(request)
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    tokens_in = size + TOKENS_PER_REQUEST + messages * TOKENS_PER_MESSAGE
    return cost(rate, tokens_in, most_out(request))


def most_out(request: Request) -> int:
    """Return the most tokens that all answers to `request` may have."""
    answers = [request.parameters.get(name) for name in ("n", "best_of")]
    several = max([1, *(int(n) for n in answers if isinstance(n, int))])
    return several * (output_limit(request) or DEFAULT_MAX_TOKENS)


def expected_cost(rate: Rate, request: Request, tokens_out: int) -> int:
    """Estimate the cost of `request`, at four characters per token and `tokens_out` answered."""
    return cost(rate, expected_tokens_in(request), tokens_out)


def expected_tokens_in(request: Request) -> int:
    """Estimate the tokens of a request, at four characters each."""
    texts, _ = what_is_sent(request)
    return -(-sum(map(len, texts)) // CHARACTERS_PER_TOKEN)


def billed(rate: Rate, reply: Reply, at_most: int) -> int:
    """Return the cost of `reply`, or `at_most` if the server reported no token counts."""
    if reply.tokens_in is None or reply.tokens_out is None:
        return at_most
    return cost(rate, reply.tokens_in, reply.tokens_out, reply.tokens_cached, reply.tokens_kept)


def cap_in_words(nano: int | None) -> str:
    """Write a run's cap for the audit log; only a free run has none."""
    return "nothing to pay" if nano is None else dollars(nano)


def dollars(nano: int | None) -> str:
    """Write an amount: $12.30, and $0.0012 where cents are too coarse."""
    if nano is None:
        return "no limit"
    amount = Decimal(nano) / NANO
    places = next((n for n in (2, 4, 6) if not amount or abs(amount) >= Decimal(10) ** (1 - n)), 9)
    return f"-${-amount:,.{places}f}" if amount < 0 else f"${amount:,.{places}f}"


def spent_in_words(run: Run) -> str:
    """Write what a run was billed, and what it may have been billed besides."""
    return f"{dollars(run.settled)}{doubt_in_words(run.uncertain)}"


def doubt_in_words(uncertain: int) -> str:
    """End a clause about what was spent with what is uncertain, if anything is."""
    return f", and up to {dollars(uncertain)} more may have been billed" if uncertain else ""


def rate_in_words(rate: Rate | Price) -> str:
    cached = rate.cached_per_million
    cheaper = "" if cached is None else f" ({dollars(cached)} if cached)"
    return (
        f"{dollars(rate.input_per_million)} in{cheaper}, {dollars(rate.output_per_million)} out"
        " per million tokens"
    )


# Reserved before a request, settled after it; together never above the cap. Callers hold the lock
# on the call's row in the same transaction, so a run's sums are always those of its calls. Raw SQL,
# because the ORM sends a number next to F() as 32 bits: $2.15 would overflow.
RESERVE = """
    UPDATE arena_run SET reserved = reserved + %s
    WHERE id = %s AND state = 'open' AND cap >= settled + reserved + uncertain + %s
    RETURNING id
"""
BOOK = """
    UPDATE arena_run SET
        reserved = reserved - %s, settled = settled + %s, uncertain = uncertain + %s
    WHERE id = %s
    RETURNING id
"""
RAISE_CAP = """
    UPDATE arena_run SET cap = %s WHERE id = %s AND settled + reserved + uncertain <= %s
    RETURNING id
"""
IS_OVER = "SELECT 1 FROM arena_run WHERE id = %s AND cap < settled + reserved + uncertain"


class BudgetDeniedError(Exception):
    """A run has no money for a request, or is no longer open.

    `passes` says that there may be money once the requests under way are settled.
    """

    def __init__(self, reason: str, *, passes: bool = False) -> None:
        super().__init__(reason)
        self.passes = passes


def reserve(*, run_id: int | None, amount: int) -> None:
    """Reserve `amount` nano-dollars of an open run's cap, or raise BudgetDeniedError."""
    if not sql.one(RESERVE, amount, run_id, amount):
        raise _why_denied(run_id, amount)


def book(*, run_id: int | None, released: int, cost: int, uncertain: int) -> None:
    """Release the reservation of a request of the run; add what it cost, or may have cost."""
    sql.one(BOOK, released, cost, uncertain, run_id)


def is_over_its_cap(run_id: int) -> bool:
    """Whether a server billed more than possible, so that the cap is exceeded."""
    return sql.one(IS_OVER, run_id) is not None


def raise_cap(*, run_id: int, cap: int) -> None:
    """Set a run's cap in nano-dollars. Raises ValidationError below what counts towards it."""
    if sql.one(RAISE_CAP, cap, run_id, cap):
        return
    run = Run.objects.get(pk=run_id)
    raise ValidationError(
        f"This run has already spent or reserved {dollars(run.settled + run.reserved)}"
        f"{doubt_in_words(run.uncertain)}, so its cap cannot be {dollars(cap)}."
    )


def committed(run: Run) -> int:
    """Return what counts towards a run's cap, in nano-dollars."""
    return run.settled + run.reserved + run.uncertain


def _why_denied(run_id: int | None, amount: int) -> BudgetDeniedError:
    if run_id is None:
        return BudgetDeniedError("This call belongs to no run, so it has no money.")
    run = Run.objects.get(pk=run_id)
    if run.state != Run.State.OPEN:
        return BudgetDeniedError("The run is no longer open.", passes=True)
    if run.cap is None:
        return BudgetDeniedError(
            "This run has no spending cap, and its model costs money. Set a cap."
        )
    return BudgetDeniedError(
        f"The cap of {dollars(run.cap)} is reached: {dollars(run.settled)} is spent"
        f"{doubt_in_words(run.uncertain)}, and the next request may cost up to {dollars(amount)}."
        " Raise the cap and resume the run.",
        passes=run.settled + run.uncertain + amount <= run.cap,
    )
