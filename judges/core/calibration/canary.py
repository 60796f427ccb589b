"""Whether a judge is still the judge that was calibrated: the same labelled items, judged again.

An alarm asks whether the judge has *changed*, not whether it got worse: one that became better is
another judge too, and its votes belong to an epoch of their own. So McNemar's test is two-sided.
It does not see changes that mend as much as they break; `verdict_drift` does.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from judges.core.calibration.plain import Plain
from ranking.stats import binomial_excess, mcnemar

ALPHA = 0.01


@dataclass(frozen=True)
class Canary(Plain):
    """``n``: items decided both times; ``missing``: decided in the baseline and not now
    ``only_before``, ``only_now``: agreed with people only then, only now
    ``p``: McNemar's; ``alarm``: whether it is below alpha"""

    n: int
    missing: int
    only_before: int
    only_now: int
    p: float
    alarm: bool


@dataclass(frozen=True)
class Drift(Plain):
    """``n``: items judged both times; ``changed``: with another verdict, none being one too
    ``share``: changed per item, None without items
    ``p``: chance of so many changes or more at the usual share, None where that is not known;
    ``alarm``: whether it is below alpha"""

    n: int
    changed: int
    share: float | None
    p: float | None
    alarm: bool


def canary_alarm(
    baseline: Mapping[str, bool], now: Mapping[str, bool], alpha: float = ALPHA
) -> Canary:
    """Compare which items were right (agreed with people) with which are now.

    Items without a verdict are left out of the mappings. Those that went missing are counted and
    ring no alarm here: an outage is no change of mind. Raises ValueError for an alpha that is not
    between 0 and 1.
    """
    _check_share("alpha", alpha)
    both = [(baseline[key], now[key]) for key in baseline if key in now]
    only_before, only_now = both.count((True, False)), both.count((False, True))
    p = mcnemar(only_before, only_now)
    return Canary(len(both), len(baseline) - len(both), only_before, only_now, p, p < alpha)


def verdict_drift(
    baseline: Mapping[str, str | None],
    now: Mapping[str, str | None],
    usual_share: float | None = None,
    alpha: float = ALPHA,
) -> Drift:
    """Compare the verdicts themselves, labelled or not; None is an item without a verdict.

    ``usual_share`` is how often this judge changes its verdict when nothing has changed, measured
    by judging twice (take an upper bound). Without it no alarm is raised: a judge that samples
    its answers changes some of them every time. Raises ValueError for shares out of range.
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
