"""Live questions in a real browser: answers in step, keys, a lost connection, and for everybody."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.urls import reverse
from playwright.sync_api import expect

from arena.models import LiveConversation, Role, Vote
from tests.arena.test_live import open_live
from tests.arena.test_variants_browser import sign_in
from tests.factories import make_arena, make_member, make_paying_team

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.django_db(transaction=True)]
QUESTION = "Which parcel leaves first, and when does the customer hear about that delay?"
READ = 1150  # ms: faster votes are taken for accidents
State = LiveConversation.State


@pytest.fixture
def ring():
    return open_live(make_arena(0, 1, team=make_paying_team()), 3)


@pytest.fixture
def slow(monkeypatch):
    """Answers that take about eight seconds."""
    monkeypatch.setattr("arena.calls.providers.scripted.SECONDS_PER_WORD", 0.15)


@pytest.fixture
def phone(browser):
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True
    )
    yield context.new_page()
    context.close()


def address(live_server, ring, name="live"):
    return live_server.url + reverse(name, args=[ring.live_of.slug])


def ask(page, live_server, ring):
    page.goto(address(live_server, ring))
    page.locator("#question").fill(QUESTION)
    page.keyboard.press("Control+Enter")
    expect(page.locator(".live-question")).to_have_text(QUESTION)


def wait_for_words(page):
    """Wait until both are being written, and have some words."""
    for side in ("left", "right"):
        expect(page.locator(f"[data-answer={side}]")).to_contain_text("by no real model.")


def vote(page, key):
    expect(page.get_by_role("button", name="A is better")).to_be_visible()
    page.wait_for_timeout(READ)
    page.keyboard.press(key)


SHOWN = "[...document.querySelectorAll('[data-answer]')].map(one => one.textContent.trimStart())"
# The lengths of both, each time that something of them appears.
WATCH = f"""() => {{
    window.steps = [];
    new MutationObserver(() => window.steps.push({SHOWN}.map(one => one.length)))
        .observe(document.getElementById("live"), {{ childList: true, subtree: true }});
}}"""


def test_without_javascript_nothing_can_be_asked(browser, live_server, ring):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address(live_server, ring))
    expect(page.locator("noscript p")).to_be_visible()
    expect(page.locator("form.live-box")).to_be_hidden()
    expect(page.locator(".live-examples")).to_be_hidden()
    context.close()


def test_both_appear_in_step_and_a_key_shows_the_names(page, live_server, ring, slow):
    ask(page, live_server, ring)
    page.evaluate(WATCH)
    wait_for_words(page)
    steps = page.evaluate("window.steps")
    assert len(steps) > 10
    assert all(abs(left - right) <= 1 for left, right in steps)  # a space at the beginning
    assert steps[0] < steps[-1]
    candidates = list(ring.candidates.all())
    for one in candidates:
        assert one.name not in page.content()
    page.keyboard.press("ArrowLeft")  # too early
    vote(page, "ArrowRight")
    conversation = LiveConversation.objects.get()
    chosen = page.locator(".answer.chosen h2 strong")
    expect(chosen).to_have_text(str(conversation.right))
    other = page.locator(".answer:not(.chosen) h2 strong")
    expect(other).to_have_text(str(conversation.left))
    assert (Vote.objects.get().outcome, Vote.objects.get().uncounted) == ("right", None)
    page.keyboard.press("Enter")
    expect(page.locator("#question")).to_be_empty()


def test_three_questions_make_one_conversation(page, live_server, ring):
    ask(page, live_server, ring)
    for text in ("And the second one?", "Why?"):
        page.locator("#question").fill(text)
        page.keyboard.press("Enter")
        expect(page.locator(".live-question").last).to_have_text(text)
    vote(page, "t")
    expect(page.locator(".result", has_text="Tie between")).to_be_visible()
    assert Vote.objects.get().comparison.conversation.turns.count() == 3


def test_a_second_press_asks_once(page, live_server, ring):
    page.goto(address(live_server, ring))
    page.locator("#question").fill(QUESTION)
    page.get_by_role("button", name="Ask both").dblclick()
    expect(page.get_by_role("button", name="A is better")).to_be_visible()
    assert LiveConversation.objects.count() == 1


def test_an_example_is_there_to_be_changed(page, live_server, ring):
    page.goto(address(live_server, ring))
    page.get_by_role("link", name="Explain to my mother").press("Enter")
    question = page.locator("#question")
    expect(question).to_be_focused()
    expect(question).to_have_value(re.compile("^Explain to my mother what .*sentences.$"))


def expect_stopped(page):
    """Nothing to vote on; what was shown is there, and the same question is offered again."""
    notice = page.get_by_text("The answers were stopped, so there is nothing to vote on.")
    expect(notice).to_be_visible()
    expect(page.locator(".answer .prose").first).to_contain_text("Scripted")
    assert LiveConversation.objects.get().state == State.STOPPED
    page.keyboard.press("Enter")
    expect(page.locator("#question")).to_have_value(QUESTION)


def test_a_reload_ends_both_and_offers_the_question_again(page, live_server, ring, slow):
    ask(page, live_server, ring)
    wait_for_words(page)
    page.reload()
    expect_stopped(page)


def test_both_are_stopped(page, live_server, ring, slow):
    ask(page, live_server, ring)
    wait_for_words(page)
    page.get_by_text("Stop both").click()
    expect_stopped(page)


def test_offline_keeps_what_was_shown_and_online_brings_the_question_again(
    page, live_server, ring, slow
):
    ask(page, live_server, ring)
    wait_for_words(page)
    page.context.set_offline(True)  # Chromium tells the page, and cuts no stream
    expect(page.locator(".dock").get_by_text("The connection was lost.")).to_be_visible()
    page.wait_for_timeout(1500)
    assert page.evaluate(SHOWN)[0].startswith("Scripted")
    page.context.set_offline(False)
    expect_stopped(page)


def test_on_a_phone_with_a_slow_link_both_appear_and_a_tap_votes(
    phone, live_server, ring, monkeypatch
):
    monkeypatch.setattr("arena.calls.providers.scripted.SECONDS_PER_WORD", 0.1)
    page = phone
    page.goto(address(live_server, ring))
    link = {"offline": False, "latency": 1500, "downloadThroughput": -1, "uploadThroughput": -1}
    page.context.new_cdp_session(page).send("Network.emulateNetworkConditions", link)
    page.locator("#question").fill(QUESTION)
    press = page.get_by_role("button", name="Ask both").evaluate
    press("button => { button.click(); setTimeout(() => button.click(), 700); }")
    wait_for_words(page)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.get_by_role("button", name="B is better").wait_for()
    page.wait_for_timeout(READ)
    page.get_by_role("button", name="B is better").tap()
    expect(page.locator(".answer.chosen h2 strong")).to_be_visible()
    targets = page.locator("main :is(a, button, summary, .chip):visible")
    assert min(targets.evaluate_all("all => all.map(one => one.offsetHeight)")) >= 44
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert (Vote.objects.get().outcome, LiveConversation.objects.count()) == ("right", 1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(page, live_server, ring, monkeypatch, scheme):
    page.emulate_media(color_scheme=scheme)
    name = make_member(ring.team, role=Role.OWNER).user.username
    sign_in(page, live_server, name, reverse("manage_live", args=[ring.live_of.slug]))
    assert not axe_finds(page)
    page.goto(address(live_server, ring))
    assert not axe_finds(page)
    monkeypatch.setattr("arena.calls.providers.scripted.SECONDS_PER_WORD", 0.1)
    ask(page, live_server, ring)
    wait_for_words(page)
    assert not axe_finds(page)
    vote(page, "b")
    page.locator(".likely .chip").last.wait_for()
    page.wait_for_timeout(500)  # the names have faded in
    assert not axe_finds(page)


def axe_finds(page):
    return [violation["id"] for violation in Axe().run(page).response["violations"]]
