"""Layout of scores against a price or a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from arena.validation import shorten_apart
from ranking.costs import PricedScore, best_for_their_price
from ranking.views.charts import HEIGHT, MAX_LINE_TICKS, LineTick, ScoreScale, score_ticks

LAPTOP, PHONE = 960, 300  # px of the plot's width, for which labels are placed
LETTER, GAP = 7.2, 9  # px of a letter, and between a dot and its label
LONGEST = 21  # letters of a label
BESIDE = (
    *(("start", GAP, 0), ("end", -GAP, 0), ("middle", 0, -16)),
    *(("middle", 0, 16), ("end", GAP, -16), ("start", -GAP, -16)),
    *(("start", GAP, 16), ("end", -GAP, 16)),
)
SHIFT = {"start": 0.0, "middle": 0.5, "end": 1.0}  # of its width, to the left
MOST_LABELS = 40
WIDE = 10  # times the smallest value; if the largest is above, the scale is logarithmic
AXIS = (1, 2, 5)  # first digits of round numbers
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class ScatterLabel:
    """A candidate's name beside its dot, on the screen that has room for it there."""

    screen: str
    dx: float
    y: float
    anchor: str


@dataclass(frozen=True)
class PlottedPoint:
    """`x` in percent, the rest in px from the top; `tier` is 0 if it is unknown."""

    point: PricedScore
    short: str
    is_best: bool
    tier: int
    x: str
    y: float
    top: float | None
    bottom: float | None
    labels: list[ScatterLabel]


@dataclass(frozen=True)
class ScatterChart:
    points: list[PlottedPoint]
    rows: list[LineTick]
    columns: list[LineTick]
    is_log: bool
    height: int = HEIGHT


def scatter_chart(
    points: Sequence[PricedScore], tiers: Sequence[Sequence[int]] = ()
) -> ScatterChart | None:
    """Lay out scores against values; None without two points."""
    if len(points) < 2:
        return None
    scale = ScoreScale.covering([end for p in points for end in (p.score, p.low, p.high)])
    axis = _ValueAxis.covering([point.value for point in points])
    best = best_for_their_price(points)
    tier_of = {pk: min(number, 4) for number, tier in enumerate(tiers, 1) for pk in tier}
    tier_of = tier_of if len(tiers) > 1 else {}
    # The best points are named first; others go without a label if there is no room.
    order = sorted(points, key=lambda point: (point.candidate not in best, -point.score))
    places = [(axis.share(point.value), scale.y(point.score)) for point in order]
    names = shorten_apart([point.name for point in order], LONGEST)
    labels = [
        _place_labels(places, names, screen, width)
        for screen, width in (("on-laptop", LAPTOP), ("on-phone", PHONE))
    ]
    return ScatterChart(
        points=[
            PlottedPoint(
                point,
                names[i],
                point.candidate in best,
                tier_of.get(point.candidate, 0),
                f"{100 * x:.2f}%",
                y,
                None if point.high is None else scale.y(point.high),
                None if point.low is None else scale.y(point.low),
                [label for of_screen in labels if (label := of_screen[i])],
            )
            for i, (point, (x, y)) in enumerate(zip(order, places, strict=True))
        ],
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


def _place_labels(
    places: Sequence[tuple[float, float]], names: Sequence[str], screen: str, width: int
) -> list[ScatterLabel | None]:
    """A label beside or above each dot where it covers no other label and no other dot."""
    dots = [(width * x - 5, y - 6, width * x + 5, y + 6) for x, y in places]
    taken, labels = list[Box](), list[ScatterLabel | None]()
    for i, ((x, y), name) in enumerate(zip(places, names, strict=True)):
        found = None
        for anchor, dx, dy in BESIDE if len(taken) < MOST_LABELS else ():
            left = width * x + dx - SHIFT[anchor] * LETTER * len(name)
            box = (left, y + dy - 8, left + LETTER * len(name), y + dy + 8)
            is_inside = box[0] >= 0 and box[2] <= width and box[1] >= 0 and box[3] <= HEIGHT
            if is_inside and not any(
                _overlap(box, one) for one in (*taken, *dots[:i], *dots[i + 1 :])
            ):
                found = ScatterLabel(screen, dx, y + dy, anchor)
                taken.append(box)
                break
        labels.append(found)
    return labels


def _overlap(one: Box, other: Box) -> bool:
    across = one[0] < other[2] and other[0] < one[2]
    return across and one[1] < other[3] and other[1] < one[3]
