"""A pair that somebody requests: issued like any other, but never counted as drawn."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.models import Arena, Comparison, Pair, Rater
from arena.services.comparisons import (
    RetiredError,
    SeenBeforeError,
    SignInFirstError,
    issue_pair,
    next_comparison,
)
from arena.services.voting import apply_rules, cast_vote, skip_comparison
from tests.factories import known, make_arena, make_person, make_team

pytestmark = pytest.mark.django_db


def two_of(arena: Arena) -> tuple[int, int]:
    first, second, *_ = arena.prompts.first().responses.order_by("-pk")
    return first.pk, second.pk


def issue(arena: Arena, rater: Rater, **other: object) -> Comparison:
    asked = {"responses": two_of(arena), "now": timezone.now()} | other
    return issue_pair(arena=arena, rater=rater, **asked)


def test_the_two_are_issued_for_half_an_hour_and_not_drawn() -> None:
    arena, rater = make_arena(), make_person()
    comparison = issue(arena, rater)
    comparison.refresh_from_db()
    assert {comparison.left_response_id, comparison.right_response_id} == set(two_of(arena))
    assert comparison.left_response.candidate_id == comparison.left_id
    assert comparison.draw_probability is None
    assert comparison.run_id is None
    assert comparison.expires_at - comparison.issued_at == timedelta(minutes=30)


@pytest.mark.parametrize("is_member", [False, True])
def test_a_vote_on_it_is_kept_but_does_not_count(is_member: bool) -> None:
    """Names of a pair that one chooses may be known from another browser."""
    team = make_team()
    arena = make_arena(team=team)
    rater = make_person(user=team.memberships.get().user if is_member else None)
    comparison = issue(arena, rater)
    vote = cast_vote(comparison=comparison, rater=rater, outcome="left", now=timezone.now())
    assert vote.uncounted == "chosen"
    assert arena.votes.revealed().count() == 1
    assert not arena.votes.live().exists()
    apply_rules(arena=arena)
    assert arena.votes.get().uncounted == "chosen"


def test_its_side_is_counted_like_any_other() -> None:
    arena = make_arena()
    for _ in range(10):
        issue(arena, make_person())
    assert 10 in [pair.low_left + pair.high_left for pair in Pair.objects.all()]


def test_asked_twice_it_is_the_same_comparison() -> None:
    arena, rater = make_arena(), make_person()
    assert issue(arena, rater).pk == issue(arena, rater, responses=two_of(arena)[::-1]).pk
    assert Comparison.objects.count() == 1


def test_a_pair_is_not_repeated_after_a_vote_or_skip() -> None:
    arena, voter, skipper = make_arena(), make_person(), make_person()
    now = timezone.now()
    cast_vote(comparison=issue(arena, voter), rater=voter, outcome="tie", now=now)
    skip_comparison(comparison=issue(arena, skipper), rater=skipper, now=now)
    for rater in (voter, skipper):
        with pytest.raises(SeenBeforeError):
            issue(arena, rater)


def test_an_expired_pair_is_not_issued_again() -> None:
    arena, rater = make_arena(), make_person()
    issue(arena, rater)
    with pytest.raises(SeenBeforeError):
        issue(arena, rater, now=timezone.now() + timedelta(hours=1))


def test_a_pair_seen_by_a_draw_counts_as_seen() -> None:
    arena, rater = make_arena(2, 1), make_person()
    drawn = next_comparison(arena=arena, rater=rater, now=timezone.now())
    assert issue(arena, rater).pk == drawn.pk


def test_an_arena_that_wants_names_gives_nothing_to_strangers() -> None:
    with pytest.raises(SignInFirstError):
        issue(make_arena(voters="signed_in"), make_person())


def test_what_is_retired_or_no_pair_is_not_voted_on() -> None:
    arena, elsewhere = make_arena(), make_arena()
    with pytest.raises(RetiredError):
        issue(arena, make_person(), responses=two_of(elsewhere))
    with pytest.raises(RetiredError):
        issue(arena, make_person(), responses=(two_of(arena)[0],) * 2)
    wanted = two_of(arena)
    arena.candidates.update(retired_at=timezone.now())
    with pytest.raises(RetiredError):
        issue(arena, make_person(), responses=wanted)


def open_page(client: Client, arena: Arena, **query: object) -> str:
    return known(client).get(reverse("vote", args=[arena.slug]), query).content.decode()


def test_the_voting_page_shows_the_pair_that_was_requested(
    client: Client, django_user_model
) -> None:
    arena, user = make_arena(3, 6), django_user_model.objects.create_user("ann")
    rater = make_person(user=user)
    client.force_login(user)
    waiting = next_comparison(arena=arena, rater=rater, now=timezone.now())
    responses = (
        arena.prompts.exclude(pk=waiting.prompt_id).first().responses.values_list("pk", flat=True)
    )
    asked = issue(arena, rater, responses=tuple(responses[:2]))
    assert str(waiting.key) in open_page(client, arena)
    html = open_page(client, arena, pair=asked.key)
    assert str(asked.key) in html
    assert str(waiting.key) not in html


def test_pairs_of_others_and_missing_pairs_are_not_shown(client: Client) -> None:
    arena = make_arena()
    other = issue(arena, make_person())
    for pair in (other.key, "rubbish"):
        assert str(other.key) not in open_page(client, arena, pair=pair)
