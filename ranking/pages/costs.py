"""What answers cost, how long they take and how many tokens they are, and what that buys.

Dearer candidates often answer better, so neither the score nor the price says by itself what to
use. A score is turned into the share of prompts on which the candidate is expected to beat the
average one of the board, and that into wins for a dollar and for a second of waiting.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from django.db.models import Avg, Count, Q

from arena.calls.amounts import NANO
from arena.models import Arena, Response
from ranking.models import Snapshot, Standing

ANSWERS = 1000  # a price of one answer is too small a number to read
COUNTED = Q(tokens_in__isnull=False) | Q(tokens_out__isnull=False)


@dataclass(frozen=True)
class Value:
    """A candidate's means over its `n_priced`, `n_timed` and `n_counted` answers; None where there
    are none.

    `price` is in nano-dollars for 1,000 answers. `tokens_in` are those of the request, `tokens_out`
    those of the answer. `wins_per_dollar` and `wins_per_second` are
    expected wins against the average candidate. `unbeaten`: no other candidate with a known price
    has both a higher score and a lower price, or the same of one and better of the other.
    """

    price: int | None = None
    n_priced: int = 0
    seconds: float | None = None
    n_timed: int = 0
    tokens_in: float | None = None
    tokens_out: float | None = None
    n_counted: int = 0
    wins_per_dollar: float | None = None
    wins_per_second: float | None = None
    unbeaten: bool = False

    @property
    def dollars(self) -> float | None:
        """For 1,000 answers."""
        return None if self.price is None else self.price / NANO


UNKNOWN = Value()


def read_values(arena: Arena, category: str) -> dict[int, Value]:
    """Map candidate to what its answers to a category's prompts took; one query."""
    answers = Response.objects.revealed().filter(candidate__arena=arena)
    if category:
        answers = answers.filter(prompt__category=category)
    known = answers.filter(Q(cost__isnull=False) | Q(seconds__isnull=False) | COUNTED).order_by()
    rows = known.values_list("candidate").annotate(
        Avg("cost"),
        Count("cost"),
        Avg("seconds"),
        Count("seconds"),
        Avg("tokens_in"),
        Avg("tokens_out"),
        n_counted=Count("pk", filter=COUNTED),
    )
    return {candidate: _value(*means) for candidate, *means in rows}


def values_beside(
    arena: Arena, snapshot: Snapshot, standings: Iterable[Standing]
) -> dict[int, Value]:
    """The same, put together with the scores of one of the arena's snapshots."""
    values = read_values(arena, snapshot.board.category)
    return weigh(values, standings, snapshot.settings["scale"])


def _value(cost: Any, n_priced: int, seconds: float | None, n_timed: int, *tokens: Any) -> Value:
    price = None if cost is None else round(float(cost) * ANSWERS)
    *means, n_counted = tokens
    asked, answered = (None if mean is None else float(mean) for mean in means)
    return Value(price, n_priced, seconds, n_timed, asked, answered, n_counted)


def weigh(
    values: Mapping[int, Value], standings: Iterable[Standing], scale: float
) -> dict[int, Value]:
    """Put scores and prices together. `scale`: Elo points that stand for odds of 10 to 1."""
    scores = {one.candidate_id: one.score for one in standings if one.score is not None}
    if not scores:
        return dict(values)
    mean = fmean(scores.values())
    priced = [
        (score, price)
        for candidate, score in scores.items()
        if (price := values.get(candidate, UNKNOWN).price) is not None
    ]
    return {
        candidate: _weighed(value, scores[candidate], mean, scale, priced)
        if candidate in scores
        else value
        for candidate, value in values.items()
    }


def _weighed(
    value: Value, score: float, mean: float, scale: float, priced: Sequence[tuple[float, int]]
) -> Value:
    wins = expected_wins(score - mean, scale)
    return replace(
        value,
        wins_per_dollar=wins * ANSWERS / value.dollars if value.dollars else None,
        wins_per_second=wins / value.seconds if value.seconds else None,
        unbeaten=value.price is not None and _unbeaten(score, value.price, priced),
    )


def expected_wins(lead: float, scale: float) -> float:
    """Return the share of comparisons that a lead of so many Elo points wins: 0 to 1.

    Bradley and Terry's model: 1 / (1 + 10^(-lead / scale)).
    """
    return 1 / (1 + 10 ** (-lead / scale))


def _unbeaten(score: float, price: int, priced: Sequence[tuple[float, int]]) -> bool:
    """Alone there is nothing to be compared with."""
    beaten = any(
        other >= score and its_price <= price and (other, its_price) != (score, price)
        for other, its_price in priced
    )
    return len(priced) > 1 and not beaten
