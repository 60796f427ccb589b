"""Prompts in the API: thousands at once, one by its id, and what outsiders see."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from arena.api.prompts import OnePrompt
from arena.models import Arena, Prompt
from tests.arena.rest import Caller, member_of, team_arena, token_of
from tests.factories import make_arena, make_team

pytestmark = pytest.mark.django_db


def bring(caller: Caller, arena: Any, *rows: Any, query: str = "") -> Any:
    return caller.post(f"arenas/{arena.slug}/prompts/{query}", {"prompts": list(rows)})


def test_rows_go_in_together(team: Any, empty_arena: Any) -> None:
    row = {"external_id": "a/1", "text": " 1? ", "category": "c", "variables": {"tone": "kind"}}

    response = bring(token_of(team), empty_arena, row, {"text": "2?"})

    assert response.json() == {"added": 2, "changed": 0, "unchanged": 0, "refused": []}
    found = token_of(team).get(f"arenas/{empty_arena.slug}/prompts/a/1/").json()
    assert found | row == found


def test_the_same_rows_again_change_nothing(team: Any, empty_arena: Any) -> None:
    rows = [{"external_id": f"p{i}", "text": f"Question {i}?"} for i in range(3)]
    bring(token_of(team), empty_arena, *rows)

    assert bring(token_of(team), empty_arena, *rows).json()["unchanged"] == 3
    assert empty_arena.prompts.count() == 3


BAD_ROWS = [
    ({"text": ""}, "#/prompts/1/text"),
    ({"external_id": "x"}, "#/prompts/1/text"),
    ({"text": "Q?", "external_id": "a\nb"}, "#/prompts/1/external_id"),
    ({"text": ["Q?"]}, "#/prompts/1/text"),
    ({"text": "Q?", "txet": "Q?"}, "#/prompts/1/txet"),
    ({"text": "Q?", "a/b~c": 1}, "#/prompts/1/a~1b~0c"),
    ({"text": "Q?", "variables": {"not a name": "x"}}, "#/prompts/1/variables"),
    ({"text": "Q?", "variables": []}, "#/prompts/1/variables"),
    ({"text": "Q?", "variables": {f"v{n}": "x" for n in range(101)}}, "#/prompts/1"),
    ({"text": "Q?", "variables": {"x": {}}}, "#/prompts/1/x"),
    ({"text": "Good?", "external_id": "good"}, "#/prompts/1/external_id"),
    ("Q?", "#/prompts/1"),
    (None, "#/prompts/1"),
]


@pytest.mark.parametrize(("bad", "pointer"), BAD_ROWS)
def test_a_bad_row_is_listed_and_the_others_are_stored(
    team: Any, empty_arena: Any, bad: Any, pointer: str
) -> None:
    good = {"text": "Good?", "external_id": "good"}

    response = bring(token_of(team), empty_arena, good, bad)

    assert response.status_code == 200
    (refused,) = response.json()["refused"]
    assert (refused["index"], refused["pointer"]) == (1, pointer)
    assert refused["detail"].endswith(".")
    assert [prompt.external_id for prompt in Prompt.objects.all()] == ["good"]


def test_one_bad_row_keeps_all_out_if_requested(team: Any, empty_arena: Any) -> None:
    bring(token_of(team), empty_arena, {"external_id": "p1", "text": "Known?"})
    rows = [{"text": "Good?"}, {"text": ""}, {"external_id": "p2", "text": "Known?"}]

    response = bring(token_of(team), empty_arena, *rows, query="?atomic=true")

    assert response.status_code == 422
    pointers = [error["pointer"] for error in response.json()["errors"]]
    assert pointers == ["#/prompts/1/text", "#/prompts/2/text"]
    assert empty_arena.prompts.count() == 1
    assert (
        bring(token_of(team), empty_arena, {"text": "Good?"}, query="?atomic=true").status_code
        == 200
    )
    assert (
        bring(token_of(team), empty_arena, {"text": "?"}, query="?atomic=maybe").status_code == 400
    )


def test_rows_that_are_all_kept_out_write_nothing(team: Any, empty_arena: Any) -> None:
    caller = token_of(team)
    with CaptureQueriesContext(connection) as queries:
        bring(caller, empty_arena, {"text": "Good?"}, {"text": ""}, query="?atomic=true")
    assert not [one for one in queries if 'INSERT INTO "arena_prompt"' in one["sql"]]


def test_more_rows_than_a_request_takes_are_refused(team: Any, empty_arena: Any) -> None:
    response = bring(token_of(team), empty_arena, *[{"text": "?"}] * 10_001)

    assert response.status_code == 413
    assert "10,000" in response.json()["detail"]
    assert not Prompt.objects.exists()


def test_a_body_of_very_many_values_is_refused(team: Any, empty_arena: Any) -> None:
    body = '{"prompts": [' + "{}," * 1_500_000 + "{}]}"
    response = token_of(team).post(f"arenas/{empty_arena.slug}/prompts/", body)

    assert response.status_code == 413
    assert "more than 1,500,000 values" in response.json()["detail"]


def test_more_than_the_usual_body_is_taken_here(team: Any, empty_arena: Any) -> None:
    rows = [{"text": f"{i} " + "x" * 90_000} for i in range(20)]

    assert bring(token_of(team), empty_arena, *rows).json()["added"] == 20


def test_strangers_see_the_question_but_no_reference(team: Any, empty_arena: Any) -> None:
    row = {"text": "Q?", "external_id": "p1", "reference": "42", "rubric": "Be strict."}
    bring(token_of(team), empty_arena, row)

    (shown,) = Caller().get(f"arenas/{empty_arena.slug}/prompts/").json()["results"]
    (own,) = token_of(team).get(f"arenas/{empty_arena.slug}/prompts/").json()["results"]

    assert (shown["text"], shown["reference"], shown["rubric"]) == ("Q?", None, None)
    assert shown["variables"] is None
    assert own["reference"] == "42"


def test_a_list_is_filtered(team: Any, empty_arena: Any) -> None:
    rows = [{"external_id": f"p{i}", "text": f"{i}?", "category": f"c{i % 2}"} for i in range(4)]
    caller = token_of(team)
    bring(caller, empty_arena, *rows)
    caller.patch(f"arenas/{empty_arena.slug}/prompts/p0/", {"retired": True})

    def ids(query: str) -> list[str]:
        found = Caller().get(f"arenas/{empty_arena.slug}/prompts/?{query}").json()["results"]
        return [prompt["external_id"] for prompt in found]

    assert ids("category=c0") == ["p0", "p2"]
    assert ids("retired=false") == ["p1", "p2", "p3"]
    assert ids("retired=true") == ["p0"]
    assert ids("external_id=p3") == ["p3"]


def test_a_prompt_is_changed_retired_and_restored(team: Any, empty_arena: Any) -> None:
    caller = token_of(team)
    bring(caller, empty_arena, {"external_id": "p1", "text": "Q?"})
    path = f"arenas/{empty_arena.slug}/prompts/p1/"

    assert caller.patch(path, {"text": "Which?", "retired": True}).json()["text"] == "Which?"
    assert caller.get(path).json()["retired_at"] is not None
    assert caller.patch(path, {"retired": False}).json()["retired_at"] is None
    assert Caller().patch(path, {"retired": True}).status_code == 401
    assert token_of(make_team()).patch(path, {"retired": True}).status_code == 403


def test_a_prompt_is_showcased_and_hidden_but_never_restored(team: Any) -> None:
    arena, caller = make_arena(2, 41, team=team), token_of(team)
    path = f"arenas/{arena.slug}/prompts/p0/"
    shown = caller.patch(path, {"in_showcase": True}).json()
    assert shown["in_showcase"]
    assert shown["showcased_at"] == shown["retired_at"] is not None
    assert caller.patch(path, {"in_showcase": False}).json()["in_showcase"] is False
    refused = caller.patch(path, {"retired": False})
    assert refused.status_code == 422
    assert "never be voted on again" in refused.json()["detail"]
    refused = caller.patch(f"arenas/{arena.slug}/prompts/p1/", {"in_showcase": True})
    assert "Only 39 other prompts" in refused.json()["detail"]


def test_an_arena_that_is_hidden_meanwhile_is_missing(
    team: Any, empty_arena: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller, read = token_of(team), OnePrompt.validated
    bring(caller, empty_arena, {"external_id": "p1", "text": "Q?"})

    def read_while_it_is_hidden(*args: Any, **options: Any) -> Any:
        Arena.objects.filter(pk=empty_arena.pk).update(team=make_team(), visibility="private")
        return read(*args, **options)

    monkeypatch.setattr(OnePrompt, "validated", read_while_it_is_hidden)
    path = f"arenas/{empty_arena.slug}/prompts/p1/"

    assert caller.patch(path, {"text": "Which?"}).status_code == 404
    assert empty_arena.prompts.get().text == "Q?"


def test_a_prompt_with_answers_is_not_changed(team: Any) -> None:
    arena = team_arena(team)

    response = token_of(team).patch(f"arenas/{arena.slug}/prompts/p0/", {"text": "New?"})

    assert response.status_code == 422
    assert "Archive it" in response.json()["detail"]


def test_a_prompt_that_changed_meanwhile_is_not_overwritten(team: Any, empty_arena: Any) -> None:
    caller = token_of(team)
    bring(caller, empty_arena, {"external_id": "p1", "text": "Q?"})
    path = f"arenas/{empty_arena.slug}/prompts/p1/"
    etag = caller.get(path).headers["ETag"]

    assert caller.patch(path, {"text": "First?"}, If_Match=etag).status_code == 200
    assert caller.patch(path, {"text": "Second?"}, If_Match=etag).status_code == 412
    assert caller.get(path).json()["text"] == "First?"


@pytest.mark.parametrize("external_id", ["%00", "p1%00", "%0a", "nope", "a/b/c", "%ff"])
def test_an_unknown_id_is_not_found(empty_arena: Any, external_id: str) -> None:
    assert Caller().get(f"arenas/{empty_arena.slug}/prompts/{external_id}/").status_code == 404


def test_a_token_that_may_only_submit_reads_nothing_by_a_change(
    team: Any, empty_arena: Any
) -> None:
    row = {"text": "Q?", "external_id": "p1", "category": "c", "reference": "42"}
    bring(token_of(team), empty_arena, row | {"variables": {"who": "Ada"}})
    path, blind = f"arenas/{empty_arena.slug}/prompts/p1/", token_of(team, "submit")

    empty, changed = blind.patch(path, {}), blind.patch(path, {"retired": False})

    assert empty.status_code == 422
    assert "contains no changes" in empty.json()["detail"]
    assert changed.status_code == 200
    told = {name for name, value in changed.json().items() if value is not None}
    assert told == {"external_id", "in_showcase"}
    assert token_of(team).patch(path, {"retired": False}).json()["reference"] == "42"


def test_anyone_who_may_enter_candidates_sees_the_variables(team: Any, empty_arena: Any) -> None:
    row = {"text": "Q?", "external_id": "p1", "reference": "42", "variables": {"who": "Ada"}}
    bring(token_of(team), empty_arena, row)
    guests, path = make_team(), f"arenas/{empty_arena.slug}/prompts/p1/"
    readers = {
        "team": token_of(team, "read"),
        "guest": token_of(guests),
        "member": member_of(guests),
        "reads": token_of(guests, "read"),
        "viewer": member_of(guests, "viewer"),
        "nobody": Caller(),
    }

    def see() -> set[str]:
        shown = {name: caller.get(path).json() for name, caller in readers.items()}
        assert {name for name, one in shown.items() if one["reference"]} == {"team"}
        return {name for name, one in shown.items() if one["variables"]}

    assert see() == {"team"}
    Arena.objects.filter(pk=empty_arena.pk).update(open_to_teams=True)
    assert see() == {"team", "guest", "member"}
