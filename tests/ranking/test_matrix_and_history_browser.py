"""The pages beside a board in a real browser: for everybody, on a phone, without JavaScript."""

from typing import Any

import pytest
from django.db.models import F
from playwright.sync_api import expect

from arena.models import Arena, Response
from tests.ranking.helpers import (
    make_past,
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


@pytest.fixture
def published() -> Arena:
    """Twelve candidates, one of them with a very long name, and four snapshots."""
    arena = make_voted_arena(12, rounds=1)
    arena.candidates.filter(name="candidate-3").update(name="a-name-without-an-end-" * 8)
    Response.objects.update(cost=1000 * F("candidate_id"), seconds=F("candidate_id"))
    snapshot = publish(arena)
    for hours in (2, 5, 9):
        make_past(snapshot, hours, by=3 * hours)
    return arena


@pytest.fixture
def addresses(published: Arena, live_server: Any) -> dict[str, str]:
    a, b = (candidate.pk for candidate in published.candidates.order_by("pk")[2:4])
    base = f"{live_server.url}/a/support"
    return {
        "matrix": f"{base}/compare/",
        "compare": f"{base}/compare/",
        "compared": f"{base}/compare/?a={a}&b={b}",
        "price": f"{base}/price/",
        "speed": f"{base}/price/?by=seconds",
        "candidate": f"{base}/candidates/{b}/",
        "listed": f"{base}/candidates/{a}/?raters=people&category=category-0&opponent={b}",
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(page: Any, addresses: dict[str, str], scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    for address in addresses.values():
        page.goto(address)
        open_details(page)
        assert not serious_violations(page), address


def test_no_page_is_wider_than_a_phone(phone: Any, addresses: dict[str, str]) -> None:
    widths = page_widths(phone, addresses.values())
    assert set(widths.values()) == {390}, widths


def test_matrix_headings_stay_while_it_scrolls(browser: Any, addresses: dict[str, str]) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 500}, is_mobile=True)
    page = context.new_page()
    page.goto(addresses["matrix"] + "#matrix")  # which opens it
    box = page.locator(".matrix-scroll")
    box.evaluate("box => box.scrollTo(200, 200)")
    assert box.evaluate("box => [box.scrollLeft, box.scrollTop]") == [200, 200]
    frame = box.bounding_box()
    corner = page.locator(".corner").bounding_box()
    assert abs(corner["x"] - frame["x"]) < 3
    assert abs(corner["y"] - frame["y"]) < 3
    context.close()


def test_a_cell_is_opened_by_keyboard(page: Any, addresses: dict[str, str]) -> None:
    page.goto(addresses["matrix"] + "#matrix")
    page.locator(".matrix td a").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/compare/?raters=people&a=*&b=*")
    page.get_by_text("Votes that can be read").click()
    assert page.locator(".comparisons li").count() == 8


def test_all_of_it_works_without_javascript(browser: Any, addresses: dict[str, str]) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(addresses["compare"])
    page.get_by_text("Change pair").click()
    page.get_by_label("Right").select_option(index=5)
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url("**/compare/?raters=people&a=*&b=*")
    expect(page.get_by_role("heading", name="Where each wins")).to_be_visible()
    page.goto(addresses["candidate"])
    page.get_by_text("History of its score").click()
    expect(page.locator("polygon.band")).to_be_visible()
    assert page.locator("[data-interactive]").is_hidden()
    context.close()


def test_nothing_is_refused_by_the_policy(page: Any, addresses: dict[str, str]) -> None:
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    for address in addresses.values():
        page.goto(address)
    assert not said


@pytest.mark.parametrize(
    ("page_name", "button"),
    [("candidate", "Compare with others over time"), ("price", "Interactive chart")],
)
def test_a_click_replaces_the_chart_by_an_interactive_one(
    page: Any, addresses: dict[str, str], page_name: str, button: str
) -> None:
    page.goto(f"{addresses[page_name]}#history")
    page.get_by_role("button", name=button).click()
    page.locator(".js-plotly-plot .scatterlayer .trace").first.wait_for()
    assert page.locator("[data-picture]").count() == 0
    strokes = page.locator(".js-plotly-plot tspan").evaluate_all(
        "lines => lines.map(line => getComputedStyle(line).stroke)"
    )
    assert set(strokes) <= {"none"}
