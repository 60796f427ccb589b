"""Calibration items, their conversion into figures with intervals, and a judge's habits."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from ranking.stats.agreement import (
    clustered_kappa,
    correlation_lift,
    krippendorff_alpha,
    score_correlations,
)
from ranking.stats.bootstrap import Correlations, Estimate, clustered_share, share_difference


class JsonDataclass:
    """A dataclass that can be written as JSON."""

    def to_json(self) -> dict[str, Any]:
        """Dicts, lists, strings, numbers and None. Raises ValueError for a number like NaN."""
        data: dict[str, Any] = _plain(self)
        return data


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"A report must not hold {value}: use None for unknown figures.")
    return value


# Spelled out, because importing `arena.outcomes` would load Celery and Django with its package.
SIDES = ("left", "right")
OUTCOMES = (*SIDES, "tie")
TURNED = {"left": "right", "right": "left", "tie": "tie"}
UNSETTLED = ("abstained", "unreadable", "refused", "too_long", "failed")
PAIR_STATES = ("voted", *UNSETTLED)
SCORE_STATES = ("done", *UNSETTLED)


@dataclass(frozen=True)
class PairItem:
    """Two responses with fixed sides, labelled by people and judged in both orders.

    ``key``: unique among the items; ``cluster``: the prompt; ``category``: of the prompt
    ``labels``: (rater, outcome) of people; an outcome is left, right, tie or both_bad
    ``verdict``: the judge's settled outcome, None unless ``state`` is "voted"
    ``forward``, ``reverse``: its outcomes with left shown first, and with right shown first, both
        in the item's own left and right; None if a call has no verdict
    ``length_left``, ``length_right``: of the responses, in characters
    ``repeats``: what further runs of the same judge settled on
    ``own_family``: the side whose response the judge's own model family wrote
    """

    key: str
    cluster: str
    category: str
    labels: tuple[tuple[str, str], ...]
    verdict: str | None
    state: str
    forward: str | None
    reverse: str | None
    length_left: int
    length_right: int
    repeats: tuple[str | None, ...] = ()
    own_family: str | None = None

    @cached_property
    def people(self) -> tuple[str, ...]:
        """People's outcomes: left, right or tie; both_bad prefers neither side, so it is a tie."""
        return tuple("tie" if outcome == "both_bad" else outcome for _, outcome in self.labels)

    @cached_property
    def longer(self) -> str:
        """The outcome by "the longer answer wins"; a tie if both are equally long."""
        if self.length_left == self.length_right:
            return "tie"
        return "left" if self.length_left > self.length_right else "right"


@dataclass(frozen=True)
class ScoreItem:
    """One response, scored by people and by the judge.

    ``labels``: (rater, score) of people; ``score``: the judge's, None unless ``state`` is "done"
    ``length``: of the response, in characters; ``repeats``: scores of further runs of the judge
    ``key``, ``cluster``, ``category``: as for `PairItem`
    """

    key: str
    cluster: str
    category: str
    labels: tuple[tuple[str, float], ...]
    score: float | None
    state: str
    length: int
    repeats: tuple[float | None, ...] = ()

    @cached_property
    def people(self) -> tuple[float, ...]:
        """People's scores."""
        return tuple(score for _, score in self.labels)


AnyItem = TypeVar("AnyItem", PairItem, ScoreItem)


def own_side(family: str, families: Sequence[str]) -> str | None:
    """The side whose response is by the judge's own family, if exactly one is."""
    own = [bool(family) and of_response == family for of_response in families]
    if own == [True, False]:
        return "left"
    return "right" if own == [False, True] else None


def decisive(outcomes: Iterable[str | None]) -> list[str]:
    """The outcomes that prefer a side."""
    return [outcome for outcome in outcomes if outcome in SIDES]


def majority(outcomes: Sequence[str]) -> tuple[str, ...]:
    """The outcome that more people chose than any other, as a 1-tuple; empty for a draw."""
    leading = Counter(outcomes).most_common(2)
    if not leading or (len(leading) == 2 and leading[0][1] == leading[1][1]):
        return ()
    return (leading[0][0],)


def by_category(items: Iterable[AnyItem]) -> dict[str, list[AnyItem]]:
    """The items of each category, in the order of the categories' names."""
    groups: dict[str, list[AnyItem]] = {}
    for item in items:
        groups.setdefault(item.category, []).append(item)
    return dict(sorted(groups.items()))


def count_labels(items: Iterable[PairItem | ScoreItem]) -> int:
    return sum(len(item.labels) for item in items)


def count_states(items: Iterable[PairItem | ScoreItem], states: Sequence[str]) -> dict[str, int]:
    counts = Counter(item.state for item in items)
    return {state: counts[state] for state in states}


ShareRow = tuple[str, float, int]  # cluster, successes, trials
DifferenceRow = tuple[str, float, float, int]  # cluster, successes of the one and the other, trials
OutcomeRow = tuple[str, str, str]  # cluster, and the outcomes of the first and of the second
ScoreRow = tuple[str, float, float]  # cluster, and the scores of the first and of the second
LiftRow = tuple[str, float, float, float]  # cluster, the judge's, the baseline's and people's score
NEVER_TWICE = "No item was asked about twice."
ONE_VALUE = "All values are the same, so agreement cannot be distinguished from chance."


@dataclass(frozen=True)
class Alpha:
    """Krippendorff's alpha over the ``n_values`` of the ``n_items`` with at least two values.

    None with the reason if it cannot be computed.
    """

    value: float | None
    n_items: int
    n_values: int
    reason: str = ""


@dataclass(frozen=True)
class Sampling:
    """The confidence of all intervals of a report, and how they are drawn."""

    level: float
    n_resamples: int
    seed: int

    def share(self, rows: Iterable[ShareRow], nothing: str) -> Estimate:
        """Successes per trial; ``nothing`` is the reason given without any trials."""
        clusters, successes, trials = _columns(rows, 3)
        share = clustered_share(successes, trials, clusters, *self._settings)
        return _with_reason(share, nothing)

    def difference(self, rows: Iterable[DifferenceRow], nothing: str) -> Estimate:
        """The first share minus the second, on the same trials."""
        clusters, first, second, trials = _columns(rows, 4)
        difference = share_difference(first, second, trials, clusters, *self._settings)
        return _with_reason(difference, nothing)

    def kappa(self, rows: Iterable[OutcomeRow], nothing: str) -> Estimate:
        """Cohen's kappa between two raters who choose left, right or tie.

        Each row is taken both ways round, because either answer could stand left.
        """
        known = list(rows)
        turned = [(cluster, TURNED[first], TURNED[second]) for cluster, first, second in known]
        clusters, *columns = _columns(known + turned, 3)
        first, second = ([OUTCOMES.index(outcome) for outcome in column] for column in columns)
        kappa = clustered_kappa(first, second, clusters, *self._settings)
        return _with_reason(replace(kappa, n=len(known)), nothing)

    def correlations(self, rows: Iterable[ScoreRow], nothing: str) -> Correlations:
        """Correlations between two sets of scores."""
        clusters, first, second = _columns(rows, 3)
        correlations = score_correlations(first, second, clusters, *self._settings)
        return replace(correlations, pearson=_with_reason(correlations.pearson, nothing))

    def lift(self, rows: Iterable[LiftRow], nothing: str) -> Estimate:
        """The judge's Pearson with people minus the baseline's."""
        clusters, judge, baseline, people = _columns(rows, 4)
        lift = correlation_lift(judge, baseline, people, clusters, *self._settings)
        return _with_reason(lift, nothing)

    @property
    def _settings(self) -> tuple[float, int, int]:
        return self.level, self.n_resamples, self.seed


def alpha(runs: Iterable[Sequence[float | None]], level: str) -> Alpha:
    """Krippendorff's alpha over the values of each item; None is missing."""
    known = [[value for value in values if value is not None] for values in runs]
    known = [values for values in known if len(values) > 1]
    unit = [i for i, values in enumerate(known) for _ in values]
    value = krippendorff_alpha(unit, [value for values in known for value in values], level)
    if not known:
        return Alpha(None, 0, 0, NEVER_TWICE)
    if math.isnan(value):
        return Alpha(None, len(known), len(unit), ONE_VALUE)
    return Alpha(value, len(known), len(unit))


def _columns(rows: Iterable[tuple[Any, ...]], width: int) -> list[list[Any]]:
    """Transpose the rows, and number the clusters in the first column."""
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]
    codes: dict[str, int] = {}
    return [[codes.setdefault(name, len(codes)) for name in columns[0]], *columns[1:]]


def _with_reason(estimate: Estimate, nothing: str) -> Estimate:
    return estimate if estimate.n else replace(estimate, reason=nothing)


NOT_BOTH = "No item has a verdict in both orders."
NO_SIDE = "No verdict chooses a side."
NO_LENGTHS = "There is no label where the judge and a person choose a side and the lengths differ."
NO_FAMILY = "There is no label about its own family where judge and person both choose a side."


@dataclass(frozen=True)
class Preference:
    """How often one kind of response wins, on labels where both judge and person choose a side.

    ``judge``, ``people``: their shares
    """

    judge: Estimate
    people: Estimate


def count_flips(items: Sequence[PairItem], sampling: Sampling) -> Estimate:
    """Share of the items with a verdict in both orders on which the two differ."""
    rows = (
        (item.cluster, float(item.forward != item.reverse), 1)
        for item in items
        if item.forward and item.reverse
    )
    return sampling.share(rows, NOT_BOTH)


def first_position(items: Sequence[PairItem], sampling: Sampling) -> Estimate:
    """Share of the calls' decisive outcomes that prefer the response shown first."""
    rows = (
        (item.cluster, float(outcome == first), 1)
        for item in items
        for outcome, first in zip((item.forward, item.reverse), SIDES, strict=True)
        if outcome in SIDES
    )
    return sampling.share(rows, NO_SIDE)


def picks_longer(items: Sequence[PairItem], sampling: Sampling) -> Preference:
    """How often the longer response is preferred, if the lengths differ."""
    return _preference(items, [item.longer for item in items], sampling, NO_LENGTHS)


def own_family(items: Sequence[PairItem], sampling: Sampling) -> Preference:
    """How often the response by the judge's own family is preferred, if one of the two is."""
    return _preference(items, [item.own_family for item in items], sampling, NO_FAMILY)


def _preference(
    items: Sequence[PairItem], marked: Sequence[str | None], sampling: Sampling, nothing: str
) -> Preference:
    """Compare how often judge and people prefer the marked side, on the same labels."""
    rows = list(_preferred(items, marked))
    return Preference(
        sampling.share(((cluster, judge, n) for cluster, judge, _, n in rows), nothing),
        sampling.share(((cluster, people, n) for cluster, _, people, n in rows), nothing),
    )


def _preferred(
    items: Sequence[PairItem], marked: Sequence[str | None]
) -> Iterator[tuple[str, int, int, int]]:
    for item, side in zip(items, marked, strict=True):
        if side in SIDES and item.verdict in SIDES:
            people = decisive(item.people)
            by_judge = len(people) * (item.verdict == side)
            yield item.cluster, by_judge, people.count(side), len(people)


def self_agreement(items: Sequence[PairItem]) -> Alpha:
    """Nominal alpha over the verdict and those of further runs, each item taken both ways round."""
    runs = [[said for said in (item.verdict, *item.repeats) if said] for item in items]
    both_ways = runs + [[TURNED[said] for said in run] for run in runs]
    found = alpha([[float(OUTCOMES.index(said)) for said in run] for run in both_ways], "nominal")
    return replace(found, n_items=found.n_items // 2, n_values=found.n_values // 2)
