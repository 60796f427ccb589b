"""The card after ten votes in a real browser."""

from typing import Any

import pytest
from django.core.signing import get_cookie_signer
from django.urls import reverse
from playwright.sync_api import expect

from arena.models import Arena, Rater
from tests.factories import make_arena, make_person
from tests.ranking.helpers import publish, serious_violations, width_of
from tests.ranking.test_rounds import others_vote, play

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.any_database,
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def played() -> tuple[Arena, Rater]:
    arena, rater = make_arena(2, 30, slug="support"), make_person()
    for _ in range(5):
        others_vote(arena, ["left"] * 8)
    publish(arena)
    play(arena, rater, ["left"] * 7 + ["right"] * 3)
    return arena, rater


def open_card(page: Any, live_server: Any, played: tuple[Arena, Rater]) -> None:
    arena, rater = played
    value = get_cookie_signer(salt="rater").sign(str(rater.pk))
    page.context.add_cookies([{"name": "rater", "value": value, "url": live_server.url}])
    page.goto(live_server.url + reverse("round", args=[arena.slug, 1]))


def test_the_card_waits_for_the_leaderboard_and_enter_goes_on(
    page: Any, live_server: Any, played: tuple[Arena, Rater]
) -> None:
    open_card(page, live_server, played)
    expect(page.get_by_role("status")).to_contain_text("is counting your votes")
    publish(played[0])
    expect(page.get_by_role("heading", level=1)).to_have_text("Ten votes. This is what they moved.")
    page.keyboard.press("Enter")
    page.wait_for_url("**/vote/")


@pytest.mark.parametrize(("width", "dock"), [(1280, 56), (390, 105)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_card_is_for_everybody(
    page: Any, live_server: Any, played: tuple[Arena, Rater], scheme: str, width: int, dock: int
) -> None:
    publish(played[0])
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    open_card(page, live_server, played)
    assert page.locator(".round-dock").bounding_box()["height"] == dock
    assert width_of(page) == width
    assert not serious_violations(page)
