"""A loopback model server, configured as an endpoint called `local`."""

from collections.abc import Iterator
from typing import Any

import pytest

from arena.conf.endpoints import Endpoint, ModelPrice
from tests.judges.fake_server import FakeServer


class Free(dict[str, ModelPrice]):
    """The prices of a server that asks for no money, whatever the model."""

    def get(self, key: str, default: Any = None) -> ModelPrice:
        return ModelPrice(0, 0)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        yield running


@pytest.fixture
def local(server: FakeServer, settings: Any) -> FakeServer:
    """The server, as an operator's settings name it."""
    endpoint = Endpoint("local", "openai", server.base_url, timeout=2.0, prices=Free())
    settings.MODEL_ENDPOINTS = settings.MODEL_ENDPOINTS | {"local": endpoint}
    return server
