"""Clients that are slow on purpose stop neither `make run` nor what compose.yaml starts."""

from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from benchmarks.slow_clients import BEGINNINGS, MOST_SECONDS, Address, answers_beside
from tests.ops.running import caddy_in_front, up

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["make run", "compose"])
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Address]:
    home = tmp_path_factory.mktemp("home")
    with ExitStack() as stack:
        if request.param == "compose":
            yield stack.enter_context(caddy_in_front(home))
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
