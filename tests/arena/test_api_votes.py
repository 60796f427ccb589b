"""A rater's own client: comparisons, votes, skips and undos, blind to the end."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from arena.models import Comparison, Rater, Vote
from arena.services.comparisons import SignInFirstError, check_admission
from tests.arena.rest import Caller, member_of, team_arena, token_of
from tests.factories import make_team, make_user

pytestmark = pytest.mark.django_db


def issue(caller: Caller, arena: Any, rater: str | None = "anna") -> Any:
    return caller.post(f"arenas/{arena.slug}/comparisons/", {"rater": rater} if rater else {})


def path_of(said: Any, arena: Any, last: str = "") -> str:
    return f"arenas/{arena.slug}/comparisons/{said['key']}/{last}"


def vote(caller: Caller, arena: Any, said: Any, outcome: str = "left") -> Any:
    return caller.post(path_of(said, arena, "vote/"), {"outcome": outcome})


def test_a_named_rater_votes_and_learns_the_names(team: Any, arena: Any) -> None:
    caller = token_of(team)
    issued = issue(caller, arena)
    said = issued.json()

    voted = vote(caller, arena, said).json()

    comparison = Comparison.objects.get()
    assert issued.headers["Location"] == f"/api/v1/arenas/{arena.slug}/comparisons/{said['key']}/"
    assert (said["left"], said["right"]) == (
        comparison.left_response.text,
        comparison.right_response.text,
    )
    assert said["prompt"] == comparison.prompt.text
    assert (voted["state"], voted["outcome"]) == ("voted", "left")
    assert voted["candidates"] == {"left": comparison.left.name, "right": comparison.right.name}
    rater = Vote.objects.get().rater
    assert (rater.kind, rater.arena, rater.name, rater.user) == ("person", arena, "anna", None)
    assert comparison.draw_probability is not None


def test_a_signed_in_person_is_their_own_rater(arena: Any) -> None:
    user = make_user()
    caller = Caller(user=user)
    said = issue(caller, arena, None).json()

    assert vote(caller, arena, said).status_code == 200
    assert Vote.objects.get().rater.user == user
    assert issue(caller, arena, "somebody else").status_code == 422


def test_anonymous_clients_cannot_vote_through_the_api(team: Any, arena: Any) -> None:
    said = issue(token_of(team), arena).json()

    assert issue(Caller(), arena).status_code == 401
    assert vote(Caller(), arena, said).status_code == 401
    assert Caller().get(path_of(said, arena)).status_code == 401


def test_a_token_names_its_rater_in_its_own_arena(team: Any, arena: Any) -> None:
    assert issue(token_of(team), arena, None).status_code == 422
    assert issue(token_of(team), arena, " ").status_code in (400, 422)
    assert issue(token_of(team), arena, "x\ny").status_code in (400, 422)
    assert issue(token_of(team, "read"), arena).status_code == 403
    assert issue(token_of(make_team()), arena).status_code == 403
    assert not Rater.objects.exists()


TELLING = ["candidate-", "version", "draw_probability", "run", '"id"', "external_id", '"p0"']


def test_authors_stay_hidden_until_the_vote(team: Any, arena: Any) -> None:
    caller = token_of(team)
    issued = issue(caller, arena)
    said = issued.json()
    skipped = caller.post(path_of(said, arena, "skip/"))
    again = caller.get(path_of(said, arena))

    for response in (issued, skipped, again):
        body = response.content.decode()
        assert not [word for word in TELLING if word in body]
        assert response.json()["candidates"] is None
    assert skipped.json()["state"] == "skipped"
    assert set(said) == {
        "key",
        "state",
        "prompt",
        "left",
        "right",
        "expires_at",
        "outcome",
        "candidates",
    }


def test_names_stay_masked_where_they_are_not_disclosed(team: Any, arena: Any) -> None:
    arena.candidates.update(disclosed_at=None, private_until_votes=100)
    caller = token_of(team)

    voted = vote(caller, arena, issue(caller, arena).json()).json()

    assert all(name.startswith("Undisclosed ") for name in voted["candidates"].values())


def test_asking_again_shows_the_same_comparison(team: Any, arena: Any) -> None:
    caller = token_of(team)

    assert issue(caller, arena).json()["key"] == issue(caller, arena).json()["key"]
    assert issue(caller, arena, "ben").json()["key"] != issue(caller, arena).json()["key"]
    assert Rater.objects.count() == 2


def test_a_repeated_vote_is_the_same_and_another_is_refused(team: Any, arena: Any) -> None:
    caller = token_of(team)
    said = issue(caller, arena).json()
    first = vote(caller, arena, said, "tie")

    assert vote(caller, arena, said, "tie").content == first.content
    other = vote(caller, arena, said, "left")
    assert other.status_code == 409
    assert "first vote counts" in other.json()["detail"]
    assert Vote.objects.get().outcome == "tie"


@pytest.mark.parametrize("body", [{}, {"outcome": "draw"}, {"outcome": 1}, {"outcome": None}])
def test_an_outcome_is_one_of_four(team: Any, arena: Any, body: Any) -> None:
    caller = token_of(team)
    said = issue(caller, arena).json()

    assert caller.post(path_of(said, arena, "vote/"), body).status_code == 400
    assert not Vote.objects.exists()


def test_a_vote_is_undone_within_its_time_and_the_names_go_again(team: Any, arena: Any) -> None:
    caller = token_of(team)
    said = issue(caller, arena).json()
    vote(caller, arena, said)

    undone = caller.delete(path_of(said, arena, "vote/"))
    shown = caller.get(path_of(said, arena)).json()

    assert (undone.status_code, undone.content) == (204, b"")
    assert (shown["state"], shown["outcome"], shown["candidates"]) == ("undone", None, None)
    assert vote(caller, arena, said).status_code == 409
    late = issue(caller, arena).json()
    vote(caller, arena, late)
    Vote.objects.update(cast_at=timezone.now() - timedelta(minutes=1))
    assert caller.delete(path_of(late, arena, "vote/")).status_code == 409


def test_an_expired_comparison_takes_no_vote(team: Any, arena: Any) -> None:
    caller = token_of(team)
    said = issue(caller, arena).json()
    Comparison.objects.update(expires_at=timezone.now() - timedelta(seconds=1))

    assert caller.get(path_of(said, arena)).json()["state"] == "expired"
    assert vote(caller, arena, said).status_code == 409


def test_when_nothing_is_left_there_is_no_content(team: Any) -> None:
    empty = team_arena(team, n_candidates=1)

    assert issue(token_of(team), empty).status_code == 204


def test_another_persons_comparison_is_not_found(team: Any, arena: Any) -> None:
    by_token = issue(token_of(team), arena).json()
    user = member_of(team)
    by_person = issue(user, arena, None).json()

    for caller, said in (
        (user, by_token),
        (token_of(team), by_person),
        (token_of(make_team()), by_token),
        (Caller(user=make_user(is_staff=True)), by_person),
        (Caller(user=make_user(is_staff=True)), by_token),
    ):
        assert caller.get(path_of(said, arena)).status_code == 404
        assert vote(caller, arena, said).status_code == 404
        assert caller.post(path_of(said, arena, "skip/")).status_code == 404
        assert caller.delete(path_of(said, arena, "vote/")).status_code == 404
    assert not Vote.objects.exists()


def test_a_comparison_is_found_in_its_own_arena_alone(team: Any, arena: Any) -> None:
    said = issue(token_of(team), arena).json()

    assert token_of(team).get(path_of(said, team_arena(team))).status_code == 404


def test_the_arena_decides_who_can_vote(team: Any) -> None:
    members_only = team_arena(team, voters="members")
    signed_in = team_arena(team, voters="signed_in")

    assert issue(Caller(user=make_user()), members_only, None).status_code == 403
    assert issue(member_of(team, "viewer"), members_only, None).status_code == 200
    assert issue(Caller(user=make_user()), signed_in, None).status_code == 200


@pytest.mark.parametrize("voters", ["signed_in", "members"])
def test_a_token_brings_named_raters_whoever_else_may_vote(team: Any, voters: str) -> None:
    """The arena's team is responsible for the raters that it names."""
    arena, caller = team_arena(team, voters=voters), token_of(team)

    said = issue(caller, arena).json()
    assert vote(caller, arena, said).status_code == 200
    assert arena.votes.live().get().rater.name == "anna"
    other = team_arena(team, voters=voters)
    with pytest.raises(SignInFirstError):
        check_admission(other, Rater.objects.get(name="anna"))


def test_a_blocked_rater_gets_nothing(team: Any, arena: Any) -> None:
    caller = token_of(team)
    issue(caller, arena)
    Rater.objects.update(blocked_at=timezone.now())

    assert issue(caller, arena).status_code == 403


def test_a_rater_gets_a_limited_number_of_pairs_a_minute(
    team: Any, arena: Any, settings: Any
) -> None:
    settings.VOTES_PER_MINUTE = 2
    caller = token_of(team)

    statuses = [issue(caller, arena).status_code for _ in range(3)]

    assert statuses == [200, 200, 429]
    assert issue(caller, arena, "ben").status_code == 200


def test_a_limited_number_of_new_names_an_hour(team: Any, arena: Any, settings: Any) -> None:
    settings.NEW_RATERS_PER_HOUR = 2
    caller = token_of(team)

    statuses = [issue(caller, arena, name).status_code for name in ("a", "b", "c", "a")]

    assert statuses == [200, 200, 429, 200]
    assert Rater.objects.count() == 2


def test_a_repeated_request_with_a_key_hands_out_one_comparison(team: Any, arena: Any) -> None:
    caller = token_of(team)
    path = f"arenas/{arena.slug}/comparisons/"
    first = caller.post(path, {"rater": "anna"}, Idempotency_Key="k")
    vote(caller, arena, first.json())

    again = caller.post(path, {"rater": "anna"}, Idempotency_Key="k")

    assert again.content == first.content
    assert Comparison.objects.count() == 1
