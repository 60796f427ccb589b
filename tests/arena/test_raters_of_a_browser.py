"""Signing in: the browser's rater and the account's stay two, but share what they have seen."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.models import Arena, Candidate, Comparison, Hold, Team, Vote
from arena.services import holds
from tests.factories import known, make_arena, make_member, make_team, make_user

pytestmark = pytest.mark.django_db
AGO = timedelta(seconds=9)


def shown(client: Client, arena: Arena) -> Comparison | None:
    """The pair on this browser's ballot, or None if none is left."""
    page = known(client).get(reverse("vote", args=[arena.slug]))
    if page.status_code == 302:  # the end
        return None
    key = page.context["ballot"] and page.context["ballot"].key
    return Comparison.objects.get(key=key) if key else None


def sign_out(client: Client) -> None:
    client.post(reverse("sign_out"))  # `client.logout` would forget all cookies


def vote(client: Client, comparison: Comparison) -> Vote:
    address = reverse("cast_vote", args=[comparison.arena.slug, comparison.key])
    Comparison.objects.filter(pk=comparison.pk).update(issued_at=timezone.now() - AGO)
    client.post(address, {"outcome": "left"})
    return comparison.votes.get()


def vote_through(client: Client, arena: Arena) -> list[Any]:
    """Vote until nothing is left; return the answers of each pair."""
    seen = []
    while comparison := shown(client, arena):
        vote(client, comparison)
        seen.append(frozenset({comparison.left_response_id, comparison.right_response_id}))
    return seen


def hold(cast: Vote) -> None:
    held = holds.hold(
        arena=cast.arena,
        rater=cast.rater,
        network="",
        test="favours",
        evidence={},
        votes=[cast.pk],
        now=timezone.now(),
    )
    assert held is not None


@pytest.fixture
def contest() -> tuple[Arena, Team]:
    """An arena with two candidates of its own and two of another team."""
    arena, guests = make_arena(4, 3, team=make_team()), make_team()
    pks = list(arena.candidates.order_by("pk").values_list("pk", flat=True))
    Candidate.objects.filter(pk__in=pks[2:]).update(team=guests)
    return arena, guests


def test_signing_in_and_out_shows_no_two_answers_again(client: Client) -> None:
    arena, user = make_arena(3, 4), make_user()
    seen = []
    for _ in range(3):
        for act in (lambda: client.force_login(user), lambda: sign_out(client)):
            comparison = shown(client, arena)
            assert comparison is not None
            vote(client, comparison)
            seen.append({comparison.left_response_id, comparison.right_response_id})
            act()
    seen += vote_through(client, arena)
    assert len(seen) == len({frozenset(pair) for pair in seen}) == 12
    client.force_login(user)
    assert shown(client, arena) is None


def test_whoever_signs_out_stays_off_pairs_of_the_own_team(
    client: Client, contest: tuple[Arena, Team]
) -> None:
    arena, guests = contest
    client.force_login(make_member(guests).user)
    assert shown(client, arena)
    sign_out(client)
    pairs = []
    while comparison := shown(client, arena):
        vote(client, comparison)
        pairs.append((comparison.left, comparison.right))
    assert len(pairs) == 5  # of two pairs with three prompts; one more is open for the account
    assert all(left.team == right.team for left, right in pairs)


def test_a_pair_drawn_before_signing_in_stays_an_anonymous_vote(
    client: Client, contest: tuple[Arena, Team]
) -> None:
    """If the account took over the browser's rater, members could open pairs of their own
    candidates anonymously, sign in, and vote on them as verified people."""
    arena, guests = contest
    drawn = shown(client, arena)
    assert drawn is not None
    member = make_member(guests).user
    client.force_login(member)
    own = shown(client, arena)
    assert own is not None
    assert own.rater.user == member
    assert own.left.team == own.right.team
    cast = vote(client, drawn)
    assert (cast.channel, cast.verified, cast.rater.user) == ("browser", False, None)


def test_a_signed_in_rater_is_told_of_this_browser_s_hold(client: Client) -> None:
    arena, user = make_arena(3, 4), make_user()
    pair = shown(client, arena)
    assert pair is not None
    hold(vote(client, pair))
    client.force_login(user)
    page = known(client).get(reverse("vote", args=[arena.slug]))
    assert "Your votes here are on hold" in page.text
    client.post(reverse("object_to_hold", args=[arena.slug]), {"objection": "I read them all."})
    assert Hold.objects.get().objection == "I read them all."
    page = client.get(reverse("my_votes", args=[arena.slug]))
    assert "1 vote cast in this browser without signing in" in page.text


def test_a_signed_out_browser_tells_nothing_of_the_account(client: Client) -> None:
    arena, user = make_arena(3, 4), make_user()
    client.force_login(user)
    pair = shown(client, arena)
    assert pair is not None
    hold(vote(client, pair))
    sign_out(client)
    for name in ("vote", "my_votes"):
        page = client.get(reverse(name, args=[arena.slug])).text
        assert "on hold" not in page
        assert "signing in" not in page
