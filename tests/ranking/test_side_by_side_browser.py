"""All boards side by side in a real browser: for everybody, on a phone, by keyboard."""

import random
from typing import Any

import pytest
from playwright.sync_api import expect

from arena.models import Arena, Rater
from tests.factories import make_vote
from tests.ranking.helpers import (
    fill,
    make_voted_arena,
    page_widths,
    publish,
    serious_violations,
    set_trusted,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def arena_of_three_raters() -> Arena:
    """Eight candidates, one of them with a very long name; a judge that prefers the last ones, and
    a trusted jury that votes like people."""
    arena = make_voted_arena(8, 12, rounds=1)
    candidates = list(arena.candidates.order_by("pk"))
    chance = random.Random(2)
    judge = Rater.objects.create(kind=Rater.Kind.JUDGE, name="A partial judge")
    for prompt in arena.prompts.all():
        for i, left in enumerate(candidates):
            for j, right in enumerate(candidates[i + 1 :], i + 1):
                says = "right" if chance.random() < 0.5 + 0.06 * (j - i) else "left"
                make_vote(arena, left, right, says, prompt, judge)
    jury = Rater.objects.create(kind=Rater.Kind.JURY, name="A jury of three")
    fill(arena, rounds=1, rater=jury)
    set_trusted(jury)
    arena.candidates.filter(name="candidate-3").update(name="a-name-without-an-end-" * 8)
    publish(arena)
    return arena


@pytest.fixture
def addresses(arena_of_three_raters: Arena, live_server: Any) -> list[str]:
    base = f"{live_server.url}/a/support"
    return [
        f"{base}/side-by-side/",
        f"{base}/side-by-side/?category=category-1&order=difference",
        f"{base}/?raters=combined",
        f"{base}/?raters=juries",
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(page: Any, addresses: list[str], scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    for address in addresses:
        page.goto(address)
        assert not serious_violations(page), address


def test_no_page_is_wider_than_a_phone(phone: Any, addresses: list[str]) -> None:
    widths = page_widths(phone, addresses)
    assert set(widths.values()) == {390}, widths


def test_the_order_is_chosen_and_the_table_scrolled_by_keyboard(
    browser: Any, addresses: list[str]
) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, java_script_enabled=False)
    page = context.new_page()
    page.goto(addresses[0])
    page.get_by_role("link", name="Largest difference first").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**order=difference")
    expect(page.locator(".side-by-side tbody tr").first).to_contain_text("Largest difference")
    box = page.locator(".table-scroll", has=page.locator(".side-by-side"))
    box.focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    page.wait_for_timeout(300)
    assert box.evaluate("box => box.scrollLeft") > 0
    context.close()


def test_nothing_is_refused_by_the_policy(page: Any, addresses: list[str]) -> None:
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    for address in addresses:
        page.goto(address)
    assert not said
