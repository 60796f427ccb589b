"""How far raters agree: on units (a prompt and a pair, a response) that several of them judged."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ranking.stats import columns
from ranking.stats.columns import Floats, Ints, summed

LEVELS = ("nominal", "ordinal", "interval")


@dataclass(frozen=True)
class NominalAgreement:
    """Agreement of the votes within units, for outcomes without an order.

    ``share``: of the pairs of votes on one unit, those with the same outcome, 0..1; NaN without any
    ``n_pairs``: how many such pairs of votes there are
    ``alpha``: Krippendorff's, 1 for perfect, 0 for chance; NaN where all outcomes are the same
    """

    share: float
    n_pairs: int
    alpha: float


def nominal_agreement(counts: ArrayLike) -> NominalAgreement:
    """Agreement from (U, C) integers: how many votes each unit has for each outcome.

    Leave columns out to ask about some outcomes only. Units of fewer than two votes say nothing.
    Every pair of votes on a unit weighs the same in ``share``; in ``alpha`` every vote does. Where
    outcomes name a side, a unit's sides must be fixed; ``alpha`` depends a little on which is
    called left, because chance is reckoned from how often each outcome occurs in all.

    Raises ValueError where ``counts`` is not (U, C), not whole or negative.
    """
    table = _counts(counts)
    total = table.sum(axis=1)
    table, total = table[total > 1], total[total > 1]
    n_pairs = int((total * (total - 1)).sum()) // 2
    agreeing = int((table * (table - 1)).sum()) // 2
    observed = float(((total**2 - (table**2).sum(axis=1)) / (total - 1)).sum())
    alpha = _alpha(observed, _unlike(table.sum(axis=0)), int(total.sum()))
    return NominalAgreement(agreeing / n_pairs if n_pairs else math.nan, n_pairs, alpha)


def krippendorff_alpha(
    unit: ArrayLike, rater: ArrayLike | None, value: ArrayLike, level: str = "nominal"
) -> float:
    """Krippendorff's alpha of n values: 1 - disagreement seen / disagreement by chance.

    Parameters
    ----------
    unit : (n,) integers, what was judged
    rater : (n,) integers, who judged, to refuse two values of one rater on a unit; None where
        each value counts as a rater of its own. Alpha itself does not ask who is who
    value : (n,) numbers; NaN is missing
    level : "nominal" (values differ or not), "ordinal" (they differ by the ranks between them) or
        "interval" (by their distance)

    Returns
    -------
    float up to 1; NaN where no unit has two values, or all values are the same

    Raises ValueError naming the argument. Reference: Krippendorff 2019, Content Analysis, ch. 12.
    """
    values = columns.floats("value", value)
    units = columns.integers("unit", unit, len(values))
    if level not in LEVELS:
        raise ValueError(f"level must be one of {', '.join(LEVELS)}, not {level!r}")
    if np.isinf(values).any():
        raise ValueError("value must be finite, or NaN where missing")
    known = ~np.isnan(values)
    if rater is not None:
        _check_once(units[known], columns.integers("rater", rater, len(values))[known])
    codes, values, size = _pairable(columns.codes(units[known])[0], values[known])
    if not len(values):
        return math.nan
    seen, chance = (
        _nominal(codes, values, size)
        if level == "nominal"
        else (_squared(codes, _midranks(values) if level == "ordinal" else values, size))
    )
    return _alpha(seen, chance, len(values))


def cohen_kappa(a: ArrayLike, b: ArrayLike) -> float:
    """Cohen's kappa of two raters: (agreement - chance) / (1 - chance).

    Parameters
    ----------
    a, b : (n,) numbers, what the one and the other said of the same n units; NaN is missing, and
        a unit with a missing value says nothing

    Returns
    -------
    float up to 1; NaN without units, or where both raters know but one same answer

    Raises ValueError naming the argument. Reference: Cohen 1960.
    """
    one = columns.floats("a", a)
    other = columns.floats("b", b)
    if len(one) != len(other):
        raise ValueError(f"b has {len(other)} entries where a has {len(one)}")
    known = ~(np.isnan(one) | np.isnan(other))
    if not known.any():
        return math.nan
    table = _contingency(one[known], other[known])
    chance = float(table.sum(axis=1) @ table.sum(axis=0))
    return (float(np.trace(table)) - chance) / (1 - chance) if len(table) > 1 else math.nan


def _contingency(one: Floats, other: Floats) -> Floats:
    """(C, C): the share of the units for which the one said the row and the other the column."""
    labels, code = np.unique(np.concatenate([one, other]), return_inverse=True)
    size = len(labels)
    cell = (code[: len(one)] * size + code[len(one) :]).astype(np.int64)
    return summed(cell, np.ones(len(one)), size**2).reshape(size, size) / len(one)


def _alpha(seen: float, chance: float, n_values: int) -> float:
    """``seen``: sum over units of squared differences between ordered pairs of its values, each
    over (values on the unit - 1); ``chance``: the same sum over all n values, undivided."""
    return 1 - (n_values - 1) * seen / chance if chance > 0 else math.nan


def _nominal(unit: Ints, value: Floats, size: Ints) -> tuple[float, float]:
    label = np.unique(value, return_inverse=True)[1].astype(np.int64)
    cell, times = np.unique(unit * (int(label.max()) + 1) + label, return_counts=True)
    same = summed(cell // (int(label.max()) + 1), times.astype(np.float64) ** 2, len(size))
    return float(((size**2 - same) / (size - 1)).sum()), _unlike(np.bincount(label))


def _unlike(totals: Ints) -> float:
    """Ordered pairs of values that differ, from how often each value occurs."""
    return float(int(totals.sum()) ** 2 - int((totals**2).sum()))


def _squared(unit: Ints, value: Floats, size: Ints) -> tuple[float, float]:
    """Sums of squared differences by way of the means: 2 m times the squared deviations."""
    inside = value - (summed(unit, value, len(size)) / size)[unit]
    within = 2 * size * summed(unit, inside**2, len(size)) / (size - 1)
    overall = value - value.mean()
    exact = float(np.ptp(value)) > 0  # the mean of equal values may differ from them by rounding
    return float(within.sum()), 2 * len(value) * float(overall @ overall) * exact


def _midranks(value: Floats) -> Floats:
    """Ranks, equal values sharing their middle: their distance is the ordinal metric."""
    _, code, times = np.unique(value, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(times) - times / 2)[code]
    return ranks


def _pairable(unit: Ints, value: Floats) -> tuple[Ints, Floats, Ints]:
    """Codes and values of the units with at least two values, and how many each of these has."""
    size = np.bincount(unit)
    keep = size[unit] > 1
    return columns.codes(unit[keep])[0], value[keep], size[size > 1]


def _check_once(unit: Ints, rater: Ints) -> None:
    judged = np.stack([unit, rater], axis=1)
    if len(np.unique(judged, axis=0)) < len(judged):
        raise ValueError("rater must not hold the same rater twice for one unit")


def _counts(counts: ArrayLike) -> Ints:
    table = np.asarray(counts)
    if table.ndim != 2:
        raise ValueError(f"counts must be of shape (U, C), not {table.shape}")
    if table.size and (table.dtype.kind not in "iu" or table.min() < 0):
        raise ValueError("counts must hold integers that are not negative")
    return table.astype(np.int64)
