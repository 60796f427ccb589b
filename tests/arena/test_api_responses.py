"""A candidate's answers in the API: uploaded, read by its team, generated."""

from typing import Any

import pytest

from arena.models import Candidate, Response, Run
from tests.arena.generation import sweep, work_off
from tests.arena.rest import Caller, member_of, team_arena, token_of
from tests.factories import make_candidate, make_team

pytestmark = pytest.mark.django_db


@pytest.fixture
def uploaded(team: Any) -> Candidate:
    """A candidate without an endpoint and without answers, in an arena with four prompts."""
    arena = team_arena(team)
    return make_candidate(arena, "uploaded", team=team)


def path_of(candidate: Candidate, last: str = "responses") -> str:
    return f"arenas/{candidate.arena.slug}/candidates/{candidate.pk}/{last}/"


def bring(caller: Caller, candidate: Candidate, *rows: Any, query: str = "") -> Any:
    return caller.post(path_of(candidate) + query, {"responses": list(rows)})


def test_answers_go_in_by_prompt_and_are_read_again(team: Any, uploaded: Candidate) -> None:
    caller = token_of(team)
    row = {"prompt_id": "p0", "text": " An answer\n", "tokens_out": 9, "cost": 0.0025}

    response = bring(caller, uploaded, row, {"prompt": "Question 1?", "text": "Another"})

    assert response.json() == {
        "added": 2,
        "changed": 0,
        "unchanged": 0,
        "refused": [],
        "missing": ["p2", "p3"],
    }
    first, second = caller.get(path_of(uploaded)).json()["results"]
    assert first == row | {"messages": None, "tokens_in": None, "seconds": None}
    assert (second["prompt_id"], second["cost"]) == ("p1", None)
    assert uploaded.responses.get(prompt__external_id="p0").cost == 2_500_000
    (only,) = caller.get(f"{path_of(uploaded)}?prompt_id=p1").json()["results"]
    assert only == second


def test_the_same_answers_change_nothing_and_new_ones_replace(
    team: Any, uploaded: Candidate
) -> None:
    caller, row = token_of(team), {"prompt_id": "p0", "text": "A"}

    assert bring(caller, uploaded, row).json()["added"] == 1
    assert bring(caller, uploaded, row).json()["unchanged"] == 1
    assert bring(caller, uploaded, row | {"text": "B"}).json()["changed"] == 1
    assert [answer.text for answer in uploaded.responses.all()] == ["B"]


BAD_ROWS = [
    ({"prompt_id": "nope", "text": "A"}, "#/responses/1/prompt_id"),
    ({"prompt_id": "p0", "text": "Twice"}, "#/responses/1/prompt_id"),
    ({"prompt_id": "p1"}, "#/responses/1/text"),
    ({"text": "A"}, "#/responses/1/prompt_id"),
    ({"prompt_id": "p1", "text": "A", "tokens_in": -1}, "#/responses/1/tokens_in"),
    ({"prompt_id": "p1", "text": "A", "tokens_in": 10**200}, "#/responses/1/tokens_in"),
    ({"prompt_id": "p1", "text": "A", "seconds": "long"}, "#/responses/1/seconds"),
    ({"prompt_id": {}, "text": "A"}, "#/responses/1/prompt_id"),
    ({"prompt_id": "p1", "text": "x" * 1_000_001}, "#/responses/1/text"),
]


@pytest.mark.parametrize(("bad", "pointer"), BAD_ROWS)
def test_a_bad_row_is_listed_and_the_others_are_stored(
    team: Any, uploaded: Candidate, bad: Any, pointer: str
) -> None:
    response = bring(token_of(team), uploaded, {"prompt_id": "p0", "text": "Good"}, bad)

    assert response.status_code == 200
    (refused,) = response.json()["refused"]
    assert refused["pointer"] == pointer
    assert uploaded.responses.count() == 1


def test_one_bad_row_keeps_all_out_if_requested(team: Any, uploaded: Candidate) -> None:
    rows = [{"prompt_id": "p0", "text": "Good"}, {"prompt_id": "nope", "text": "A"}]

    response = bring(token_of(team), uploaded, *rows, query="?atomic=1")

    assert response.status_code == 422
    assert [error["index"] for error in response.json()["errors"]] == [1]
    assert not uploaded.responses.exists()


def test_more_rows_than_a_request_takes_are_refused(team: Any, uploaded: Candidate) -> None:
    response = bring(token_of(team), uploaded, *[{}] * 10_001)

    assert response.status_code == 413
    assert "10,000" in response.json()["detail"]


@pytest.mark.parametrize("rows", [None, {}, "p0", 7])
def test_what_is_not_a_list_is_refused(team: Any, uploaded: Candidate, rows: Any) -> None:
    response = token_of(team).post(path_of(uploaded), {"responses": rows})

    assert response.status_code == 400
    assert response.json()["errors"][0]["pointer"] == "#/responses"


def test_only_its_team_brings_and_reads(team: Any, uploaded: Candidate) -> None:
    row = {"prompt_id": "p0", "text": "A"}

    for caller, status in (
        (Caller(), 401),
        (token_of(make_team()), 403),
        (token_of(team, "read"), 403),
        (member_of(team, "viewer"), 403),
        (member_of(team), 200),
    ):
        assert bring(caller, uploaded, row).status_code == status
    assert Caller().get(path_of(uploaded)).status_code == 401
    assert token_of(make_team()).get(path_of(uploaded)).status_code == 403
    assert member_of(team, "viewer").get(path_of(uploaded)).status_code == 200


def test_a_candidate_of_another_arena_is_not_found(team: Any, uploaded: Candidate) -> None:
    other = team_arena(team)
    path = f"arenas/{other.slug}/candidates/{uploaded.pk}/"

    assert token_of(team).get(path).status_code == 404
    assert token_of(team).get(f"{path}responses/").status_code == 404


@pytest.fixture
def generated(team: Any) -> Candidate:
    arena = team_arena(team)
    fields = {"endpoint": "scripted", "model": "scripted-1", "user_template": "{{ prompt }}"}
    return make_candidate(arena, "generated", team=team, **fields)


def test_answers_are_ordered_and_watched(team: Any, generated: Candidate) -> None:
    caller = token_of(team)

    ordered = caller.post(path_of(generated, "answers"), {})
    work_off(Run.objects.get())
    sweep()
    (run,) = caller.get(path_of(generated, "answers")).json()["results"]

    assert ordered.status_code == 201
    assert (ordered.json()["state"], ordered.json()["wanted"]) == ("open", 4)
    assert (run["state"], run["done"], run["spent"]) == ("done", 4, 0.0)
    assert Response.objects.filter(candidate=generated).count() == 4


def test_workers_are_woken_when_the_order_is_committed(
    team: Any, generated: Candidate, monkeypatch: Any, django_capture_on_commit_callbacks: Any
) -> None:
    rung = []
    monkeypatch.setattr("arena.tasks.wake_workers", lambda: rung.append(1) or 1)

    with django_capture_on_commit_callbacks(execute=True):
        token_of(team).post(path_of(generated, "answers"), {})
        assert not rung

    assert rung == [1]


def test_what_costs_money_needs_a_cap_and_a_budget(
    team: Any, generated: Candidate, model: Any
) -> None:
    from tests.factories import MODEL

    Candidate.objects.update(endpoint="paid", model=MODEL)
    caller = token_of(team)

    no_cap = caller.post(path_of(generated, "answers"), {})
    no_budget = caller.post(path_of(generated, "answers"), {"cap": 1.5})
    nonsense = [caller.post(path_of(generated, "answers"), {"cap": cap}) for cap in CAPS]

    assert (no_cap.status_code, no_budget.status_code) == (422, 422)
    assert no_cap.json()["errors"][0]["pointer"] == "#/cap"
    assert "budget" in no_budget.json()["detail"]
    assert {response.status_code for response in nonsense} == {400}
    assert not Run.objects.exists()


CAPS = [-1, "1", True, [], 10**9, {"dollars": 1}]


def test_an_uploaded_candidate_generates_nothing(team: Any, uploaded: Candidate) -> None:
    response = token_of(team).post(path_of(uploaded, "answers"), {})

    assert response.status_code == 422
    assert "upload its answers" in response.json()["detail"]
