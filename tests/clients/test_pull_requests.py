"""Ten pull requests, checked by a Ringside that answers, with a model and a judge that work while
the check waits: the exit code of each, and its one comment."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from arena.actors import Actor
from arena.endpoints import Endpoint, ModelPrice
from arena.models import Arena
from arena.services.tokens import create_token
from clients.python import ringside_client
from judges.models import Experiment
from judges.services.experiments import advance_all
from tests.clients.fake_github import FakeGitHub
from tests.clients.test_check import checked
from tests.factories import make_arena, make_candidate, make_team
from tests.judges.fake_server import FakeServer, Sent, answers_in, completion, is_probe, nonce_of
from tests.judges.helpers import LOCAL
from tests.judges.test_experiments import WRITER, make_calls

PROMPTS = 25
WORTH = {"GOOD": 2, "plain": 1, "BAD": 0}
KEYLESS = "Incorrect API key provided."

Push = Callable[..., tuple[int, str]]


def say(body: dict[str, Any]) -> Sent:
    """Writers repeat their system prompt; the judge knows what each is worth, of answers that are
    MIXED by the number of the prompt."""
    if body["model"] == WRITER:
        system, user = body["messages"][0]["content"], body["messages"][-1]["content"]
        if "BROKEN" in system:
            return Sent({"error": {"message": KEYLESS}}, status=401)
        return completion(f"{system}: {user}")
    if is_probe(body):
        return completion("Yes.")
    first, second = map(_worth, answers_in(body))
    verdict = "TIE" if first == second else "A" if first > second else "B"
    return completion(f"Reasons.\nVERDICT-{nonce_of(body)}: {verdict}")


def _worth(answer: str) -> int:
    if "MIXED" in answer:
        [number] = re.findall(r"\d+", answer.rpartition("MIXED")[2])[:1]
        return 2 * (int(number) % 2)
    return next((worth for word, worth in WORTH.items() if word in answer), 1)


@pytest.fixture
def arena(transactional_db: None, no_doorbell: None, settings: Any) -> Iterator[Arena]:
    """25 prompts and a baseline, which nobody has answered yet."""
    with FakeServer() as models:
        models.otherwise = say
        price = dict.fromkeys((WRITER, LOCAL.partition(":")[2]), ModelPrice(0, 0))
        endpoint = Endpoint("local", "openai", models.base_url, timeout=5.0, prices=price)
        settings.MODEL_ENDPOINTS = settings.MODEL_ENDPOINTS | {"local": endpoint}
        arena = make_arena(0, PROMPTS, team=make_team())
        make_candidate(arena, "concise", endpoint="local", model=WRITER, system_prompt="plain")
        yield arena


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    with FakeGitHub() as running:
        yield running


@pytest.fixture
def token(arena: Arena, pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> str:
    """The token of the team's CI; workers work while it waits."""
    assert arena.team is not None
    monkeypatch.setattr("arena.tasks.make_calls.delay", lambda endpoint: None)
    scopes, by = ["read", "submit", "judge"], Actor(user=None, display_name="a test")
    _, secret = create_token(team=arena.team, name="CI", scopes=scopes, by=by)

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        advance_all(now=timezone.now())
        for experiment in Experiment.objects.filter(state="running"):
            make_calls(experiment)

    monkeypatch.setattr(ringside_client.time, "sleep", sleep)
    return secret


@pytest.fixture
def push(
    arena: Arena,
    token: str,
    github: FakeGitHub,
    live_server: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Push:
    """Push a prompt; return the check's exit code and what it printed."""

    def run(prompt: str, *options: str, key: bool = True, fork: bool = False) -> tuple[int, str]:
        for name, value in github.environment(tmp_path, fork=fork).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("RINGSIDE_TOKEN", token if key else "")
        file = tmp_path / "support.md"
        file.write_text(prompt)
        given = [f"--url={live_server.url}", f"--system-prompt-file={file}", f"--judge={LOCAL}"]
        code = ringside_client.main(["check", arena.slug, *given, "--post", *options])
        return code, capsys.readouterr().out

    return run


@pytest.mark.parametrize(
    ("prompt", "options", "code", "heading"),
    [
        ("GOOD", [], 0, "**no worse** than `concise`"),
        ("GOOD", ["--require=better"], 0, "**better** than `concise`"),
        ("BAD", [], 1, "**worse** than `concise`"),
        ("even", [], 0, "**not decided** against `concise`"),
        ("plain", [], 0, "**the same** as `concise`"),
        ("BROKEN", [], 2, "**error**"),
        ("MIXED", [], 0, "**not decided** against `concise`"),
        ("MIXED", ["--detect=55"], 3, "**no verdict** against `concise`"),
    ],
)
def test_a_pull_request_gets_its_verdict_in_one_comment(
    push: Push, github: FakeGitHub, prompt: str, options: list[str], code: int, heading: str
) -> None:
    found, said = push(prompt, *options)
    assert found == code, said
    [comment] = github.own
    assert comment.splitlines()[1] == f"### Ringside: {heading}", said
    if prompt == "BROKEN":
        assert KEYLESS in said
        assert KEYLESS in comment

    # The next push finds it done, and edits the comment.
    before = Experiment.objects.count()
    assert push(prompt, *options)[0] == code
    assert (len(github.own), Experiment.objects.count()) == (1, before)


def test_nothing_of_a_check_reaches_the_raters(push: Push, arena: Arena) -> None:
    push("BAD")
    assert [candidate.name for candidate in arena.candidates.all()] == ["concise"]
    assert not arena.votes.exists()


def test_a_pull_request_without_a_key_is_an_error(push: Push, github: FakeGitHub) -> None:
    code, said = push("GOOD", key=False)
    assert code == 2
    assert "RINGSIDE_TOKEN is not set" in said
    [comment] = github.own
    assert "### Ringside: **error**" in comment
    assert "RINGSIDE_TOKEN is not set" in comment


def test_a_pull_request_of_a_fork_gets_no_comment(push: Push, github: FakeGitHub) -> None:
    code, said = push("GOOD", key=False, fork=True)
    assert code == 0
    assert not github.asked
    assert "Not checked: the workflow of a pull request from a fork has no token." in said


def test_after_a_cut_the_same_command_goes_on(
    push: Push, github: FakeGitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = ringside_client._Web._try

    def cut(web: Any, request: Any, timeout: float) -> Any:
        if request.get_method() == "GET" and "/experiments/" in request.full_url:
            return None, "The server does not answer."
        return attempt(web, request, timeout)

    with monkeypatch.context() as while_cut:
        while_cut.setattr(ringside_client._Web, "_try", cut)
        code, said = push("BAD")
    assert code == 2
    assert "The server does not answer." in said
    assert "**error**" in github.own[0]

    assert push("BAD")[0] == 1
    assert Experiment.objects.count() == 1
    [comment] = github.own
    assert "**worse**" in comment


def test_a_pull_request_whose_checks_fail_is_refused(
    push: Push, github: FakeGitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = ringside_client.Ringside.wait_for_experiment

    def with_checks(client: Any, slug: str, patience: float) -> Any:
        experiment: Any = wait(client, slug, patience)
        experiment["drafts"][0]["checks"] = [checked(False)]
        return experiment

    monkeypatch.setattr(ringside_client.Ringside, "wait_for_experiment", with_checks)
    code, said = push("GOOD")
    assert code == 1
    assert "Check failed: No promise of a date" in said
    [comment] = github.own
    assert "**no worse** than `concise`, and **1 check failed**" in comment
