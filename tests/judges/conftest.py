"""A loopback model server, configured as an endpoint called `local`; commands and their workers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from arena.endpoints import Endpoint, ModelPrice
from tests.judges.fake_server import FakeServer, better_is, prefers


class Free(dict[str, ModelPrice]):
    """The prices of a free server, whatever the model."""

    def get(self, key: str, default: Any = None) -> ModelPrice:
        return ModelPrice(0, 0)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        yield running


@pytest.fixture
def local(server: FakeServer, settings: Any) -> FakeServer:
    """The server, as configured in an operator's settings."""
    endpoint = Endpoint("local", "openai", server.base_url, timeout=2.0, prices=Free())
    settings.MODEL_ENDPOINTS = settings.MODEL_ENDPOINTS | {"local": endpoint}
    return server


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make commands poll often, and notice soon that no worker answers."""
    monkeypatch.setattr("arena.management.terminal.LOOK_EVERY", 0.0)
    monkeypatch.setattr("arena.management.terminal.SILENCE", 0.05)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the calls as soon as a worker is woken."""
    from arena.tasks import make_calls

    monkeypatch.setattr(make_calls, "delay", make_calls)


@pytest.fixture
def no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wake any workers."""
    monkeypatch.setattr("arena.tasks.make_calls.delay", lambda endpoint: None)


@pytest.fixture
def quiet_boards(monkeypatch: pytest.MonkeyPatch) -> None:
    """No queued refreshes, and few replicates: neither matters where boards are only read."""
    from ranking.stats.bootstrap import Bootstrap

    monkeypatch.setattr("ranking.signals.schedule_refresh", lambda arena_id: None)
    monkeypatch.setattr(
        "ranking.intervals.Bootstrap",
        lambda n, *rest, **named: Bootstrap(min(n, 20), *rest, **named),
    )


@pytest.fixture
def paid(db: None, local: FakeServer, settings: Any) -> FakeServer:
    """The server, at a dollar per million tokens; it finds all answers equal."""
    from arena.calls.models import Capability
    from tests.judges.helpers import LOCAL, price_local

    price_local(settings, 10**9)
    known = {"endpoint": "local", "model": LOCAL.removeprefix("local:")}
    Capability.objects.create(**known, probed_at=timezone.now())
    local.otherwise = better_is("TIE")
    return local


@pytest.fixture
def thirty_pairs(db: None, tmp_path: Path, local: FakeServer) -> Any:
    """Thirty labelled pairs; the judge is right on all of them."""
    from tests.judges.helpers import answer_verdicts, pair_row, store_labels

    local.otherwise = answer_verdicts(prefers("GOOD"))
    return store_labels(tmp_path, [pair_row(i) for i in range(30)])


@pytest.fixture
def team(db: None) -> Any:
    from tests.judges.helpers import make_team
    from tests.rows import written_once

    return written_once("team", make_team)


@pytest.fixture
def arena(team: Any) -> Any:
    """The team's arena: three candidates that answer two prompts."""
    from tests.factories import make_arena

    return make_arena(3, 2, team=team)


@pytest.fixture
def staff(db: None) -> Any:
    """The browser of an operator."""
    from tests.judges.helpers import signed_in

    return signed_in("boss", staff=True)


@pytest.fixture
def clear_lead(team: Any) -> Any:
    """The team's arena, where the second candidate is much better than the first."""
    from tests.judges.helpers import published_arena

    return published_arena(team, (0.0, 1.5))


@pytest.fixture
def clear_lead_by_category(team: Any) -> Any:
    """The same, with prompts in two categories."""
    from tests.judges.helpers import published_arena

    return published_arena(team, (0.0, 1.5), has_categories=True)


@pytest.fixture
def voted(team: Any) -> Any:
    """An arena of the team. People prefer the answers of its first candidate, and two of them have
    said so on most of the 24 prompts."""
    from tests.factories import make_arena, make_person
    from tests.judges.helpers import issue_pair, vote_on

    arena = make_arena(2, 24, team=team)
    ann, bob = make_person(), make_person()
    for number in range(24):
        vote_on(issue_pair(arena, ann, number), ann, "left")
        if number % 3:
            vote_on(issue_pair(arena, bob, number, turned=True), bob, "right")
    return arena
