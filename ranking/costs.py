"""Cost and speed of candidates' answers, and wins per dollar and per second.

More expensive candidates often answer better, so neither the score nor the price alone says which
to use. A score is converted to the share of prompts on which the candidate is expected to beat the
board's average candidate, and this share to wins per dollar and per second of waiting.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor, inf, isfinite, log10
from statistics import fmean
from typing import Any

from django.db.models import CharField, Count, Exists, OuterRef, Q, Sum, Value
from django.db.models.functions import Cast, Concat

from arena.calls.models import Call, CallQuerySet
from arena.models import Arena, Candidate, LiveTurn, Response, Run, Vote
from arena.models.candidates import candidate_of
from arena.models.live import TURN
from arena.validation import NANO
from ranking.models import Snapshot, Standing

ANSWERS = 1000  # costs are given for this many answers: the cost of one is too small to read
LEAST_ANSWERS = 5  # in a blind arena: the mean of fewer tells the length of an answer on the ballot
FIGURES = ("cost", "seconds", "tokens_in", "tokens_out")
TOKENS_KNOWN = Q(tokens_in__isnull=False) | Q(tokens_out__isnull=False)


@dataclass(frozen=True)
class CostAndSpeed:
    """A candidate's means over its `n_priced`, `n_timed` and `n_counted` answers; None without any.

    `price` is in nano-dollars for 1,000 answers. `tokens_in` counts the request's tokens,
    `tokens_out` the answer's. `wins_per_dollar` and `wins_per_second` are expected wins against the
    average candidate. `unbeaten`: no other candidate with a known price is at least as good in both
    score and price, and better in one of them.
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
        """The price of 1,000 answers in dollars."""
        return None if self.price is None else self.price / NANO


UNKNOWN_COSTS = CostAndSpeed()


@dataclass(frozen=True)
class PricedScore:
    """A candidate's score with its interval, and what it costs: a price in dollars, or seconds."""

    candidate: int
    name: str
    value: float
    score: float
    low: float | None
    high: float | None

    def beats(self, other: "PricedScore") -> bool:
        """Whether its interval lies wholly above the other's."""
        return self.low is not None and other.high is not None and self.low > other.high


def best_for_their_price(points: Sequence[PricedScore]) -> set[int]:
    """The candidates that none that costs as little, or less, clearly beats."""
    return {
        point.candidate
        for point in points
        if not any(other.value <= point.value and other.beats(point) for other in points)
    }


def has_costs(arena: Arena) -> bool:
    """Whether any answer has a price or a time."""
    if arena.live_of_id is not None:
        return _live_calls(arena).exists()
    answers = Response.objects.revealed().filter(candidate__arena=arena)
    return answers.filter(Q(cost__isnull=False) | Q(seconds__isnull=False)).exists()


def read_costs(
    arena: Arena, category: str, candidates: Iterable[Candidate] | None = None
) -> dict[int, CostAndSpeed]:
    """Cost and speed of answers to a category's prompts, by candidate (default: all); one query.

    Where names are hidden until the vote, means are rounded, and candidates are left out for which
    these means, alone or taken from those of all prompts, are about fewer than `LEAST_ANSWERS` to
    prompts that are not archived.
    """
    if arena.live_of_id is not None:
        return _read_live_costs(arena)
    answers = Response.objects.revealed().filter(candidate__arena=arena)
    if candidates is not None:
        answers = answers.filter(candidate__in=candidates)
    measured = answers.filter(Q(cost__isnull=False) | Q(seconds__isnull=False) | TOKENS_KNOWN)
    live = Q(prompt__retired_at=None)
    figures: dict[str, Sum | Count] = {f"sum_{name}": Sum(name) for name in FIGURES}
    figures |= {f"n_{name}": Count(name) for name in FIGURES}
    figures |= {f"live_{name}": Count(name, filter=live) for name in FIGURES}
    rows = measured.order_by().values("candidate", "prompt__category")
    by_candidate: dict[int, dict[str, dict[str, Any]]] = defaultdict(dict)
    for row in rows.annotate(n_counted=Count("pk", filter=TOKENS_KNOWN), **figures):
        by_candidate[row["candidate"]][row["prompt__category"]] = row
    costs = {}
    for candidate, cells in by_candidate.items():
        n_live = {name: [row[f"live_{each}"] for each in FIGURES] for name, row in cells.items()}
        chosen = [row for name, row in cells.items() if category in ("", name)]
        if chosen and (arena.open_answers or not _is_hidden(n_live, category)):
            costs[candidate] = _mean_costs(chosen, are_rounded=not arena.open_answers)
    return costs


def _live_calls(arena: Arena) -> CallQuerySet:
    """The calls whose replies answered live questions, which are no Responses.

    Only once there is a vote: until then, a difference of two means would tell who wrote what.
    """
    voted = Exists(Vote.objects.filter(comparison=OuterRef("conversation__comparison")))
    turns = LiveTurn.objects.filter(voted, conversation__arena=arena)
    subjects = turns.annotate(of=Concat(Value(TURN), Cast("pk", CharField()))).values("of")
    calls = Call.objects.filter(run__arena=arena, run__kind=Run.Kind.LIVE)
    return calls.filter(state=Call.State.DONE, error="", subject__in=subjects)


def _read_live_costs(arena: Arena) -> dict[int, CostAndSpeed]:
    figures: dict[str, Sum | Count] = {f"sum_{name}": Sum(name) for name in FIGURES}
    figures |= {f"n_{name}": Count(name) for name in FIGURES}
    rows = _live_calls(arena).order_by().values("requester")
    return {
        candidate_of(row["requester"]): _mean_costs([row], are_rounded=True)
        for row in rows.annotate(n_counted=Count("pk", filter=TOKENS_KNOWN), **figures)
        if row["n_counted"] >= LEAST_ANSWERS
    }


def _mean_costs(rows: Sequence[Mapping[str, Any]], *, are_rounded: bool) -> CostAndSpeed:
    def mean(name: str) -> float | None:
        n = sum(row[f"n_{name}"] for row in rows)
        exact = sum(float(row[f"sum_{name}"] or 0) for row in rows) / n if n else None
        return _round_mean(exact, n) if exact and are_rounded else exact

    cost = mean("cost")
    return CostAndSpeed(
        price=None if cost is None else round(cost * ANSWERS),
        n_priced=sum(row["n_cost"] for row in rows),
        seconds=mean("seconds"),
        n_timed=sum(row["n_seconds"] for row in rows),
        tokens_in=mean("tokens_in"),
        tokens_out=mean("tokens_out"),
        n_counted=sum(row["n_counted"] for row in rows),
    )


def _round_mean(mean: float, n: int) -> float:
    """Round a mean of `n` answers to a multiple of at least 2 / n of it, and of 1, 2 or 5 times a
    power of ten.

    Otherwise its change when an answer is added would tell that answer's own figure.
    """
    least = 2 * mean / n
    power = 10.0 ** floor(log10(least))
    step = power * next(factor for factor in (1, 2, 5, 10) if factor * power >= least)
    return float(f"{round(mean / step) * step:.6g}")


def _is_hidden(counts: Mapping[str, Sequence[int]], category: str) -> bool:
    """Whether a candidate's means in a category would tell about too few answers.

    If the categories that are left out have too few together, the smallest other one is left out
    too. Answers without a category have no means of their own.
    """
    if not category:
        return _is_few(_sums(counts.values()))
    hidden = {name for name, n in counts.items() if not name or _is_few(n)}
    others = sorted((n, name) for name, n in counts.items() if name not in hidden and any(n))
    while others and _is_few(_sums(counts[name] for name in hidden)):
        hidden.add(others.pop(0)[1])
    return category in hidden


def _sums(counts: Iterable[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*counts, strict=True)]


def _is_few(counts: Iterable[int]) -> bool:
    """Whether any figure is known, but of fewer than `LEAST_ANSWERS`."""
    return any(0 < n < LEAST_ANSWERS for n in counts)


def read_costs_with_scores(
    arena: Arena, snapshot: Snapshot, standings: Iterable[Standing]
) -> dict[int, CostAndSpeed]:
    """`read_costs`, plus wins per dollar and second by the scores of one snapshot of the arena."""
    costs = read_costs(arena, snapshot.board.category)
    return add_wins(costs, standings, snapshot.settings["scale"])


def add_wins(
    costs: Mapping[int, CostAndSpeed], standings: Iterable[Standing], scale: float
) -> dict[int, CostAndSpeed]:
    """Combine scores and prices. `scale`: Elo points for odds of 10 to 1."""
    placed = _scores_of_placed(list(standings))
    finite = [score for score in placed.values() if isfinite(score)]
    mean = fmean(finite) if finite else 0.0
    priced = [
        (score, price)
        for candidate, score in placed.items()
        if (price := costs.get(candidate, UNKNOWN_COSTS).price) is not None
    ]

    def with_wins(cost: CostAndSpeed, score: float) -> CostAndSpeed:
        is_unbeaten = cost.price is not None and _is_unbeaten(score, cost.price, priced)
        if not isfinite(score):
            return replace(cost, unbeaten=is_unbeaten)
        wins = expected_wins(score - mean, scale)
        return replace(
            cost,
            wins_per_dollar=wins * ANSWERS / cost.dollars if cost.dollars else None,
            wins_per_second=wins / cost.seconds if cost.seconds else None,
            unbeaten=is_unbeaten,
        )

    return {
        candidate: with_wins(cost, placed[candidate]) if candidate in placed else cost
        for candidate, cost in costs.items()
    }


def _scores_of_placed(standings: list[Standing]) -> dict[int, float]:
    """Scores by candidate; infinite for those placed above or below all scores."""
    scored = {row.candidate_id: row.score for row in standings if row.score is not None}
    ranks = [row.rank for row in standings if row.score is not None and row.rank is not None]
    if not scored:
        return {}
    beyond = {
        row.candidate_id: inf if row.rank < min(ranks, default=1) else -inf
        for row in standings
        if row.score is None and row.rank is not None
    }
    return scored | beyond


def expected_wins(lead: float, scale: float) -> float:
    """The expected share of comparisons won, 0 to 1, with a lead in Elo points.

    The Bradley-Terry model: 1 / (1 + 10^(-lead / scale)).
    """
    return 1 / (1 + 10 ** (-lead / scale))


def _is_unbeaten(score: float, price: int, priced: Sequence[tuple[float, int]]) -> bool:
    """Whether no other priced candidate beats this one; False if it is the only one."""
    is_beaten = any(
        other_score >= score
        and other_price <= price
        and (other_score, other_price) != (score, price)
        for other_score, other_price in priced
    )
    return len(priced) > 1 and not is_beaten
