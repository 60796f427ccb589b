"""All boards side by side: where they agree, where they do not, and what is unknown."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from arena.models import Arena, Candidate, Rater
from arena.services.raters import set_trust
from ranking.models import Snapshot, Standing
from ranking.rank_correlation import rank_correlation
from ranking.views.side_by_side import Disagreement
from ranking.wording import disagreement
from tests.factories import make_arena, make_vote, make_votes
from tests.ranking.helpers import fill, get_page, markup, publish, words

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]
ADDRESS = "/a/support/side-by-side/"


def page_words(client: Client, address: str = ADDRESS) -> str:
    return words(get_page(client, address))


def names(client: Client, address: str = ADDRESS) -> list[str]:
    """The candidates in the order of their rows."""
    raw = client.get(address).content.decode().split('class="standings side-by-side"')[1]
    return re.findall(r'<th scope="row" class="name"><a [^>]*>([^<]*)<', markup(raw))


@pytest.fixture
def judged_arena(arena: Arena, judge: Rater) -> Arena:
    """People see three alike; the judge is for the last candidate, against the first."""
    a, b, c = arena.candidates.order_by("pk")
    prompts = list(arena.prompts.all())
    pairs = ((a, b), (b, c), (a, c))
    rows = [(*pair, "right", prompt) for prompt in prompts * 6 for pair in pairs]
    rows += [(a, c, "left", prompt) for prompt in prompts]
    rows += [(b, a, "right", prompts[0]), (c, b, "right", prompts[-1])]
    make_votes(arena, rows, judge)
    publish(arena)
    return arena


def test_one_kind_of_voters_has_nothing_beside_it(client: Client, arena: Arena) -> None:
    assert "first leaderboard is being computed" in page_words(client)
    publish(arena)
    assert "Only people have voted here so far." in page_words(client)
    assert "side-by-side" not in client.get("/a/support/").content.decode()


def test_nobody_has_voted(client: Client) -> None:
    publish(make_arena(2, 1, slug="support"))
    assert "No votes here yet." in page_words(client)


def test_the_boards_that_there_are_lead_to_it_and_back(client: Client, judged_arena: Arena) -> None:
    for page in ("", "methodology/", "compare/"):
        raw = client.get(f"/a/support/{page}").content.decode()
        assert "/a/support/side-by-side/" in raw, page
    raw = client.get(ADDRESS).content.decode()
    for raters in ("people", "judges", "combined"):
        assert f'href="/a/support/?raters={raters}"' in raw
    assert "raters=juries" not in raw


def test_each_board_has_its_score_interval_and_rank(client: Client, judged_arena: Arena) -> None:
    page = page_words(client)
    for raters in ("people", "judges"):
        standing = Standing.objects.get(
            snapshot__board__raters=raters,
            snapshot__board__category="",
            snapshot__is_current=True,
            rank=1,
        )
        assert (
            f"{standing.score:.0f} rank 1 interval {standing.low:.0f}–{standing.high:.0f}" in page
        )


def test_the_correlations_are_those_of_the_scores(client: Client, judged_arena: Arena) -> None:
    scores = {}
    for raters in ("people", "judges"):
        snapshot = Snapshot.objects.current().get(
            board__raters=raters, board__category="", board__arena=judged_arena
        )
        scores[raters] = dict(snapshot.standings.values_list("candidate", "score"))
    found = rank_correlation(scores["people"], scores["judges"])
    told = f"{found.kendall:.2f} {found.spearman:.2f} 3".replace("-", "−")
    page = page_words(client)
    assert f"People and judges {told}" in page
    assert "People and combined 1.00 1.00 3" in page  # nobody is trusted: it is people's board
    assert "Judges and combined" in page


def test_the_largest_difference_is_marked_and_can_come_first(
    client: Client, judged_arena: Arena
) -> None:
    page = page_words(client)
    assert page.count("Largest difference ") == 2  # the link, and one row
    assert "(significant" in page
    first = names(client, f"{ADDRESS}?order=difference")[0]
    row = page.split(f" {first} ")[1]
    assert row.index("Largest difference") < row.index("Judges: ")
    by_rank = Standing.objects.filter(
        snapshot__board__raters="people", snapshot__board__category="", snapshot__is_current=True
    ).order_by("rank", "candidate__name")
    assert names(client) == [str(s.candidate) for s in by_rank]
    assert names(client, f"{ADDRESS}?order=nonsense") == names(client)


def test_candidate_without_a_score_is_shown_as_such(client: Client, judged_arena: Arena) -> None:
    new = Candidate.objects.create(arena=judged_arena, name="newcomer")
    for prompt in judged_arena.prompts.all():
        for other in judged_arena.candidates.exclude(pk=new.pk):
            make_vote(judged_arena, new, other, "left", prompt)
            make_vote(judged_arena, new, other, "right", prompt)
    publish(judged_arena)
    page = page_words(client)
    assert "No score by judges yet." in page
    assert "rank different sets of candidates" in page


def test_a_category_has_its_own(client: Client, judged_arena: Arena) -> None:
    raw = client.get(f"{ADDRESS}?category=category-1").content.decode()
    assert 'href="/a/support/?raters=judges&amp;category=category-1"' in raw
    assert 'aria-current="true">category-1' in raw
    assert client.get(f"{ADDRESS}?category=no-such").status_code == 404
    assert client.get("/a/no-such/side-by-side/").status_code == 404


def test_juries_are_next_to_the_others(client: Client, judged_arena: Arena, jury: Rater) -> None:
    fill(judged_arena, rater=jury)
    set_trust(rater_id=jury.pk, trusted=True, now=timezone.now())
    publish(judged_arena)
    page = page_words(client)
    for pair in ("People and juries", "Judges and juries", "Juries and combined"):
        assert pair in page
    assert "Juries: same score (not significant)." in page  # they vote as people did


def test_names_are_escaped(client: Client, judged_arena: Arena) -> None:
    judged_arena.candidates.filter(name="candidate-0").update(name="<script>x</script>")
    publish(judged_arena)
    raw = client.get(ADDRESS).content.decode()
    assert "<script>x" not in raw
    assert "&lt;script&gt;x" in raw


def test_it_is_stored_and_costs_few_queries(
    client: Client, judged_arena: Arena, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    with django_assert_max_num_queries(5):
        first = client.get(ADDRESS)
    with django_assert_max_num_queries(1):
        again = client.get(ADDRESS, headers={"If-None-Match": first["ETag"]})
    assert again.status_code == 304


def standing(score: float | None, half: float | None = 30, rank: tuple[int, int] = (1, 2)) -> Any:
    known = score is not None and half is not None
    return Standing(
        score=score,
        low=score - half if known else None,  # type: ignore[operator]
        high=score + half if known else None,  # type: ignore[operator]
        rank=rank[0],
        sure_rank_low=rank[0] if known else None,
        sure_rank_high=rank[1] if known else None,
    )


@pytest.mark.parametrize(
    ("own", "theirs", "shift", "sentence", "is_apart"),
    [
        (standing(1000), standing(1070), 0, "Judges: 70 Elo higher (significant).", True),
        (standing(1000), standing(930), 0, "Judges: 70 Elo lower (significant).", True),
        (standing(1000), standing(1060), 0, "Judges: 60 Elo higher (not significant).", False),
        (standing(1000), standing(1070), 50, "Judges: 20 Elo higher (not significant).", False),
        (standing(1000), standing(1000.3), 0, "Judges: same score (not significant).", False),
        (standing(1000), standing(1300, None), 0, "significance unknown", False),
        (
            standing(1000, None),
            standing(700),
            0,
            "Judges: 300 Elo lower (significance unknown).",
            False,
        ),
        (standing(1000), standing(None), 0, "No score by judges yet.", False),
        (standing(1000), None, 0, "No score by judges yet.", False),
        (standing(None), standing(1000), 0, "No score by people to compare", False),
        (None, standing(1000), 0, "No score by people to compare", False),
    ],
)
def test_each_case_has_its_sentence(
    own: Any, theirs: Any, shift: float, sentence: str, is_apart: bool
) -> None:
    remark = disagreement("people", own, "judges", theirs, shift)
    assert sentence in remark.sentence
    assert remark.is_apart is is_apart


def test_ranks_are_named_where_they_do_not_overlap_either() -> None:
    own, theirs = standing(1000, rank=(5, 5)), standing(1200, rank=(1, 3))
    remark = disagreement("people", own, "judges", theirs, 0)
    assert "(significant; rank 1–3 by judges, 5 by people)" in remark.sentence
    near = standing(1200, rank=(4, 6))
    remark = disagreement("people", own, "judges", near, 0)
    assert "; rank" not in remark.sentence


def test_the_largest_of_several_boards_counts() -> None:
    others = [("judges", standing(1010)), ("juries", standing(900))]
    own = standing(1000)
    found = Disagreement([disagreement("people", own, raters, row, 0) for raters, row in others])
    assert (found.size, found.is_apart, len(found.remarks)) == (100, True, 2)
