"""Voting in a real browser: keys, touch, double clicks, without JavaScript, and for everybody."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.core import signing
from django.urls import reverse
from playwright.sync_api import expect

from arena.models import Arena, Comparison, Rater, Reason, Response, Vote
from tests.arena.test_conversations import PAYLOADS
from tests.factories import make_arena, make_person, rewrite_answers

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.django_db(transaction=True)]
PAIR = "#ballot .pair"
READ = 1150  # ms: a press on these short answers is questioned before that


@pytest.fixture
def long_arena():
    return make_arena(3, 8)


@pytest.fixture(autouse=True)
def known_browser(page, live_server):
    """The browser of a rater, so that its next pair is fetched ahead."""
    page.context.add_cookies([cookie_of_rater(live_server)])


def cookie_of_rater(live_server):
    signed = signing.get_cookie_signer(salt="rater").sign(f"{make_person().pk}-")
    return {"name": "rater", "value": signed, "url": live_server.url}


@pytest.fixture
def open_vote_page(page, live_server, long_arena):
    """The voting page of a rater who continues at once, when its next pair is loaded."""
    page.add_init_script("localStorage.setItem('vote-at-once', 'on')")
    yield from visit(page, live_server, long_arena)


@pytest.fixture
def calm_vote_page(page, live_server, long_arena):
    """The voting page as it is at first: the pair stays when the names appear."""
    yield from visit(page, live_server, long_arena)


def visit(page, live_server, long_arena):
    failed = []
    page.on("requestfailed", lambda request: failed.append(f"{request.url}: {request.failure}"))
    page.on("console", lambda message: message.type == "error" and failed.append(message.text))
    page.goto(live_server.url + reverse("vote", args=[long_arena.slug]))
    page.wait_for_timeout(READ)
    yield page
    assert not failed


def wait_for_ahead(page):
    page.locator("#ahead .pair").wait_for(state="attached")
    page.wait_for_timeout(READ)


def key_on_screen(page):
    return page.locator(PAIR).get_attribute("data-key")


def press(page, key, read=READ):
    """Press a key, and wait until the vote is saved and another pair is shown."""
    before = key_on_screen(page)
    page.wait_for_timeout(read)
    page.keyboard.press(key)
    page.locator(f'#ballot .pair:not([data-key="{before}"])').wait_for()


def test_ten_votes_by_keyboard_alone(open_vote_page):
    page = open_vote_page
    for key in ["ArrowLeft", "ArrowRight", "t", "b", "ArrowLeft"] * 2:
        press(page, key)
    expect(page.locator("#round")).to_contain_text("10 of 10")
    outcomes = list(Vote.objects.order_by("pk").values_list("outcome", flat=True))
    assert outcomes == ["left", "right", "tie", "both_bad", "left"] * 2


def test_the_names_are_shown_after_the_vote_and_never_before(open_vote_page):
    page = open_vote_page
    assert "candidate-" not in page.content()
    comparison = Comparison.objects.get(key=key_on_screen(page))
    press(page, "ArrowLeft")
    page.locator("#after").get_by_text("You chose").wait_for()
    after = page.locator("#after").inner_text()
    assert f"You chose {comparison.left} over {comparison.right}." in after


def test_the_next_pair_is_the_one_fetched_ahead(open_vote_page):
    page = open_vote_page
    ahead = page.locator("#ahead .pair").get_attribute("data-key")
    press(page, "t")
    assert key_on_screen(page) == ahead


ANSWER_AT_ONCE = """
() => {
  const seen = new MutationObserver(() => {
    seen.disconnect();
    const tie = document.querySelector('#ballot button[data-key="t"]');
    tie.click();
    tie.click();  // the first press is questioned
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
    expect(page.locator("#round")).to_contain_text("2 of 10")
    assert page.evaluate("() => window.samePage")


def test_the_pair_stays_when_the_names_appear_and_enter_continues(calm_vote_page):
    page = calm_vote_page
    comparison = Comparison.objects.get(key=key_on_screen(page))
    ahead = page.locator("#ahead .pair").get_attribute("data-key")
    page.keyboard.press("ArrowRight")
    heading = page.locator(f"{PAIR} .answer.chosen h2 strong")
    expect(heading).to_have_text(str(comparison.right))
    other = page.locator(f"{PAIR} .answer:not(.chosen) h2 strong")
    expect(other).to_have_text(str(comparison.left))
    expect(page.locator("#after")).to_contain_text(f"You chose {comparison.right}")
    assert key_on_screen(page) == str(comparison.key)
    expect(page.get_by_role("button", name="A is better")).to_be_hidden()
    page.keyboard.press("Enter")
    page.locator(f'#ballot .pair[data-key="{ahead}"]').wait_for()
    expect(page.get_by_role("button", name="A is better")).to_be_visible()
    expect(page.locator("#after")).to_be_empty()
    assert Vote.objects.count() == 1


def test_on_a_slow_link_the_next_pair_is_there_at_once(open_vote_page):
    page = open_vote_page
    before = key_on_screen(page)
    # As fetched by the page: held back for as long as a poor link takes.
    page.evaluate("""() => {
        const send = XMLHttpRequest.prototype.send;
        const late = function (body) { setTimeout(() => send.call(this, body), 1500); };
        XMLHttpRequest.prototype.send = late;
    }""")
    page.evaluate(
        """before => {
        window.waited = new Promise((resolve) => {
            const start = performance.now();
            new MutationObserver((_, observer) => {
                if (document.querySelector("#ballot .pair")?.dataset.key === before) return;
                observer.disconnect();
                resolve(performance.now() - start);
            }).observe(document.getElementById("ballot"), { childList: true });
            document.querySelector('#ballot button[data-key="t"]').click();
        });
    }""",
        before,
    )
    assert page.evaluate("() => window.waited") < 100
    assert not Vote.objects.exists()
    page.locator("#after").get_by_text("Tie between").wait_for()
    wait_for_ahead(page)  # not the pair whose vote was on its way
    ahead = page.locator("#ahead .pair").get_attribute("data-key")
    assert len({before, key_on_screen(page), ahead}) == 3


@pytest.mark.parametrize("setting", ["on", "off"])
def test_a_failed_vote_comes_back_with_its_pair(page, live_server, long_arena, setting):
    page.add_init_script(f"localStorage.setItem('vote-at-once', '{setting}')")
    page.goto(live_server.url + reverse("vote", args=[long_arena.slug]))
    wait_for_ahead(page)
    before, ahead = key_on_screen(page), page.locator("#ahead .pair").get_attribute("data-key")
    page.route(f"**/vote/{before}/", lambda route: route.abort())
    page.keyboard.press("ArrowLeft")
    page.locator("#after").get_by_text("your vote may be lost").wait_for()
    assert key_on_screen(page) == before
    assert page.locator("#ahead .pair").get_attribute("data-key") == ahead
    page.unroute(f"**/vote/{before}/")
    page.wait_for_timeout(READ)
    page.keyboard.press("ArrowRight")
    page.locator("#after").get_by_text("You chose").wait_for()
    assert Vote.objects.get().outcome == "right"


def test_without_a_pair_there_is_nothing_to_compare(page, live_server):
    page.goto(live_server.url + reverse("vote", args=[make_arena(2, 1).slug]))
    differences = page.get_by_role("button", name="Differences")
    expect(differences).to_be_visible()
    page.keyboard.press("s")
    expect(page.get_by_role("heading", name="All done")).to_be_visible()
    expect(differences).to_be_hidden()


def test_the_last_ten_votes_are_one_key_away(open_vote_page):
    page = open_vote_page
    for key in ["ArrowLeft", "t"] * 6:
        press(page, key)
    page.locator("#after").get_by_text("Tie between").wait_for()
    page.keyboard.press("h")
    links = page.locator("#recent-list a")
    expect(links).to_have_count(10)
    page.keyboard.press("t")  # the ballot beneath is not voted on
    assert Vote.objects.count() == 12
    links.first.click()
    expect(page.get_by_role("heading", name="Prompt")).to_be_visible()


@pytest.fixture
def wordy(long_arena):
    """Answers that take 1.5 s to read as the server sees it, and 3 s as the page does."""
    rewrite_answers("word " * 1000)


def test_a_press_too_soon_is_questioned_and_counts_on_the_second(wordy, open_vote_page):
    page = open_vote_page
    press(page, "t", read=3100)
    page.wait_for_timeout(1600)
    page.keyboard.press("ArrowLeft")
    page.locator("#after").get_by_text("That was fast. Press again").wait_for()
    assert Vote.objects.count() == 1
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#round")).to_contain_text("2 of 10")
    last = Vote.objects.latest("pk")
    assert (last.outcome, last.rushed) == ("left", False)
    assert 1.5 < last.seconds < 60


MASH_KEYS = """
() => new Promise((resolve) => {
  let presses = 0;
  const timer = setInterval(() => {
    const pressed = { key: "ArrowLeft", bubbles: true, cancelable: true };
    const event = new KeyboardEvent("keydown", pressed);
    document.activeElement.dispatchEvent(event);
    if (++presses < 76) return;
    clearInterval(timer);
    resolve();
  }, 110);
})
"""


def test_blind_key_mashing_changes_no_board(wordy, open_vote_page, long_arena):
    page = open_vote_page
    press(page, "t", read=3100)
    page.evaluate(MASH_KEYS)
    mashed = Vote.objects.filter(arena=long_arena, outcome="left")
    assert mashed.count() >= 2
    assert set(mashed.values_list("uncounted", flat=True)) == {"rushed"}
    assert Vote.objects.live().count() == 1


def test_undo_by_key_voids_the_vote(open_vote_page):
    page = open_vote_page
    press(page, "ArrowLeft")
    page.locator("#after").get_by_text("You chose").wait_for()
    page.keyboard.press("u")
    page.locator("#after").get_by_text("Vote withdrawn").wait_for()
    expect(page.locator("#round")).to_contain_text("0 of 10")
    assert Vote.objects.get().voided_at


def test_a_withdrawn_vote_has_no_reasons(calm_vote_page):
    page = calm_vote_page
    page.keyboard.press("ArrowRight")
    page.locator(".reasons").wait_for()
    page.keyboard.press("u")
    page.locator("#after").get_by_text("Vote withdrawn").wait_for()
    expect(page.locator(".reasons, .answer.chosen")).to_have_count(0)


def test_a_skip_leaves_no_vote(open_vote_page):
    press(open_vote_page, "s")
    open_vote_page.locator("#after").get_by_text("Skipped. No vote recorded.").wait_for()
    assert not Vote.objects.exists()
    assert Comparison.objects.filter(skipped_at__isnull=False).count() == 1


def test_keys_can_be_switched_off(open_vote_page):
    page = open_vote_page
    page.locator(".settings summary").click()
    page.get_by_label("Use keyboard shortcuts").uncheck()
    page.keyboard.press("t")
    page.wait_for_timeout(300)
    assert not Vote.objects.exists()


def test_a_double_click_is_one_vote_on_one_pair(open_vote_page):
    page = open_vote_page
    page.get_by_role("button", name="Tie").dblclick()
    expect(page.locator("#round")).to_contain_text("1 of 10")
    page.wait_for_timeout(300)
    assert Vote.objects.count() == 1


def test_the_second_tap_of_a_double_tap_withdraws_nothing(phone, live_server, long_arena):
    page = phone
    page.goto(live_server.url + reverse("vote", args=[long_arena.slug]))
    wait_for_ahead(page)
    tie = page.get_by_role("button", name="Tie").bounding_box()
    page.touchscreen.tap(tie["x"] + 30, tie["y"] + 22)
    withdraw = page.get_by_role("button", name="Withdraw")
    withdraw.wait_for()
    page.wait_for_timeout(100)
    page.touchscreen.tap(tie["x"] + 30, tie["y"] + 22)
    page.wait_for_timeout(500)
    assert Vote.objects.live().count() == 1
    withdraw.tap()  # as soon as it takes one
    page.locator("#after").get_by_text("Vote withdrawn").wait_for()
    assert not Vote.objects.live().exists()


def test_facts_about_a_vote_that_is_withdrawn_are_no_failure(page, live_server, long_arena):
    page.goto(live_server.url + reverse("vote", args=[long_arena.slug]))
    wait_for_ahead(page)
    page.route("**/facts/", lambda route: route.fulfill(status=404))
    with page.expect_response("**/facts/"):
        page.keyboard.press("t")
    page.wait_for_timeout(100)
    expect(page.locator("#after")).to_contain_text("Tie between")
    expect(page.locator("#after")).not_to_contain_text("Something went wrong")


def test_the_pair_on_the_home_page_makes_a_rater_of_its_voter(page, live_server, long_arena):
    page.context.clear_cookies()
    before = Rater.objects.count()
    page.goto(live_server.url)
    page.locator(".try-pair form").wait_for()
    assert Rater.objects.count() == before
    page.wait_for_timeout(READ)
    page.get_by_role("button", name="A is better").dblclick()
    page.wait_for_url("**/vote/?after=*")
    expect(page.locator("#after")).to_contain_text("You chose")
    names = [str(candidate) for candidate in long_arena.candidates.all()]
    assert page.locator(f"{PAIR} .answer.chosen h2 strong").inner_text() in names
    assert Vote.objects.get().uncounted is None
    assert Rater.objects.count() == before + 1
    page.get_by_role("link", name="Next pair").click()
    expect(page.get_by_role("button", name="A is better")).to_be_visible()


def test_whoever_only_looks_becomes_a_rater_by_voting(page, live_server, long_arena):
    page.context.clear_cookies()
    before = Rater.objects.count()
    page.goto(live_server.url + reverse("vote", args=[long_arena.slug]))
    page.wait_for_timeout(READ)
    assert (Rater.objects.count(), Comparison.objects.count()) == (before, 0)
    first = key_on_screen(page)
    page.keyboard.press("ArrowLeft")
    page.locator(f"{PAIR} h2 strong").first.wait_for()
    wait_for_ahead(page)
    page.keyboard.press("Enter")
    page.locator(f'#ballot .pair:not([data-key="{first}"])').wait_for()
    assert Rater.objects.count() == before + 1


def test_without_javascript_every_button_works(browser, live_server, long_arena):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(live_server.url + reverse("vote", args=[long_arena.slug]))
    for _ in range(2):
        page.get_by_role("button", name="A is better").click()
        assert "You chose" in page.locator("#after").inner_text()
        page.get_by_role("link", name="Next pair").click()
    page.get_by_role("button", name="Tie").click()
    page.get_by_role("button", name="Withdraw").click()
    assert "Vote withdrawn" in page.locator("#after").inner_text()
    context.close()
    assert Vote.objects.filter(voided_at=None).count() == 2


@pytest.fixture
def phone(browser, live_server):
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True
    )
    context.add_cookies([cookie_of_rater(live_server)])
    yield context.new_page()
    context.close()


def test_on_a_phone_nothing_overflows_and_a_tap_votes(phone, live_server, long_arena):
    page = phone
    page.goto(live_server.url + reverse("vote", args=[long_arena.slug]))
    wait_for_ahead(page)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.get_by_role("button", name="B is better").tap()
    page.locator("#after").get_by_text("You chose").wait_for()
    page.locator(".likely .chip").last.wait_for()  # the reasons widen nothing, hide no button
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.locator(".reasons .chip").first.tap()
    page.get_by_text("Saved. Thank you.").wait_for()
    page.get_by_role("link", name="Next pair").tap()
    expect(page.get_by_role("button", name="B is better")).to_be_visible()
    assert Vote.objects.get().outcome == "right"
    assert Reason.objects.count() == 1


def test_a_reason_chosen_as_soon_as_it_appears_is_saved(page, live_server, long_arena):
    page.add_init_script("""addEventListener("DOMContentLoaded", () => {
        new MutationObserver((_, observer) => {
            const reason = document.querySelector(".reasons input");
            if (!reason) return;
            observer.disconnect();
            reason.checked = true;
            reason.dispatchEvent(new Event("change", { bubbles: true }));
        }).observe(document.getElementById("after"), { childList: true, subtree: true });
    })""")
    page.goto(live_server.url + reverse("vote", args=[long_arena.slug]))
    wait_for_ahead(page)
    page.keyboard.press("ArrowLeft")
    page.get_by_text("Saved. Thank you.").wait_for()


def test_differences_are_offered_where_answers_have_much_in_common(page, live_server):
    arena = make_arena(2, 2)
    arena.candidates.first().responses.update(text="Nothing that the other one says.")
    page.goto(live_server.url + reverse("vote", args=[arena.slug]))
    page.wait_for_timeout(READ)
    expect(page.get_by_role("button", name="Differences")).to_be_hidden()


def test_words_that_differ_are_highlighted_on_request(open_vote_page):
    page = open_vote_page
    marked = """() => [...(CSS.highlights.get("differs") ?? [])].map(String)"""
    assert page.evaluate(marked) == []
    page.keyboard.press("d")
    comparison = Comparison.objects.with_texts().get(key=key_on_screen(page))
    texts = [comparison.left_response.text, comparison.right_response.text]
    assert page.evaluate(marked) == [text.split()[1] for text in texts]  # "Answer 0-1 of somebody."
    press(page, "t")
    assert len(page.evaluate(marked)) == 2  # and in the pairs that follow
    page.keyboard.press("d")
    assert page.evaluate(marked) == []


def test_long_lines_of_code_and_formulas_scroll_in_frames_that_the_keyboard_reaches(
    page, live_server
):
    arena = make_arena(2, 1)
    text = f"```python\nx = '{'long ' * 60}'\n```\n\n$${'x + ' * 60} y$$"
    Response.objects.filter(candidate__name="candidate-0").update(text=text)
    page.goto(live_server.url + reverse("vote", args=[arena.slug]))
    assert not Axe().run(page).response["violations"]


LONG = "Long.\n\n" * 60


def test_on_a_phone_short_answers_are_read_without_a_tap(phone, live_server, long_arena):
    phone.goto(live_server.url + reverse("vote", args=[long_arena.slug]))
    for answer in phone.locator(f"{PAIR} .answer > .prose").all():
        expect(answer).to_be_in_viewport(ratio=1)
    expect(phone.locator(f"{PAIR} .tabs")).to_be_hidden()


def test_on_a_phone_long_answers_have_tabs_of_their_own_height(phone, live_server):
    arena = make_arena(2, 1)
    Response.objects.filter(candidate__name="candidate-0").update(text=LONG)
    phone.goto(live_server.url + reverse("vote", args=[arena.slug]))
    current = phone.locator(f'{PAIR} .tabs [aria-current="true"]')
    expect(current).to_have_text("Answer A")
    heights = []
    for n in range(2):
        phone.locator(f"{PAIR} .tabs a").nth(n).tap()
        heights.append(phone.locator(f"{PAIR} .answer:visible").bounding_box()["height"])
    expect(current).to_have_text("Answer B")
    assert min(heights) < 200 < 1000 < max(heights)


def test_on_a_phone_the_chosen_answer_is_on_the_screen_after_the_vote(phone, live_server):
    arena = make_arena(2, 2)
    rewrite_answers(LONG)
    phone.goto(live_server.url + reverse("vote", args=[arena.slug]))
    phone.wait_for_timeout(3100)  # longer answers are questioned for longer
    phone.get_by_role("button", name="B is better").tap()
    chosen = phone.locator(f"{PAIR} .answer.chosen h2 strong")
    expect(chosen).to_be_in_viewport()
    expect(phone.locator(f'{PAIR} .tabs [aria-current="true"]')).to_have_text(chosen.inner_text())


def test_a_short_answer_is_seen_from_far_down_a_long_one(phone, live_server):
    arena = make_arena(2, 1)
    Response.objects.filter(candidate__name="candidate-0").update(text=LONG)
    phone.goto(live_server.url + reverse("vote", args=[arena.slug]))
    long_one = phone.locator(f"{PAIR} .tabs a").first
    if phone.locator(f"{PAIR} .answer:visible").bounding_box()["height"] < 500:
        long_one = phone.locator(f"{PAIR} .tabs a").last
        long_one.tap()
    phone.evaluate("window.scrollTo({ top: 1200 })")
    phone.locator(f"{PAIR} .tabs a:not([aria-current])").tap()
    expect(phone.locator(f"{PAIR} .answer:visible > .prose")).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize(("sides", "height"), [((390, 844), 105), ((1280, 800), 56)])
def test_the_bar_stays_where_it_is_and_next_is_under_the_thumb(phone, live_server, sides, height):
    phone.set_viewport_size({"width": sides[0], "height": sides[1]})
    arena = make_arena(4, 6)
    places = set()
    for n, response in enumerate(Response.objects.filter(candidate__arena=arena)):
        response.text = "Word. " * (3 + 40 * (n % 7))
        response.html = None
        response.save()
    phone.goto(live_server.url + reverse("vote", args=[arena.slug]))
    for value in ("left", "right", "tie", "both_bad", "left"):
        phone.wait_for_timeout(3100)
        bar = phone.locator(f"{PAIR} .choices")
        places.add((bar.bounding_box()["y"], bar.bounding_box()["height"]))
        button = phone.locator(f"{PAIR} [value={value}]")
        middle = button.bounding_box()["x"] + button.bounding_box()["width"] / 2
        button.click()
        phone.locator(f"{PAIR} h2 strong:visible").first.wait_for()
        places.add((phone.locator(".dock").bounding_box()["y"], height))
        following = phone.get_by_role("link", name="Next pair")
        box = following.bounding_box()
        if value in ("left", "right"):
            assert box["x"] <= middle <= box["x"] + box["width"]
        following.click()
    assert places == {(sides[1] - height, height)}


def test_a_long_prompt_takes_its_place_before_the_scripts_run(phone, live_server):
    arena = make_arena(2, 1)
    arena.prompts.update(text="Why is that so? " * 60)
    heights = []
    for pattern in ("**/reading*.js", "**/none"):
        phone.unroute_all()
        phone.route(pattern, lambda route: route.abort())
        phone.goto(live_server.url + reverse("vote", args=[arena.slug]))
        heights.append(phone.locator(f"{PAIR} .prompt").evaluate("prompt => prompt.offsetHeight"))
    assert heights[0] == heights[1]


def test_a_prompt_is_folded_only_if_that_saves_room(phone, live_server):
    arena = make_arena(2, 1)
    heights = []
    for times in range(12, 33, 4):  # four to ten lines
        arena.prompts.update(text="Why is it? " * times, html=None)
        phone.goto(live_server.url + reverse("vote", args=[arena.slug]))
        prompt = phone.locator(f"{PAIR} .prompt")
        height = prompt.evaluate("prompt => prompt.offsetHeight")
        if (button := prompt.get_by_role("button")).is_visible():
            button.tap()
            assert prompt.evaluate("prompt => prompt.offsetHeight") > height
            assert times > 16  # six lines are shown whole
        heights.append(height)
    assert heights == sorted(heights)
    assert heights[0] < heights[-1]


@pytest.mark.parametrize("sides", [(390, 844), (844, 390), (1366, 768)])
def test_a_vote_does_not_move_the_answers(phone, live_server, sides):
    width, height = sides
    phone.set_viewport_size({"width": width, "height": height})
    arena = make_arena(2, 2)
    rewrite_answers("Long.\n\n" * 14 if width > 390 else "Long.\n\n" * 9)
    phone.goto(live_server.url + reverse("vote", args=[arena.slug]))
    wait_for_ahead(phone)
    phone.locator(f"{PAIR} form.choices [value=skip]").evaluate("button => button.click()")
    phone.locator("#after").get_by_text("Skipped.").wait_for()
    phone.wait_for_timeout(READ)
    phone.evaluate("window.scrollTo({ top: 9999 })")
    place = phone.locator(f"{PAIR} .answer").first.bounding_box()
    phone.locator(f"{PAIR} form.choices [value=left]").evaluate("button => button.click()")
    phone.locator(".likely .chip").last.wait_for()
    assert phone.evaluate("scrollY") > 0
    assert phone.locator(f"{PAIR} .answer").first.bounding_box()["y"] == place["y"]


def test_on_a_phone_every_target_is_as_high_as_a_thumb(phone, live_server, long_arena):
    long_arena.prompts.update(text="Why is that so? " * 60)
    Arena.objects.update(guide="Prefer **short** answers.")
    phone.goto(live_server.url + reverse("vote", args=[long_arena.slug]))
    wait_for_ahead(phone)
    for chosen in (False, True):
        if chosen:
            phone.get_by_role("button", name="B is better").tap()
            phone.locator(".likely .chip").last.wait_for()
        targets = phone.locator("main :is(a, button, summary, .chip):visible")
        assert min(targets.evaluate_all("all => all.map(one => one.offsetHeight)")) >= 44


def test_the_guide_is_one_line_that_opens_over_the_pair(calm_vote_page, long_arena):
    page = calm_vote_page
    long_arena.guide = "Prefer **short** answers.\n\nFacts come first."
    long_arena.save()
    page.reload()
    place = page.locator(PAIR).bounding_box()["y"]
    assert place < 100
    page.get_by_text("More", exact=True).click()
    expect(page.get_by_text("Facts come first.")).to_be_visible()
    assert page.locator(PAIR).bounding_box()["y"] == place


@pytest.mark.parametrize("sides", [(390, 844), (844, 390)])
def test_on_a_phone_with_large_text_nothing_overflows(phone, live_server, long_arena, sides):
    width, height = sides
    phone.set_viewport_size({"width": width, "height": height})
    sizes = {"standard": 32, "fixed": 26}
    phone.context.new_cdp_session(phone).send("Page.setFontSizes", {"fontSizes": sizes})
    phone.goto(live_server.url + reverse("vote", args=[long_arena.slug]))
    wait_for_ahead(phone)
    assert phone.evaluate("document.documentElement.scrollWidth") == width
    phone.locator(f"{PAIR} form.choices [value=left]").evaluate("button => button.click()")
    phone.locator(".likely .chip").last.wait_for()
    assert phone.evaluate("document.documentElement.scrollWidth") == width
    assert phone.locator(".dock").bounding_box()["height"] < 0.65 * height
    expect(phone.get_by_role("link", name="Next pair")).to_be_in_viewport(ratio=0.9)


def test_a_folded_conversation_shows_its_last_question(phone, live_server):
    arena = make_arena(2, 1)
    asked = [{"role": "user", "content": "One. " * 60}, {"role": "assistant", "content": "Which?"}]
    arena.prompts.update(messages=[*asked, {"role": "user", "content": "The last question?"}])
    phone.goto(live_server.url + reverse("vote", args=[arena.slug]))
    question = phone.locator(f"{PAIR} .prompt").get_by_text("The last question?")
    expect(question).to_be_in_viewport(ratio=1)
    expect(phone.locator(f"{PAIR} .prompt").get_by_text("One. One.")).to_be_hidden()
    phone.get_by_role("button", name="Show the whole prompt").tap()
    expect(phone.locator(f"{PAIR} .prompt").get_by_text("One. One.")).to_be_visible()
    short = [asked[1], {"role": "user", "content": "Why?"}]
    arena.prompts.update(messages=short, html=None)
    phone.reload()
    expect(phone.locator(f"{PAIR} .prompt").get_by_text("Which?")).to_be_visible()
    expect(phone.get_by_role("button", name="Show the whole prompt")).to_be_hidden()


def test_nothing_in_the_output_of_a_tool_runs(page, live_server):
    arena = make_arena(2, 1)
    asked, steps = [], []
    for payload in PAYLOADS:
        call = {"type": "function", "function": {"name": payload, "arguments": payload}}
        asked += [{"role": "user", "content": payload}, {"role": "assistant", "content": payload}]
        steps += [
            {"role": "assistant", "content": payload, "tool_calls": [call]},
            {"role": "tool", "content": payload, "name": payload},
            {"role": "assistant", "content": payload},
        ]
    arena.prompts.update(messages=[*asked, {"role": "user", "content": "Which?"}])
    Response.objects.filter(candidate__arena=arena).update(messages=steps)
    ran = []
    page.on("dialog", lambda dialog: (ran.append(dialog.message), dialog.dismiss()))
    page.add_init_script(
        "window.reports = [];"
        "addEventListener('securitypolicyviolation', told => reports.push(told.violatedDirective))"
    )
    page.goto(live_server.url + reverse("vote", args=[arena.slug]))
    opened = "all => all.map(one => one.open = true).length"
    assert page.locator(f"{PAIR} details").evaluate_all(opened) == 4 * len(PAYLOADS)
    expect(page.locator(f"{PAIR} details pre").last).to_be_visible()
    inside = page.locator(f"{PAIR} .prose")
    assert inside.locator("script, img, svg, iframe, style, [onerror], [ontoggle]").count() == 0
    for link in inside.locator("a").all():
        link.click(force=True, no_wait_after=True)
    assert (ran, page.evaluate("reports")) == ([], [])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(page, live_server, long_arena, scheme):
    page.emulate_media(color_scheme=scheme)
    page.goto(live_server.url + reverse("vote", args=[long_arena.slug]))
    wait_for_ahead(page)
    page.keyboard.press("t")
    page.locator(".likely .chip").first.wait_for()
    for name in page.locator(".answer .named").all():
        expect(name).to_have_css("opacity", "1")  # it has flown in
    assert not axe_finds(page)
    page.locator(".reasons summary").click()
    assert not axe_finds(page)
    page.get_by_role("link", name="Next pair").click()
    page.keyboard.press("h")
    page.locator("#recent-list a").wait_for()
    assert not axe_finds(page)


def axe_finds(page):
    return [violation["id"] for violation in Axe().run(page).response["violations"]]


def test_a_thought_opens_by_keyboard_and_casts_no_vote(page, live_server, long_arena):
    rewrite_answers("<think>Let me see.</think>\n\nIt is **four**.")
    page.goto(live_server.url + reverse("vote", args=[long_arena.slug]))
    summaries = page.locator(f"{PAIR} .thought > summary")
    expect(summaries).to_have_count(2)
    expect(page.locator(f"{PAIR} .thought pre").first).to_be_hidden()
    page.wait_for_timeout(READ)
    summaries.first.focus()
    page.keyboard.press("Enter")
    expect(page.locator(f"{PAIR} .thought pre").first).to_be_visible()
    page.keyboard.press("Space")
    expect(page.locator(f"{PAIR} .thought pre").first).to_be_hidden()
    assert not Vote.objects.exists()
    expect(page.locator(f"{PAIR} [data-words]").first).to_have_text("3 words")
    summaries.first.click()
    assert not Axe().run(page).response["violations"]
