"""The pages of boards in a real browser: for everybody, by keyboard, with the interactive chart."""

from datetime import UTC, datetime
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from arena.models import Arena, Comparison, Response
from ranking.models import Snapshot
from tests.factories import make_arena, make_person, make_vote
from tests.ranking.helpers import (
    cast,
    make_voted_arena,
    page_widths,
    publish,
    rank_anyway,
    serious_violations,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def published() -> Arena:
    arena = make_voted_arena(4)
    publish(arena)
    return arena


@pytest.fixture
def addresses(published: Arena, live_server: Any) -> dict[str, str]:
    candidate = published.candidates.first()
    comparison = Comparison.objects.filter(votes__isnull=False).first()
    base = live_server.url
    return {
        "index": base + "/",
        "board": f"{base}/a/support/",
        "about": f"{base}/a/support/about/",
        "reasons": f"{base}/a/support/?columns=details",
        "categories": f"{base}/a/support/?columns=categories",
        "candidate": f"{base}/a/support/candidates/{candidate.pk}/",
        "comparison": f"{base}/a/support/comparisons/{comparison.key}/",
        "sign-in": f"{base}/sign-in/",
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_any_page(
    page: Any, addresses: dict[str, str], scheme: str
) -> None:
    page.emulate_media(color_scheme=scheme)
    for address in addresses.values():
        page.goto(address)
        assert not serious_violations(page), address


def test_no_page_is_wider_than_a_phone(phone: Any, addresses: dict[str, str]) -> None:
    widths = page_widths(phone, addresses.values())
    assert set(widths.values()) == {390}, widths


def test_header_on_a_phone_is_one_line_of_large_links(
    phone: Any, addresses: dict[str, str]
) -> None:
    phone.goto(addresses["board"])
    assert phone.locator(".site-header").bounding_box()["height"] < 2 * 44
    links = phone.locator(".site-header a, .site-header button, .choices-row a, summary")
    sizes = [links.nth(i).bounding_box() for i in range(links.count())]
    assert all(box["height"] >= 44 and box["width"] >= 44 for box in sizes if box), sizes


def test_the_home_page_has_a_pair_to_vote_on_at_once(page: Any, addresses: dict[str, str]) -> None:
    page.goto(addresses["index"])
    page.get_by_role("button", name="Both bad").click()
    expect(page.locator("#after")).to_contain_text("Both bad:")


@pytest.mark.parametrize(
    ("zone", "shown"), [("UTC", "2 Mar 2026, 23:30 UTC"), ("Asia/Tokyo", "3 Mar 2026, 08:30")]
)
def test_times_are_shown_in_the_reader_s_time_zone(
    browser: Any, addresses: dict[str, str], zone: str, shown: str
) -> None:
    Snapshot.objects.update(published_at=datetime(2026, 3, 2, 23, 30, tzinfo=UTC))
    context = browser.new_context(timezone_id=zone)
    page = context.new_page()
    page.goto(addresses["board"])
    expect(page.locator(".seen time")).to_have_text(shown)
    context.close()


@pytest.mark.parametrize("signed_in", [False, True])
def test_a_stored_page_shows_whether_the_reader_is_signed_in(
    browser: Any, addresses: dict[str, str], signed_in: bool
) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(addresses["board"])  # from now on it is stored
    if signed_in:
        cookie = {"name": "signed_in", "value": "1", "url": addresses["index"]}
        context.add_cookies([cookie])
    page.goto(addresses["board"])
    said = page.locator(".site-header").inner_text()
    context.close()
    assert ("Your account" in said, "Sign in" in said) == (signed_in, not signed_in)


def test_standings_with_costs_and_seconds_fit_a_laptop(
    page: Any, published: Arena, addresses: dict[str, str]
) -> None:
    Response.objects.update(cost=1_840_000, seconds=2.35, tokens_in=1203, tokens_out=412)
    cast(published)
    publish(published)
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(addresses["board"])
    assert page.get_by_text("$ / 1,000").count()
    assert page.evaluate(
        "[...document.querySelectorAll('.board-scroll')].every(e => e.scrollWidth <= e.clientWidth)"
    )
    page.set_viewport_size({"width": 900, "height": 900})
    page.goto(addresses["board"] + "?columns=details")
    assert page.evaluate("document.documentElement.scrollWidth") == 900


def test_a_search_filters_rows_and_stays_in_the_address(page: Any, live_server: Any) -> None:
    publish(make_voted_arena(21, n_prompts=2, rounds=1))
    rank_anyway(Arena.objects.get())
    page.goto(f"{live_server.url}/a/support/")
    page.get_by_role("searchbox").fill("DATE-20")
    rows = page.locator("table.board tbody tr:visible")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("candidate-20")
    expect(page.locator("[data-found]")).to_contain_text("1 of 21 candidates match")
    assert page.url.endswith("?q=DATE-20")
    page.reload()
    expect(page.locator("table.board tbody tr")).to_have_count(1)


def test_a_menu_closes_by_escape(page: Any, addresses: dict[str, str]) -> None:
    page.goto(addresses["board"])
    summary = page.locator("details.menu summary", has_text="View")
    summary.press("Enter")
    link = page.get_by_role("link", name="Elo, both bad, lead, history")
    expect(link).to_be_visible()
    page.keyboard.press("Escape")
    expect(link).to_be_hidden()
    assert summary.evaluate("one => one === document.activeElement")


def test_the_table_starts_on_the_first_screen(phone: Any, page: Any, live_server: Any) -> None:
    """Even with the longest name and question, and tiers."""
    make_eight()
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(f"{live_server.url}/a/support/")
    assert page.locator("table.board tbody tr").first.bounding_box()["y"] <= 260
    heights = {row.bounding_box()["height"] for row in page.locator("table.board tbody tr").all()}
    assert heights <= {40, 41, 42}  # with the rule between tiers
    Arena.objects.update(name="Support answers " * 7, question="Which of the two answers " * 8)
    publish(Arena.objects.get())
    phone.goto(f"{live_server.url}/a/support/")
    assert phone.locator("table.board tbody").count() > 1
    assert phone.locator("table.board td.rank").first.bounding_box()["y"] < 640
    phone.set_viewport_size({"width": 844, "height": 390})  # turned, the rows keep their two lines
    assert phone.locator("table.board td.score").first.bounding_box()["x"] < 844 - 40
    for width in (844, 320):
        phone.set_viewport_size({"width": width, "height": 640})
        assert phone.evaluate("document.documentElement.scrollWidth") == width


def test_menus_of_a_phone_open_within_the_screen(phone: Any, live_server: Any) -> None:
    make_eight()
    phone.goto(f"{live_server.url}/a/support/")
    for summary in phone.locator(".board-head summary, .tools summary").all():
        summary.click()
        box = phone.locator("details[open] .menu-list").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
        hit = "([x, y]) => !!document.elementFromPoint(x, y).closest('.menu-list')"
        assert phone.evaluate(hit, [box["x"] + 20, box["y"] + 20])
        summary.click()


def make_eight() -> None:
    """The leaderboard of eight candidates, of which each beats all later ones in 29 of 40 votes."""
    arena = make_arena(8, 40, name="Support answers, as sent", slug="support")
    arena.question = "Which of the two answers helps the customer more, and sooner?"
    arena.save()
    arena.prompts.filter(pk__lte=arena.prompts.first().pk + 9).update(category="refunds")
    arena.candidates.update(organisation="Sample AI", licence="MIT")
    for answer in Response.objects.filter(prompt__arena=arena):  # so that style can be controlled
        answer.text = "word " * (20 + answer.pk * 37 % 101)
        answer.save()
    candidates, people = list(arena.candidates.order_by("pk")), [make_person() for _ in range(40)]
    for i, left in enumerate(candidates):
        for right in candidates[i + 1 :]:
            for number, prompt in enumerate(arena.prompts.all()):
                outcome = "left" if (number * 7 + i) % 11 < 8 else "right"
                make_vote(arena, left, right, outcome, prompt, people[number])
    publish(arena)


def test_the_table_is_sorted_by_keyboard_alone(page: Any, addresses: dict[str, str]) -> None:
    page.goto(addresses["board"])
    page.locator("details.menu summary", has_text="View").press("Enter")
    page.get_by_role("link", name="Votes", exact=True).press("Enter")
    page.wait_for_url("**sort=votes**")
    expect(page.locator(".menu a[aria-current]", has_text="Votes")).to_have_count(1)


def test_without_javascript_the_chart_and_the_table_are_there(
    browser: Any, addresses: dict[str, str]
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(addresses["board"])
    assert page.locator("svg.chart circle, svg circle").count() >= 4
    assert page.locator("table").first.get_by_role("row").count() == 5
    assert page.locator("[data-interactive]").is_hidden()
    context.close()


def test_interactive_chart_loads_on_demand_from_this_site(
    page: Any, addresses: dict[str, str], live_server: Any
) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(addresses["board"])
    assert not [url for url in asked if "plotly" in url]
    page.get_by_role("button", name="Interactive chart").click()
    page.locator(".js-plotly-plot .scatterlayer .point").first.wait_for()
    assert [url for url in asked if "plotly" in url]
    assert not [url for url in asked if not url.startswith((live_server.url, "data:", "blob:"))]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_of_the_api_can_be_read_and_has_one_main_part(
    page: Any, live_server: Any, scheme: str
) -> None:
    page.emulate_media(color_scheme=scheme)
    page.goto(f"{live_server.url}/api/v1/docs/")
    page.locator(".opblock").first.wait_for()
    found = {one["id"] for one in Axe().run(page).response["violations"]}
    assert not found & {"color-contrast", "landmark-no-duplicate-main", "landmark-unique"}
