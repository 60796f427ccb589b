"""`ringside mcp`: an assistant's tools, tried with the SDK's own client against a live Ringside."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone
from mcp import Client, StdioServerParameters

from arena.actors import Actor
from arena.endpoints import Endpoint, ModelPrice
from arena.models import Arena, Prompt, Rater, Run, Team
from arena.services.tokens import create_token
from clients.python import ringside_client
from judges.models import Experiment
from judges.services.experiments import advance_all
from tests.environment import REPOSITORY
from tests.factories import make_arena, make_candidate, make_team
from tests.judges.test_experiments import make_calls
from tests.ranking.helpers import publish
from tests.ranking.test_api_battles import vote_on

READING = ["list_arenas", "list_candidates", "leaderboard", "compare", "losses", "experiment"]
PROPOSING = ["propose_version", "propose_draft", "try_draft"]
JUDGING = ["list_judges", "judge_run", "quote_judge_run", "start_judge_run"]
CLIENT = REPOSITORY / "clients" / "python" / "ringside_client.py"


@pytest.fixture
def team(transactional_db: None, no_doorbell: None) -> Team:
    return make_team()


@pytest.fixture
def arena(team: Team) -> Arena:
    arena = make_arena(3, 4, slug="support", team=team)
    arena.candidates.update(team=team)
    for prompt in range(4):
        vote_on(arena, 0, 1, "right", prompt=prompt)
    vote_on(arena, 2, 0, "left")
    vote_on(arena, 1, 0, "left", rater=Rater.objects.create(kind=Rater.Kind.JUDGE, name="Strict"))
    vote_on(arena, 0, 1, "left")
    publish(arena)
    return arena


def token(team: Team, *scopes: str) -> str:
    by = Actor(display_name="a test")
    return create_token(team=team, name=" ".join(scopes), scopes=list(scopes), by=by)[1]


def run(talk: Coroutine[Any, Any, Any]) -> Any:
    """Run it in another thread: a browser that an earlier test started keeps a loop in ours."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, talk).result()


def ask(url: str, secret: str, *calls: tuple[str, dict[str, Any]]) -> tuple[list[str], list[Any]]:
    """The tools that are offered, and the answers to calls: what a tool returns, or its error."""
    server = ringside_client.mcp_server(ringside_client.Ringside(url, secret), most=2.0)

    async def talk() -> tuple[list[str], list[Any]]:
        async with Client(server) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            return tools, [told(await client.call_tool(*call)) for call in calls]

    return run(talk())


def told(result: Any) -> Any:
    [content] = result.content
    return content.text if result.is_error else json.loads(content.text)


def test_a_token_that_reads_is_offered_nothing_that_writes(
    live_server: Any, team: Team, arena: Arena
) -> None:
    assert ask(live_server.url, token(team, "read"))[0] == READING
    assert ask(live_server.url, token(team, "read", "submit"))[0] == [*READING, *PROPOSING]
    assert ask(live_server.url, token(team, "read", "judge"))[0] == [*READING, *JUDGING]
    everything = ask(live_server.url, token(team, "read", "submit", "judge"))[0]
    assert everything == [*READING, *PROPOSING, "run_experiment", *JUDGING]
    assert not [tool for tool in everything if "promote" in tool or "enter" in tool]


HOSTILE = [
    "",
    "..",
    "../../me",
    "support/../../teams",
    "support?x=1",
    "%2e%2e",
    "n\0l",
    "x" * 9_999,
]


def test_whatever_an_assistant_names_is_answered_with_a_sentence(
    live_server: Any, team: Team, arena: Arena
) -> None:
    """Names come from a model, which has read what strangers wrote."""
    calls = [
        call
        for name in HOSTILE
        for call in (
            ("list_candidates", {"arena": name}),
            ("leaderboard", {"arena": "support", "category": name or "none"}),
            ("losses", {"arena": "support", "candidate": name}),
            ("experiment", {"experiment": name}),
            ("propose_version", {"arena": "support", "candidate": name, "notes": "Hi."}),
        )
    ]
    _, answers = ask(live_server.url, token(team, "read", "submit"), *calls)
    for call, answer in zip(calls, answers, strict=True):
        assert isinstance(answer, str), (call, answer)
        assert "Traceback" not in answer, (call, answer)
    assert arena.candidates.count() == 3


def test_an_assistant_of_another_team_finds_nothing_of_a_private_arena(
    live_server: Any, team: Team, arena: Arena
) -> None:
    Arena.objects.update(visibility=Arena.Visibility.PRIVATE)
    change = {"arena": "support", "candidate": "candidate-0", "system_prompt": "Be ours."}
    calls = [
        ("list_candidates", {"arena": "support"}),
        ("leaderboard", {"arena": "support"}),
        ("compare", {"arena": "support", "candidate": "candidate-0", "baseline": "candidate-1"}),
        ("losses", {"arena": "support", "candidate": "candidate-0"}),
        ("propose_version", change),
        ("propose_draft", change | {"baseline": "candidate-0"}),
        ("start_judge_run", {"arena": "support", "judges": ["scripted:scripted-1"], "cap": 1.0}),
    ]
    calls[-1][1]["candidates"] = ["candidate-0", "candidate-1"]
    calls[-2][1].pop("candidate")
    _, answers = ask(live_server.url, token(make_team(), "read", "submit", "judge"), *calls)
    assert not [answer for answer in answers if not isinstance(answer, str)], answers
    assert (arena.candidates.count(), Run.objects.count(), Experiment.objects.count()) == (3, 0, 0)


def test_losses_name_opponents_and_show_the_answers(
    live_server: Any, team: Team, arena: Arena
) -> None:
    lost = {"arena": "support", "candidate": "candidate-0", "examples": 2}
    calls = [("losses", lost), ("losses", lost | {"opponent": "candidate-2"})]
    calls.append(("losses", lost | {"raters": "judges"}))
    _, [everyone, against_one, by_judges] = ask(live_server.url, token(team, "read"), *calls)
    assert everyone["lost_to"] == {"candidate-1": 5, "candidate-2": 1}
    assert len(everyone["examples"]) == 2
    [example] = against_one["examples"]
    assert example["prompt"] == "Question 0?"
    assert example["answer"] == "Answer 0-0 of somebody."
    assert example["preferred_answer"] == "Answer 0-2 of somebody."
    assert by_judges["lost_to"] == {"candidate-1": 1}


def test_losses_that_are_not_all_say_so(
    live_server: Any, team: Team, arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = ("losses", {"arena": "support", "candidate": "candidate-0"})
    secret = token(team, "read")
    _, [everything] = ask(live_server.url, secret, lost)
    assert everything["is_complete"]
    monkeypatch.setattr(ringside_client, "MOST_LOSSES", 4)
    _, [first_four] = ask(live_server.url, secret, lost)
    assert sum(first_four["lost_to"].values()) == 4
    assert not first_four["is_complete"]


def test_candidates_are_listed_ranked_and_compared(
    live_server: Any, team: Team, arena: Arena
) -> None:
    pair = {"arena": "support", "candidate": "candidate-0", "baseline": "candidate-1"}
    _, [arenas, candidates, board, decision, missing, nobody] = ask(
        live_server.url,
        token(team, "read"),
        ("list_arenas", {}),
        ("list_candidates", {"arena": "support"}),
        ("leaderboard", {"arena": "support"}),
        ("compare", pair),
        ("list_candidates", {"arena": "nope"}),
        ("compare", pair | {"baseline": "candidate-9"}),
    )
    assert [row["slug"] for row in arenas] == ["support"]
    assert [row["name"] for row in candidates] == ["candidate-0", "candidate-1", "candidate-2"]
    assert {row["candidate"] for row in board["standings"]} == {row["name"] for row in candidates}
    assert decision["verdict"] in ("better", "worse", "unknown")
    assert decision["between"] == 5
    assert "No arena `nope` for this token." in missing
    assert "The arena `support` has no candidate 'candidate-9' that you can see." in nobody


def test_a_version_is_proposed_once(live_server: Any, team: Team, arena: Arena) -> None:
    change = {"arena": "support", "candidate": "candidate-0", "system_prompt": "Be brief."}
    calls = [("propose_version", change)] * 2
    calls.append(("propose_version", change | {"candidate": "nobody"}))
    _, [first, again, nobody] = ask(live_server.url, token(team, "read", "submit"), *calls)
    assert not isinstance(first, str), first
    assert (first["version"], first["system_prompt"]) == (2, "Be brief.")
    assert again["id"] == first["id"]
    assert "no candidate 'nobody'" in nobody
    assert arena.candidates.filter(name="candidate-0").count() == 2


def test_a_version_of_several_messages_is_proposed(
    live_server: Any, team: Team, arena: Arena
) -> None:
    turns = [
        ("system", "Be brief."),
        ("user", "One?"),
        ("assistant", "1."),
        ("user", "{{ prompt }}"),
    ]
    messages = [{"role": role, "content": content} for role, content in turns]
    change = {"arena": "support", "candidate": "candidate-0"}
    calls = [("propose_version", change | {"messages": messages})] * 2
    calls.append(("propose_version", change | {"messages": messages, "system_prompt": "No."}))
    calls.append(("propose_version", change | {"messages": messages[1:3]}))
    calls.append(("propose_version", change | {"system_prompt": "Be kind."}))
    _, [first, again, both, wrong, texts] = ask(
        live_server.url, token(team, "read", "submit"), *calls
    )
    assert not isinstance(first, str), first
    assert (first["version"], first["messages"], first["system_prompt"]) == (2, messages, "")
    assert again["id"] == first["id"]
    assert "Give messages, or system_prompt, not both." in both
    assert "must start (after any system message)" in wrong
    assert (texts["version"], texts["messages"], texts["system_prompt"]) == (2, None, "Be kind.")


def test_a_judge_run_stays_within_the_cap(live_server: Any, team: Team, arena: Arena) -> None:
    order = {
        "arena": "support",
        "judges": ["scripted:scripted-1"],
        "candidates": ["candidate-0", "candidate-1"],
        "per_pair": 2,
    }
    _, [quote, refused, run] = ask(
        live_server.url,
        token(team, "read", "judge"),
        ("quote_judge_run", order),
        ("start_judge_run", order | {"cap": 2.01}),
        ("start_judge_run", order | {"cap": 1.5}),
    )
    assert quote["pairs"] == 1
    assert "The cap must be from 0 to 2.00 dollars" in refused
    assert run["id"] == Run.objects.get().pk


@pytest.fixture
def writer(team: Team, arena: Arena, monkeypatch: pytest.MonkeyPatch) -> Arena:
    """The arena with a scripted baseline and enough prompts, whose answers are made while an
    assistant waits."""
    monkeypatch.setattr("arena.tasks.make_calls.delay", lambda endpoint: None)
    for n in range(4, 12):
        Prompt.objects.create(arena=arena, external_id=f"more-{n}", text=f"Question {n}?")
    scripted = {"endpoint": "scripted", "model": "scripted-1", "system_prompt": "Be long."}
    make_candidate(arena, "written", team=team, **scripted)

    def sleep(seconds: float) -> None:
        advance_all(now=timezone.now())
        for experiment in Experiment.objects.all():
            make_calls(experiment)
        connections.close_all()  # of the assistant's thread

    monkeypatch.setattr(ringside_client.time, "sleep", sleep)
    return arena


def test_a_draft_is_proposed_tried_and_measured_unseen_by_raters(
    live_server: Any, team: Team, writer: Arena
) -> None:
    secret = token(team, "read", "submit", "judge")
    change = {"arena": "support", "baseline": "written", "system_prompt": "Be brief."}
    calls = [("propose_draft", change)] * 2
    calls.append(("propose_draft", change | {"system_prompt": None}))
    calls.append(("propose_draft", change | {"messages": []}))
    _, [made, again, nothing, both] = ask(live_server.url, secret, *calls)
    assert not isinstance(made, str), made
    assert (made["state"], made["spent"], again["slug"]) == ("draft", 0, made["slug"])
    assert "Change something" in nothing
    assert "not both" in both

    slug = made["slug"]
    run = {"experiment": slug, "judges": ["scripted:scripted-1"]}
    _, [tried, refused, started, read] = ask(
        live_server.url,
        secret,
        ("try_draft", {"experiment": slug}),
        ("run_experiment", run | {"cap": 2.01}),
        ("run_experiment", run | {"cap": 1.5, "size": 6}),
        ("experiment", {"experiment": slug}),
    )
    assert not isinstance(tried, str), tried
    assert len(tried["answers"]) == 3
    assert all(row["prompt"] and row["baseline"] and row["draft"] for row in tried["answers"])
    assert "The cap must be from 0 to 2.00 dollars" in refused
    assert (started["state"], started["cap"], started["size"]) == ("running", 1.5, 6)
    assert (read["slug"], read["state"], read["drafts"][0]["better"]) == (slug, "running", 0)
    assert not writer.candidates.filter(system_prompt="Be brief.").exists()


def test_answers_that_may_cost_more_than_the_limit_are_not_tried(
    live_server: Any, team: Team, writer: Arena, settings: Any
) -> None:
    price = ModelPrice(10**15, 10**15)
    dear = Endpoint("dear", "openai", "http://127.0.0.1:9/v1", prices={"m": price})
    settings.MODEL_ENDPOINTS = settings.MODEL_ENDPOINTS | {"dear": dear}
    writer.candidates.filter(name="written").update(endpoint="dear", model="m")
    secret = token(team, "read", "submit")
    change = {"arena": "support", "baseline": "written", "system_prompt": "Be brief."}
    _, [made] = ask(live_server.url, secret, ("propose_draft", change))
    _, [said] = ask(live_server.url, secret, ("try_draft", {"experiment": made["slug"]}))
    assert "more than the cap" in said
    assert not Run.objects.exists()


def test_an_assistant_starts_it_as_a_command(live_server: Any, team: Team, arena: Arena) -> None:
    environment = os.environ | {"RINGSIDE_TOKEN": token(team, "read"), "no_proxy": "127.0.0.1"}
    server = StdioServerParameters(
        command=sys.executable,
        args=[str(CLIENT), "mcp", "--url", live_server.url],
        env=environment,
    )

    async def talk() -> Any:
        async with Client(server) as client:
            return told(await client.call_tool("list_arenas", {}))

    assert [row["slug"] for row in run(talk())] == ["support"]


def test_without_the_sdk_the_remedy_is_named() -> None:
    hidden = "import sys; sys.modules['mcp'] = None; sys.path.insert(0, sys.argv.pop(1)); "
    script = hidden + "import ringside_client; print(ringside_client.main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", script, str(CLIENT.parent), "mcp", "--url", "http://127.0.0.1:9"],
        env=os.environ | {"RINGSIDE_TOKEN": "rs_x"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "pip install 'ringside-client[mcp]'" in done.stdout
    assert done.stdout.strip().endswith("2")
