"""Layout of the SVG charts: a scale of scores, and lines over time. Templates draw them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import ceil, floor

from arena.validation import shorten_apart

SHORT, FULL = 21, 40  # characters of a name that fit beside the plot on a phone, on a laptop
STEPS = (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 5000)
MAX_TICKS = 6
MAX_ON_A_PHONE = 3
WIDTH, HEIGHT = 1000, 320
LABEL = 18  # px from one label to the next
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


@dataclass(frozen=True)
class Series:
    label: str
    moments: Sequence[ScoreAt]


@dataclass(frozen=True)
class LineTick:
    """`place`: percent from the left, or px from the top; a phone leaves out the minor ones."""

    place: str
    label: str
    minor: bool


@dataclass(frozen=True)
class PlottedLine:
    """`pieces`: points of polylines, interrupted where there is no score; `dots`: (x %, y px)."""

    style: int | str
    short: str
    full: str
    pieces: list[str]
    dots: list[tuple[str, str]]
    end: float
    label: float
    says: str


@dataclass(frozen=True)
class LineChart:
    lines: list[PlottedLine]
    bands: list[str]
    rows: list[LineTick]
    columns: list[LineTick]
    says: str
    width: int = WIDTH
    height: int = HEIGHT


def line_chart(series: Sequence[Series], band: bool = False) -> LineChart | None:
    """Lay out scores over time, with the `band` of their intervals; None for fewer than two
    moments.
    """
    times = sorted({moment.at for line in series for moment in line.moments})
    scored = [line for line in series if any(m.score is not None for m in line.moments)]
    if len(times) < 2 or not scored:
        return None
    frame = _Frame.covering(times, scored, band)
    ends = [frame.y(_last_scored(line).score) for line in scored]
    labels = spread(ends, LABEL, HEIGHT)
    return LineChart(
        lines=_plot_lines(frame, scored, ends, labels),
        bands=[piece for line in scored for piece in _interval_bands(frame, line)] if band else [],
        rows=score_ticks(frame.scale),
        columns=_time_ticks(times[0], times[-1]),
        says=" ".join(_series_text(line) for line in scored),
    )


@dataclass(frozen=True)
class _Frame:
    first: datetime
    last: datetime
    scale: ScoreScale

    @classmethod
    def covering(cls, times: Sequence[datetime], series: Sequence[Series], band: bool) -> "_Frame":
        moments = [moment for line in series for moment in line.moments]
        values = [moment.score for moment in moments]
        if band:
            values += [end for moment in moments for end in (moment.low, moment.high)]
        return cls(times[0], times[-1], ScoreScale.covering(values))

    def x(self, at: datetime) -> float:
        return (at - self.first) / (self.last - self.first)

    def y(self, value: float | None) -> float:
        """The vertical position, in px from the top."""
        assert value is not None
        return self.scale.y(value)

    def point(self, at: datetime, value: float | None) -> str:
        return f"{WIDTH * self.x(at):.1f},{self.y(value):g}"


def score_ticks(scale: ScoreScale) -> list[LineTick]:
    return [LineTick(f"{scale.y(tick.label):g}", str(tick.label), False) for tick in scale.ticks()]


MOST_RANK_TICKS = 8
REST = "rest"  # the style of lines without a name


def bump_chart(named: Sequence[Series], rest: Sequence[Series]) -> LineChart | None:
    """Lay out ranks over time, which the series hold as scores: `named` lines in colour, the `rest`
    in grey below them. None without two moments."""
    series = [*rest, *named]
    times = sorted({moment.at for line in series for moment in line.moments})
    ranks = [moment.score for line in series for moment in line.moments if moment.score is not None]
    if len(times) < 2 or not ranks or not named:
        return None
    last = int(max(ranks))
    frame = _Frame(times[0], times[-1], ScoreScale(-last - 0.5, -0.5))
    upside_down = [_negated(line) for line in named]
    ends = [frame.y(_last_scored(line).score) for line in upside_down]
    labels = spread(ends, LABEL, HEIGHT)
    says = [_series_text(line) for line in named]
    lines = [
        replace(line, says=says[i], dots=[])
        for i, line in enumerate(_plot_lines(frame, upside_down, ends, labels))
    ]
    grey = [
        replace(_plot_line(frame, 0, _negated(line), 0, 0, "", ""), style=REST, dots=[])
        for line in rest
    ]
    step = max(1, -(-last // MOST_RANK_TICKS))
    ticks = sorted({1, *range(step, last + 1, step)})
    return LineChart(
        lines=[*grey, *lines],
        bands=[],
        rows=[LineTick(f"{frame.y(-rank):g}", str(rank), False) for rank in ticks],
        columns=_time_ticks(times[0], times[-1]),
        says=" ".join(says),
    )


def _negated(series: Series) -> Series:
    moments = [
        ScoreAt(moment.at, None if moment.score is None else -moment.score)
        for moment in series.moments
    ]
    return Series(series.label, moments)


def spread(places: Sequence[float], gap: float, height: float) -> list[float]:
    """Move places apart until each has its `gap`, within 0 to `height`, in the same order.

    Labels that are too close become a block around the mean of their places.
    """
    order = sorted(range(len(places)), key=lambda i: places[i])
    blocks: list[list[int]] = []
    for i in order:
        blocks.append([i])
        while len(blocks) > 1 and _block_start(blocks[-2], places, gap, height) + gap * len(
            blocks[-2]
        ) > _block_start(blocks[-1], places, gap, height):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    result = [0.0] * len(places)
    for block in blocks:
        start = _block_start(block, places, gap, height)
        for n, i in enumerate(block):
            result[i] = round(start + gap * n, 1)
    return result


def _block_start(block: Sequence[int], places: Sequence[float], gap: float, height: float) -> float:
    start = sum(places[i] - gap * n for n, i in enumerate(block)) / len(block)
    most = height - gap / 2 - gap * (len(block) - 1)
    return max(gap / 2, min(start, most))


def _plot_lines(
    frame: _Frame, series: Sequence[Series], ends: Sequence[float], labels: Sequence[float]
) -> list[PlottedLine]:
    names = [line.label for line in series]
    short, full = shorten_apart(names, SHORT), shorten_apart(names, FULL)
    each = zip(series, ends, labels, short, full, strict=True)
    return [_plot_line(frame, i, *line) for i, line in enumerate(each)]


def _plot_line(
    frame: _Frame, style: int, series: Series, end: float, label: float, short: str, full: str
) -> PlottedLine:
    scored = [moment for moment in series.moments if moment.score is not None]
    return PlottedLine(
        style=style,
        short=short,
        full=full,
        pieces=[
            " ".join(frame.point(moment.at, moment.score) for moment in piece)
            for piece in _unbroken_pieces(series.moments)
        ],
        dots=[(f"{100 * frame.x(m.at):.2f}%", f"{frame.y(m.score):g}") for m in scored],
        end=end,
        label=label,
        says=_series_text(series),
    )


def _unbroken_pieces(moments: Sequence[ScoreAt]) -> list[list[ScoreAt]]:
    """Runs of moments with scores."""
    pieces: list[list[ScoreAt]] = [[]]
    for moment in moments:
        if moment.score is not None:
            pieces[-1].append(moment)
        elif pieces[-1]:
            pieces.append([])
    return [piece for piece in pieces if piece]


def _interval_bands(frame: _Frame, series: Series) -> list[str]:
    """Polygons: along the upper ends, and back along the lower ones."""
    measured = [m if m.low is not None else ScoreAt(m.at, None) for m in series.moments]
    return [
        " ".join(
            [frame.point(m.at, m.high) for m in piece]
            + [frame.point(m.at, m.low) for m in reversed(piece)]
        )
        for piece in _unbroken_pieces(measured)
    ]


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


def _last_scored(series: Series) -> ScoreAt:
    return [moment for moment in series.moments if moment.score is not None][-1]


def _series_text(series: Series) -> str:
    scores = [moment.score for moment in series.moments if moment.score is not None]
    return f"{series.label}: from {scores[0]:.0f} to {scores[-1]:.0f}."
