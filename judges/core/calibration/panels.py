"""Panels: the verdicts of several judges weighed together, on pairs that people labelled.

A weighted jury is a logistic regression of people's choices on the members' verdicts: 1 for left,
-1 for right, 0 for a tie or none, and no intercept, because sides are random. If errors are
independent, the weights are the log odds of the members' accuracies, as in Dawid and Skene (1979,
Applied Statistics 28, with the truth known); because they are fitted together, members that make
the same mistakes share theirs. Each category with enough items has weights of its own, drawn
towards those over all, by a ridge.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from judges.core.calibration.items import JsonDataclass, PairItem, decisive
from ranking.stats.shrinkage import ridge_logistic

FEWEST_ITEMS = 60
FEWEST_OF_CATEGORY = 20  # the ridge keeps a few items from saying much
MOST_MEMBERS = 5
RIDGE = 0.1  # on the weights over all: a standard deviation of 3.2 on the logit scale
RIDGE_APART = 4.0  # on a category's difference from them: a standard deviation of 0.5
SIGN = {"left": 1.0, "right": -1.0}


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
