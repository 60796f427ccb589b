"""A board with everything that it can say, and its methodology, in a real browser."""

from itertools import pairwise
from typing import Any

import pytest

from arena.models import Arena
from ranking.models import Snapshot
from ranking.services.leases import drop_pages
from tests.factories import make_vote
from tests.ranking.helpers import (
    STYLE,
    make_voted_arena,
    open_details,
    page_widths,
    publish,
    serious_violations,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
]
PAGES = ("", "?control=style", "about/")


@pytest.fixture
def board_with_findings() -> Arena:
    """Four ranked candidates, one that always lost, one without votes, and every finding."""
    arena = make_voted_arena(4)
    loser, _ = (arena.candidates.create(name=f"a-candidate-with-a-long-name-{i}") for i in "xy")
    make_vote(arena, arena.candidates.all()[0], loser, "left", arena.prompts.first())
    snapshot = publish(arena)
    ranked = list(snapshot.standings.exclude(rank=None).order_by("rank"))
    ids = [standing.candidate_id for standing in ranked]
    ranked[0].sure_rank_low = ranked[0].sure_rank_high = 1
    ranked[0].save()
    two = {"separated": False, "votes": 12_000, "words": "about 12,000 more votes"}
    scores = {str(pk): {"score": 1000.0, "low": 900.0, "high": 1100.0} for pk in ids}
    findings = snapshot.findings | {
        "leader": ids[0],
        "neighbours": [two | {"upper": a, "lower": b} for a, b in pairwise(ids)],
        "transitivity": {"share": 1.0, "triads": 4, "transitive": 4},
        "style": STYLE | {"scores": scores},
    }
    Snapshot.objects.filter(pk=snapshot.pk).update(findings=findings, n_votes=snapshot.n_votes + 1)
    drop_pages(arena_id=arena.pk)
    return arena


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(
    page: Any, board_with_findings: Arena, live_server: Any, scheme: str
) -> None:
    page.emulate_media(color_scheme=scheme)
    for name in PAGES:
        page.goto(f"{live_server.url}/a/support/{name}")
        open_details(page)
        assert not serious_violations(page), name
    page.goto(f"{live_server.url}/a/support/")
    open_details(page)
    shown = page.locator("main").inner_text()
    for words in (
        "is the clear leader",
        "No votes yet",
    ):
        assert words in shown
    assert "Intervals include" in shown


def test_a_phone_scrolls_down_only(
    phone: Any, board_with_findings: Arena, live_server: Any
) -> None:
    widths = page_widths(phone, [f"{live_server.url}/a/support/{name}" for name in PAGES])
    assert set(widths.values()) == {390}, widths


def test_a_formula_is_reached_by_keyboard_without_javascript(
    browser: Any, board_with_findings: Arena, live_server: Any
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{live_server.url}/a/support/")
    page.get_by_role("link", name="About", exact=True).press("Enter")
    page.wait_for_url("**/about/**")
    formula = page.get_by_role("region", name="Formula: the stricter threshold")
    assert not formula.is_visible()
    page.locator("section[aria-labelledby=number-one] summary").press("Enter")
    formula.wait_for(state="visible")
    context.close()
