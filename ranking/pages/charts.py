"""Charts as numbers: where each mark of an SVG stands. The templates draw them, and escape."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor

ROW = 26  # px; texts are not scaled, so that they stay legible on a phone
AXIS = 26
SHORT, FULL = 21, 40  # characters of a name that fit beside the plot on a phone, on a laptop
STEPS = (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 5000)
MAX_TICKS = 6
MAX_ON_A_PHONE = 3


@dataclass(frozen=True)
class Mark:
    """One candidate: `label`, its score, and its interval where there is one."""

    label: str
    score: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Tick:
    """A line at a round score. A phone has room for the labels of those that are not minor."""

    x: str
    label: int
    minor: bool


@dataclass(frozen=True)
class Row:
    """Positions in px from the top and, as text, in percent from the left of the plot."""

    label: str
    short: str
    full: str
    top: int
    middle: int
    x: str
    low: str | None
    high: str | None
    says: str


@dataclass(frozen=True)
class Chart:
    """A dot and a line for each candidate, best first, over a scale with `ticks`."""

    height: int
    ticks: list[Tick]
    rows: list[Row]
    says: str


def interval_chart(marks: Sequence[Mark]) -> Chart | None:
    """Lay out scores and intervals; None when nobody has a score."""
    if not marks:
        return None
    marks = sorted(marks, key=lambda mark: -mark.score)
    scale = Scale.around([value for mark in marks for value in (mark.low, mark.score, mark.high)])
    return Chart(
        height=AXIS + ROW * len(marks),
        ticks=scale.ticks(),
        rows=[_row(i, mark, scale) for i, mark in enumerate(marks)],
        says=_summary(marks),
    )


@dataclass(frozen=True)
class Scale:
    """Elo from `low` to `high`, laid over the width of the plot."""

    low: float
    high: float

    @classmethod
    def around(cls, values: Sequence[float | None]) -> "Scale":
        known = [value for value in values if value is not None]
        low, high = min(known), max(known)
        margin = max((high - low) * 0.04, 2)
        return cls(low - margin, high + margin)

    def percent(self, value: float) -> str:
        return f"{100 * (value - self.low) / (self.high - self.low):.2f}%"

    def ticks(self) -> list[Tick]:
        """Round numbers inside the scale, at most MAX_TICKS of them."""
        values = self._round_numbers()
        few = len(values) <= MAX_ON_A_PHONE
        return [Tick(self.percent(v), v, not few and i % 2 == 1) for i, v in enumerate(values)]

    def _round_numbers(self) -> list[int]:
        width = self.high - self.low
        step = next((step for step in STEPS if width / step <= MAX_TICKS), ceil(width / MAX_TICKS))
        first = ceil(self.low / step)
        return [step * i for i in range(first, floor(self.high / step) + 1)][:MAX_TICKS]


def _row(i: int, mark: Mark, scale: Scale) -> Row:
    middle = AXIS + ROW * i + ROW // 2
    return Row(
        label=mark.label,
        short=shorten(mark.label, SHORT),
        full=shorten(mark.label, FULL),
        top=middle - ROW // 2,
        middle=middle,
        x=scale.percent(mark.score),
        low=None if mark.low is None else scale.percent(mark.low),
        high=None if mark.high is None else scale.percent(mark.high),
        says=_says(mark),
    )


def shorten(name: str, limit: int) -> str:
    """Leave out the middle: what tells variants of one model apart stands at the end."""
    if len(name) <= limit:
        return name
    head = (limit - 1) // 2
    return f"{name[:head].rstrip()}…{name[head + 1 - limit :].lstrip()}"


def _says(mark: Mark) -> str:
    interval = "" if mark.low is None else f", 95 % interval {mark.low:.0f} to {mark.high:.0f}"
    return f"{mark.label}: {mark.score:.0f}{interval}"


def _summary(marks: Sequence[Mark]) -> str:
    return f"{len(marks)} candidates, from {_says(marks[0])} down to {_says(marks[-1])}."
