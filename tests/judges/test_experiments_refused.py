"""What a program sends that no experiment can be made of, or measured by: refused in words."""

from typing import Any

import pytest

from arena.models import Arena
from judges.models import Experiment
from tests.arena.rest import Caller, token_of
from tests.factories import make_arena, make_candidate
from tests.judges.fake_server import FakeServer
from tests.judges.helpers import LOCAL
from tests.judges.test_api_experiments import create
from tests.judges.test_experiments import WRITER, answers, priced

pytestmark = pytest.mark.django_db
CREATE: dict[str, tuple[dict[str, Any], int, str]] = {
    "no drafts": ({"drafts": []}, 400, "drafts"),
    "five drafts": ({"drafts": [{"system_prompt": f"S{n}"} for n in range(5)]}, 400, "drafts"),
    "equal drafts": ({"drafts": [{"system_prompt": "S"}] * 2}, 422, "the same as Draft 1"),
    "the baseline": ({"drafts": [{"system_prompt": "plain"}]}, 422, "same as the baseline"),
    "nothing changed": ({"drafts": [{}]}, 422, "same as the baseline"),
    "equal names": (
        {"drafts": [{"name": "A", "system_prompt": "S"}, {"name": "a", "system_prompt": "T"}]},
        422,
        "called a",
    ),
    "the baseline's name": ({"drafts": [{"name": "Concise", "system_prompt": "S"}]}, 422, "called"),
    "text for messages": ({"drafts": [{"messages": "Hello"}]}, 422, "messages"),
    "a number for messages": ({"drafts": [{"messages": 7}]}, 422, "messages"),
    "an object for messages": ({"drafts": [{"messages": {"role": "user"}}]}, 422, "messages"),
    "an empty role": ({"drafts": [{"messages": [{"content": "x"}]}]}, 422, "messages"),
    "unknown parameters": ({"drafts": [{"parameters": {"magic": 1}}]}, 422, "magic"),
    "parameters in a list": ({"drafts": [{"parameters": [1]}]}, 400, "parameters"),
    "an unknown endpoint": (
        {"drafts": [{"endpoint": "nowhere", "model": "m"}]},
        422,
        "no endpoint",
    ),
    "a control character": ({"drafts": [{"name": "a\u0007", "system_prompt": "S"}]}, 422, "name"),
    "NUL in a name": ({"drafts": [{"name": "a\0", "system_prompt": "S"}]}, 400, "NUL"),
    "NUL in a text": ({"drafts": [{"system_prompt": "a\0b"}]}, 400, "NUL"),
    "NUL in messages": (
        {"drafts": [{"messages": [{"role": "user", "content": "a\0b"}]}]},
        400,
        "NUL",
    ),
    "a long text": ({"drafts": [{"system_prompt": "x" * 1_000_001}]}, 400, "system_prompt"),
    "a control character in the name": ({"name": "a\u0007b"}, 422, "name"),
    "an invisible name": ({"name": "\u200b"}, 422, "name"),
    "an unknown prompt": ({"prompts": ["p0", "p1", "nope"]}, 422, "nope"),
    "no prompts": ({"prompts": []}, 422, "at least 5 prompts"),
    "few prompts": ({"prompts": ["p0", "p1"]}, 422, "at least 5 prompts"),
    "an unknown category": ({"category": "nope"}, 422, "at least 5 prompts"),
    "an unknown baseline": ({"baseline": 2**31}, 422, "no active candidate"),
    "a huge baseline": ({"baseline": 10**30}, 400, "baseline"),
    "an unknown member": ({"twin": True}, 400, "twin"),
}
RUN: dict[str, tuple[dict[str, Any], int, str]] = {
    "nobody": ({}, 422, "judges, people or both"),
    "a half": ({"judges": [LOCAL], "detect": 0.5}, 400, "detect"),
    "no number": ({"judges": [LOCAL], "detect": "nan"}, 400, "detect"),
    "a large margin": ({"judges": [LOCAL], "margin": 0.6}, 400, "margin"),
    "a margin that is no number": ({"judges": [LOCAL], "margin": "nan"}, 400, "margin"),
    "an infinite margin": ({"judges": [LOCAL], "margin": "inf"}, 400, "margin"),
    "too few prompts": ({"judges": [LOCAL], "size": 4}, 400, "size"),
    "an unknown judge": ({"judges": ["nowhere:model"]}, 422, "nowhere"),
    "a judge without a name": ({"judges": [""]}, 400, "judges"),
    "a negative cap": ({"judges": [LOCAL], "cap": -1}, 400, "cap"),
    "a cap in words": ({"judges": [LOCAL], "cap": "1"}, 400, "cap"),
    "a cap of nothing": ({"judges": [LOCAL], "cap": 0}, 422, "cap"),
    "more than there is": ({"judges": [LOCAL], "cap": 1000}, 422, "left of its budget"),
    "too many people": ({"people": 2001}, 400, "people"),
    "an unknown side": ({"judges": [LOCAL], "side": "better"}, 400, "side"),
}


@pytest.fixture
def origin(team: Any, local: FakeServer) -> Arena:
    local.otherwise = answers
    arena: Arena = make_arena(0, 20, team=team)
    make_candidate(arena, "concise", endpoint="local", model=WRITER, system_prompt="plain")
    return arena


@pytest.fixture
def caller(team: Any) -> Caller:
    return token_of(team, "read", "submit", "judge")


@pytest.mark.parametrize("what", CREATE)
def test_an_experiment_that_cannot_be_is_refused(what: str, caller: Caller, origin: Arena) -> None:
    body, status, said = CREATE[what]
    answer = create(caller, origin, **body)

    assert (answer.status_code, said in answer.text) == (status, True), answer.text[:500]
    assert not Experiment.objects.exists()
    assert Arena.objects.count() == 1


@pytest.mark.parametrize("what", RUN)
def test_a_plan_that_cannot_be_is_refused(
    what: str, caller: Caller, origin: Arena, settings: Any
) -> None:
    priced(settings)
    origin.team.budget = 10**9
    origin.team.save()
    path = f"experiments/{create(caller, origin).json()['slug']}/"
    body, status, said = RUN[what]
    answer = caller.post(f"{path}run/", body)

    assert (answer.status_code, said in answer.text) == (status, True), answer.text[:500]
    assert Experiment.objects.get().state == "draft"


def test_a_size_beyond_all_prompts_is_that_of_all(caller: Caller, origin: Arena) -> None:
    path = f"experiments/{create(caller, origin).json()['slug']}/"
    quote = caller.post(f"{path}quote/", {"judges": [LOCAL], "size": 2000}).json()

    assert (quote["size"], quote["available"]) == (20, 20)


def test_a_cap_of_null_is_what_it_costs_at_most(
    caller: Caller, origin: Arena, settings: Any
) -> None:
    priced(settings)
    origin.team.budget = 10**9
    origin.team.save()
    path = f"experiments/{create(caller, origin).json()['slug']}/"
    shown = caller.post(f"{path}run/", {"judges": [LOCAL], "cap": None}).json()

    assert shown["cap"] == shown["at_most"] > 0


@pytest.mark.parametrize("names", [["nope"], ["p0", "nope"]])
def test_an_unknown_prompt_cannot_be_tried(names: list[str], caller: Caller, origin: Arena) -> None:
    path = f"experiments/{create(caller, origin).json()['slug']}/"
    answer = caller.post(f"{path}try/", {"prompts": names})

    assert (answer.status_code, "nope" in answer.text) == (422, True)


def test_people_alone_can_be_asked(caller: Caller, origin: Arena) -> None:
    path = f"experiments/{create(caller, origin).json()['slug']}/"
    shown = caller.post(f"{path}run/", {"people": 30})

    assert shown.status_code == 200, shown.text
    assert shown.json()["people"]["wanted"] == 30


def test_a_scripted_judge_measures_too(caller: Caller, origin: Arena) -> None:
    path = f"experiments/{create(caller, origin).json()['slug']}/"
    shown = caller.post(f"{path}run/", {"judges": ["scripted:scripted-1"]})

    assert shown.status_code == 200, shown.text


def test_a_token_that_reads_nothing_is_told_nothing(
    team: Any, caller: Caller, origin: Arena
) -> None:
    path = f"experiments/{create(caller, origin).json()['slug']}/"
    writer = token_of(team, "submit", "judge")

    assert create(writer, origin).status_code == 403
    for act in ("run/", "try/", "stop/", "twin/"):
        assert writer.post(f"{path}{act}", {}).status_code == 403
