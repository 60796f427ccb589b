"""Where the marks of the chart stand."""

import pytest

from ranking.views.charts import ChartMark, ScoreScale, interval_chart, shorten


def test_the_best_comes_first_and_every_mark_lies_inside_the_plot() -> None:
    chart = interval_chart([ChartMark("low", 900, 850, 940), ChartMark("high", 1100, 1050, 1170)])
    assert chart is not None
    assert [row.label for row in chart.rows] == ["high", "low"]
    assert chart.rows[0].middle < chart.rows[1].middle < chart.height
    places = [float(x.rstrip("%")) for row in chart.rows for x in (row.low, row.x, row.high) if x]
    assert all(0 < place < 100 for place in places)
    assert float(chart.rows[1].x.rstrip("%")) < float(chart.rows[0].x.rstrip("%"))


def test_the_chart_is_told_in_words() -> None:
    chart = interval_chart([ChartMark("b", 990, None, None), ChartMark("a", 1010, 1000, 1020)])
    assert chart is not None
    assert chart.says == "2 candidates, from a: 1010, 95 % interval 1000 to 1020 down to b: 990."


def test_without_scores_there_is_no_chart() -> None:
    assert interval_chart([]) is None


@pytest.mark.parametrize(("low", "high"), [(999.5, 1000.5), (845, 1234), (-50_000, 90_000)])
def test_ticks_are_few_round_and_inside(low: float, high: float) -> None:
    scale = ScoreScale.around([low, high])
    values = [tick.label for tick in scale.ticks()]
    assert 1 <= len(values) <= 6
    assert all(scale.low <= value <= scale.high for value in values)


def test_equal_scores_stand_in_the_middle() -> None:
    chart = interval_chart([ChartMark("a", 1000, None, None), ChartMark("b", 1000, None, None)])
    assert chart is not None
    assert [row.x for row in chart.rows] == ["50.00%", "50.00%"]


def test_a_long_name_keeps_its_end() -> None:
    short = shorten("Mixtral-8x7B-Instruct-v0.1_concise", 24)
    assert len(short) <= 24
    assert short.endswith("_concise")
    assert shorten("short", 24) == "short"
