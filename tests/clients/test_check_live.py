"""`ringside check` with a Ringside that answers, and a judge that works while it waits."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from arena.actors import Actor
from arena.endpoints import Endpoint, ModelPrice
from arena.models import Arena, Prompt, Rater, Response, Run, Team, Vote
from arena.services.pairs import sync_pairs
from arena.services.tokens import create_token
from clients.python import ringside_client
from judges.models import Judgement
from tests.factories import make_arena, make_team, make_vote
from tests.judges.fake_server import FakeServer, prefers
from tests.judges.helpers import LOCAL, work_off
from tests.ranking.helpers import publish

BASELINE, CANDIDATE = "candidate-0", "candidate-1"
THE_BASELINES = "-0 of somebody"  # what stands in its answers alone

Check = Callable[..., tuple[int, str]]


@pytest.fixture(autouse=True)
def no_queue(no_doorbell: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Boards are published and calls made only where the test says so."""
    monkeypatch.setattr("arena.tasks.make_calls.delay", lambda endpoint: None)


@pytest.fixture(autouse=True)
def judge(settings: Any) -> Iterator[FakeServer]:
    """A free model, which prefers the baseline's answers."""
    with FakeServer() as running:
        running.otherwise = prefers(THE_BASELINES)
        price = {LOCAL.partition(":")[2]: ModelPrice(0, 0)}
        endpoint = Endpoint("local", "openai", running.base_url, timeout=5.0, prices=price)
        settings.MODEL_ENDPOINTS = settings.MODEL_ENDPOINTS | {"local": endpoint}
        yield running


@pytest.fixture
def team(transactional_db: None) -> Team:
    return make_team()


@pytest.fixture
def check(
    live_server: Any,
    team: Team,
    pauses: list[float],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Check:
    """Run the command as the team's CI, and return its exit code and what it printed."""
    by = Actor(user=None, display_name="a test")
    scopes = ["read", "submit", "judge"]
    _, token = create_token(team=team, name="CI", scopes=scopes, by=by)
    monkeypatch.setenv("RINGSIDE_TOKEN", token)

    def sleep(seconds: float) -> None:
        """Time passes, and workers work."""
        pauses.append(seconds)
        for run in Run.objects.filter(state=Run.State.OPEN).select_related("arena"):
            work_off(run)
            publish(run.arena)

    monkeypatch.setattr(ringside_client.time, "sleep", sleep)

    def run(arena: Arena, *options: str) -> tuple[int, str]:
        two = [f"--arena={arena.slug}", f"--candidate={CANDIDATE}", f"--baseline={BASELINE}"]
        code = ringside_client.main(["check", f"--url={live_server.url}", *two, *options])
        return code, capsys.readouterr().out

    return run


def bring(arena: Arena, count: int) -> None:
    """Add `count` prompts with answers by both."""
    candidates, before = list(arena.candidates.order_by("pk")), arena.prompts.count()
    for i in range(before, before + count):
        prompt = Prompt.objects.create(arena=arena, external_id=f"p{i}", text=f"Question {i}?")
        for j, one in enumerate(candidates):
            text = f"Answer {i}-{j} of somebody."
            Response.objects.create(candidate=one, prompt=prompt, text=text)
    sync_pairs(arena=arena)


def votes_by(judge: str) -> int:
    return Vote.objects.filter(rater__epoch__judge__name__startswith=judge).count()


def test_votes_that_the_decision_misses_are_bought(check: Check, team: Team) -> None:
    """33 of 50 are not enough."""
    arena = make_arena(2, 120, team=team)
    two, other = arena.candidates.order_by("pk"), Rater.objects.create(kind="judge", name="other")
    for turn, prompt in enumerate(arena.prompts.order_by("pk")[:50]):
        make_vote(arena, *two, "left" if turn < 33 else "right", prompt, other)
    publish(arena)

    code, said = check(arena, "--raters=judges", "--require=known")
    assert code == ringside_client.OUT_OF_TIME
    assert "for this judge and prompts like these." in said
    assert re.search("about [0-9]+ more prompts, judged by this judge, would settle it", said)

    code, said = check(arena, f"--judge={LOCAL}")
    assert code == ringside_client.FAILED
    assert "50 of 50 verdicts" in said
    assert "candidate-1 is worse than candidate-0 for these 2 judges" in said
    assert votes_by(LOCAL) == 50

    # The same order is the same run, and another buys nothing of what is known.
    assert check(arena, f"--judge={LOCAL}") == (code, said)
    code, said = check(arena, f"--judge={LOCAL}", "--per-pair=60")
    assert code == ringside_client.FAILED
    assert "would include no pairs" in said
    assert (Run.objects.count(), Judgement.objects.count()) == (1, 50)


def test_it_says_when_only_more_prompts_could_decide(check: Check, team: Team) -> None:
    arena = make_arena(2, 4, team=team)
    check(arena, f"--judge={LOCAL}", "--per-pair=4")
    assert votes_by(LOCAL) == 4

    for require in ringside_client.UNKNOWN:
        code, said = check(arena, f"--judge={LOCAL}", "--per-pair=9", f"--require={require}")
        assert code == ringside_client.OUT_OF_TIME
        assert "has already judged every prompt" in said
        assert ringside_client.TOO_FEW.format(4, "prompts") in said
    assert Run.objects.count() == 1

    bring(arena, 8)
    code, said = check(arena, f"--judge={LOCAL}", "--per-pair=9")
    assert "8 of 8 verdicts" in said
    assert "No verdict" not in said
    assert code == ringside_client.FAILED
