"""The people and rows that most tests of this app begin with.

Imports are inside the fixtures, because this file is read before Django is ready.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from arena.endpoints import Endpoint, ModelPrice


@pytest.fixture
def team(db: None) -> Any:
    from tests.factories import make_team

    return make_team()


@pytest.fixture
def empty_team(db: None) -> Any:
    """A team without members."""
    from tests.factories import make_empty_team

    return make_empty_team(name="Help centre", slug="help")


@pytest.fixture
def owner(team: Any) -> Any:
    """The browser of the team's owner."""
    from tests.arena.teams import signed_in

    return signed_in(team.memberships.get(role="owner").user)


@pytest.fixture
def arena(team: Any) -> Any:
    """Two candidates that have answered three prompts."""
    from tests.factories import make_arena

    return make_arena(2, 3, team=team)


@pytest.fixture
def arena_of_one(team: Any) -> Any:
    """One candidate that has answered four prompts."""
    from tests.factories import make_arena

    return make_arena(1, 4, team=team)


@pytest.fixture
def arena_of_prompts(team: Any) -> Any:
    """Three prompts that nobody has answered."""
    from tests.factories import make_arena

    return make_arena(0, 3, team=team)


@pytest.fixture
def empty_arena(team: Any) -> Any:
    from tests.factories import make_arena

    return make_arena(0, 0, team=team)


@pytest.fixture
def scripted_candidate(team: Any) -> Any:
    """A candidate of the scripted model, with three prompts to answer."""
    from tests.factories import SCRIPTED, make_variant

    return make_variant(3, team, **SCRIPTED)


@pytest.fixture
def model(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """What answers at the endpoint `paid`: $1 per million tokens in, $2 out."""
    from arena.calls import execution
    from tests.arena.ledger import Model
    from tests.factories import DOLLAR, MODEL

    price = ModelPrice(DOLLAR, 2 * DOLLAR)
    paid = Endpoint("paid", "openai", base_url="http://127.0.0.1:9", prices={MODEL: price})
    settings.MODEL_ENDPOINTS = settings.MODEL_ENDPOINTS | {"paid": paid}
    provider = Model()
    monkeypatch.setattr(execution, "provider_for", lambda endpoint: provider)
    forget()
    yield provider
    forget()


def forget() -> None:
    """Clears what was cached about another test's rows."""
    from arena.calls import capabilities, prices

    prices._prices.forget()
    capabilities._capabilities.forget()


@pytest.fixture
def paid_candidate(model: Any, db: None) -> Any:
    """A candidate of the endpoint `paid`, with three prompts to answer and two dollars to spend."""
    from tests.factories import DOLLAR, make_paying_team, make_variant

    return make_variant(3, make_paying_team(2 * DOLLAR), name="Brief")


@pytest.fixture
def server() -> Iterator[Any]:
    """A server that speaks both wire formats."""
    from tests.judges.fake_server import FakeServer

    with FakeServer() as running:
        yield running


@pytest.fixture
def delivering(settings: Any) -> None:
    """A site whose mail arrives, so that addresses are proven."""
    settings.ACCOUNT_EMAIL_VERIFICATION = "mandatory"
