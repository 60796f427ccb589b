"""Clients that are slow on purpose stop neither `make run` nor what compose.yaml starts."""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from benchmarks.serving import serving
from benchmarks.slow_clients import BEGINNINGS, MOST_SECONDS, Address, answers_beside, status
from tests.environment import REPOSITORY, everything_required
from tests.ops.running import eventually, migrated_database, settings_for, up

pytestmark = pytest.mark.slow


@contextmanager
def caddy_in_front(home: Path, stack: ExitStack) -> Iterator[Address]:
    """Two web processes behind the project's Caddyfile, as in compose.yaml."""
    if shutil.which("caddy") is None:
        (pytest.fail if everything_required() else pytest.skip)("needs caddy")
    shutil.copy(migrated_database(), home)
    web = stack.enter_context(serving(settings_for(home, TRUSTED_PROXIES="1"), threads=32))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "SITE": f"http://localhost:{port}",
        "PORT": str(web.address[1]),
        "HOME": str(home),
    }
    caddy = subprocess.Popen(
        ["caddy", "run", "--config", str(REPOSITORY / "Caddyfile"), "--adapter", "caddyfile"],
        env=os.environ | settings,
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually(lambda: status(("127.0.0.1", port))[0] == 200)
        yield "127.0.0.1", port
    finally:
        caddy.send_signal(signal.SIGTERM)
        caddy.wait(60)


@pytest.fixture(scope="module", params=["make run", "compose"])
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Address]:
    home = tmp_path_factory.mktemp("home")
    with ExitStack() as stack:
        if request.param == "compose":
            yield stack.enter_context(caddy_in_front(home, stack))
        else:
            url = urlsplit(stack.enter_context(up(home, is_migrated=True)).url())
            yield str(url.hostname), int(url.port or 0)


@pytest.mark.parametrize("kind", BEGINNINGS)
def test_healthz_answers_soon_beside(site: Address, kind: str) -> None:
    answers = answers_beside(site, BEGINNINGS[kind])
    assert {code for code, _, _ in answers} == {200}
    taken = sorted(seconds for _, seconds, _ in answers)
    print(f"slowest of {len(answers)}: {taken[-1]:.3f} s")
    # A busy machine may delay one of them, but not as slow clients would.
    assert taken[len(taken) // 2] < MOST_SECONDS
    assert taken[-1] < 5 * MOST_SECONDS
    assert {server for _, _, server in answers} <= {None, "granian"}, "no version"
