"""The positions of the chart's marks."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from arena.validation import shorten, shorten_apart
from ranking.views.charts import (
    HEIGHT,
    WIDTH,
    ScoreAt,
    ScoreScale,
    line_chart,
)
from ranking.views.sequence_chart import ShareAt, sequence_chart


def test_checks_without_a_vote_between_them_make_no_chart() -> None:
    check = ShareAt(1, 0.8, 0, 1, is_decided=False)
    assert sequence_chart([]) is None
    assert sequence_chart([check, check]) is None
    assert sequence_chart([check, replace(check, votes=2)]) is not None


@pytest.mark.parametrize(("low", "high"), [(999.5, 1000.5), (845, 1234), (-50_000, 90_000)])
def test_ticks_are_few_round_and_inside(low: float, high: float) -> None:
    scale = ScoreScale.covering([low, high])
    values = [tick.label for tick in scale.ticks()]
    assert 1 <= len(values) <= 6
    assert all(scale.low <= value <= scale.high for value in values)


def test_equal_scores_stand_in_the_middle() -> None:
    assert ScoreScale.covering([1000, 1000]).percent(1000) == "50.00%"


def test_a_long_name_keeps_its_end() -> None:
    short = shorten("Mixtral-8x7B-Instruct-v0.1_concise", 24)
    assert len(short) <= 24
    assert short.endswith("_concise")
    assert shorten("short", 24) == "short"


def test_long_names_that_differ_in_the_middle_stay_different() -> None:
    names = [f"support-assistant-{word}-2026-11-27-temperature-0" for word in ("brief", "exact")]
    assert shorten(names[0], 24) == shorten(names[1], 24)
    short = shorten_apart(names, 24)
    assert len(set(short)) == 2
    assert all(len(name) < len(names[0]) for name in short)
    assert shorten_apart([*names, names[0]], 24)[0] == short[0]


START = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


def moments(*scores: float | None, days: float = 1) -> list[ScoreAt]:
    return [ScoreAt(START + timedelta(days=days * i), score) for i, score in enumerate(scores)]


def test_points_span_the_plot_and_higher_scores_stand_higher() -> None:
    chart = line_chart(moments(1000, 1100, 1050))
    assert chart is not None
    points = [tuple(map(float, p.split(","))) for p in chart.pieces[0].split()]
    assert [x for x, _ in points] == [0, WIDTH / 2, WIDTH]
    assert points[1][1] < points[2][1] < points[0][1]
    assert all(0 < y < HEIGHT for _, y in points)


def test_without_two_moments_or_without_scores_there_is_no_chart() -> None:
    assert line_chart([]) is None
    assert line_chart(moments(1000)) is None
    assert line_chart(moments(None, None)) is None


def test_a_band_stays_inside_the_chart() -> None:
    chart = line_chart(
        [ScoreAt(START, 1000, 900, 1200), ScoreAt(START + timedelta(1), 1010, 700, 1100)]
    )
    assert chart is not None
    (band,) = chart.bands
    heights = [float(point.split(",")[1]) for point in band.split()]
    assert len(heights) == 4
    assert all(0 < y < HEIGHT for y in heights)


@pytest.mark.parametrize(
    ("days", "expected"),
    [(0.01, "12:35"), (0.3, "15:00"), (1, "2 Mar 00:00"), (9, "4 Mar"), (400, "6 Jul 2026")],
)
def test_times_are_round_and_say_as_much_as_they_must(days: float, expected: str) -> None:
    chart = line_chart(moments(1000, 1001, days=days))
    assert chart is not None
    assert 1 <= len(chart.columns) <= 6
    assert expected in [tick.label for tick in chart.columns]
    places = [float(tick.place.rstrip("%")) for tick in chart.columns]
    assert all(0 <= place <= 100 for place in places)
