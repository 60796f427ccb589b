"""What the tests of boards share. Models are imported late: Django is set up after this file."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def enqueued(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> list[int]:
    """The arenas with a queued refresh; no test of boards uses a broker."""
    rung: list[int] = []
    if "stats" not in request.path.parts:
        from ranking import signals

        monkeypatch.setattr(signals, "schedule_refresh", rung.append)
    return rung


@pytest.fixture
def most_resamples() -> int:
    """How many replicates boards draw at most, instead of 1,000: numbers are tested elsewhere."""
    return 20


@pytest.fixture(autouse=True)
def few_resamples(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, most_resamples: int
) -> None:
    if "stats" in request.path.parts or request.node.get_closest_marker("data"):
        return
    from ranking import intervals
    from ranking.stats.bootstrap import Bootstrap

    def draw_few(n_resamples: int, *others: Any, **named: Any) -> Bootstrap:
        return Bootstrap(min(n_resamples, most_resamples), *others, **named)

    monkeypatch.setattr(intervals, "Bootstrap", draw_few)


@pytest.fixture
def arena(db: None) -> Any:
    """Three candidates, eight prompts in two categories, 24 votes of one person."""
    from tests.ranking.helpers import make_voted_arena
    from tests.rows import written_once

    return written_once("voted arena", make_voted_arena)


@pytest.fixture
def published(arena: Any) -> Any:
    """The snapshot of the arena's human board."""
    from tests.ranking.helpers import publish
    from tests.rows import written_once

    return written_once("published", lambda: publish(arena))


@pytest.fixture
def judge(db: None) -> Any:
    from arena.models import Rater
    from tests.rows import written_once

    values = {"kind": Rater.Kind.JUDGE, "name": "A strict judge"}
    return written_once("judge", lambda: Rater.objects.create(**values))


@pytest.fixture
def trusted_judge(judge: Any) -> Any:
    """The same judge, measured and trusted before it votes."""
    from django.utils import timezone

    from arena.services.raters import set_trust
    from tests.rows import written_once

    def trust() -> Any:
        set_trust(rater_id=judge.pk, trusted=True, now=timezone.now())
        judge.refresh_from_db()
        return judge

    return written_once("trusted judge", trust)


@pytest.fixture
def jury(db: None) -> Any:
    from arena.models import Rater

    return Rater.objects.create(kind=Rater.Kind.JURY, name="A jury of three")


@pytest.fixture
def phone(browser: Any) -> Iterator[Any]:
    """A page on a phone of 390 pixels."""
    context = browser.new_context(viewport={"width": 390, "height": 844}, is_mobile=True)
    yield context.new_page()
    context.close()
