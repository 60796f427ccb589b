"""Boards of a few raters, and the rank agreement of two of them."""

import random

import pytest
from django.test import Client
from scipy import stats

from arena.models import Arena, Rater
from ranking.models import Snapshot
from ranking.rank_correlation import RankCorrelation, rank_correlation
from tests.ranking.helpers import cast, fill, get_page, make_voted_arena, publish

pytestmark = pytest.mark.django_db


@pytest.fixture
def arena(db: None) -> Arena:
    """Three candidates, four prompts in two categories, 24 votes of one person."""
    return make_voted_arena(n_prompts=4, rounds=2)


def test_the_same_order_is_one_and_the_reverse_minus_one() -> None:
    scores = {1: 900.0, 2: 1000.0, 3: 1100.0}
    turned = {pk: -score for pk, score in scores.items()}
    assert rank_correlation(scores, scores) == RankCorrelation(3, pytest.approx(1), 1.0)
    assert rank_correlation(scores, turned) == RankCorrelation(3, pytest.approx(-1), -1.0)


def test_ties_are_corrected_for() -> None:
    chance = random.Random(3)
    first, second = ({i: float(chance.randrange(5)) for i in range(40)} for _ in range(2))
    found = rank_correlation(first, second)
    # By hand, from the counts of concordant, discordant and tied pairs.
    signs = [
        (
            (first[i] > first[j]) - (first[i] < first[j]),
            (second[i] > second[j]) - (second[i] < second[j]),
        )
        for i in range(40)
        for j in range(i)
    ]
    product = sum(x * y for x, y in signs)
    known = sum(x * x for x, _ in signs) * sum(y * y for _, y in signs)
    assert found.kendall == pytest.approx(product / known**0.5)
    ranks = [stats.rankdata(list(scores.values())) for scores in (first, second)]
    assert found.spearman == pytest.approx(stats.pearsonr(*ranks).statistic)


def test_only_candidates_on_both_sides_are_compared() -> None:
    found = rank_correlation({1: 1.0, 2: 2.0, 3: 0.0}, {2: 5.0, 1: 4.0, 9: 7.0})
    assert found == RankCorrelation(2, pytest.approx(1), 1.0)


@pytest.mark.parametrize("other", [{}, {1: 1.0}, {1: 4.0, 2: 4.0}, {7: 1.0, 8: 2.0}])
def test_where_it_is_not_defined_it_is_none(other: dict[int, float]) -> None:
    found = rank_correlation({1: 1.0, 2: 2.0}, other)
    assert (found.spearman, found.kendall) == (None, None)


def test_without_a_jurys_vote_nothing_speaks_of_juries(
    client: Client, arena: Arena, judge: Rater
) -> None:
    fill(arena, rounds=1, rater=judge)
    publish(arena)
    assert not Snapshot.objects.filter(board__raters="juries").exists()
    assert "raters=juries" not in " ".join(get_page(client, "/a/support/").split())
    assert "No jury votes here yet." in " ".join(
        get_page(client, "/a/support/?raters=juries").split()
    )
    assert "No jury votes here yet." in " ".join(
        get_page(client, "/a/support/compare/?raters=juries").split()
    )


def test_a_board_of_juries_counts_juries_alone(
    client: Client, arena: Arena, judge: Rater, jury: Rater
) -> None:
    fill(arena, rounds=1, rater=judge)
    cast(arena, "left", rater=jury)
    cast(arena, "right", rater=jury)
    publish(arena)
    current = Snapshot.objects.current().filter(board__category="")
    assert dict(current.values_list("board__raters", "n_votes")) == {
        "people": 24,
        "judges": 12,
        "juries": 2,
        "combined": 24,
    }
    page = " ".join(get_page(client, "/a/support/?raters=juries").split())
    assert "2 blind votes </span> <span>1 jury</span>" in page
    assert "Jury: A jury of three." in page
    found = client.get("/a/support/results.json?raters=juries").json()
    assert (found["raters"], found["n_votes"]) == ("juries", 2)


def test_without_people_judges_come_before_juries(
    client: Client, arena: Arena, judge: Rater, jury: Rater
) -> None:
    arena.votes.all().delete()
    fill(arena, rounds=1, rater=jury)
    fill(arena, rounds=1, rater=judge)
    publish(arena)
    assert client.get("/a/support/results.json").json()["raters"] == "judges"
    assert "12 LLM-judge votes · 12 jury votes" in " ".join(get_page(client, "/").split())


def test_a_candidates_record_has_juries_beside_judges(
    client: Client, arena: Arena, jury: Rater
) -> None:
    vote = cast(arena, "left", rater=jury)
    publish(arena)
    a = arena.candidates.order_by("pk")[0].pk
    page = " ".join(get_page(client, f"/a/support/candidates/{a}/?raters=juries").split())
    assert "Juries" in page
    assert "Jury A jury of three" in page
    assert "· Jury A jury of three ·" in " ".join(
        get_page(client, vote.comparison.get_absolute_url()).split()
    )
