"""Voting in a real browser: keys, touch, double clicks, without JavaScript, and for everybody."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.urls import reverse
from playwright.sync_api import expect

from arena.models import Comparison, Vote
from tests.factories import make_arena

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.django_db(transaction=True)]
PAIR = "#ballot .pair"


@pytest.fixture
def long_arena():
    return make_arena(3, 8)


@pytest.fixture
def open_vote_page(page, live_server, long_arena):
    """The voting page, once its next pair is there."""
    failed = []
    page.on("requestfailed", lambda request: failed.append(f"{request.url}: {request.failure}"))
    page.on("console", lambda message: message.type == "error" and failed.append(message.text))
    page.goto(live_server.url + reverse("vote", args=[long_arena.slug]))
    wait_for_ahead(page)
    yield page
    assert not failed


def wait_for_ahead(page):
    page.locator("#ahead .pair").wait_for(state="attached")


def key_on_screen(page):
    return page.locator(PAIR).get_attribute("data-key")


def press(page, key):
    """Press a key, and wait until the vote is taken and another pair has come."""
    before = key_on_screen(page)
    page.keyboard.press(key)
    page.locator(f'#ballot .pair:not([data-key="{before}"])').wait_for()


def test_ten_votes_by_keyboard_alone(open_vote_page):
    page = open_vote_page
    for key in ["ArrowLeft", "ArrowRight", "t", "b", "ArrowLeft"] * 2:
        press(page, key)
    expect(page.locator("#done")).to_have_text("Your votes: 10")
    outcomes = list(Vote.objects.order_by("pk").values_list("outcome", flat=True))
    assert outcomes == ["left", "right", "tie", "both_bad", "left"] * 2


def test_the_names_are_shown_after_the_vote_and_never_before(open_vote_page):
    page = open_vote_page
    assert "candidate-" not in page.content()
    comparison = Comparison.objects.get(key=key_on_screen(page))
    press(page, "ArrowLeft")
    after = page.locator("#after").inner_text()
    assert f"You chose A ({comparison.left}) over B ({comparison.right})." in after


def test_the_next_pair_is_the_one_fetched_ahead(open_vote_page):
    page = open_vote_page
    ahead = page.locator("#ahead .pair").get_attribute("data-key")
    press(page, "t")
    assert key_on_screen(page) == ahead


ANSWER_AT_ONCE = """
() => {
  const seen = new MutationObserver(() => {
    seen.disconnect();
    document.querySelector('#ballot button[data-key="t"]').click();
  });
  seen.observe(document.getElementById("ballot"), { childList: true });
}
"""


def test_a_vote_in_the_moment_a_pair_appears_reloads_nothing(open_vote_page):
    page = open_vote_page
    page.locator("#ahead .pair").evaluate("pair => pair.remove()")  # it comes with the answer
    page.evaluate(ANSWER_AT_ONCE)
    page.evaluate("() => { window.samePage = true; }")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#done")).to_have_text("Your votes: 2")
    assert page.evaluate("() => window.samePage")


def test_undo_by_key_voids_the_vote(open_vote_page):
    page = open_vote_page
    press(page, "ArrowLeft")
    page.keyboard.press("u")
    page.get_by_text("Vote withdrawn").wait_for()
    expect(page.locator("#done")).to_have_text("Your votes: 0")
    assert Vote.objects.get().voided_at


def test_a_skip_leaves_no_vote(open_vote_page):
    press(open_vote_page, "s")
    assert not Vote.objects.exists()
    assert Comparison.objects.filter(skipped_at__isnull=False).count() == 1


def test_keys_can_be_switched_off(open_vote_page):
    page = open_vote_page
    page.get_by_text("Keyboard shortcuts", exact=True).click()
    page.get_by_label("Use keyboard shortcuts").uncheck()
    page.keyboard.press("t")
    page.wait_for_timeout(300)
    assert not Vote.objects.exists()


def test_a_double_click_is_one_vote_on_one_pair(open_vote_page):
    page = open_vote_page
    page.get_by_role("button", name="Tie").dblclick()
    expect(page.locator("#done")).not_to_have_text("Your votes: 0")
    page.wait_for_timeout(300)
    assert Vote.objects.count() == 1


def test_without_javascript_every_button_works(browser, live_server, long_arena):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(live_server.url + reverse("vote", args=[long_arena.slug]))
    page.get_by_role("button", name="A is better").click()
    assert "You chose A" in page.locator("#after").inner_text()
    page.get_by_role("button", name="Undo").click()
    assert "Vote withdrawn" in page.locator("#after").inner_text()
    context.close()
    assert Vote.objects.get().voided_at


def test_on_a_phone_nothing_overflows_and_a_tap_votes(browser, live_server, long_arena):
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True
    )
    page = context.new_page()
    page.goto(live_server.url + reverse("vote", args=[long_arena.slug]))
    wait_for_ahead(page)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.get_by_role("button", name="B is better").tap()
    page.get_by_text("You chose B").wait_for()
    context.close()
    assert Vote.objects.get().outcome == "right"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(page, live_server, long_arena, scheme):
    page.emulate_media(color_scheme=scheme)
    page.goto(live_server.url + reverse("vote", args=[long_arena.slug]))
    wait_for_ahead(page)
    press(page, "t")
    found = Axe().run(page).response["violations"]
    assert not [v["id"] for v in found if v["impact"] in ("serious", "critical")]
