"""Checks in the API: for the arena's team, by its tokens and its people."""

import pytest

from arena.models import AnswerCheck, Arena, Team
from tests.arena.rest import Caller, member_of, team_arena, token_of
from tests.factories import make_arena, make_team

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]


@pytest.fixture
def checked(team: Team) -> Arena:
    return team_arena(team)


def path(arena: Arena, pk: int | None = None) -> str:
    return f"arenas/{arena.slug}/checks/" + (f"{pk}/" if pk else "")


def test_a_program_adds_lists_and_deletes_checks(team: Team, checked: Arena) -> None:
    program = token_of(team)
    body = {"kind": "word-count", "expected": "120", "prompt": "p1", "allowed": 2}
    made = program.post(path(checked), body)
    assert made.status_code == 201
    check = made.json()
    assert {**check, "id": 0, "created_at": ""} == {
        **{"id": 0, "name": "At most 120 words", "kind": "word-count", "expected": "at most 120"},
        **{"negated": False, "allowed": 2, "prompt": "p1", "created_at": ""},
    }
    wide = program.post(path(checked), {"kind": "is-json", "negated": True, "name": "Prose"}).json()
    assert (wide["prompt"], wide["name"], wide["negated"]) == (None, "Prose", True)
    assert program.get(path(checked)).json()["results"] == [check, wide]
    assert program.get(path(checked) + "?prompt=p1").json()["results"] == [check]
    assert program.get(path(checked) + "?kind=is-json").json()["results"] == [wide]
    assert program.get(path(checked, check["id"])).json() == check
    assert program.delete(path(checked, check["id"])).status_code == 204
    assert program.delete(path(checked, check["id"])).status_code == 404
    assert AnswerCheck.objects.count() == 1


@pytest.mark.parametrize(
    ("body", "status", "pointer"),
    [
        ({"kind": "regex", "expected": "("}, 422, "#/expected"),
        ({"kind": "contains", "expected": "x", "prompt": "p9"}, 422, "#/prompt"),
        ({"kind": "guard"}, 422, "#/prompt"),
        ({"kind": "like", "expected": "x"}, 400, "#/kind"),
        ({"kind": "contains", "expected": "x", "allowed": 10_001}, 400, "#/allowed"),
        ({"kind": "latency", "expected": "2", "negated": True}, 422, "#/negated"),
        ({"kind": "contains", "value": "x"}, 400, "#/value"),
        ({}, 400, "#/kind"),
    ],
)
def test_what_is_no_check_is_refused_with_a_pointer(
    team: Team, checked: Arena, body: dict[str, object], status: int, pointer: str
) -> None:
    refused = token_of(team).post(path(checked), body)
    assert refused.status_code == status, refused.json()
    assert [error["pointer"] for error in refused.json()["errors"]] == [pointer]
    assert not AnswerCheck.objects.exists()


def test_only_the_team_reads_what_it_expects(team: Team, checked: Arena) -> None:
    token_of(team).post(path(checked), {"kind": "contains", "expected": "x"})
    assert Caller().get(path(checked)).status_code == 401
    assert token_of(make_team()).get(path(checked)).status_code == 403
    assert token_of(team, "read").post(path(checked), {"kind": "is-json"}).status_code == 403
    viewer = member_of(team, "viewer")
    assert viewer.get(path(checked)).status_code == 200
    assert viewer.post(path(checked), {"kind": "is-json"}).status_code == 403
    assert viewer.delete(path(checked, AnswerCheck.objects.get().pk)).status_code == 403


def test_prompts_bring_their_checks_along(team: Team) -> None:
    arena, program = make_arena(0, 0, team=team), token_of(team)
    check = {"kind": "contains", "expected": "Orders"}
    rows = [
        {"text": "Where?", "external_id": "1", "checks": [check, {"kind": "guard"}]},
        {"text": "Why?", "checks": [check]},
        {"text": "", "external_id": "3", "checks": [check]},
        {"text": "How?", "external_id": "4", "checks": [{"kind": "regex", "expected": "("}]},
        {"text": "Where?", "external_id": "5", "checks": [check]},
    ]
    for added in (2, 0):  # the same again changes nothing
        told = program.post(f"arenas/{arena.slug}/prompts/", {"prompts": rows}).json()
        assert (told["added"], len(told["refused"])) == (added, 3)
        assert told["refused"][1]["pointer"] == "#/prompts/3/checks"
        assert "has a check whose expected is not a valid regular" in told["refused"][1]["detail"]
        found = AnswerCheck.objects.order_by("prompt__text", "kind")
        assert list(found.values_list("prompt__text", "kind")) == [
            *(("Where?", "contains"), ("Where?", "guard"), ("Why?", "contains"))
        ]
