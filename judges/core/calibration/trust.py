"""Whether a judge's votes may stand beside people's. The rule is the same for every judge.

Pairs: the lower bound of the decisive agreement with all labels is at least 75 %, or at least 95 %
of what people reach among themselves on the same items; and the lower bound of the judge's lift
over "the longer answer wins" is above 0. What people reach is a yardstick only where it is surely
better than tossing coins: otherwise any judge would come up to it.

Scores: a response alone shows no preference, and a judge that is stricter than people throughout
still ranks as they do. So the rule asks for correlation, not for equal scores: the lower bound of
Pearson with all labels is at least 0.75, or at least 95 % of what people's scores reach among
themselves where that is surely above 0; and the lower bound of the lift over length is above 0.

A bound that cannot be told is not reached.
"""

from dataclasses import dataclass

from judges.core.calibration.pairs import PairReport
from judges.core.calibration.plain import Plain
from judges.core.calibration.scores import ScoreReport
from ranking.stats import Estimate

ENOUGH = 0.75
OF_PEOPLE = 0.95
COIN_TOSS = 0.5


@dataclass(frozen=True)
class Trust(Plain):
    """``reasons``: a sentence on agreement and one on the baseline, whichever way they went."""

    trusted: bool
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class _Unit:
    """How a figure is called and written, and what people's own must surely exceed."""

    name: str
    percent: bool
    floor: float

    def say(self, value: float) -> str:
        return f"{100 * value:.1f} %" if self.percent else f"{value:.3f}"


_AGREEMENT = _Unit("Agreement with people", True, COIN_TOSS)
_CORRELATION = _Unit("Correlation with people (Pearson)", False, 0.0)


def is_trusted(report: PairReport | ScoreReport) -> Trust:
    """Hold a report against the rule."""
    if isinstance(report, PairReport):
        judge, people, unit = report.against_all.decisive, report.people.decisive, _AGREEMENT
        lift = report.longer.lift_decisive
    else:
        judge, people, unit = report.against_all.pearson, report.people.pearson, _CORRELATION
        lift = report.length.lift
    agrees, first = _agrees(judge, people, unit)
    beats, second = _beats(lift, unit)
    return Trust(agrees and beats, (first, second))


def _agrees(judge: Estimate, people: Estimate, unit: _Unit) -> tuple[bool, str]:
    if judge.value is None:
        return False, f"{unit.name} is not known: {judge.reason}"
    said = f"{unit.name} is {unit.say(judge.value)} over {judge.n} labels"
    if judge.low is None:
        return False, f"{said}, without a lower bound: {judge.reason}"
    said = f"{said}, at least {unit.say(judge.low)}"
    if judge.low >= ENOUGH:
        return True, f"{said}: no less than the {unit.say(ENOUGH)} asked for."
    bar, note = _people_bar(people, unit)
    if bar is not None and judge.low >= bar:
        return True, f"{said}: no less than {note}."
    return False, f"{said}: less than the {unit.say(ENOUGH)} asked for, and {_unmet(bar, note)}."


def _unmet(bar: float | None, note: str) -> str:
    return note if bar is None else f"less than {note}"


def _people_bar(people: Estimate, unit: _Unit) -> tuple[float | None, str]:
    """95 % of what people reach, where that is a yardstick, and how to say it."""
    if people.value is None or people.low is None:
        reason = people.reason[:1].lower() + people.reason[1:].rstrip(".")
        return None, f"people's own cannot be told ({reason})"
    reached = f"the {unit.say(people.value)} that people reach among themselves"
    if people.low <= unit.floor:
        return None, f"{reached} may be chance (at least {unit.say(people.low)})"
    bar = OF_PEOPLE * people.value
    return bar, f"{unit.say(bar)}, which is 95 % of {reached}"


def _beats(lift: Estimate, unit: _Unit) -> tuple[bool, str]:
    if lift.value is None:
        return False, f"Its lift over length alone is not known: {lift.reason}"
    said = f"Its lift over length alone is {_points(lift.value, unit)}"
    if lift.low is None:
        return False, f"{said}, without a lower bound: {lift.reason}"
    said = f"{said}, at least {_points(lift.low, unit)}"
    if lift.low > 0:
        return True, f"{said}: it beats it."
    return False, f"{said}: it does not surely beat it."


def _points(difference: float, unit: _Unit) -> str:
    return f"{100 * difference:+.1f} points" if unit.percent else f"{difference:+.3f}"
