"""Boards and snapshots through the API: what they say, and how they are served."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from arena.models import Arena, Rater, Response
from ranking.api.boards import STANDING, STANDINGS, StandingShown, StandingsShown
from ranking.models import Snapshot
from ranking.results import VALUES
from tests.arena.rest import Caller, member_of, team_arena, token_of, undisclosed
from tests.arena.teams import make_team
from tests.factories import make_vote
from tests.ranking.helpers import cast, publish

pytestmark = pytest.mark.django_db

ROOT = "/api/v1/"


def boards_of(client: Client, **asked: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"{ROOT}arenas/support/boards/", asked).json()[
        "results"
    ]
    return found


def test_a_board_says_what_its_results_say_and_names_ids(
    client: Client, published: Snapshot
) -> None:
    answer = client.get(f"{ROOT}boards/{published.board_id}/")
    found, results = answer.json(), client.get("/a/support/results.json").json()
    assert answer["Content-Type"] == "application/json"
    assert (found["id"], found["snapshot"]) == (published.board_id, published.pk)
    assert [row["id"] for row in found["standings"]] == [
        int(row["url"].rsplit("/", 2)[1]) for row in results["standings"]
    ]
    for row in found["standings"]:
        del row["id"]
    assert found == {"id": found["id"], "snapshot": found["snapshot"]} | results


def test_boards_are_listed_with_what_they_show_now(
    client: Client, arena: Arena, judge: Rater
) -> None:
    left, right = arena.candidates.all()[:2]
    make_vote(arena, left, right, "tie", arena.prompts.first(), judge)
    snapshot = publish(arena)
    first = next(row for row in boards_of(client) if row["id"] == snapshot.board_id)
    assert (first["raters"], first["category"], first["n_votes"]) == ("people", "", 24)
    assert first["snapshot"] == snapshot.pk
    assert {row["raters"] for row in boards_of(client)} >= {"people", "judges"}
    judged = boards_of(client, raters="judges", category="category-0")
    assert [(row["raters"], row["category"]) for row in judged] == [("judges", "category-0")]


def test_a_board_is_listed_before_its_first_snapshot(client: Client, arena: Arena) -> None:
    board = publish(arena).board
    Snapshot.objects.all().delete()
    row = next(row for row in boards_of(client) if row["id"] == board.pk)
    assert (row["snapshot"], row["published_at"], row["n_votes"]) == (None, None, None)


def test_a_stored_board_costs_one_query(
    client: Client, arena: Arena, django_assert_num_queries: Callable[..., Any]
) -> None:
    url = f"{ROOT}boards/{publish(arena).board_id}/"
    first = client.get(url)
    with django_assert_num_queries(1):
        second = client.get(url)
    assert first.content == second.content
    assert first["ETag"] == second["ETag"]
    assert first["Cache-Control"] == second["Cache-Control"] == "no-cache"


def test_a_reader_with_the_board_gets_304_until_it_changes(client: Client, arena: Arena) -> None:
    url = f"{ROOT}boards/{publish(arena).board_id}/"
    for _ in range(2):  # made, and stored
        known = client.get(url)["ETag"]
        assert client.get(url, headers={"If-None-Match": known}).status_code == 304
    cast(arena)
    publish(arena)
    changed = client.get(url, headers={"If-None-Match": known})
    assert (changed.status_code, changed.json()["n_votes"]) == (200, 25)


def test_a_bad_token_is_reported_even_where_everybody_may_read(
    client: Client, arena: Arena
) -> None:
    url = f"{ROOT}boards/{publish(arena).board_id}/"
    client.get(url)
    assert client.get(url, headers={"Authorization": "Bearer rs_nobody"}).status_code == 401


@pytest.mark.parametrize("visibility", ["public", "private"])
def test_anyone_who_says_who_they_are_is_counted_on_a_board_too(
    settings: Any, visibility: str
) -> None:
    settings.API_REQUESTS_PER_MINUTE = settings.API_REQUESTS_PER_MINUTE | {"read": 2}
    team = make_team()
    arena = team_arena(team, visibility=visibility)
    path = f"boards/{publish(arena).board_id}/"
    for caller in (token_of(team), member_of(team)):
        answers = [caller.get(path).status_code for _ in range(3)]
        assert answers == [200, 200, 429]


def test_nobody_is_counted_where_nothing_is_stored(settings: Any, arena: Arena) -> None:
    settings.API_REQUESTS_PER_MINUTE = settings.API_REQUESTS_PER_MINUTE | {"read": 1}
    path = f"boards/{publish(arena).board_id}/"
    made, stored, again = (Caller().get(path) for _ in range(3))
    assert [made.status_code, stored.status_code, again.status_code] == [200] * 3
    missing = [Caller().get("boards/999999/").status_code for _ in range(2)]
    assert missing == [429, 429]


def test_a_stored_page_is_not_made_again_for_a_token(
    settings: Any, arena: Arena, monkeypatch: Any
) -> None:
    path = f"boards/{publish(arena).board_id}/"
    made = Caller().get(path)
    monkeypatch.delattr("ranking.api.boards.standings_of")
    assert token_of(make_team()).get(path).content == made.content


def test_a_board_takes_no_other_method(client: Client, arena: Arena) -> None:
    url = f"{ROOT}boards/{publish(arena).board_id}/"
    client.get(url)
    head = client.head(url)
    assert (head.status_code, head.content) == (200, b"")
    assert client.delete(url).status_code in (401, 405)


def test_snapshots_stay_to_be_read(client: Client, arena: Arena) -> None:
    earlier = publish(arena)
    Snapshot.objects.filter(pk=earlier.pk).update(is_history=True)
    cast(arena)
    now = publish(arena)
    listed = client.get(f"{ROOT}boards/{now.board_id}/snapshots/").json()["results"]
    assert [(row["id"], row["is_current"], row["n_votes"]) for row in listed] == [
        (now.pk, True, 25),
        (earlier.pk, False, 24),
    ]
    then = client.get(f"{ROOT}snapshots/{earlier.pk}/").json()
    assert (then["snapshot"], then["n_votes"], len(then["standings"])) == (earlier.pk, 24, 3)
    assert [row["rank"] for row in then["standings"]] == [1, 2, 3]


def test_costs_are_next_to_the_current_snapshot_alone(client: Client, arena: Arena) -> None:
    earlier = publish(arena)
    Snapshot.objects.filter(pk=earlier.pk).update(is_history=True)
    Response.objects.update(cost=1_000_000, seconds=2.0)
    cast(arena)
    now = publish(arena)
    of_board = client.get(f"{ROOT}boards/{now.board_id}/").json()["standings"]
    assert of_board[0]["dollars_per_1000_answers"] == 1.0
    assert client.get(f"{ROOT}snapshots/{now.pk}/").json()["standings"] == of_board
    then = client.get(f"{ROOT}snapshots/{earlier.pk}/").json()["standings"][0]
    assert of_board[0].keys() - then.keys() == set(VALUES)


def test_a_standing_has_the_members_that_are_described(client: Client, published: Snapshot) -> None:
    for path in (f"boards/{published.board_id}/", f"snapshots/{published.pk}/"):
        found = client.get(ROOT + path).json()
        assert list(found) == list(StandingsShown().fields) == list(STANDINGS)
        for row in found["standings"]:
            assert list(row) == list(StandingShown().fields) == list(STANDING)


def test_what_was_superseded_is_not_found(client: Client, arena: Arena) -> None:
    earlier = publish(arena)
    Snapshot.objects.filter(pk=earlier.pk).update(is_current=False, is_history=False)
    assert client.get(f"{ROOT}snapshots/{earlier.pk}/").status_code == 404


def test_the_name_of_an_undisclosed_candidate_is_nowhere(client: Client, arena: Arena) -> None:
    hidden = undisclosed(arena)
    make_vote(arena, hidden, arena.candidates.first(), "left", arena.prompts.first())
    snapshot = publish(arena)
    for path in (f"boards/{snapshot.board_id}/", f"snapshots/{snapshot.pk}/"):
        page = client.get(ROOT + path).content.decode()
        assert f"Undisclosed {hidden.pk}" in page
        assert "secret-recipe" not in page


def test_in_an_old_snapshot_a_candidate_without_a_rank_comes_last(
    client: Client, published: Snapshot
) -> None:
    first = published.standings.order_by("rank").first()
    assert first is not None
    published.standings.filter(pk=first.pk).update(rank=None, score=None)
    shown = client.get(f"{ROOT}snapshots/{published.pk}/").json()["standings"]
    assert shown[-1]["id"] == first.candidate_id
