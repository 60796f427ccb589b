"""A real web server on this test's own database, the browsers of raters, and judges' machines."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from arena.endpoints import Endpoint
from benchmarks.services import OwnRedis
from benchmarks.serving import Web, serving
from tests.environment import POSTGRES_URL, everything_required
from tests.judges.fake_server import FakeServer
from tests.stress.installation import (
    Installation,
    OwnPostgres,
    as_setting,
    endpoint_of,
    environment_for,
    postgres_programs,
    working_on,
)

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


@pytest.fixture(scope="session")
def own_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnPostgres]:
    """A PostgreSQL that a test may crash."""
    programs = postgres_programs()
    if programs is None:
        give_up = pytest.fail if everything_required() else pytest.skip
        give_up("needs PostgreSQL's own programs: no pg_ctl was found")
    with tempfile.TemporaryDirectory() as folder:
        server = OwnPostgres(programs, Path(folder))
        yield server
        server.stop()


@pytest.fixture
def installation(
    request: pytest.FixtureRequest,
    redis_url: str,
    own_postgres: OwnPostgres,
    tmp_path: Path,
    settings: Any,
    django_db_blocker: Any,
) -> Iterator[Installation]:
    """A separate Ringside for this test, without workers yet; an endpoint's timeout is 1 s."""
    redis, name = OwnRedis(str(tmp_path)), f"test_{request.node.name[:40]}"
    own_postgres.create(name)
    redis.start()
    url = own_postgres.url(name)
    with FakeServer() as server, ExitStack() as stack:
        stack.callback(redis.stop)
        environment = environment_for(tmp_path, url, redis.url, endpoint_of(server, timeout=1))
        settings.MODEL_ENDPOINTS = {
            "local": as_setting(server, timeout=1),
            "scripted": Endpoint("scripted", "scripted"),
        }
        stack.enter_context(django_db_blocker.unblock())
        stack.enter_context(working_on(url))
        made = Installation(tmp_path, own_postgres, redis, server, environment)
        stack.push(made.stack)
        yield made
