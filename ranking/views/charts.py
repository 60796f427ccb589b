"""Layout of the SVG charts: a scale of scores, lines over time, and scores against a price or time.

Templates draw them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import ceil, floor, log10

from arena.validation import shorten_apart
from ranking.templatetags.ranking_tags import percent

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


# -- A scale of scores -----------------------------------------------------------------------------


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
    def around(cls, values: Sequence[float | None]) -> "ScoreScale":
        known = [value for value in values if value is not None]
        low, high = min(known), max(known)
        margin = max((high - low) * 0.04, 2)
        return cls(low - margin, high + margin)

    def percent(self, value: float) -> str:
        return f"{100 * (value - self.low) / (self.high - self.low):.2f}%"

    def y(self, value: float) -> float:
        """The vertical position, in px from the top of a chart."""
        return round(HEIGHT * (self.high - value) / (self.high - self.low), 1)

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


# -- Lines over time -------------------------------------------------------------------------------

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
    frame = _Frame.around(times, scored, band)
    ends = [frame.y(_last(line).score) for line in scored]
    labels = spread(ends, LABEL, HEIGHT)
    return LineChart(
        lines=_lines(frame, scored, ends, labels),
        bands=[piece for line in scored for piece in _bands(frame, line)] if band else [],
        rows=_score_ticks(frame.scale),
        columns=_columns(times[0], times[-1]),
        says=" ".join(_series_text(line) for line in scored),
    )


@dataclass(frozen=True)
class _Frame:
    first: datetime
    last: datetime
    scale: ScoreScale

    @classmethod
    def around(cls, times: Sequence[datetime], series: Sequence[Series], band: bool) -> "_Frame":
        moments = [moment for line in series for moment in line.moments]
        values = [moment.score for moment in moments]
        if band:
            values += [end for moment in moments for end in (moment.low, moment.high)]
        return cls(times[0], times[-1], ScoreScale.around(values))

    def x(self, at: datetime) -> float:
        return (at - self.first) / (self.last - self.first)

    def y(self, value: float | None) -> float:
        """The vertical position, in px from the top."""
        assert value is not None
        return self.scale.y(value)

    def point(self, at: datetime, value: float | None) -> str:
        return f"{WIDTH * self.x(at):.1f},{self.y(value):g}"


def _score_ticks(scale: ScoreScale) -> list[LineTick]:
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
    ends = [frame.y(_last(line).score) for line in upside_down]
    labels = spread(ends, LABEL, HEIGHT)
    says = [_series_text(line) for line in named]
    lines = [
        replace(line, says=says[i], dots=[])
        for i, line in enumerate(_lines(frame, upside_down, ends, labels))
    ]
    grey = [
        replace(_line(frame, 0, _negated(line), 0, 0, "", ""), style=REST, dots=[]) for line in rest
    ]
    step = max(1, -(-last // MOST_RANK_TICKS))
    ticks = sorted({1, *range(step, last + 1, step)})
    return LineChart(
        lines=[*grey, *lines],
        bands=[],
        rows=[LineTick(f"{frame.y(-rank):g}", str(rank), False) for rank in ticks],
        columns=_columns(times[0], times[-1]),
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
        while len(blocks) > 1 and _start(blocks[-2], places, gap, height) + gap * len(
            blocks[-2]
        ) > _start(blocks[-1], places, gap, height):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    result = [0.0] * len(places)
    for block in blocks:
        start = _start(block, places, gap, height)
        for n, i in enumerate(block):
            result[i] = round(start + gap * n, 1)
    return result


def _start(block: Sequence[int], places: Sequence[float], gap: float, height: float) -> float:
    start = sum(places[i] - gap * n for n, i in enumerate(block)) / len(block)
    most = height - gap / 2 - gap * (len(block) - 1)
    return max(gap / 2, min(start, most))


def _lines(
    frame: _Frame, series: Sequence[Series], ends: Sequence[float], labels: Sequence[float]
) -> list[PlottedLine]:
    names = [line.label for line in series]
    short, full = shorten_apart(names, SHORT), shorten_apart(names, FULL)
    each = zip(series, ends, labels, short, full, strict=True)
    return [_line(frame, i, *line) for i, line in enumerate(each)]


def _line(
    frame: _Frame, style: int, series: Series, end: float, label: float, short: str, full: str
) -> PlottedLine:
    known = [moment for moment in series.moments if moment.score is not None]
    return PlottedLine(
        style=style,
        short=short,
        full=full,
        pieces=[
            " ".join(frame.point(moment.at, moment.score) for moment in piece)
            for piece in _pieces(series.moments)
        ],
        dots=[(f"{100 * frame.x(m.at):.2f}%", f"{frame.y(m.score):g}") for m in known],
        end=end,
        label=label,
        says=_series_text(series),
    )


def _pieces(moments: Sequence[ScoreAt]) -> list[list[ScoreAt]]:
    """Runs of moments with scores."""
    pieces: list[list[ScoreAt]] = [[]]
    for moment in moments:
        if moment.score is not None:
            pieces[-1].append(moment)
        elif pieces[-1]:
            pieces.append([])
    return [piece for piece in pieces if piece]


def _bands(frame: _Frame, series: Series) -> list[str]:
    """Polygons: along the upper ends, and back along the lower ones."""
    measured = [m if m.low is not None else ScoreAt(m.at, None) for m in series.moments]
    return [
        " ".join(
            [frame.point(m.at, m.high) for m in piece]
            + [frame.point(m.at, m.low) for m in reversed(piece)]
        )
        for piece in _pieces(measured)
    ]


def _columns(first: datetime, last: datetime) -> list[LineTick]:
    """Round times in UTC between the ends, few enough for their labels."""
    seconds = (last - first).total_seconds()
    step = next((step for step in TIME_STEPS if seconds / step <= MAX_LINE_TICKS), 0)
    if not step:
        step = -(-int(seconds) // (MAX_LINE_TICKS * DAY)) * DAY
    start, end = first.timestamp(), last.timestamp()
    at = [step * n for n in range(-int(-start // step), int(end // step) + 1)]
    return [
        LineTick(f"{100 * (t - start) / (end - start):.2f}%", _time(t, step, seconds), i % 2 == 1)
        for i, t in enumerate(at)
    ]


def _time(timestamp: float, step: int, seconds: float) -> str:
    at = datetime.fromtimestamp(timestamp, UTC)
    if step < DAY:
        return f"{at:%H:%M}" if seconds < DAY else f"{at.day} {at:%b %H:%M}"
    far = seconds > timedelta(days=300).total_seconds()
    return f"{at.day} {at:%b %Y}" if far else f"{at.day} {at:%b}"


def _last(series: Series) -> ScoreAt:
    return [moment for moment in series.moments if moment.score is not None][-1]


def _series_text(series: Series) -> str:
    known = [moment.score for moment in series.moments if moment.score is not None]
    return f"{series.label}: from {known[0]:.0f} to {known[-1]:.0f}."


# -- A confidence sequence as votes came in --------------------------------------------------------

PERCENTS = (0, 25, 50, 75, 100)
MOST_VOTE_TICKS = 5


@dataclass(frozen=True)
class ShareAt:
    """A share of preferences with its interval, from 0 to 1, after a number of votes."""

    votes: int
    share: float
    low: float
    high: float
    is_decided: bool


@dataclass(frozen=True)
class SequenceChart:
    """`decided`: the votes after which the result was first conclusive, and the place of that in
    percent from the left; None if it never was."""

    line: str
    band: str
    rows: list[LineTick]
    columns: list[LineTick]
    decided: tuple[int, str] | None
    says: str
    width: int = WIDTH
    height: int = HEIGHT


def sequence_chart(checks: Sequence[ShareAt]) -> SequenceChart | None:
    """Lay out shares over votes; None if no vote came between the first check and the last."""
    if not checks or checks[0].votes == checks[-1].votes:
        return None
    first, last = checks[0].votes, checks[-1].votes
    reach = max(last - first, 1)

    def x(votes: float) -> float:
        return (votes - first) / reach

    def points(places: Sequence[tuple[int, float]]) -> str:
        return " ".join(f"{WIDTH * x(n):.1f},{HEIGHT * (1 - share):.1f}" for n, share in places)

    band = [(c.votes, c.high) for c in checks] + [(c.votes, c.low) for c in reversed(checks)]
    step = next((step for step in STEPS if reach / step <= MOST_VOTE_TICKS), reach)
    decided = next((check.votes for check in checks if check.is_decided), None)
    ends = [percent(end) for check in (checks[0], checks[-1]) for end in (check.low, check.high)]
    return SequenceChart(
        line=points([(check.votes, check.share) for check in checks]),
        band=points(band),
        rows=[LineTick(f"{HEIGHT * (1 - p / 100):g}", percent(p / 100), False) for p in PERCENTS],
        columns=[
            LineTick(f"{100 * x(n):.2f}%", f"{n:,}", i % 2 == 1)
            for i, n in enumerate(range(-(-first // step) * step, last + 1, step))
        ],
        decided=None if decided is None else (decided, f"{100 * x(decided):.2f}%"),
        says=f"After {first:,} votes the interval is {ends[0]} to {ends[1]}, "
        f"after {last:,} it is {ends[2]} to {ends[3]}.",
    )


# -- Scores against a price or a time --------------------------------------------------------------

LAPTOP, PHONE = 960, 300  # px of the plot's width, for which labels are placed
LETTER, GAP = 7.2, 9  # px of a letter, and between a dot and its label
BESIDE = (
    *(("start", GAP, 0), ("end", -GAP, 0), ("middle", 0, -16)),
    *(("middle", 0, 16), ("end", GAP, -16), ("start", -GAP, -16)),
)
MOST_LABELS = 40
WIDE = 20  # times the smallest value; if the largest is above, the scale is logarithmic
AXIS = (1, 2, 3, 5)  # first digits of round numbers


@dataclass(frozen=True)
class ScatterPoint:
    """A candidate: its score, the interval if there is one, and what the score costs."""

    name: str
    url: str
    value: float
    score: float
    low: float | None
    high: float | None
    says: str


@dataclass(frozen=True)
class ScatterLabel:
    x: str
    dx: int
    y: float
    anchor: str


@dataclass(frozen=True)
class PlottedPoint:
    """`x` in percent, the rest in px from the top; labels are None if there is no room."""

    point: ScatterPoint
    short: str
    is_best: bool
    x: str
    y: float
    top: float | None
    bottom: float | None
    on_laptop: ScatterLabel | None
    on_phone: ScatterLabel | None

    @property
    def labels(self) -> list[tuple[str, ScatterLabel]]:
        """The labels that found room, with the class of their screen."""
        both = (("on-laptop", self.on_laptop), ("on-phone", self.on_phone))
        return [(screen, label) for screen, label in both if label]


@dataclass(frozen=True)
class ScatterChart:
    """`frontier`: corners of the line of the best scores for each value, in a box of WIDTH."""

    points: list[PlottedPoint]
    frontier: str
    rows: list[LineTick]
    columns: list[LineTick]
    is_log: bool
    width: int = WIDTH
    height: int = HEIGHT


def frontier(points: Sequence[ScatterPoint]) -> set[str]:
    """The addresses of the points that no other beats: at least as good for at most as much, and
    better in one of the two."""
    return {
        point.url
        for point in points
        if not any(
            other.score >= point.score
            and other.value <= point.value
            and (other.score, other.value) != (point.score, point.value)
            for other in points
        )
    }


def scatter_chart(points: Sequence[ScatterPoint]) -> ScatterChart | None:
    """Lay out scores against values; None without two points."""
    if len(points) < 2:
        return None
    scale = ScoreScale.around([end for p in points for end in (p.score, p.low, p.high)])
    axis = _ValueAxis.around([point.value for point in points])
    best = frontier(points)
    # The best points are named first; others go without a label if there is no room.
    order = sorted(points, key=lambda point: (point.url not in best, -point.score))
    places = [(axis.share(point.value), scale.y(point.score)) for point in order]
    names = shorten_apart([point.name for point in order], SHORT)
    wide = _place_labels(places, names, LAPTOP)
    narrow = _place_labels(places, names, PHONE)
    corners = sorted((axis.share(p.value), scale.y(p.score)) for p in points if p.url in best)
    return ScatterChart(
        points=[
            PlottedPoint(
                point,
                names[i],
                point.url in best,
                f"{100 * x:.2f}%",
                y,
                None if point.high is None else scale.y(point.high),
                None if point.low is None else scale.y(point.low),
                wide[i],
                narrow[i],
            )
            for i, (point, (x, y)) in enumerate(zip(order, places, strict=True))
        ],
        frontier=_steps(corners),
        rows=_score_ticks(scale),
        columns=axis.ticks(),
        is_log=axis.is_log,
    )


@dataclass(frozen=True)
class _ValueAxis:
    low: float
    high: float
    is_log: bool

    @classmethod
    def around(cls, values: Sequence[float]) -> "_ValueAxis":
        low, high = min(values), max(values)
        if low > 0 and high / low > WIDE:
            return cls(log10(low) - 0.1, log10(high) + 0.1, True)
        margin = (high - low) * 0.06 or high * 0.1 or 1.0
        return cls(max(low - margin, 0.0), high + margin, False)

    def share(self, value: float) -> float:
        at = log10(value) if self.is_log else value
        return (at - self.low) / (self.high - self.low)

    def ticks(self) -> list[LineTick]:
        values = self._round_numbers()
        return [
            LineTick(f"{100 * self.share(v):.2f}%", f"{v:g}", i % 2 == 1 and len(values) > 4)
            for i, v in enumerate(values)
        ]

    def _round_numbers(self) -> list[float]:
        if not self.is_log:
            width = self.high - self.low
            power = 10.0 ** floor(log10(width / MAX_LINE_TICKS))
            step = next(s * power for s in (1, 2, 5, 10) if width / (s * power) <= MAX_LINE_TICKS)
            first, last = ceil(self.low / step), floor(self.high / step)
            return [round(step * n, 12) for n in range(first, last + 1)]
        powers = range(floor(self.low), ceil(self.high) + 1)
        digits = AXIS if self.high - self.low < 2 else (1,)
        values = [digit * 10.0**power for power in powers for digit in digits]
        return [v for v in values if self.low <= log10(v) <= self.high]


def _steps(corners: Sequence[tuple[float, float]]) -> str:
    """A staircase from the cheapest of the best to the best of all."""
    points: list[str] = []
    for i, (x, y) in enumerate(corners):
        if i:
            points.append(f"{WIDTH * x:.1f},{corners[i - 1][1]:g}")
        points.append(f"{WIDTH * x:.1f},{y:g}")
    return " ".join(points)


def _place_labels(
    places: Sequence[tuple[float, float]], names: Sequence[str], width: int
) -> list[ScatterLabel | None]:
    """A label beside or above each dot where it covers no other label and no dot."""
    dots = [(width * x - 5, y - 6, width * x + 5, y + 6) for x, y in places]
    taken, labels = [*dots], list[ScatterLabel | None]()
    for (x, y), name, dot in zip(places, names, dots, strict=True):
        for anchor, dx, dy in BESIDE if len(labels) < MOST_LABELS else ():
            box = _box(width * x + dx, y + dy, LETTER * len(name), anchor)
            inside = box[0] >= 0 and box[2] <= width and box[1] >= 0 and box[3] <= HEIGHT
            if inside and not any(_overlap(box, other) for other in taken if other != dot):
                labels.append(ScatterLabel(f"{100 * x:.2f}%", dx, y + dy, anchor))
                taken.append(box)
                break
        else:
            labels.append(None)
    return labels


Box = tuple[float, float, float, float]


def _box(x: float, y: float, width: float, anchor: str) -> Box:
    left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
    return left, y - 8, left + width, y + 8


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
