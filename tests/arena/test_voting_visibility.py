"""Who may vote: in a private arena only its team; members-only arenas say so."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from arena.actors import Actor
from arena.models import ApiToken, Arena, Comparison, Rater, Team, Vote
from arena.services.comparisons import find_issued_comparison, next_comparison
from tests.arena.teams import signed_in
from tests.factories import known, make_arena, make_empty_team, make_member

pytestmark = pytest.mark.django_db


def member_of(team: Team, role: str = "viewer") -> User:
    return make_member(team, role).user


def issued_to(user: User, arena: Arena) -> Comparison:
    rater = Rater.objects.get_or_create(user=user, defaults={"kind": Rater.Kind.PERSON})[0]
    comparison = next_comparison(arena=arena, rater=rater, now=timezone.now())
    assert comparison is not None
    return comparison


def cast(client: Client, arena: Arena, comparison: Comparison, page: str = "cast_vote") -> Any:
    url = reverse(page, args=[arena.slug, comparison.key])
    return client.post(url, {"outcome": "left"})


def test_a_member_votes_in_a_private_arena(empty_team: Team) -> None:
    arena, user = make_arena(2, team=empty_team, visibility="private"), member_of(empty_team)
    client = signed_in(user)
    assert known(client).get(reverse("vote", args=[arena.slug])).status_code == 200
    assert cast(client, arena, issued_to(user, arena)).status_code == 302
    assert Vote.objects.get().rater.user == user
    undone = cast(client, arena, Comparison.objects.get(votes__isnull=False), "undo_vote")
    assert undone.status_code == 302
    assert not Vote.objects.live().exists()


@pytest.mark.parametrize("page", ["cast_vote", "undo_vote"])
def test_a_former_member_finds_no_pair_of_a_private_arena(empty_team: Team, page: str) -> None:
    arena, user = make_arena(2, team=empty_team, visibility="private"), member_of(empty_team)
    comparison = issued_to(user, arena)
    user.team_memberships.all().delete()
    assert cast(signed_in(user), arena, comparison, page).status_code == 404
    assert not Vote.objects.exists()


def test_finding_a_pair_costs_one_query_whatever_the_arena(empty_team: Team) -> None:
    arena, user = make_arena(2, team=empty_team, visibility="private"), member_of(empty_team)
    comparison = issued_to(user, arena)
    for slug in (arena.slug, "no-such-arena"):
        with CaptureQueriesContext(connection) as queries:
            found = find_issued_comparison(slug=slug, key=comparison.key)
        assert (found, len(queries)) == (None, 1)


@pytest.mark.parametrize(
    ("scope", "own", "seen"),
    [("can_read", True, True), ("can_submit", True, False), ("can_read", False, False)],
)
def test_a_reading_token_sees_its_teams_private_pairs(
    empty_team: Team, scope: str, own: bool, seen: bool
) -> None:
    arena = make_arena(2, team=empty_team, visibility="private")
    comparison = issued_to(member_of(empty_team), arena)
    other = make_empty_team(slug="other", name="Other")
    scopes = {"can_read": False} | {scope: True}
    token = ApiToken(
        team=empty_team if own else other, name="ci", prefix="rs", digest="d", **scopes
    )
    found = find_issued_comparison(slug=arena.slug, key=comparison.key, actor=Actor(token=token))
    assert (found is not None) is seen


def test_a_stranger_learns_that_only_members_vote(empty_team: Team) -> None:
    arena = make_arena(2, team=empty_team, voters="members")
    answer = signed_in(User.objects.create_user("stranger")).get(reverse("vote", args=[arena.slug]))
    page = answer.content.decode()
    assert answer.status_code == 403
    assert "Only members of the team can vote in this arena." in page
    assert "You are signed in as stranger." in page
    assert reverse("board", args=[arena.slug]) in page
    assert not Comparison.objects.exists()


def test_nobody_is_led_to_the_sign_in_and_members_vote(empty_team: Team) -> None:
    arena = make_arena(2, team=empty_team, voters="members")
    url = reverse("vote", args=[arena.slug])
    assert Client().get(url)["Location"] == f"{reverse('sign_in')}?next={url}"
    assert signed_in(member_of(empty_team)).get(url).status_code == 200


def test_a_vote_after_leaving_is_not_counted_and_says_why(empty_team: Team) -> None:
    arena, user = make_arena(2, team=empty_team, voters="members"), member_of(empty_team)
    comparison = issued_to(user, arena)
    user.team_memberships.all().delete()
    refused = cast(signed_in(user), arena, comparison)
    assert refused["Location"].endswith("notice=MembersOnly")
    assert not Vote.objects.exists()
