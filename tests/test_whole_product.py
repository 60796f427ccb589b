"""The whole way of a new user: start, vote by keyboard, watch the board, judge."""

import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ops.running import Up, eventually, manage, up

pytestmark = [pytest.mark.slow, pytest.mark.browser]
SAMPLE_VOTES = 3136
QUIET_MOMENT = 5.0  # seconds in which votes reach the board
LOADED_MACHINE = 6.0  # this test shares its two cores with the browser it drives


@pytest.fixture(params=["on one machine", "on PostgreSQL and Redis"])
def installation(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[Up, dict[str, str]]]:
    """A fresh Ringside, started by its one command."""
    services: dict[str, str] = {}
    if request.param == "on PostgreSQL and Redis":
        services = {
            "DATABASE_URL": request.getfixturevalue("new_database")(is_migrated=True),
            "CELERY_BROKER_URL": request.getfixturevalue("redis_url"),
        }
    with up(tmp_path, **services) as running:
        yield running, services


def results(url: str, raters: str = "people") -> dict[str, Any]:
    with urllib.request.urlopen(f"{url}a/sample/results.json?raters={raters}") as answer:
        return dict(json.load(answer))


def cast(found: dict[str, Any]) -> int:
    """All votes on a board."""
    return int(found["n_votes"] or 0) + int(found["n_both_bad"] or 0)


def vote_four_times(page: Any, url: str) -> None:
    page.add_init_script("localStorage.setItem('vote-at-once', 'on')")
    page.goto(f"{url}a/sample/vote/")
    for key in ["ArrowLeft", "ArrowRight", "t", "b"]:
        pair = page.locator("#ballot .pair").get_attribute("data-key")
        page.wait_for_timeout(3100)  # or the page asks whether that was meant
        page.keyboard.press(key)
        page.locator(f'#ballot .pair:not([data-key="{pair}"])').wait_for()


def test_from_the_first_start_to_a_judged_board(
    installation: tuple[Up, dict[str, str]], page: Any, tmp_path: Path
) -> None:
    running, services = installation
    url = running.url()
    eventually(lambda: cast(results(url)) == SAMPLE_VOTES)
    before = results(url)

    vote_four_times(page, url)
    began = time.monotonic()
    patience = QUIET_MOMENT * LOADED_MACHINE
    eventually(lambda: cast(results(url)) == SAMPLE_VOTES + 4, patience=patience)
    print(f"four votes reached the board after {time.monotonic() - began:.1f} s")
    assert results(url)["standings"] != before["standings"]

    command = ["judge", "sample", "--judge=scripted", "--per-pair=2", "--max-calls=120"]
    judged = manage(*command, home=tmp_path, **services)
    assert judged.returncode == 0, judged.stderr
    eventually(lambda: cast(results(url, "judges")) > 20)
    board = results(url, "judges")
    assert [row["status"] for row in board["standings"]].count("ranked") >= 2
    page.goto(f"{url}a/sample/?raters=judges")
    assert page.get_by_role("row").count() > 2
    with urllib.request.urlopen(f"{url}readyz", timeout=30) as answer:
        assert answer.status == 200
    assert bool(services) != bool(list(tmp_path.glob("*.sqlite3")))
