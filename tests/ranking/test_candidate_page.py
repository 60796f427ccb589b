"""A candidate's page: its standings, its record, and every vote behind its score."""

from collections.abc import Callable
from itertools import cycle
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from arena.models import Arena, Candidate, Import, Rater
from ranking import candidate_votes
from ranking.candidate_votes import VoteFilters
from ranking.leaderboard_copy import write_copy
from ranking.models import Snapshot
from tests.factories import make_arena, make_vote, make_votes
from tests.ranking.helpers import cast, get_page, markup, publish, words

pytestmark = pytest.mark.django_db


def candidate_page(client: Client, candidate: Candidate, query: str = "") -> str:
    return get_page(client, f"/a/{candidate.arena.slug}/candidates/{candidate.pk}/{query}")


def first_of(arena: Arena) -> Candidate:
    return arena.candidates.order_by("pk").select_related("arena")[0]


def test_it_shows_standings_prompts_record_and_comparisons(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    candidate = first_of(arena)
    Candidate.objects.filter(pk=candidate.pk).update(
        system_prompt="Be <b>brief</b>.", parameters={"temperature": 0.2}, model="model-x"
    )
    page = candidate_page(client, candidate)
    assert "All prompts" in page
    assert "Be &lt;b&gt;brief&lt;/b&gt;." in page
    assert "temperature" in page
    assert "1–16 of 16" in page
    assert "Question 3?" in page
    assert str(arena.votes.last().comparison.key) not in page  # that one is between the others


def test_the_record_counts_both_sides(arena: Arena) -> None:
    arena.votes.all().delete()
    first, second, third = arena.candidates.order_by("pk")
    make_vote(arena, first, second, "left")
    make_vote(arena, second, first, "left")
    make_vote(arena, second, first, "right")
    make_vote(arena, second, first, "tie")
    make_vote(arena, second, first, "both_bad")
    make_vote(arena, third, first, "right")
    against = candidate_votes.count_record(first, "people")
    assert [(a.opponent, a.won, a.lost, a.tie, a.both_bad) for a in against] == [
        (second, 2, 1, 1, 1),
        (third, 1, 0, 0, 0),
    ]
    assert against[0].win_rate == pytest.approx(2.5 / 4)


def test_the_profile_counts_each_category_and_leads_to_its_votes(
    client: Client, arena: Arena
) -> None:
    arena.votes.all().delete()
    first, second, _ = arena.candidates.order_by("pk")
    easy, hard = arena.prompts.order_by("pk")[:2]
    arena.prompts.filter(pk=easy.pk).update(category="easy & quick")
    arena.prompts.filter(pk=hard.pk).update(category="hard")
    make_vote(arena, first, second, "left", easy)
    make_vote(arena, second, first, "right", easy)
    make_vote(arena, second, first, "tie", easy)
    make_vote(arena, second, first, "left", hard)
    make_vote(arena, first, second, "both_bad", hard)
    rows = candidate_votes.count_categories(first, "people")
    assert [(row.category, row.won, row.lost, row.tie, row.both_bad) for row in rows] == [
        ("easy & quick", 2, 0, 1, 0),
        ("hard", 0, 1, 0, 1),
    ]
    assert rows[0].win_rate == pytest.approx(2.5 / 3)
    page = candidate_page(client, first)
    won = "raters=people&amp;category=easy+%26+quick&amp;result=won#comparisons"
    assert won in page
    query = won.removesuffix("#comparisons").replace("&amp;", "&")
    assert "1–2 of 2" in candidate_page(client, first, f"?{query}")


def test_what_answers_cost_is_shown(client: Client, arena: Arena) -> None:
    candidate = first_of(arena)
    assert "Cost and speed" not in candidate_page(client, candidate).split("<main")[1]
    candidate.responses.update(cost=2_500_000, seconds=1.5)
    page = words(candidate_page(client, candidate))
    assert "$2.50 per 1,000 answers (8 measured). 1.50 s per answer (8 measured)." in page


@pytest.mark.parametrize("value", ["abc", 5, {"a": 1}])
def test_a_parameter_may_have_any_name(client: Client, value: object) -> None:
    candidate = first_of(make_arena())
    Candidate.objects.filter(pk=candidate.pk).update(parameters={"items": value, "0": "zero"})
    page = candidate_page(client, candidate)
    assert "<dt>items</dt>" in markup(page)
    assert "<dt>0</dt><dd>zero</dd>" in markup(page)


def test_a_soft_verdict_counts_what_it_says_from_either_side(arena: Arena, judge: Rater) -> None:
    first, second, third = arena.candidates.order_by("pk")
    make_vote(arena, first, second, "left", None, judge, preference=0.8)
    make_vote(arena, second, first, "left", None, judge, preference=0.7)
    make_vote(arena, third, first, "right", None, judge, preference=0.1)
    against = {a.opponent: a for a in candidate_votes.count_record(first, "judges")}
    assert against[second].win_rate == pytest.approx((0.8 + 0.3) / 2)
    assert against[third].win_rate == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, 4),
        ({"result": "won"}, 2),
        ({"result": "lost"}, 1),
        ({"result": "both_bad"}, 0),
        ({"result": "nonsense", "opponent": "nonsense"}, 4),
        ({"opponent": "second"}, 3),
        ({"opponent": "second", "result": "won"}, 1),
        ({"opponent": "999999999999999999"}, 0),
        ({"opponent": "²"}, 4),
    ],
)
def test_comparisons_are_filtered(arena: Arena, filters: dict[str, str], expected: int) -> None:
    arena.votes.all().delete()
    first, second, third = arena.candidates.order_by("pk")
    make_vote(arena, first, second, "left")
    make_vote(arena, second, first, "left")
    make_vote(arena, second, first, "tie")
    make_vote(arena, third, first, "right")
    asked = {k: str(second.pk) if v == "second" else v for k, v in filters.items()}
    page = candidate_votes.list_votes(first, VoteFilters.of(asked, ["people"]), "1")
    assert page.paginator.count == expected


def test_a_result_is_stated_from_the_candidates_side(arena: Arena) -> None:
    arena.votes.all().delete()
    first, second = arena.candidates.order_by("pk")[:2]
    make_vote(arena, second, first, "left")
    (item,) = candidate_votes.list_votes(first, VoteFilters("people", "", None), "1").object_list
    assert (item.result, item.opponent) == ("Lost", second)


def test_the_list_continues_over_pages(client: Client, arena: Arena) -> None:
    for _ in range(20):
        cast(arena)
    candidate = first_of(arena)
    assert "Older" in candidate_page(client, candidate)
    second = candidate_page(client, candidate, "?page=2")
    assert "26–36 of 36" in second
    assert "Newer" in second
    assert "26–36 of 36" in candidate_page(client, candidate, "?page=99")
    assert "1–25 of 36" in candidate_page(client, candidate, "?page=nonsense")


def test_people_and_judges_are_counted_apart(client: Client, arena: Arena, judge: Rater) -> None:
    left, right = arena.candidates.order_by("pk")[:2]
    make_vote(arena, left, right, "left", None, judge)
    candidate = first_of(arena)
    assert "1–16 of 16" in candidate_page(client, candidate)
    assert "1–1 of 1" in candidate_page(client, candidate, "?raters=judges")


def test_its_description_and_the_copy_know_one_that_never_lost(client: Client) -> None:
    arena = make_arena(3, 14)
    best, *others = arena.candidates.order_by("pk")
    prompts = list(arena.prompts.order_by("pk"))
    rows = [(best, other, "left", prompt) for other in others for prompt in prompts]
    outcomes = cycle(["left", "left", "right"])
    rows += [(*others, next(outcomes), prompt) for prompt in prompts]
    make_votes(arena, rows)
    publish(arena)
    assert f"{best} in {arena.name}: rank 1 to 2, never lost." in candidate_page(client, best)
    low = arena.boards.get(raters="people", category="").snapshots.get().standings.get(rank=1).low
    assert f"&gt; {low:.0f}" in write_copy(arena)


def test_a_candidate_that_nobody_voted_on_has_a_page(client: Client) -> None:
    page = candidate_page(client, first_of(make_arena()))
    assert "No comparisons yet." in page
    assert "Not on any leaderboard yet." in page


def test_hidden_or_foreign_candidate_is_not_found(client: Client, arena: Arena) -> None:
    hidden = Import.objects.create(
        arena=arena, file_name="f", sha256="0" * 64, format="native", started_at=timezone.now()
    )
    secret = Candidate.objects.create(arena=arena, name="secret", source=hidden, source_row=1)
    other = first_of(make_arena())
    for pk in (secret.pk, other.pk, 10**30):
        assert client.get(f"/a/{arena.slug}/candidates/{pk}/").status_code == 404


def test_queries_do_not_grow_with_votes(
    client: Client,
    arena: Arena,
    published: Snapshot,
    django_assert_max_num_queries: Callable[..., Any],
) -> None:
    for _ in range(30):
        cast(arena)
    candidate = first_of(arena)
    with django_assert_max_num_queries(14):
        candidate_page(client, candidate)


def test_a_reader_with_the_page_gets_304(client: Client, arena: Arena) -> None:
    address = f"/a/{arena.slug}/candidates/{first_of(arena).pk}/"
    etag = client.get(address)["ETag"]
    assert client.get(address, headers={"If-None-Match": etag}).status_code == 304
