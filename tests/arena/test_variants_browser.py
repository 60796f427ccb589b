"""Teams start in a real browser: how many clicks that takes, with and without scripts."""

from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from arena.calls.prices import set_price
from arena.models import Arena, Candidate, Run
from tests.factories import PASSWORD, make_arena, make_member, make_paying_team, make_user
from tests.ranking.helpers import open_details, serious_violations, width_of

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.django_db(transaction=True)]
COUNT_CLICKS = """addEventListener("click", (event) => {
  if (event.isTrusted) {
    sessionStorage.setItem("clicks", Number(sessionStorage.getItem("clicks") || 0) + 1);
  }
}, true)"""


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here uses a broker."""
    monkeypatch.setattr("arena.tasks.wake_workers", lambda: 0)


@pytest.fixture
def arena(db: None) -> Arena:
    for name in ("small-1", "large-1"):
        set_price(endpoint="scripted", model=name, input_usd=1, output_usd=4, now=timezone.now())
    return make_arena(0, 12, team=make_paying_team(), name="Help answers")


def sign_in(page: Any, live_server: Any, name: str, path: str) -> None:
    page.goto(f"{live_server.url}/sign-in/?next={path}")
    page.get_by_label("User name").fill(name)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{live_server.url}{path}")


def clicks(page: Any) -> int:
    return int(page.evaluate("Number(sessionStorage.getItem('clicks') || 0)"))


@pytest.fixture
def desk(page: Any, live_server: Any, arena: Arena) -> Any:
    """The arena's overview, as a member of its team has just opened it."""
    assert arena.team is not None
    name = make_member(arena.team).user.username
    sign_in(page, live_server, name, reverse("manage_arena", args=[arena.slug]))
    page.context.add_init_script(COUNT_CLICKS)
    return page


def test_three_pasted_variants_take_four_clicks(desk: Any, arena: Arena) -> None:
    page = desk
    page.get_by_role("link", name="Add candidates").first.click()
    page.evaluate("sessionStorage.setItem('clicks', 1)")  # the link's page had no counter yet
    chosen = page.locator("#id_model")
    chosen.click()  # opens the list
    chosen.select_option("scripted:small-1")
    page.get_by_label("Paste several prompts").fill("Be kind.\n---\nBe brief.\n---\nBe formal.")
    page.get_by_role("button", name="Check and show the price").click()
    expect(page.locator("#offer")).to_contain_text("36 answers by small-1 (endpoint scripted)")
    page.get_by_role("button", name="Add 3 candidates and generate, about $").click()
    expect(page.get_by_role("heading", name="Answers are being generated")).to_be_visible()
    assert clicks(page) == 4
    assert Run.objects.of_answers().count() == 3
    assert arena.candidates.count() == 3


def test_rows_come_and_go_while_what_was_typed_stays(desk: Any, arena: Arena) -> None:
    page = desk
    page.get_by_role("link", name="Add candidates").first.click()
    assert not serious_violations(page)
    page.get_by_label("System prompt").nth(0).fill("Be kind.")
    page.get_by_label("System prompt").nth(1).fill("Be brief.")
    boxes = [page.locator(f"#variant-{number}").bounding_box() for number in (1, 2)]
    assert boxes[0]["y"] == boxes[1]["y"]
    page.evaluate("() => { window.samePage = true; }")
    page.get_by_role("button", name="Add another").click()
    expect(page.get_by_label("System prompt")).to_have_count(3)
    page.keyboard.type("third")
    expect(page.get_by_label("Name", exact=True).nth(2)).to_have_value("third")
    page.get_by_role("button", name="Remove Variant 1").click()
    expect(page.get_by_label("System prompt")).to_have_count(2)
    expect(page.get_by_label("System prompt").nth(0)).to_have_value("Be brief.")
    assert page.evaluate("window.samePage")
    page.locator("#id_model").select_option("scripted:small-1")
    page.get_by_role("button", name="Check and show the price").click()
    expect(page.get_by_role("button", name="Add 2 candidates only")).to_be_visible()
    assert not serious_violations(page)
    page.set_viewport_size({"width": 390, "height": 844})
    open_details(page)
    assert width_of(page) == 390
    first, second = (page.locator(f"#variant-{number}").bounding_box() for number in (1, 2))
    assert first["x"] == second["x"]
    page.get_by_role("button", name="Add 2 candidates only").click()
    expect(page.get_by_text("2 candidates added: Variant 2, third.")).to_be_visible()
    page.get_by_role("link", name="Duplicate third").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("third 2")


def test_leaving_asks_only_if_something_was_typed(desk: Any) -> None:
    page, asked = desk, list[str]()
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.accept()))
    back = page.url
    for typed, expected in (("", []), ("Be kind.", ["beforeunload"])):
        page.get_by_role("link", name="Add candidates").first.click()
        page.get_by_role("button", name="Add another").focus()
        if typed:
            page.get_by_role("button", name="Add another").click()
            expect(page.get_by_label("System prompt")).to_have_count(3)
            page.get_by_label("System prompt").nth(2).fill(typed)
        else:
            page.get_by_role("heading", name="Add candidates").click()
        page.goto(back)
        assert asked == expected
    page.get_by_role("link", name="Add candidates").first.click()
    page.get_by_label("System prompt").nth(0).fill("Be kind.")
    page.get_by_role("button", name="Check and show the price").click()
    expect(page.locator("#offer")).to_contain_text("Choose a model.")
    assert asked == ["beforeunload"]


def test_the_form_works_without_scripts(browser: Any, live_server: Any, arena: Arena) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    assert arena.team is not None
    path = reverse("new_candidate", args=[arena.slug])
    sign_in(page, live_server, make_member(arena.team).user.username, path)
    page.get_by_label("System prompt").nth(0).fill("Be kind.")
    page.get_by_role("button", name="Add another").click()
    expect(page.get_by_label("System prompt")).to_have_count(3)
    page.locator("#id_model").select_option("scripted:large-1")
    page.get_by_label("Name", exact=True).nth(0).press("Enter")
    page.get_by_role("button", name="Add 1 candidate and generate").click()
    expect(page.get_by_text("0 of 12").first).to_be_visible()
    assert Candidate.objects.get().system_prompt == "Be kind."
    context.close()


def test_from_the_home_page_to_generated_answers(page: Any, live_server: Any, db: None) -> None:
    name = make_user("nora").username
    page.context.add_init_script(COUNT_CLICKS)
    page.goto(live_server.url)
    page.get_by_role("link", name="Compare two prompts").click()
    page.get_by_label("User name").fill(name)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Compare two prompts")).to_be_visible()
    assert not serious_violations(page)
    page.get_by_label("Name of the arena").fill("Refunds")
    page.get_by_role("textbox", name="Questions").fill("Can I get a refund?\nWhen?")
    page.get_by_label("System prompt").nth(0).fill("Be kind.")
    page.get_by_label("System prompt").nth(1).fill("Be brief.")
    page.get_by_role("button", name="Check and show the price").click()
    page.get_by_role("button", name="Create the arena with 2 candidates and generate").click()
    expect(page.get_by_role("heading", name="Answers are being generated")).to_be_visible()
    assert clicks(page) == 4
    assert Run.objects.of_answers().count() == 2
    page.goto(f"{live_server.url}/import/")
    assert not serious_violations(page)
    page.set_viewport_size({"width": 390, "height": 844})
    for path in ("/import/", "/compare-prompts/"):
        page.goto(live_server.url + path)
        open_details(page)
        assert width_of(page) == 390
