"""Experiments in the API: created, quoted, run, read and promoted by a program."""

from typing import Any

import pytest
from django.utils import timezone

from arena.actors import CLI
from arena.models import Arena
from judges.models import Experiment
from judges.services.experiments import ExperimentError, create_experiment
from judges.services.measurements import measure
from tests.arena.rest import Caller, token_of
from tests.factories import make_arena, make_candidate, make_team
from tests.judges.fake_server import FakeServer
from tests.judges.helpers import LOCAL
from tests.judges.test_experiments import WRITER, answers, go_on

pytestmark = pytest.mark.django_db


@pytest.fixture
def origin(team: Any, local: FakeServer) -> Arena:
    local.otherwise = answers
    arena: Arena = make_arena(0, 40, team=team)
    make_candidate(arena, "concise", endpoint="local", model=WRITER, system_prompt="plain")
    return arena


@pytest.fixture
def caller(team: Any) -> Caller:
    return token_of(team, "read", "submit", "judge")


def create(caller: Caller, origin: Arena, **body: Any) -> Any:
    given = {"drafts": [{"name": "greet", "system_prompt": "GOOD"}]} | body
    return caller.post(f"arenas/{origin.slug}/experiments/", given)


def test_a_program_measures_a_draft_and_promotes_it(caller: Caller, origin: Arena) -> None:
    made = create(caller, origin)
    assert made.status_code == 201, made.json()
    path = f"experiments/{made.json()['slug']}/"
    quote = caller.post(f"{path}quote/", {"judges": [LOCAL], "side": "worse"}).json()
    assert quote["size"] == 40
    assert quote["finds_words"].endswith("in 4 of 5 cases.")

    started = caller.post(f"{path}run/", {"judges": [LOCAL]})
    assert started.json()["state"] == "running"
    experiment = go_on(Experiment.objects.get())
    found = caller.get(path).json()

    (draft,) = found["drafts"]
    (measured,) = measure(experiment).drafts
    assert (found["state"], draft["verdict"]) == ("done", "better")
    assert draft["win_rate"] == measured.claim.win_rate
    assert draft["better"] == draft["looked_at"] == found["looked_at"]

    promoted = caller.post(f"{path}drafts/{draft['id']}/promote/", {"why": "It greets."})
    assert promoted.json()["promoted"]["name"] == "concise v2"
    again = caller.post(f"{path}drafts/{draft['id']}/promote/", {})
    assert again.status_code == 422


def test_a_candidate_of_another_team_is_no_baseline(caller: Caller, origin: Arena) -> None:
    other = make_candidate(
        origin, "theirs", team=make_team(), endpoint="local", model=WRITER, system_prompt="secret"
    )

    refused = create(caller, origin, baseline=other.pk)

    assert (refused.status_code, "no active candidate" in refused.text) == (422, True)
    assert not Experiment.objects.exists()
    with pytest.raises(ExperimentError, match="active candidate as the baseline"):
        create_experiment(origin=origin, baseline=other, by=CLI, now=timezone.now(), drafts=[{}])


def test_the_same_experiment_is_found_again(caller: Caller, origin: Arena) -> None:
    first = create(caller, origin, reuse=True)
    again = create(caller, origin, reuse=True)
    other = create(caller, origin, reuse=True, drafts=[{"system_prompt": "else"}])

    assert (first.status_code, again.status_code, other.status_code) == (201, 200, 201)
    assert first.json()["slug"] == again.json()["slug"] != other.json()["slug"]


def test_other_teams_find_no_experiment(caller: Caller, origin: Arena) -> None:
    from tests.factories import make_team

    slug = create(caller, origin).json()["slug"]
    stranger = token_of(make_team(), "read", "submit", "judge")

    assert stranger.get(f"experiments/{slug}/").status_code == 404
    assert stranger.get(f"arenas/{slug}/candidates/").status_code == 404
    assert Caller().get(f"experiments/{slug}/").status_code in (401, 404)


def test_the_baseline_against_itself_is_measured_once(caller: Caller, origin: Arena) -> None:
    path = f"experiments/{create(caller, origin).json()['slug']}/"
    caller.post(f"{path}run/", {"judges": [LOCAL]})
    experiment = Experiment.objects.get()
    go_on(experiment)
    caller.post(f"{path}twin/", {"cap": 1.0})
    twin = Experiment.objects.get(twin=True)
    go_on(twin)
    caller.post(f"{path}twin/", {"cap": 1.0})

    assert Experiment.objects.filter(twin=True).count() == 1
    assert caller.get(path).json()["twin"]["flips"] == 0


def test_only_a_draft_that_was_measured_well_is_promoted(caller: Caller, origin: Arena) -> None:
    made = create(caller, origin).json()
    path, (draft,) = f"experiments/{made['slug']}/", made["drafts"]
    promote = f"{path}drafts/{draft['id']}/promote/"

    early = caller.post(promote, {"why": "now"})
    origin.candidates.update(system_prompt="GOOD")
    worse = create(caller, origin, drafts=[{"name": "x", "system_prompt": "bad"}]).json()
    caller.post(f"experiments/{worse['slug']}/run/", {"judges": [LOCAL]})
    go_on(Experiment.objects.get(arena__slug=worse["slug"]))
    late = caller.post(
        f"experiments/{worse['slug']}/drafts/{worse['drafts'][0]['id']}/promote/", {}
    )

    assert (early.status_code, late.status_code) == (422, 422)
    assert "Only a measured draft" in late.json()["detail"]
    assert origin.candidates.count() == 1


def test_one_that_is_measured_like_this_is_found_behind_newer_ones(
    caller: Caller, origin: Arena
) -> None:
    plans = [{"judges": [LOCAL], "size": size} for size in (20, 30)]
    slugs = []
    for plan in plans:
        made = create(caller, origin, reuse=True, plan=plan).json()
        caller.post(f"experiments/{made['slug']}/run/", plan)
        slugs.append(made["slug"])

    again = [create(caller, origin, reuse=True, plan=plan).json()["slug"] for plan in plans]
    assert again == slugs
    assert slugs[0] != slugs[1]
