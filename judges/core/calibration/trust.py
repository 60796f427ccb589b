"""Trust: whether a judge's votes may support people's. The rule is the same for every judge.

Pairs: the lower bound of the agreement on all items, where a tie or no verdict counts half, is at
least 75 %, or at least 95 % of people's agreement with one another; the judge has a verdict on
enough of the items, and seldom changes it with the order of the answers (`TrustLimits`); and the
lower bound of its lift over "the longer answer wins" is above 0, on all items too. A judge that is
right when it decides, but seldom decides, is not trusted. People's agreement is a yardstick only if
it is significantly better than chance: otherwise any judge would reach it.

Scores: a single response shows no preference, and a judge that is consistently stricter than people
still ranks as they do. So the rule asks for correlation, not for equal scores: the lower bound of
Pearson with all labels is at least 0.75, or at least 95 % of the correlation between people, where
that is significantly above 0; and the lower bound of the lift over length is above 0.

Drift: whether a judge is still the one that was calibrated. The same labelled items, judged again.
An alarm means that the judge has *changed*, not that it got worse: a judge that improved is also a
different judge, and its votes belong to a new epoch. So McNemar's test is two-sided. It cannot see
changes that fix as much as they break; `count_changed` shows them.

A bound that cannot be computed is not reached. Before rule 2, agreement was measured only on the
items on which the judge had decided; before rule 3, so was the lift. Trust given by an earlier rule
stands until the judge is measured again.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from judges.core.calibration.items import AnyItem, JsonDataclass, by_category
from judges.core.calibration.pairs import PairReport
from judges.core.calibration.scores import ScoreReport
from ranking.stats.agreement import mcnemar
from ranking.stats.bootstrap import Estimate

ENOUGH = 0.75
OF_PEOPLE = 0.95
COIN_TOSS = 0.5
FEWEST_OF_CATEGORY = 40
HARDLY_ABOVE = 0.01  # by so little that the labels needed cannot be forecast
RULE = 3  # raise it when the same report would be judged otherwise


@dataclass(frozen=True)
class TrustLimits:
    """The smallest share of items with a verdict, and the largest of verdicts that flip."""

    coverage: float = 0.7
    flips: float = 0.3


@dataclass(frozen=True)
class Trust(JsonDataclass):
    """The result of the rule. ``reasons``: a sentence on each condition; ``failed``: on those that
    are not met."""

    trusted: bool
    reasons: tuple[str, ...]
    failed: tuple[str, ...] = ()
    rule: int = RULE


@dataclass(frozen=True)
class CategoryTrust(JsonDataclass):
    """The result of the rule on the items of one category of prompts."""

    category: str
    n_items: int
    trusted: bool
    failed: tuple[str, ...]


@dataclass(frozen=True)
class _Unit:
    """The name and format of a figure; ``floor`` is its value by chance."""

    name: str
    percent: bool
    floor: float

    def format(self, value: float) -> str:
        return f"{100 * value:.1f} %" if self.percent else f"{value:.3f}"

    def format_difference(self, value: float) -> str:
        words = f"{100 * value:+.1f} points" if self.percent else f"{value:+.3f}"
        return words.replace("-", "−")


_AGREEMENT = _Unit("Agreement with people (a tie or no verdict counts half)", True, COIN_TOSS)
_CORRELATION = _Unit("Correlation with people (Pearson)", False, 0.0)


def assess_trust(report: PairReport | ScoreReport, limits: TrustLimits | None = None) -> Trust:
    """Apply the rule to a report."""
    limits = limits or TrustLimits()
    checks = []
    if isinstance(report, PairReport):
        checks.append(_check_sides(report))
        checks.append(_check_coverage(report.coverage.value, report.n_items, limits.coverage))
        if report.flips.value is not None:  # it was asked in both orders
            checks.append(_check_flips(report.flips.value, report.flips.n, limits.flips))
        checks.append(_check_lift(report.longer.lift_on_all, _AGREEMENT))
    else:
        people = report.people.pearson
        missing = report.missing.value
        scored = None if missing is None else 1 - missing
        checks.append(_check_agreement(report.against_all.pearson, people, _CORRELATION))
        checks.append(_check_coverage(scored, report.n_items, limits.coverage))
        checks.append(_check_lift(report.length.lift, _CORRELATION))
    met, reasons = zip(*checks, strict=True)
    return Trust(all(met), reasons, tuple(reason for is_met, reason in checks if not is_met))


def assess_categories(
    items: Sequence[AnyItem],
    calibrate: Callable[[Sequence[AnyItem]], PairReport | ScoreReport],
    limits: TrustLimits | None = None,
) -> tuple[CategoryTrust, ...]:
    """Apply the rule to each category with enough items; none if all items are in one."""
    groups = by_category(items)
    if len(groups) < 2:
        return ()
    results = []
    for category, inside in groups.items():
        if len(inside) >= FEWEST_OF_CATEGORY:
            trust = assess_trust(calibrate(inside), limits)
            results.append(CategoryTrust(category, len(inside), trust.trusted, trust.failed))
    return tuple(results)


def _check_coverage(share: float | None, n: int, least: float) -> tuple[bool, str]:
    if share is None:
        return False, "It has not been asked about any items."
    meets = "meets" if share >= least else "is below"
    figure = f"It reached a verdict on {100 * share:.1f} % of {n:,} items"
    return share >= least, f"{figure}, which {meets} the {100 * least:.0f} % required."


def _check_flips(share: float, n: int, most: float) -> tuple[bool, str]:
    keeps = "is within" if share <= most else "exceeds"
    figure = f"Swapping the answers changes its verdict on {100 * share:.1f} % of {n:,} items"
    return share <= most, f"{figure}, which {keeps} the {100 * most:.0f} % allowed."


def _undecided(confusion: Mapping[str, Mapping[str, int]]) -> int:
    """The labels for one side on whose items the judge has a tie or no verdict."""
    rows = [confusion.get(side, {}) for side in ("left", "right")]
    return sum(row.get(verdict, 0) for row in rows for verdict in ("tie", "none"))


def _check_sides(report: PairReport) -> tuple[bool, str]:
    n, undecided = report.on_all.n, _undecided(report.confusion)
    if undecided and undecided == n:
        return False, f"It never chose a side where people did ({n:,} labels)."
    people = report.people_everywhere.decisive
    return _check_agreement(report.on_all, people, _AGREEMENT, undecided)


def _check_agreement(
    judge: Estimate, people: Estimate, unit: _Unit, undecided: int = 0
) -> tuple[bool, str]:
    if judge.value is None:
        return False, f"{unit.name} is not known: {_uncapped(judge.reason)}"
    figure = (
        f"{unit.name} is {unit.format(judge.value)} over {judge.n:,} label{'s'[: judge.n != 1]}"
    )
    if undecided:
        figure = f"{figure}, on {undecided:,} of which the judge chose no side"
    if judge.low is None:
        return False, f"{figure}, without a lower bound: {_uncapped(judge.reason)}"
    figure = f"{figure} (lower bound {unit.format(judge.low)})"
    required = f"the {unit.format(ENOUGH)} required"
    if judge.low >= ENOUGH:
        return True, f"{figure}, which meets {required}."
    bar, description = _people_bar(people, unit)
    if bar is None:
        more = _enough_labels(judge.n, judge.value, judge.low, ENOUGH)
        return False, f"{figure}, which is below {required}, and {description}.{more}"
    if judge.low >= bar:
        return True, f"{figure}, which meets {description}."
    more = _enough_labels(judge.n, judge.value, judge.low, min(bar, ENOUGH))
    return False, f"{figure}, which is below {required} and below {description}.{more}"


def _enough_labels(n: int, value: float, low: float, required: float) -> str:
    """Say how many labels would bring the lower bound there, as it nears the value by their root;
    nothing if the value itself is hardly above what is required.
    """
    if value - required < HARDLY_ABOVE:
        return ""
    needed = 10 * math.ceil(n * ((value - low) / (value - required)) ** 2 / 10)
    return f" About {needed:,} labels at the same rate would be enough."


def _people_bar(people: Estimate, unit: _Unit) -> tuple[float | None, str]:
    """Return 95 % of people's own figure and its description; None if it is not a yardstick."""
    if people.value is None or people.low is None:
        reason = _uncapped(people.reason).rstrip(".")
        return None, f"the figure among people is not known ({reason})"
    among_people = f"the {unit.format(people.value)} among people"
    if people.low <= unit.floor:
        return None, f"{among_people} may be chance (lower bound {unit.format(people.low)})"
    bar = OF_PEOPLE * people.value
    return bar, f"{unit.format(bar)} (95 % of {among_people})"


def _uncapped(reason: str) -> str:
    return reason[:1].lower() + reason[1:]


def _check_lift(lift: Estimate, unit: _Unit) -> tuple[bool, str]:
    if lift.value is None:
        return False, f"Its lift over length alone is not known: {_uncapped(lift.reason)}"
    figure = f"Its lift over length alone is {unit.format_difference(lift.value)}"
    if lift.value <= 0:
        return False, f"{figure}: no better than length."
    if lift.low is None:
        return False, f"{figure}, without a lower bound: {_uncapped(lift.reason)}"
    figure = f"{figure} (lower bound {unit.format_difference(lift.low)})"
    if lift.low > 0:
        return True, f"{figure}: significantly better than length."
    return False, f"{figure}: not significantly better than length."


ALPHA = 0.01  # of drift


@dataclass(frozen=True)
class DriftMonitor(JsonDataclass):
    """Agreement with people at the baseline and now.

    ``n``: items decided both times
    ``only_before``, ``only_now``: agreed with people only then, only now
    ``p``: McNemar's; ``alarm``: whether it is below `ALPHA`
    """

    n: int
    only_before: int
    only_now: int
    p: float
    alarm: bool


def drift_alarm(baseline: Mapping[str, bool], now: Mapping[str, bool]) -> DriftMonitor:
    """Compare the items on which a judge agreed with people at the baseline and now.

    The mappings leave out items without a verdict. Missing items raise no alarm: an outage is not
    drift.
    """
    both = [(baseline[key], now[key]) for key in baseline if key in now]
    only_before, only_now = both.count((True, False)), both.count((False, True))
    p = mcnemar(only_before, only_now)
    return DriftMonitor(len(both), only_before, only_now, p, p < ALPHA)


def count_changed(baseline: Mapping[str, str | None], now: Mapping[str, str | None]) -> int:
    """How many verdicts differ, among items judged both times; None is an item without a verdict.

    A judge that samples its replies changes some every time, so this raises no alarm.
    """
    return sum(baseline[key] != now[key] for key in baseline if key in now)
