"""The home page: what it says, and how it is stored."""

from collections.abc import Callable
from itertools import cycle
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from arena.models import Arena, Candidate, Team
from ranking.models import HomePage, Snapshot
from tests.factories import make_arena, make_member, make_person, make_vote
from tests.ranking.helpers import cast, publish, words

pytestmark = pytest.mark.django_db


def test_it_leads_to_a_pair_and_shows_the_top_of_each_arena(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    page = client.get("/").text
    assert 'href="/a/support/vote/">Vote on a pair</a>' in page
    names = [str(row.candidate) for row in published.standings.order_by("rank")]
    places = [page.index(f">{name}</a>") for name in names]
    assert places == sorted(places)
    assert f"3 candidates entered {arena.name}" in words(page)


def test_a_stored_page_costs_one_query_until_an_arena_changes(
    client: Client, arena: Arena, published: Snapshot, django_assert_num_queries: Callable[..., Any]
) -> None:
    first = client.get("/")
    with django_assert_num_queries(1):
        assert client.get("/").content == first.content
    again = client.get("/", headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    cast(arena)
    publish(arena)
    assert "25 human votes" in client.get("/").text
    arena.name = "Help desk"
    arena.save()
    assert "Help desk" in client.get("/").text
    make_arena(slug="second", name="Second arena")
    assert "Second arena" in client.get("/").text
    Arena.objects.get(slug="second").delete()
    assert "Second arena" not in client.get("/").text


def test_a_private_arena_is_on_no_other_persons_page(
    client: Client, arena: Arena, published: Snapshot, django_user_model: Any
) -> None:
    assert arena.name in client.get("/").text
    arena.team, arena.visibility = Team.objects.create(slug="acme", name="Acme"), "private"
    arena.save()
    assert arena.name not in client.get("/").text
    member = Client()
    member.force_login(django_user_model.objects.create_user("ann"))
    assert member.get("/")["Cache-Control"] == "private, no-store"
    assert HomePage.objects.count() == 1


def test_nobody_is_led_to_votes_that_only_members_may_cast(
    client: Client, arena: Arena, published: Snapshot, django_user_model: Any
) -> None:
    arena.team, arena.voters = Team.objects.create(slug="acme", name="Acme"), "members"
    arena.save()
    client.force_login(django_user_model.objects.create_user("root", is_staff=True))
    assert arena.name in client.get("/").text
    assert "/a/support/vote/" not in client.get("/").text
    client.force_login(make_member(arena.team).user)
    assert "/a/support/vote/" in client.get("/").text


def test_an_undisclosed_candidate_is_not_named_among_the_new(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    arena.candidates.all().delete()
    Candidate.objects.create(
        arena=arena, name="Top secret", disclosed_at=None, private_until_votes=9
    )
    HomePage.objects.all().delete()
    page = client.get("/").text
    assert "1 candidate entered" in words(page)
    assert "Top secret" not in page


def test_a_new_release_drops_what_was_stored(client: Client, published: Snapshot) -> None:
    client.get("/")
    assert HomePage.objects.count() == 1
    call_command("migrate", verbosity=0)
    assert not HomePage.objects.exists()


def test_an_arena_with_nothing_to_see_or_vote_on_comes_last(
    client: Client, published: Snapshot
) -> None:
    make_arena(0, 0, name="Just created")
    make_arena(2, 1, name="Open for votes")
    page = client.get("/").text
    names = ("Open for votes", published.board.arena.name, "Just created")
    places = [page.index(f">{name}<") for name in names]
    assert places == sorted(places)


def test_only_unbeaten_candidates_are_called_unbeaten(client: Client) -> None:
    """Where one beats all and another loses all, nobody has a score."""
    arena = make_arena(n_candidates=3, n_prompts=12, slug="dominance")
    best, middle, worst = arena.candidates.order_by("pk")
    people = cycle([make_person() for _ in range(6)])
    for prompt in arena.prompts.order_by("pk"):
        make_vote(arena, best, middle, "left", prompt, next(people))
        make_vote(arena, middle, worst, "left", prompt, next(people))
    publish(arena)
    page = words(client.get("/").text)
    said = f"{best} never lost possible ranks 2 {middle} – possible ranks 3 {worst} – "
    assert f"possible ranks 1 {said}" in page
    assert f"{best} is the clear leader." in page


def test_teams_have_a_door_to_each_way_in(client: Client, arena: Arena) -> None:
    page = client.get("/").text
    assert 'href="/compare-prompts/">Compare two prompts</a>' in page
    assert 'href="/import/">Import what I have</a>' in page
    assert "Look around in the sample" not in page
    Arena.objects.filter(pk=arena.pk).update(is_sample=True)
    HomePage.objects.all().delete()
    assert f'href="/a/{arena.slug}/">Look around in the sample</a>' in client.get("/").text
    client.cookies["django_language"] = "fr"
    assert ">Comparer deux prompts</a>" in client.get("/", headers={"Accept-Language": "fr"}).text
