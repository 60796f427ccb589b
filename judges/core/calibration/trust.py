"""Trust: may a judge's votes support people's? The rule is the same for every judge.

Pairs: the lower bound of the decisive agreement with all labels is at least 75 %, or at least 95 %
of people's agreement with one another on the same items; and the lower bound of the judge's lift
over "the longer answer wins" is above 0. People's agreement is a yardstick only where it is
significantly better than chance: otherwise any judge would reach it.

Scores: a single response shows no preference, and a judge that is consistently stricter than people
still ranks as they do. So the rule asks for correlation, not for equal scores: the lower bound of
Pearson with all labels is at least 0.75, or at least 95 % of the correlation between people, where
that is significantly above 0; and the lower bound of the lift over length is above 0.

A bound that cannot be computed is not reached.
"""

from dataclasses import dataclass

from judges.core.calibration.items import JsonDataclass
from judges.core.calibration.pairs import PairReport
from judges.core.calibration.scores import ScoreReport
from ranking.stats.bootstrap import Estimate

ENOUGH = 0.75
OF_PEOPLE = 0.95
COIN_TOSS = 0.5


@dataclass(frozen=True)
class Trust(JsonDataclass):
    """The result of the rule. ``reasons``: one sentence on agreement, one on length."""

    trusted: bool
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class _Unit:
    """The name and format of a figure; ``floor`` is its value by chance."""

    name: str
    percent: bool
    floor: float

    def format(self, value: float) -> str:
        return f"{100 * value:.1f} %" if self.percent else f"{value:.3f}"

    def format_difference(self, value: float) -> str:
        return f"{100 * value:+.1f} points" if self.percent else f"{value:+.3f}"


_AGREEMENT = _Unit("Agreement with people", True, COIN_TOSS)
_CORRELATION = _Unit("Correlation with people (Pearson)", False, 0.0)


def assess_trust(report: PairReport | ScoreReport) -> Trust:
    """Apply the rule to a report."""
    if isinstance(report, PairReport):
        judge, people, unit = report.against_all.decisive, report.people.decisive, _AGREEMENT
        lift = report.longer.lift_decisive
    else:
        judge, people, unit = report.against_all.pearson, report.people.pearson, _CORRELATION
        lift = report.length.lift
    agrees, agreement_reason = _check_agreement(judge, people, unit)
    beats_length, length_reason = _check_lift(lift, unit)
    return Trust(agrees and beats_length, (agreement_reason, length_reason))


def _check_agreement(judge: Estimate, people: Estimate, unit: _Unit) -> tuple[bool, str]:
    if judge.value is None:
        return False, f"{unit.name} is not known: {judge.reason}"
    figure = f"{unit.name} is {unit.format(judge.value)} over {judge.n} labels"
    if judge.low is None:
        return False, f"{figure}, without a lower bound: {judge.reason}"
    figure = f"{figure}, at least {unit.format(judge.low)}"
    required = f"the {unit.format(ENOUGH)} required"
    if judge.low >= ENOUGH:
        return True, f"{figure}: no less than {required}."
    bar, description = _people_bar(people, unit)
    if bar is None:
        return False, f"{figure}: less than {required}, and {description}."
    if judge.low >= bar:
        return True, f"{figure}: no less than {description}."
    return False, f"{figure}: less than {required}, and less than {description}."


def _people_bar(people: Estimate, unit: _Unit) -> tuple[float | None, str]:
    """Return 95 % of people's own figure and its description; None where it is no yardstick."""
    if people.value is None or people.low is None:
        reason = people.reason[:1].lower() + people.reason[1:].rstrip(".")
        return None, f"the figure among people is not known ({reason})"
    among_people = f"the {unit.format(people.value)} among people"
    if people.low <= unit.floor:
        return None, f"{among_people} may be chance (at least {unit.format(people.low)})"
    bar = OF_PEOPLE * people.value
    return bar, f"{unit.format(bar)}, which is 95 % of {among_people}"


def _check_lift(lift: Estimate, unit: _Unit) -> tuple[bool, str]:
    if lift.value is None:
        return False, f"Its lift over length alone is not known: {lift.reason}"
    figure = f"Its lift over length alone is {unit.format_difference(lift.value)}"
    if lift.low is None:
        return False, f"{figure}, without a lower bound: {lift.reason}"
    figure = f"{figure}, at least {unit.format_difference(lift.low)}"
    if lift.low > 0:
        return True, f"{figure}: significantly better than length."
    return False, f"{figure}: not significantly better than length."
