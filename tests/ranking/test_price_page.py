"""Price and speed: the frontier, the chart and its table; and scores controlled for style."""

import re
from dataclasses import replace

import pytest
from django.test import Client

from arena.models import Candidate, Response
from ranking.costs import PricedScore, best_for_their_price
from ranking.models import Snapshot
from ranking.services import leases
from ranking.views.charts import HEIGHT
from ranking.views.scatter_chart import scatter_chart
from tests.factories import make_arena
from tests.ranking.helpers import get_page, markup, publish, rank_anyway, words


def point(name: str, value: float, score: float, reach: float = 30) -> PricedScore:
    return PricedScore(hash(name), name, value, score, score - reach, score + reach)


def test_best_for_its_price_follows_intervals() -> None:
    cheap, good, close, worse, dear = (
        point("cheap", 1, 900),
        point("good", 3, 1100),
        point("close", 4, 1050),
        point("worse", 4, 1030),
        point("dear", 9, 1000),
    )
    best = best_for_their_price([cheap, good, close, worse, dear])
    assert best == {one.candidate for one in (cheap, good, close)}
    twins = [point("a", 2, 1000), point("b", 2, 1000)]
    assert best_for_their_price(twins) == {one.candidate for one in twins}
    unknown = replace(worse, low=None, high=None)
    assert unknown.candidate in best_for_their_price([good, unknown])


def test_far_prices_stand_on_a_logarithmic_scale() -> None:
    prices = (0.01, 1, 100)
    chart = scatter_chart([point(str(price), price, 1000 + price) for price in prices])
    assert chart is not None
    assert chart.is_log
    places = sorted(float(one.x.rstrip("%")) for one in chart.points)
    assert places[1] - places[0] == pytest.approx(places[2] - places[1], abs=0.05)
    near = scatter_chart([point("a", 2, 1000), point("b", 3, 1010)])
    assert near is not None
    assert not near.is_log
    assert scatter_chart([point("a", 2, 1000)]) is None
    free = scatter_chart([point("a", 0, 1000), point("b", 0, 1010)])
    assert free is not None
    assert [tick.label for tick in free.columns] == ["0", "0.2", "0.4", "0.6", "0.8", "1"]


AT_THE_EDGE: dict[str, tuple[float, ...]] = {
    "double-checked": (13.12, 1195, 1162, 1234),
    "expert": (2.05, 1167, 1124, 1219),
    "concise": (0.85, 1147, 1105, 1189),
    "step-by-step": (1.62, 1146, 1096, 1196),
    "mini": (0.02, 687, 619, 748),
}
IN_A_HEAP: dict[str, tuple[float, ...]] = {
    "double-checked": (13, 1193, 1161, 1223),
    "concise": (0.8, 1165, 1126, 1203),
    "expert": (1.9, 1161, 1110, 1202),
    "step-by-step": (1.5, 1145, 1095, 1190),
    "mini": (0.023, 654, 595, 732),
}


@pytest.mark.parametrize("numbers", [AT_THE_EDGE, IN_A_HEAP])
def test_on_a_phone_all_that_are_best_are_named(
    numbers: dict[str, tuple[float, ...]],
) -> None:
    chart = scatter_chart(
        [PricedScore(i, name, *of) for i, (name, of) in enumerate(numbers.items())]
    )
    assert chart is not None
    assert all(len(one.labels) == 2 for one in chart.points if one.is_best)
    assert [tick.label for tick in chart.columns if not tick.minor] == ["0.1", "1", "10"]


def test_labels_cover_neither_one_another_nor_the_edges() -> None:
    points = [point(f"candidate-{i}", 5 + (i % 4) / 10, 1000 + i) for i in range(30)]
    chart = scatter_chart(points)
    assert chart is not None
    for screen, width in (("on-laptop", 960), ("on-phone", 300)):
        placed = [
            (float(one.x.rstrip("%")) * width / 100 + label.dx, label.y, label.anchor)
            for one in chart.points
            for label in one.labels
            if label.screen == screen
        ]
        assert 0 < len(placed) < 30
        assert len(set(placed)) == len(placed)
        assert all(0 <= x <= width and 0 <= y <= HEIGHT for x, y, _ in placed)


@pytest.fixture
def priced(client: Client) -> Snapshot:
    """Three candidates in rank order, the second dearer than the first; style turns them round."""
    arena = make_arena(3, 2, slug="support", name="Support answers")
    snapshot = publish(arena)
    costs = (2_000_000, 9_000_000, 1_000_000)
    standings = list(snapshot.standings.order_by("candidate"))
    for i, standing in enumerate(standings):
        standing.rank, standing.score = i + 1, 1100.0 - 100 * i
        standing.low, standing.high = standing.score - 40, standing.score + 40
        answers = Response.objects.filter(candidate=standing.candidate_id)
        answers.update(cost=costs[i], seconds=4 - i)
    snapshot.standings.bulk_update(standings, ["rank", "score", "low", "high"])
    scores = {
        str(standing.candidate_id): {"score": 900.0 + 50 * i, "low": 880.0, "high": 1020.0}
        for i, standing in enumerate(standings[:2])
    }
    snapshot.findings |= {
        "style": {
            "features": [{"name": "length", "label": "Length", "coefficient": 1.0}],
            "scores": scores,
        }
    }
    snapshot.findings["leader"] = standings[0].candidate_id
    snapshot.save()
    rank_anyway(arena)
    leases.drop_pages(arena_id=arena.pk)
    return snapshot


def body_of(page: str) -> list[str]:
    return [words(row) for row in page.split("<tbody>")[1].split("</tbody>")[0].split("</tr>")[:-1]]


@pytest.mark.django_db
def test_the_chart_and_its_table_show_the_best_per_price(client: Client, priced: Snapshot) -> None:
    page = get_page(client, "/a/support/price/")
    rows = body_of(page)
    assert [row.split()[0] for row in rows] == ["candidate-2", "candidate-0", "candidate-1"]
    assert ["Best for its price" in row for row in rows] == [True, True, False]
    assert "$2.00 2 1100 1060–1140" in rows[1]
    assert page.count("<circle") == 3
    assert page.count('class="best ') == 2
    assert "No cheaper candidate could be as good as candidate-0. 2 of 3 are best" in words(page)
    assert "candidate-0: 1100, 95% interval 1060–1140; $2" in words(page)
    assert "Wins per" not in page
    assert "style=" not in page


@pytest.mark.django_db
def test_speed_is_compared_likewise(client: Client, priced: Snapshot) -> None:
    page = get_page(client, "/a/support/price/?by=seconds")
    assert [row.split()[0] for row in body_of(page)] == [f"candidate-{i}" for i in (2, 1, 0)]
    assert page.count('class="best ') == 3
    assert "No candidate is clearly better than a slower one." in words(page)
    assert "Seconds per answer" in words(page)
    assert 'aria-current="true">Speed' in markup(page)


@pytest.mark.django_db
def test_without_prices_the_page_says_what_is_missing(client: Client) -> None:
    arena = make_arena(3, 2, slug="support")
    publish(arena)
    rank_anyway(arena)
    assert "No candidate has both a score and a known price" in words(
        get_page(client, "/a/support/price/")
    )


@pytest.mark.django_db
def test_names_of_undisclosed_candidates_are_masked(client: Client, priced: Snapshot) -> None:
    Candidate.objects.filter(name="candidate-1").update(disclosed_at=None, private_until_votes=99)
    leases.drop_pages(arena_id=priced.board.arena_id)
    page = get_page(client, "/a/support/price/")
    assert "candidate-1" not in page
    assert "Undisclosed" in page


def names_of(page: str) -> list[str]:
    return re.findall(r'<a [^>]+title="([^"]+)"\s*><span>', markup(page))


@pytest.mark.django_db
def test_controlling_for_style_ranks_anew_and_says_who_leads_instead(
    client: Client, priced: Snapshot
) -> None:
    plain = get_page(client, "/a/support/")
    assert names_of(plain) == [f"candidate-{i}" for i in range(3)]
    assert "?raters=people&amp;control=style" in plain
    page = get_page(client, "/a/support/?control=style")
    assert names_of(page) == ["candidate-1", "candidate-0"]
    assert "Between answers of equal style, candidate-1 scores highest." in words(page)
    assert "1 candidate has no style-controlled score." in words(page)
    assert 'href="/a/support/?raters=people"' in markup(page)
    chart = get_page(client, "/a/support/price/?control=style")
    assert [row.split()[0] for row in body_of(chart)] == ["candidate-0", "candidate-1"]


@pytest.mark.django_db
def test_style_changes_nothing_where_there_is_none_to_control_for(
    client: Client, published: Snapshot
) -> None:
    page = get_page(client, "/a/support/?control=style")
    assert "Controlled for style" not in page
    assert len(names_of(page)) == 3


@pytest.mark.django_db
def test_files_keep_the_scores_as_voted(client: Client, priced: Snapshot) -> None:
    plain = client.get("/a/support/results.csv").text
    assert client.get("/a/support/results.csv?control=style").text == plain
