"""A real gunicorn on this test's own database, and the browsers of raters."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from django.db import connection

from benchmarks.serving import Web, serving
from tests.environment import POSTGRES_URL

# Nobody reaches these unless the test is about them.
NO_LIMITS = {"VOTES_PER_MINUTE": "1000000", "NEW_RATERS_PER_HOUR": "1000000"}
Serve = Callable[..., AbstractContextManager[Web]]


@pytest.fixture
def server_environment(transactional_db: Any) -> dict[str, str]:
    """The environment of a process that works on this test's database."""
    name = connection.settings_dict["NAME"]
    postgres = f"{POSTGRES_URL.rpartition('/')[0]}/{name}"
    url = postgres if connection.vendor == "postgresql" else f"sqlite:///{name}"
    return os.environ | NO_LIMITS | {"DATABASE_URL": url, "DATABASE_POOL": "8"}


@pytest.fixture
def serve(server_environment: dict[str, str]) -> Serve:
    """Start a server: `with serve(VOTES_PER_MINUTE="100") as web`."""

    def start(*, processes: int = 2, threads: int = 4, **settings: str) -> Any:
        return serving(server_environment | settings, processes=processes, threads=threads)

    return start


@pytest.fixture
def web(serve: Serve) -> Iterator[Web]:
    """Two processes of four threads."""
    with serve() as running:
        yield running
