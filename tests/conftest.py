"""How the tests run: in their own folder and database, on loopback only, with the services they
need.

`--database=postgres` runs the tests that are about the database again on PostgreSQL. What this
machine lacks (PostgreSQL, Redis, Chromium, the real data) skips the tests that need it, and the run
ends with one line that says so; with RINGSIDE_REQUIRE_SERVICES=1 it fails instead.
"""

import gc
import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpcore2
import pytest
from hypothesis import settings

from tests import environment
from tests.ops.running import drop_migrated_template, migrated_template

# A busy machine is no failure, and fifty examples are found quickly.
settings.register_profile("ringside", deadline=None, max_examples=50)
settings.load_profile("ringside")
# Each test's client of its model server would read all certificates: more than the rest it does.
httpcore2.default_ssl_context = cache(httpcore2.default_ssl_context)

PAGE_PATIENCE = 30_000  # milliseconds
HOME = pytest.StashKey[Path]()
PROBES = {
    "PostgreSQL": lambda: environment.postgres_trouble(environment.POSTGRES_URL),
    "Redis": lambda: environment.redis_trouble(environment.REDIS_URL),
    "Chromium": environment.chromium_trouble,
    "the real data": environment.data_trouble,
}

# Whole installations, started and killed, and browsers: they wait, and take longest. Begun last,
# each would end while nothing else is left, as would simulations.
LONGEST = (
    r"^tests/stress/",
    r"^tests/(ops/|test_whole|security/test_statuses)|_browser\.py|/test_stats_(ppi|simulations)",
)
# Formulas, providers, and what pages, forms, commands and clients make of services, which
# PostgreSQL tries by themselves; tests/security/test_headers.py opens every address there.
OF_SERVICES = re.compile(
    r"^tests/(clients|ranking/stats)/|/test_providers?[_.]|_(pages?|form|command|browser)\.py$"
)
NOT_ABOUT_DATABASE = re.compile(r"^pytestmark = .*\bmark\.any_database\b", re.MULTILINE)


@cache
def trouble(service: str) -> str:
    """Why `service` cannot be used here; '' when it can."""
    return PROBES[service]()


def need(service: str) -> None:
    """Skip (or fail, where everything is required) the test when `service` is missing."""
    if reason := trouble(service):
        give_up = pytest.fail if environment.everything_required() else pytest.skip
        give_up(f"needs {service}: {reason}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--database",
        choices=["sqlite", "postgres"],
        default="sqlite",
        help="where the tests' database lives; postgres runs only the tests that use a database",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Point the settings at a temporary folder before Django reads them."""
    home = Path(tempfile.mkdtemp(prefix="ringside-tests-"))
    config.stash[HOME] = home
    os.environ.setdefault("RINGSIDE_TESTS_SHARE", str(home))  # xdist's workers inherit the first
    config.option.allow_hosts = "127.0.0.1,::1,localhost"
    environment.enter(home, config.getoption("database"))
    gc.disable()  # what collecting tests loads stays


def pytest_unconfigure(config: pytest.Config) -> None:
    """Clean up, and end with one line about what this machine lacks, if anything."""
    home = config.stash[HOME]
    if os.environ["RINGSIDE_TESTS_SHARE"] == str(home):
        drop_migrated_template()
    shutil.rmtree(home, ignore_errors=True)
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter and (missing := [f"{name} ({trouble(name)})" for name in PROBES if trouble(name)]):
        reporter.write_line(
            f"NOT TRIED on this machine, because it is not there: {'; '.join(missing)}.",
            yellow=True,
        )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import modules of which nothing would run: that takes each process seconds."""
    if collection_path.suffix != ".py":
        return None
    text = collection_path.read_text()
    words = config.option.markexpr.split()
    if words[:1] in (["slow"], ["alone"]) and f"mark.{words[0]}" not in text:
        return True
    path = collection_path.relative_to(config.rootpath).as_posix()
    is_left_out = OF_SERVICES.search(path) or NOT_ABOUT_DATABASE.search(text)
    return True if _on_postgres(config) and is_left_out else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes long; on PostgreSQL, leave out what is not about the database."""
    items.sort(key=_place)
    if not _on_postgres(config):
        return
    left_out = [item for item in items if not _touches_database(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if _touches_database(item)]


def _place(item: pytest.Item) -> int:
    found = (place for place, kind in enumerate(LONGEST) if re.search(kind, item.nodeid))
    return next(found, len(LONGEST))


def pytest_collection_finish() -> None:
    """What is loaded by now stays, so the garbage collector need not examine it again."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


def _on_postgres(config: pytest.Config) -> bool:
    return bool(config.getoption("database") == "postgres")


def _touches_database(item: pytest.Item) -> bool:
    if item.get_closest_marker("any_database"):
        return False
    fixtures = {"db", "transactional_db", "live_server"} & set(getattr(item, "fixturenames", ()))
    return bool(fixtures) or item.get_closest_marker("django_db") is not None


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A run that skipped something fails where everything is required."""
    nothing_to_do = exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
    if nothing_to_do and _on_postgres(session.config):
        session.exitstatus = pytest.ExitCode.OK
    if environment.everything_required() and any(map(trouble, PROBES)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def django_db_modify_db_settings(pytestconfig: pytest.Config) -> None:
    """Name the test database after this process: several runs, and xdist, go side by side."""
    from django.db import connections

    name = f"ringside_test_{os.getpid()}"
    if _on_postgres(pytestconfig):
        need("PostgreSQL")
        connections["default"].ops.sql_flush = _delete_all
    else:
        name = str(pytestconfig.stash[HOME] / f"{name}.sqlite3")
    connections["default"].settings_dict["TEST"]["NAME"] = name


def _delete_all(style: object, tables: list[str], **_: object) -> list[str]:
    """What empties the tables after a test with transactions of its own: TRUNCATE, which makes
    each table's files anew, takes as long as creating the database."""
    return [f'DELETE FROM "{table}"' for table in tables]


@pytest.fixture(autouse=True)
def settings_of_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Endpoints and settings in the database are read only after a test has saved some: a test's
    queries do not depend on what another one left in memory."""
    monkeypatch.setattr("arena.endpoints.stored_endpoints.known", (math.inf, {}))
    monkeypatch.setattr("arena.site.stored_settings.known", (math.inf, None))


@pytest.fixture
def no_doorbell(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is announced after commits would enqueue refreshes of rows that are gone by then."""
    monkeypatch.setattr("ranking.signals.schedule_refresh", lambda arena_id: None)


@pytest.fixture(scope="session")
def api_schema() -> Any:
    """The API's description."""
    from django.test import Client

    return json.loads(Client().get("/api/v1/schema/").content)


@pytest.fixture
def redis_url() -> str:
    """The address of a Redis database that the tests may fill."""
    need("Redis")
    return environment.REDIS_URL


@pytest.fixture(scope="session")
def postgres_url() -> str:
    """The address of a PostgreSQL server where the tests may make databases."""
    need("PostgreSQL")
    return environment.POSTGRES_URL


@pytest.fixture
def new_database(postgres_url: str) -> Iterator[Callable[..., str]]:
    """A function that creates a PostgreSQL database and returns its address."""
    import psycopg

    names: list[str] = []

    def create(*, is_migrated: bool = False) -> str:
        template = migrated_template(postgres_url) if is_migrated else "template1"
        names.append(f"ringside_new_{uuid4().hex[:12]}")
        server.execute(f"CREATE DATABASE {names[-1]} TEMPLATE {template}")
        return f"{postgres_url.rpartition('/')[0]}/{names[-1]}"

    with psycopg.connect(postgres_url, autocommit=True) as server:
        yield create
        for name in names:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data."""
    need("the real data")
    return environment.data_folder()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's Chromium, driven by Playwright."""
    need("Chromium")
    from playwright.sync_api import expect, sync_playwright

    # Playwright's loop runs in this thread, where Django would refuse to touch the database.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    expect.set_options(timeout=PAGE_PATIENCE)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=environment.chromium(), args=environment.CHROMIUM_ARGUMENTS
        )
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A fresh page with no cookies; a script that throws on it fails the test."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(PAGE_PATIENCE)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert not errors, f"a script on the page threw: {errors}"
