"""Every list of the API: an unknown parameter is refused, with the known ones.

Otherwise a misspelt filter would find everything.
"""

import json

import pytest
from django.test import Client

from arena.models import Arena, Run, Team
from tests.arena.rest import ROOT, Caller, team_arena, token_of
from tests.judges.helpers import write_version
from tests.ranking.helpers import publish

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]


@pytest.fixture
def caller(team: Team) -> Caller:
    return token_of(team)


def lists(arena: Arena) -> dict[str, set[str]]:
    """Every list's path in an arena or its team, and the parameters that are described."""
    write_version(arena.team)
    described = json.loads(Client().get(f"{ROOT}schema/").content)["paths"]
    board, candidate = publish(arena).board_id, arena.candidates.first()
    found = {}
    for path, methods in described.items():
        asked = methods.get("get", {}).get("parameters", [])
        names = {one["name"] for one in asked if one["in"] == "query"}
        if "cursor" in names:
            pk = board if "/boards/" in path else getattr(candidate, "pk", 0)
            slug = arena.team.slug if "/teams/" in path else arena.slug
            place = path.removeprefix(ROOT).format(slug=slug, id=pk, rubric="support")
            found[place] = names
    return found


def test_lists_refuse_unknown_parameters_and_name_known_ones(arena: Arena, caller: Caller) -> None:
    asked = lists(arena)
    assert len(asked) >= 11
    for path, names in asked.items():
        assert caller.get(path).status_code == 200, path
        refused = caller.get(f"{path}?page_size=1&nmae=x")
        assert refused.status_code == 400, path
        (error,) = refused.json()["errors"]
        assert error["parameter"] == "nmae"
        assert error["detail"].endswith(f": {', '.join(sorted(names))}."), path


@pytest.mark.parametrize(
    "misspelt",
    ["candidates/?retird=true", "prompts/?catgory=x", "battles/?rater=judges", "judges/?nam=x"],
)
def test_a_misspelt_filter_does_not_find_everything(
    arena: Arena, caller: Caller, misspelt: str
) -> None:
    assert caller.get(f"arenas/{arena.slug}/{misspelt}").status_code == 400


def test_parameters_of_hidden_arenas_stay_hidden(team: Team) -> None:
    private = team_arena(team, visibility="private")
    assert Caller().get(f"arenas/{private.slug}/prompts/?nope=1").status_code == 404


def test_runs_of_answers_are_found_by_their_state(team: Team, arena: Arena, caller: Caller) -> None:
    candidate = arena.candidates.order_by("pk")[0]
    open_run, done = (
        Run.objects.create(
            arena=arena, team=team, kind=Run.Kind.ANSWERS, state=state, candidate=candidate
        )
        for state in ("open", "done")
    )
    path = f"arenas/{arena.slug}/candidates/{candidate.pk}/answers/"
    assert found(caller, path) == [done.pk, open_run.pk]
    assert found(caller, f"{path}?state=done") == [done.pk]
    assert caller.get(f"{path}?state=over").status_code == 400


def test_judge_runs_are_found_by_their_state(arena: Arena, caller: Caller) -> None:
    path = f"arenas/{arena.slug}/judge-runs/"
    ordered = caller.post(path, {"judges": ["scripted:scripted-1"], "per_pair": 1}).json()["id"]
    state = Run.objects.get(pk=ordered).state
    assert found(caller, f"{path}?state={state}") == [ordered]
    assert found(caller, f"{path}?state=cancelled") == []
    assert caller.get(f"{path}?state=over").status_code == 400


def found(caller: Caller, path: str) -> list[int]:
    return [run["id"] for run in caller.get(path).json()["results"]]
