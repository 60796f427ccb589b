"""Panels: the verdicts of several judges combined, and their cost, on pairs that people labelled.

A weighted jury is a logistic regression of people's choices on the members' verdicts: 1 for left,
-1 for right, 0 for a tie or none, and no intercept, because sides are random. If errors are
independent, the weights are the log odds of the members' accuracies, as in Dawid and Skene (1979,
Applied Statistics 28, with the truth known); because they are fitted together, members that make
the same mistakes share theirs. Each category with enough items has weights of its own, drawn
towards those over all, by a ridge.

A cascade asks its first judge, and its second one only if the first has no verdict.

Everything is measured like trust: the share of the labels that choose a side on which the verdict
agrees, where no verdict, or a tie, counts half. A weighted jury is measured on prompts that it was
not fitted on.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Literal

from judges.core.calibration.items import SIDES, JsonDataclass, PairItem, Sampling, decisive
from ranking.stats.bootstrap import Estimate
from ranking.stats.shrinkage import ridge_logistic

Kind = Literal["judge", "majority", "weighted", "cascade"]
FEWEST_ITEMS = 60
FEWEST_OF_CATEGORY = 20  # the ridge keeps a few items from saying much
MOST_MEMBERS = 5
FOLDS = 5
RIDGE = 0.1  # on the weights over all: a standard deviation of 3.2 on the logit scale
RIDGE_APART = 4.0  # on a category's difference from them: a standard deviation of 0.5
SIGN = {"left": 1.0, "right": -1.0}
PER_PAIRS = 1000  # costs are those of so many pairs
NANO = 10**9
CHANCE = 0.5
NO_LABELS = "No label chooses a side."


@dataclass(frozen=True)
class PanelItem:
    """A pair that all judges were asked about: people's choices, and each judge's verdict.

    ``lefts`` of the ``n_labels`` labels that choose a side prefer the left answer; ``verdicts``
    are left, right, tie, or None where a judge has none.
    """

    cluster: str
    category: str
    lefts: int
    n_labels: int
    verdicts: tuple[str | None, ...]


@dataclass(frozen=True)
class Weights(JsonDataclass):
    """Each member's weight in log odds, over all and by category."""

    general: tuple[float, ...]
    categories: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def of(self, category: str) -> tuple[float, ...]:
        return tuple(self.categories.get(category, self.general))


@dataclass(frozen=True)
class PanelOption(JsonDataclass):
    """One way to ask, with its measured agreement.

    ``members``: places of the judges, in the order in which they are asked
    ``cost``: of 1,000 pairs, in nano-dollars
    ``offered``: it is better than chance, and its gain is too
    ``over``: the place of the next cheaper option that is offered; ``gain``: the difference of the
        agreements, and ``per_dollar``: that many points for each dollar more; None for the first
    """

    kind: Kind
    members: tuple[int, ...]
    agreement: Estimate
    cost: float
    offered: bool = False
    over: int | None = None
    gain: Estimate | None = None
    per_dollar: float | None = None


@dataclass(frozen=True)
class PanelReport(JsonDataclass):
    """The results of each judge, a jury of all, and each cascade of two, on the same
    ``n_items``."""

    n_items: int
    n_labels: int
    options: tuple[PanelOption, ...]
    weights: Weights


def panel_items(judges: Sequence[Sequence[PairItem]]) -> list[PanelItem]:
    """Return the items that all judges were asked about and a person decided."""
    by_key = [{item.key: item for item in items} for items in judges]
    common = set.intersection(*(set(items) for items in by_key)) if by_key else set()
    panel = []
    for key in sorted(common):
        of_judges = [items[key] for items in by_key]
        sides = decisive(of_judges[0].people)
        if sides:
            first = of_judges[0]
            verdicts = tuple(item.verdict for item in of_judges)
            panel.append(
                PanelItem(first.cluster, first.category, sides.count("left"), len(sides), verdicts)
            )
    return panel


def fit_weights(items: Sequence[PanelItem]) -> Weights:
    """Fit the weights of a jury by penalised maximum likelihood. Needs at least one item."""
    counts = Counter(item.category for item in items)
    names = sorted(name for name, count in counts.items() if count >= FEWEST_OF_CATEGORY)
    if len(counts) == 1:
        names = []  # its weights would be those over all
    width = len(items[0].verdicts)
    rows = []
    for item in items:
        signs = [_sign(verdict) for verdict in item.verdicts]
        own = [sign * (name == item.category) for name in names for sign in signs]
        rows.append([*signs, *own])
    fitted = ridge_logistic(
        rows,
        [item.lefts for item in items],
        [item.n_labels for item in items],
        [RIDGE] * width + [RIDGE_APART] * width * len(names),
    )
    general = fitted[:width]
    apart = {
        name: fitted[width * number : width * (number + 1)]
        for number, name in enumerate(names, start=1)
    }
    return Weights(
        tuple(general),
        {
            name: tuple(over_all + own for over_all, own in zip(general, differences, strict=True))
            for name, differences in apart.items()
        },
    )


def _sign(verdict: str | None) -> float:
    return SIGN.get(verdict or "", 0.0)


def weigh(weights: Sequence[float], verdicts: Sequence[str | None]) -> tuple[str | None, float]:
    """Return a weighted jury's outcome, and the probability that a person prefers left.

    The outcome is a tie if the verdicts balance, and None if there is none.
    """
    if all(verdict is None for verdict in verdicts):
        return None, 0.5
    pairs = zip(weights, verdicts, strict=True)
    score = sum(weight * _sign(verdict) for weight, verdict in pairs)
    if abs(score) < 1e-9:
        return "tie", 0.5
    return ("left" if score > 0 else "right"), 0.5 * (1 + math.tanh(score / 2))


def most(verdicts: Sequence[str | None]) -> str | None:
    """Return the outcome of more than half of the verdicts, of which there is a quorum."""
    given = Counter(verdict for verdict in verdicts if verdict is not None)
    if 2 * given.total() <= len(verdicts):
        return None
    outcome, count = given.most_common(1)[0]
    return outcome if 2 * count > given.total() else None


def measure_panel(
    items: Sequence[PanelItem],
    costs: Sequence[float],
    *,
    level: float = 0.95,
    n_resamples: int = 1000,
    seed: int = 0,
) -> PanelReport | None:
    """Measure each judge, a jury of all and each cascade. None with too few items or judges.

    ``costs``: of one verdict of each judge, in nano-dollars.
    """
    if len(items) < FEWEST_ITEMS or not 2 <= len(costs) <= MOST_MEMBERS:
        return None
    sampling = Sampling(level, n_resamples, seed)
    everybody = tuple(range(len(costs)))
    ways: list[tuple[Kind, tuple[int, ...], list[str | None], float]] = [
        ("judge", (judge,), [item.verdicts[judge] for item in items], costs[judge])
        for judge in everybody
    ]
    if len(costs) > 2:  # two judges have a majority only if they agree
        ways.append(("majority", everybody, [most(item.verdicts) for item in items], sum(costs)))
    ways.append(("weighted", everybody, _out_of_fold(items), sum(costs)))
    for first, second in permutations(everybody, 2):
        asked = sum(item.verdicts[first] is None for item in items) / len(items)
        if asked and costs[first] < costs[second]:
            verdicts = [item.verdicts[first] or item.verdicts[second] for item in items]
            cost = costs[first] + asked * costs[second]
            ways.append(("cascade", (first, second), verdicts, cost))
    hits, options = [], []
    for kind, members, verdicts, cost in ways:
        rows = [
            (item.cluster, _hits(item, verdict), item.n_labels)
            for item, verdict in zip(items, verdicts, strict=True)
        ]
        hits.append(rows)
        agreement = sampling.share(rows, NO_LABELS)
        options.append(PanelOption(kind, members, agreement, PER_PAIRS * cost))
    n_labels = sum(item.n_labels for item in items)
    offered = _with_gains(options, hits, sampling)
    return PanelReport(len(items), n_labels, offered, fit_weights(items))


def _hits(item: PanelItem, verdict: str | None) -> float:
    if verdict not in SIDES:
        return item.n_labels / 2
    return float(item.lefts if verdict == "left" else item.n_labels - item.lefts)


def _out_of_fold(items: Sequence[PanelItem]) -> list[str | None]:
    """Return a weighted jury's verdicts, each by weights fitted on other prompts."""
    folds = [_fold(item.cluster) for item in items]
    weights = {
        fold: fit_weights(
            [item for item, own in zip(items, folds, strict=True) if own != fold] or items
        )
        for fold in sorted(set(folds))
    }
    return [
        weigh(weights[fold].of(item.category), item.verdicts)[0]
        for item, fold in zip(items, folds, strict=True)
    ]


def _fold(cluster: str) -> int:
    return int.from_bytes(hashlib.sha256(cluster.encode()).digest()[:4], "big") % FOLDS


def _with_gains(
    options: Sequence[PanelOption],
    hits: Sequence[Sequence[tuple[str, float, int]]],
    sampling: Sampling,
) -> tuple[PanelOption, ...]:
    """Offer the options that agree more than chance, and significantly more than the next cheaper
    one that is offered, with this gain. `hits` has the cluster, hits and labels of each item."""
    offers = list(options)
    best: int | None = None
    for place in sorted(
        range(len(offers)), key=lambda number: (offers[number].cost, -_value(offers[number]))
    ):
        agreement = offers[place].agreement
        if (_value(offers[place]) if agreement.low is None else agreement.low) <= CHANCE:
            continue
        if best is None:
            offers[place] = replace(offers[place], offered=True)
        elif _value(offers[place]) > _value(offers[best]):
            rows = (
                (cluster, own, other, n_labels)
                for (cluster, own, n_labels), (_, other, _) in zip(
                    hits[place], hits[best], strict=True
                )
            )
            gain = sampling.difference(rows, NO_LABELS)
            if (gain.low or 0.0) <= 0:  # it may be chance
                continue
            dollars = (offers[place].cost - offers[best].cost) / NANO
            points = 100 * (gain.value or 0.0)
            per_dollar = points / dollars if dollars > 0 else None
            offers[place] = replace(
                offers[place], offered=True, over=best, gain=gain, per_dollar=per_dollar
            )
        else:
            continue
        best = place
    return tuple(offers)


def _value(option: PanelOption) -> float:
    return option.agreement.value or 0.0
