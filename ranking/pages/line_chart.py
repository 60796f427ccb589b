"""A chart of lines over time as numbers: where each point, label and tick of an SVG stands.

Points are in parts of a box of WIDTH x HEIGHT that the page stretches; texts keep their size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ranking.pages.charts import FULL, SHORT, Scale, shorten

WIDTH, HEIGHT = 1000, 320
LABEL = 18  # px from one label to the next
MAX_TICKS = 5
HOUR, DAY = 3600, 86400
STEPS = (60, 300, 600, 1800, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY)


@dataclass(frozen=True)
class Moment:
    """A score at a time, and its interval where there is one; no score leaves a gap."""

    at: datetime
    score: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Series:
    label: str
    moments: Sequence[Moment]


@dataclass(frozen=True)
class Tick:
    """`place`: percent from the left, or px from the top; a phone leaves out the minor ones."""

    place: str
    label: str
    minor: bool


@dataclass(frozen=True)
class Line:
    """`pieces`: points of polylines, broken where there is no score; `dots`: (x %, y px)."""

    style: int
    short: str
    full: str
    pieces: list[str]
    dots: list[tuple[str, str]]
    end: float
    label: float
    says: str


@dataclass(frozen=True)
class LineChart:
    lines: list[Line]
    bands: list[str]
    rows: list[Tick]
    columns: list[Tick]
    says: str
    width: int = WIDTH
    height: int = HEIGHT


def line_chart(series: Sequence[Series], band: bool = False) -> LineChart | None:
    """Lay out scores over time, with the `band` of their intervals; None without two moments."""
    times = sorted({moment.at for line in series for moment in line.moments})
    scored = [line for line in series if any(m.score is not None for m in line.moments)]
    if len(times) < 2 or not scored:
        return None
    frame = _Frame.around(times, scored, band)
    ends = [frame.y(_last(line).score) for line in scored]
    labels = spread(ends, LABEL, HEIGHT)
    return LineChart(
        lines=[_line(frame, i, scored[i], ends[i], labels[i]) for i in range(len(scored))],
        bands=[piece for line in scored for piece in _bands(frame, line)] if band else [],
        rows=frame.rows(),
        columns=_columns(times[0], times[-1]),
        says=" ".join(_says(line) for line in scored),
    )


@dataclass(frozen=True)
class _Frame:
    first: datetime
    last: datetime
    scale: Scale

    @classmethod
    def around(cls, times: Sequence[datetime], series: Sequence[Series], band: bool) -> "_Frame":
        moments = [moment for line in series for moment in line.moments]
        values = [moment.score for moment in moments]
        if band:
            values += [end for moment in moments for end in (moment.low, moment.high)]
        return cls(times[0], times[-1], Scale.around(values))

    def x(self, at: datetime) -> float:
        """From 0 to 1."""
        return (at - self.first) / (self.last - self.first)

    def y(self, value: float | None) -> float:
        """Px from the top."""
        assert value is not None
        share = (self.scale.high - value) / (self.scale.high - self.scale.low)
        return round(HEIGHT * share, 1)

    def rows(self) -> list[Tick]:
        return [
            Tick(f"{self.y(tick.label):g}", str(tick.label), False) for tick in self.scale.ticks()
        ]

    def point(self, at: datetime, value: float | None) -> str:
        return f"{WIDTH * self.x(at):.1f},{self.y(value):g}"


def spread(places: Sequence[float], gap: float, height: float) -> list[float]:
    """Move places apart until each has its `gap`, within 0 to `height`, in the same order.

    Labels that stand too close become a block around the middle of where they want to be.
    """
    order = sorted(range(len(places)), key=lambda i: places[i])
    blocks: list[list[int]] = []
    for i in order:
        blocks.append([i])
        while len(blocks) > 1 and _start(blocks[-2], places, gap, height) + gap * len(
            blocks[-2]
        ) > _start(blocks[-1], places, gap, height):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    found = [0.0] * len(places)
    for block in blocks:
        start = _start(block, places, gap, height)
        for n, i in enumerate(block):
            found[i] = round(start + gap * n, 1)
    return found


def _start(block: Sequence[int], places: Sequence[float], gap: float, height: float) -> float:
    wanted = sum(places[i] - gap * n for n, i in enumerate(block)) / len(block)
    most = height - gap / 2 - gap * (len(block) - 1)
    return max(gap / 2, min(wanted, most))


def _line(frame: _Frame, style: int, series: Series, end: float, label: float) -> Line:
    known = [moment for moment in series.moments if moment.score is not None]
    return Line(
        style=style,
        short=shorten(series.label, SHORT),
        full=shorten(series.label, FULL),
        pieces=[
            " ".join(frame.point(moment.at, moment.score) for moment in piece)
            for piece in _pieces(series.moments)
        ],
        dots=[(f"{100 * frame.x(m.at):.2f}%", f"{frame.y(m.score):g}") for m in known],
        end=end,
        label=label,
        says=_says(series),
    )


def _pieces(moments: Sequence[Moment]) -> list[list[Moment]]:
    """Runs of moments with scores."""
    pieces: list[list[Moment]] = [[]]
    for moment in moments:
        if moment.score is not None:
            pieces[-1].append(moment)
        elif pieces[-1]:
            pieces.append([])
    return [piece for piece in pieces if piece]


def _bands(frame: _Frame, series: Series) -> list[str]:
    """Polygons from the high ends there to the low ends back."""
    measured = [m if m.low is not None else Moment(m.at, None) for m in series.moments]
    return [
        " ".join(
            [frame.point(m.at, m.high) for m in piece]
            + [frame.point(m.at, m.low) for m in reversed(piece)]
        )
        for piece in _pieces(measured)
    ]


def _columns(first: datetime, last: datetime) -> list[Tick]:
    """Round times of UTC between the ends, few enough for their labels."""
    seconds = (last - first).total_seconds()
    step = next((step for step in STEPS if seconds / step <= MAX_TICKS), 0)
    if not step:
        step = -(-int(seconds) // (MAX_TICKS * DAY)) * DAY
    start, end = first.timestamp(), last.timestamp()
    at = [step * n for n in range(-int(-start // step), int(end // step) + 1)]
    return [
        Tick(f"{100 * (t - start) / (end - start):.2f}%", _time(t, step, seconds), i % 2 == 1)
        for i, t in enumerate(at)
    ]


def _time(timestamp: float, step: int, seconds: float) -> str:
    at = datetime.fromtimestamp(timestamp, UTC)
    if step < DAY:
        return f"{at:%H:%M}" if seconds < DAY else f"{at.day} {at:%b %H:%M}"
    far = seconds > timedelta(days=300).total_seconds()
    return f"{at.day} {at:%b %Y}" if far else f"{at.day} {at:%b}"


def _last(series: Series) -> Moment:
    return [moment for moment in series.moments if moment.score is not None][-1]


def _says(series: Series) -> str:
    known = [moment.score for moment in series.moments if moment.score is not None]
    return f"{series.label}: from {known[0]:.0f} to {known[-1]:.0f}."
