"""Layout of the SVG charts: a scale of scores, and a line over time. Templates draw them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil, floor

STEPS = (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 5000)
MAX_TICKS = 6
MAX_ON_A_PHONE = 3
WIDTH, HEIGHT = 1000, 320
MAX_LINE_TICKS = 5
HOUR, DAY = 3600, 86400
TIME_STEPS = (
    60,
    300,
    600,
    1800,
    HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    7 * DAY,
    14 * DAY,
)


@dataclass(frozen=True)
class Tick:
    """A line at a round score. Phones leave out the labels of minor ones."""

    x: str
    label: int
    minor: bool


@dataclass(frozen=True)
class ScoreScale:
    """The range of scores that the plot covers."""

    low: float
    high: float

    @classmethod
    def covering(cls, values: Sequence[float | None]) -> "ScoreScale":
        numbers = [value for value in values if value is not None]
        low, high = min(numbers), max(numbers)
        margin = max((high - low) * 0.04, 2)
        return cls(low - margin, high + margin)

    def percent(self, value: float) -> str:
        return f"{100 * (value - self.low) / (self.high - self.low):.2f}%"

    def y(self, value: float) -> float:
        """The vertical position, in px from the top of a chart."""
        return round(HEIGHT * (self.high - value) / (self.high - self.low), 1)

    def ticks(self) -> list[Tick]:
        """Round numbers inside the scale, at most MAX_TICKS of them."""
        width = self.high - self.low
        step = next((step for step in STEPS if width / step <= MAX_TICKS), ceil(width / MAX_TICKS))
        first = ceil(self.low / step)
        values = [step * i for i in range(first, floor(self.high / step) + 1)][:MAX_TICKS]
        few = len(values) <= MAX_ON_A_PHONE
        return [Tick(self.percent(v), v, not few and i % 2 == 1) for i, v in enumerate(values)]


# Points are in units of a box of WIDTH x HEIGHT that the page stretches; texts keep their size.


@dataclass(frozen=True)
class ScoreAt:
    """A score at a time, and its interval if there is one; a missing score leaves a gap."""

    at: datetime
    score: float | None
    low: float | None = None
    high: float | None = None

    def moved(self, by: float) -> "ScoreAt":
        ends = (None if end is None else end + by for end in (self.score, self.low, self.high))
        return ScoreAt(self.at, *ends)


@dataclass(frozen=True)
class LineTick:
    """`place`: percent from the left, or px from the top; a phone leaves out the minor ones."""

    place: str
    label: str
    minor: bool


@dataclass(frozen=True)
class LineChart:
    """`pieces`: points of polylines, interrupted where there is no score; `bands`: of polygons, the
    intervals; `dots`: (x %, y px)."""

    pieces: list[str]
    bands: list[str]
    dots: list[tuple[str, str]]
    rows: list[LineTick]
    columns: list[LineTick]
    width: int = WIDTH
    height: int = HEIGHT


def line_chart(moments: Sequence[ScoreAt]) -> LineChart | None:
    """Lay out scores over time with their intervals; None for fewer than two moments."""
    scored = [moment for moment in moments if moment.score is not None]
    if not scored or moments[0].at == moments[-1].at:
        return None
    first, last = moments[0].at, moments[-1].at
    ends = [end for moment in scored for end in (moment.score, moment.low, moment.high)]
    scale = ScoreScale.covering(ends)

    def x(moment: ScoreAt) -> float:
        return (moment.at - first) / (last - first)

    def point(moment: ScoreAt, value: float | None) -> str:
        assert value is not None
        return f"{WIDTH * x(moment):.1f},{scale.y(value):g}"

    measured = [m if m.low is not None else ScoreAt(m.at, None) for m in moments]
    return LineChart(
        pieces=[
            " ".join(point(moment, moment.score) for moment in piece)
            for piece in _unbroken_pieces(moments)
        ],
        bands=[
            " ".join([point(m, m.high) for m in piece] + [point(m, m.low) for m in reversed(piece)])
            for piece in _unbroken_pieces(measured)
        ],
        dots=[(f"{100 * x(m):.2f}%", f"{scale.y(m.score or 0.0):g}") for m in scored],
        rows=score_ticks(scale),
        columns=_time_ticks(first, last),
    )


def score_ticks(scale: ScoreScale) -> list[LineTick]:
    return [LineTick(f"{scale.y(tick.label):g}", str(tick.label), False) for tick in scale.ticks()]


def _unbroken_pieces(moments: Sequence[ScoreAt]) -> list[list[ScoreAt]]:
    """Runs of moments with scores."""
    pieces: list[list[ScoreAt]] = [[]]
    for moment in moments:
        if moment.score is not None:
            pieces[-1].append(moment)
        elif pieces[-1]:
            pieces.append([])
    return [piece for piece in pieces if piece]


def _time_ticks(first: datetime, last: datetime) -> list[LineTick]:
    """Round times in UTC between the ends, few enough for their labels."""
    seconds = (last - first).total_seconds()
    step = next((step for step in TIME_STEPS if seconds / step <= MAX_LINE_TICKS), 0)
    if not step:
        step = -(-int(seconds) // (MAX_LINE_TICKS * DAY)) * DAY
    start, end = first.timestamp(), last.timestamp()
    at = [step * n for n in range(-int(-start // step), int(end // step) + 1)]
    return [
        LineTick(
            f"{100 * (t - start) / (end - start):.2f}%", _time_label(t, step, seconds), i % 2 == 1
        )
        for i, t in enumerate(at)
    ]


def _time_label(timestamp: float, step: int, seconds: float) -> str:
    at = datetime.fromtimestamp(timestamp, UTC)
    if step < DAY:
        return f"{at:%H:%M}" if seconds < DAY else f"{at.day} {at:%b %H:%M}"
    far = seconds > timedelta(days=300).total_seconds()
    return f"{at.day} {at:%b %Y}" if far else f"{at.day} {at:%b}"
