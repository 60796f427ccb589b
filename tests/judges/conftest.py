"""A loopback model server, configured as an endpoint called `local`."""

from collections.abc import Iterator
from typing import Any

import pytest

from arena.conf.endpoints import Endpoint
from tests.judges.fake_server import FakeServer


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        yield running


@pytest.fixture
def local(server: FakeServer, settings: Any) -> FakeServer:
    """The server, as an operator's settings name it."""
    endpoint = Endpoint("local", "openai", base_url=server.base_url, timeout=2.0)
    settings.MODEL_ENDPOINTS = settings.MODEL_ENDPOINTS | {"local": endpoint}
    return server
