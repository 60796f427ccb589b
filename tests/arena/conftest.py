"""An endpoint that costs money, and a model behind it that says what a test wants."""

from collections.abc import Iterator
from typing import Any

import pytest

from arena.endpoints import Endpoint, ModelPrice


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
    """What was remembered of another test's rows."""
    from arena.calls import capabilities, pricing

    pricing._remembered.forget()
    capabilities._remembered.forget()
