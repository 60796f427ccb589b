"""Drift: is a judge still the judge that was calibrated? The same labelled items, judged again.

An alarm says that the judge has *changed*, not that it got worse: one that improved is another
judge too, and its votes belong to a new epoch. So McNemar's test is two-sided. It cannot see
changes that fix as much as they break; `verdict_drift` can.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from judges.core.calibration.items import JsonDataclass
from ranking.stats.agreement import binomial_excess, mcnemar

ALPHA = 0.01


@dataclass(frozen=True)
class DriftMonitor(JsonDataclass):
    """Agreement with people at the baseline and now.

    ``n``: items decided both times; ``missing``: decided in the baseline and not now
    ``only_before``, ``only_now``: agreed with people only then, only now
    ``p``: McNemar's; ``alarm``: whether it is below alpha
    """

    n: int
    missing: int
    only_before: int
    only_now: int
    p: float
    alarm: bool


@dataclass(frozen=True)
class Drift(JsonDataclass):
    """Verdicts at the baseline and now.

    ``n``: items judged both times; ``changed``: with another verdict, or with one only once
    ``share``: changed per item, None without items
    ``p``: probability of so many changes or more at the usual share, None where that is not known;
    ``alarm``: whether it is below alpha
    """

    n: int
    changed: int
    share: float | None
    p: float | None
    alarm: bool


def drift_alarm(
    baseline: Mapping[str, bool], now: Mapping[str, bool], alpha: float = ALPHA
) -> DriftMonitor:
    """Compare the items on which a judge agreed with people at the baseline and now.

    The mappings leave out items without a verdict. Those that went missing are counted but raise
    no alarm: an outage is no drift. Raises ValueError for an alpha that is not between 0 and 1.
    """
    _check_share("alpha", alpha)
    both = [(baseline[key], now[key]) for key in baseline if key in now]
    only_before, only_now = both.count((True, False)), both.count((False, True))
    p = mcnemar(only_before, only_now)
    return DriftMonitor(len(both), len(baseline) - len(both), only_before, only_now, p, p < alpha)


def verdict_drift(
    baseline: Mapping[str, str | None],
    now: Mapping[str, str | None],
    usual_share: float | None = None,
    alpha: float = ALPHA,
) -> Drift:
    """Compare the verdicts themselves, labelled or not; None for an item without a verdict.

    ``usual_share`` is how often this judge's verdicts change when nothing else has, measured by
    judging twice (take an upper bound). Without it there is no alarm: a judge that samples its
    replies changes some verdicts every time. Raises ValueError for shares out of range.
    """
    _check_share("alpha", alpha)
    both = [(baseline[key], now[key]) for key in baseline if key in now]
    changed = sum(before != after for before, after in both)
    share = changed / len(both) if both else None
    if usual_share is None:
        return Drift(len(both), changed, share, None, False)
    p = binomial_excess(changed, len(both), usual_share)
    return Drift(len(both), changed, share, p, p < alpha)


def _check_share(name: str, share: float) -> None:
    if not 0 < share < 1:
        raise ValueError(f"{name} must be between 0 and 1, not {share}")
