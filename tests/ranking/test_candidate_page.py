"""A candidate's page: its findings, its results, and the votes that can be read."""

import re
from collections.abc import Callable
from itertools import cycle
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from arena.models import Arena, Candidate, Import, Rater, Reason, Team
from ranking import candidate_votes
from ranking.candidate_votes import VoteFilters
from ranking.leaderboard_copy import write_copy
from ranking.models import BoardPage, Snapshot
from ranking.services import leases
from tests.factories import make_arena, make_vote, make_votes
from tests.ranking.helpers import cast, fill, get_page, markup, publish, rank_anyway, words

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
    assert "model-x · 16 characters" in words(page)
    assert "Be &lt;b&gt;brief&lt;/b&gt;." in page
    assert "temperature" in page
    assert "1–16 of 16" in page
    assert "Question 3?" in page
    last = arena.votes.latest("pk")
    assert str(last.comparison.key) not in page  # that one is between the others


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


def test_findings_facts_categories_and_reasons_come_first(client: Client, arena: Arena) -> None:
    publish(arena)
    for snapshot in Snapshot.objects.current().of_arena(arena):
        for i, row in enumerate(snapshot.standings.order_by("candidate")):
            row.score, row.low, row.high = 1100 - 50 * i, 1080 - 50 * i, 1120 - 50 * i
            row.rank = row.sure_rank_low = row.sure_rank_high = i + 1
            row.save()
    rank_anyway(arena)
    second = arena.candidates.order_by("pk")[1]
    for i, one in enumerate(arena.candidates.order_by("pk")):
        one.responses.update(cost=(i + 1) * 1_000_000, seconds=1.5 * (i + 1))
    leases.drop_pages(arena_id=arena.pk)
    page = words(candidate_page(client, second).split("<main")[1])
    lead = (
        "Rank 2 of 3, conclusively. It won 12% of its 16 votes, a tie counting half. 1,000 answers"
    )
    assert lead in page
    assert "1,000 answers cost $2.00. A cheaper one, candidate-0, is clearly better." in page
    assert "No category differs clearly." in page
    assert "Score 1050 1030–1070" in page
    assert "$2.00 8 measured One answer 3.00 s 8 measured" in page
    assert "By category category-0 1050 possible ranks 2" in page
    assert page.index("By category") < page.index("Its instructions and model")


def test_few_votes_are_not_interpreted(client: Client) -> None:
    arena = make_arena(3, 2)
    fill(arena, rounds=1)
    publish(arena)
    page = words(candidate_page(client, first_of(arena)).split("<main")[1])
    assert "Collecting votes: 6 of" in page
    for claim in ("Rank 1", "It won", "No category", "Line: all prompts", "Grey"):
        assert claim not in page, claim


def test_what_raters_say_is_beside_the_others(client: Client, arena: Arena) -> None:
    first, second, _ = arena.candidates.order_by("pk")
    votes = arena.votes.filter(comparison__left=first, comparison__right=second, outcome="left")
    for vote in votes:
        Reason.objects.create(vote=vote, side="left", tag="clear")
    publish(arena)
    page = words(candidate_page(client, first).split("<main")[1])
    assert "What raters say Praise clear 100%" in page
    assert "What raters say" not in candidate_page(client, second)


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
    page = words(candidate_page(client, first_of(make_arena())))
    assert "No comparisons yet." in page
    assert "Not on any leaderboard yet." in page
    assert "No votes yet." in page


def test_only_votes_that_open_to_everybody_are_listed(client: Client, arena: Arena) -> None:
    Arena.objects.update(open_answers=False)
    candidate = first_of(arena)
    page = candidate_page(client, candidate)
    assert "/comparisons/" not in page
    assert "Its votes are on prompts that people still vote on" in words(page)
    retired = arena.prompts.filter(pk=arena.prompts.order_by("pk")[0].pk)
    retired.update(retired_at=timezone.now())
    leases.drop_pages(arena_id=arena.pk)
    assert "1–2 of 2" in candidate_page(client, candidate, "?result=")
    for key in re.findall(
        r"/comparisons/[0-9a-f-]+/", candidate_page(client, candidate, "?page=1")
    ):
        assert "Hidden" not in get_page(client, f"/a/support{key}")


def test_votes_on_prompts_held_out_are_not_listed(client: Client, arena: Arena) -> None:
    Arena.objects.update(held_out=100)
    assert "/comparisons/" not in candidate_page(client, first_of(arena))


def test_a_private_arena_lists_its_team_all_votes(client: Client, arena: Arena) -> None:
    team = Team.objects.create(slug="acme", name="Acme")
    Arena.objects.update(open_answers=False, visibility="private", team=team)
    candidate = first_of(arena)
    address = f"/a/support/candidates/{candidate.pk}/"
    assert client.get(address).status_code == 404
    client.force_login(User.objects.create_superuser("root"))
    answer = client.get(address)
    assert "1–16 of 16" in answer.text
    assert answer["Cache-Control"] == "private, no-store"
    assert not BoardPage.objects.exists()


def test_the_page_is_stored_for_strangers_without_filters(
    client: Client, arena: Arena, published: Snapshot, django_assert_num_queries: Callable[..., Any]
) -> None:
    candidate = first_of(arena)
    first = candidate_page(client, candidate)
    with django_assert_num_queries(1):
        assert candidate_page(client, candidate) == first
    assert BoardPage.objects.count() == 1
    for query in ("?page=2", "?raters=people", "?result=won", "?x=1", "?category=a"):
        candidate_page(client, candidate, query)
    assert client.get("/a/support/candidates/999999/").status_code == 404
    assert BoardPage.objects.count() == 1
    cast(arena)
    publish(arena)
    assert candidate_page(client, candidate) != first


def test_the_page_of_an_undisclosed_candidate_is_not_stored(client: Client, arena: Arena) -> None:
    candidate = first_of(arena)
    publish(arena)
    Candidate.objects.filter(pk=candidate.pk).update(
        disclosed_at=None, private_until_votes=99, name="Top secret"
    )
    leases.drop_pages(arena_id=arena.pk)
    client.force_login(User.objects.create_superuser("root"))
    assert "Top secret" in candidate_page(client, candidate)
    client.logout()
    assert "Top secret" not in candidate_page(client, candidate)
    assert not BoardPage.objects.exists()


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
    with django_assert_max_num_queries(24):
        candidate_page(client, candidate, "?page=1")


def test_a_reader_with_the_page_gets_304(client: Client, arena: Arena) -> None:
    address = f"/a/{arena.slug}/candidates/{first_of(arena).pk}/"
    etag = client.get(address)["ETag"]
    assert client.get(address, headers={"If-None-Match": etag}).status_code == 304


def test_it_is_in_the_reader_s_language_and_stored_for_each(client: Client, arena: Arena) -> None:
    publish(arena)
    address = f"/a/support/candidates/{first_of(arena).pk}/"
    for _ in range(2):
        french = client.get(address, headers={"Accept-Language": "fr"}).text
        assert "Ses instructions et son modèle" in french
        assert "Its instructions and model" in client.get(address).text
    assert BoardPage.objects.count() == 2
