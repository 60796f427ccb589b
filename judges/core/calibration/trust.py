"""Trust: whether a judge's votes may support people's. The rule is the same for every judge.

Pairs: the lower bound of the agreement on all items, where a tie or no verdict counts half, is at
least 75 %, or at least 95 % of people's agreement with one another; the judge has a verdict on
enough of the items, and seldom changes it with the order of the answers (`TrustLimits`). A judge
that is right when it decides, but seldom decides, is not trusted. People's agreement is a yardstick
only if it is significantly better than chance: otherwise any judge would reach it.

Scores: a single response shows no preference, and a judge that is consistently stricter than people
still ranks as they do. So the rule asks for correlation, not for equal scores. No judge correlates
with people more than the noise of both lets it, so the lower bound of Pearson with all labels is at
least 0.75, or Pearson is significantly no more than a fifth below that of people with each other.
Where no item has two people's scores, the judge's own when asked again stand in for them, if the
lower bound is at least 0.5: noise of its own excuses a judge only so far.

Length: of the labels where people disagree with length, the judge agrees with more than half,
significantly. On the others a judge that knows and one that measures say the same, so they are no
evidence, and a good judge would be refused wherever the longer answers are better. Of fewer than
`FEWEST_AGAINST_LENGTH` such labels nothing can be asked, and the reason says so.

Drift: whether a judge is still the one that was calibrated. The same labelled items, judged again.
An alarm means that the judge has *changed*, not that it got worse: a judge that improved is also a
different judge, and its votes belong to a new epoch. So McNemar's test is two-sided. It cannot see
changes that fix as much as they break; `count_changed` shows them.

A bound that cannot be computed is not reached. Before rule 2, agreement was measured only on the
items on which the judge had decided; before rule 4, a judge had to agree with people more than
length does, on all items, and scores with people nearly as much as if there were no noise. Trust
given by an earlier rule stands until the judge is measured again.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from judges.core.calibration.items import AnyItem, JsonDataclass, by_category
from judges.core.calibration.pairs import PairReport
from judges.core.calibration.scores import ScoreReport, Yardstick
from ranking.stats.agreement import mcnemar
from ranking.stats.bootstrap import Estimate

ENOUGH = 0.75
OF_PEOPLE = 0.95
COIN_TOSS = 0.5
LESS_THAN_YARDSTICK = 0.2
LEAST_BESIDE_ITSELF = 0.5
FEWEST_AGAINST_LENGTH = 10
FEWEST_OF_CATEGORY = 40
HARDLY_ABOVE = 0.01  # by so little that the labels needed cannot be forecast
RULE = 4  # raise it when the same report would be judged otherwise


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
    """The name and format of a figure."""

    name: str
    percent: bool

    def format(self, value: float) -> str:
        written = f"{100 * value:.1f}%" if self.percent else f"{value:.3f}"
        return written.replace("-", "−")


_AGREEMENT = _Unit("Agreement with people (a tie or no verdict counts half)", True)
_CORRELATION = _Unit("Correlation with people (Pearson)", False)


def assess_trust(report: PairReport | ScoreReport, limits: TrustLimits | None = None) -> Trust:
    """Apply the rule to a report."""
    limits = limits or TrustLimits()
    checks = []
    if isinstance(report, PairReport):
        checks.append(_check_sides(report))
        checks.append(_check_coverage(report.coverage.value, report.n_items, limits.coverage))
        if report.flips.value is not None:  # it was asked in both orders
            checks.append(_check_flips(report.flips.value, report.flips.n, limits.flips))
        against = "Where people prefer the shorter answer"
    else:
        missing = report.missing.value
        scored = None if missing is None else 1 - missing
        checks.append(_check_scores(report))
        checks.append(_check_coverage(scored, report.n_items, limits.coverage))
        against = "Where people's scores go against length"
    checks.append(_check_against_length(report.against_length, against))
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
    figure = f"It reached a verdict on {100 * share:.1f}% of {n:,} items"
    return share >= least, f"{figure}, which {meets} the {100 * least:.0f}% required."


def _check_flips(share: float, n: int, most: float) -> tuple[bool, str]:
    keeps = "is within" if share <= most else "exceeds"
    figure = f"Swapping the answers changes its verdict on {100 * share:.1f}% of {n:,} items"
    return share <= most, f"{figure}, which {keeps} the {100 * most:.0f}% allowed."


def _check_sides(report: PairReport) -> tuple[bool, str]:
    n, undecided = report.on_all.n, report.undecided
    if undecided and undecided == n:
        return False, f"It never chose a side where people did ({n:,} labels)."
    met, figure = _check_enough(report.on_all, _AGREEMENT, undecided)
    judge = report.on_all
    if met or judge.value is None or judge.low is None:
        return met, figure
    bar, description = _people_bar(report.people.decisive)
    if bar is None:
        more = _enough_labels(judge.n, judge.value, judge.low, ENOUGH)
        return False, f"{figure}, and {description}.{more}"
    if judge.low >= bar:
        return True, f"{figure}, but meets {description}."
    more = _enough_labels(judge.n, judge.value, judge.low, min(bar, ENOUGH))
    return False, f"{figure} and below {description}.{more}"


def _check_scores(report: ScoreReport) -> tuple[bool, str]:
    judge = report.against_all.pearson
    met, figure = _check_enough(judge, _CORRELATION)
    if met or judge.value is None or judge.low is None:
        return met, figure
    if report.people.pearson.n:
        return _check_yardstick(figure, report.people, "people with each other", True)
    if report.itself.pearson.n:
        return _check_yardstick(
            figure, report.itself, "the judge with itself", judge.low >= LEAST_BESIDE_ITSELF
        )
    more = _enough_labels(judge.n, judge.value, judge.low, ENOUGH)
    return False, (
        f"{figure}. Nothing shows how much noise is in these scores: let a second person score the "
        f"same answers, or ask the judge again (--repeat 1).{more}"
    )


def _check_yardstick(
    figure: str, yardstick: Yardstick, whose: str, may_stand: bool
) -> tuple[bool, str]:
    """Whether the judge is significantly no more than a fifth below the yardstick."""
    value, low = yardstick.pearson.value, yardstick.pearson.low
    difference = yardstick.difference.low
    if value is None:
        return (
            False,
            f"{figure}; that of {whose} is not known: {_uncapped(yardstick.pearson.reason)}",
        )
    beside = f"that of {whose} is {value:.3f}"
    if low is None or difference is None:
        return False, f"{figure}; {beside}, without an interval."
    if low <= 0:
        return False, f"{figure}; {beside}, which may be chance (lower bound {low:.3f})."
    if not may_stand:
        floor = f"{LEAST_BESIDE_ITSELF:.3f}"
        return False, f"{figure}; {beside}, but counts only if the lower bound is at least {floor}."
    compared = f"{beside}, and the difference at least {difference:+.3f}".replace("-", "−")
    if difference >= -LESS_THAN_YARDSTICK * value:
        return True, f"{figure}, but {compared}: no more than a fifth below."
    return False, f"{figure}; {compared}, which may be more than a fifth below."


def _check_enough(judge: Estimate, unit: _Unit, undecided: int = 0) -> tuple[bool, str]:
    """Whether a figure is high enough by itself; if not, its description goes on."""
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
    return False, f"{figure}, which is below {required}"


def _enough_labels(n: int, value: float, low: float, required: float) -> str:
    """Say how many labels would bring the lower bound there, as it nears the value by their root;
    nothing if the value itself is hardly above what is required.
    """
    if value - required < HARDLY_ABOVE:
        return ""
    needed = 10 * math.ceil(n * ((value - low) / (value - required)) ** 2 / 10)
    return f" About {needed:,} labels at the same rate would be enough."


def _people_bar(people: Estimate) -> tuple[float | None, str]:
    """Return 95 % of people's own figure and its description; None if it is not a yardstick."""
    if people.value is None or people.low is None:
        reason = _uncapped(people.reason).rstrip(".")
        return None, f"the figure among people is not known ({reason})"
    unit = _AGREEMENT
    among_people = f"the {unit.format(people.value)} among people"
    if people.low <= COIN_TOSS:
        return None, f"{among_people} may be chance (lower bound {unit.format(people.low)})"
    bar = OF_PEOPLE * people.value
    return bar, f"{unit.format(bar)} (95% of {among_people})"


def _uncapped(reason: str) -> str:
    return reason[:1].lower() + reason[1:]


def _check_against_length(share: Estimate, where: str) -> tuple[bool, str]:
    """Whether the judge sides with people against length, where there are enough labels to ask."""
    labels = f"{share.n:,} label{'s'[: share.n != 1]}"
    if share.value is None or share.n < FEWEST_AGAINST_LENGTH:
        return True, (
            f"{where} ({labels}), at least {FEWEST_AGAINST_LENGTH} labels would show whether it "
            "goes by more than length."
        )
    figure = f"{where} ({labels}), it agrees with them on {100 * share.value:.1f}%"
    if share.low is None:
        return False, f"{figure}, without a lower bound: {_uncapped(share.reason)}"
    figure = f"{figure} (lower bound {100 * share.low:.1f}%)"
    if share.low > COIN_TOSS:
        return True, f"{figure}: significantly more than half, so it goes by more than length."
    if share.value <= COIN_TOSS:
        return (
            False,
            f"{figure}: not more than half, so nothing shows that it goes by more than length.",
        )
    more = _enough_labels(share.n, share.value, share.low, COIN_TOSS)
    return False, f"{figure}: not significantly more than half.{more}"


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
