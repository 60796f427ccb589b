"""Layout of a confidence sequence as votes came in."""

from collections.abc import Sequence
from dataclasses import dataclass

from ranking.templatetags.ranking_tags import percent
from ranking.views.charts import HEIGHT, STEPS, WIDTH, LineTick

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
    """`decided`: the votes after which it was first decided, and the place of that in
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
