"""Layout of scores against a price or a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from arena.validation import shorten_apart
from ranking.views.charts import (
    HEIGHT,
    MAX_LINE_TICKS,
    SHORT,
    WIDTH,
    LineTick,
    ScoreScale,
    score_ticks,
)

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
    scale = ScoreScale.covering([end for p in points for end in (p.score, p.low, p.high)])
    axis = _ValueAxis.covering([point.value for point in points])
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
        frontier=_staircase(corners),
        rows=score_ticks(scale),
        columns=axis.ticks(),
        is_log=axis.is_log,
    )


@dataclass(frozen=True)
class _ValueAxis:
    low: float
    high: float
    is_log: bool

    @classmethod
    def covering(cls, values: Sequence[float]) -> "_ValueAxis":
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


def _staircase(corners: Sequence[tuple[float, float]]) -> str:
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
            box = _label_box(width * x + dx, y + dy, LETTER * len(name), anchor)
            inside = box[0] >= 0 and box[2] <= width and box[1] >= 0 and box[3] <= HEIGHT
            if inside and not any(
                (
                    box[0] < other[2]
                    and other[0] < box[2]
                    and box[1] < other[3]
                    and other[1] < box[3]
                )
                for other in taken
                if other != dot
            ):
                labels.append(ScatterLabel(f"{100 * x:.2f}%", dx, y + dy, anchor))
                taken.append(box)
                break
        else:
            labels.append(None)
    return labels


Box = tuple[float, float, float, float]


def _label_box(x: float, y: float, width: float, anchor: str) -> Box:
    left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
    return left, y - 8, left + width, y + 8
