"""An operator's first day in a real browser: from the sign-in to a judge run."""

from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import expect

from arena.calls.models import ModelEndpoint, Price
from arena.models import Run
from tests.factories import PASSWORD, make_arena, make_user
from tests.judges.fake_server import MODEL, FakeServer, better_is, completion
from tests.judges.helpers import work_off

pytestmark = [
    pytest.mark.any_database,
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
]
KEY = "sk-canary-of-an-operator-7f2a"


def test_from_the_first_sign_in_to_the_first_judge_run(
    page: Any, live_server: Any, server: FakeServer, no_worker: None
) -> None:
    make_user("root", is_staff=True)
    make_arena(2, 2, slug="sample")
    page.set_viewport_size({"width": 1280, "height": 800})
    server.otherwise = lambda body: completion("Paris")
    page.goto(live_server.url + reverse("sign_in"))
    page.get_by_label("Email address or user name").or_(page.locator("[name=login]")).fill("root")
    page.locator("[name=password]").fill(PASSWORD)
    page.locator("main").get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="Add a model").click()
    page.get_by_label("Address").fill(server.base_url)
    page.get_by_label("Key").fill(KEY)
    page.get_by_role("button", name="Save and test").click()
    expect(page.get_by_text("1 model found at this address.")).to_be_visible()
    page.get_by_role("link", name=MODEL).click()
    expect(page.get_by_label("Model", exact=True)).to_have_value(MODEL)
    page.locator("#new").get_by_label("$ per million tokens in").fill("0.9")
    page.locator("#new").get_by_label("out", exact=True).fill("3.6")
    page.get_by_role("button", name="Save and test").click()
    expect(page.get_by_text(f"{MODEL} works. “Paris”")).to_be_visible()
    page.get_by_role("link", name="Models").first.click()
    page.get_by_role("link", name="Get a quote").click()
    page.get_by_role("button", name="Get a quote").click()
    expect(page.get_by_role("heading", name="Quote")).to_be_visible()
    page.get_by_label("Spending cap in dollars").fill("1")
    page.get_by_role("button", name="Start this run").click()
    page.wait_for_url("**/runs/*/#main")
    server.otherwise = better_is("A")
    work_off(Run.objects.latest("pk"))
    page.goto(live_server.url + reverse("operators"))
    expect(page.get_by_role("heading", name="This site judges")).to_be_visible()
    assert KEY not in page.content()


def test_a_known_model_fills_in_its_price(page: Any, live_server: Any, server: FakeServer) -> None:
    server.otherwise = lambda body: completion("Paris")
    page.set_viewport_size({"width": 390, "height": 844})
    make_user("root", is_staff=True)
    page.goto(f"{live_server.url}{reverse('sign_in')}?next={reverse('operators_models')}")
    page.locator("[name=login]").fill("root")
    page.locator("[name=password]").fill(PASSWORD)
    page.locator("main").get_by_role("button", name="Sign in").click()
    page.get_by_label("Address").fill(server.base_url)
    page.get_by_label("Key").fill(KEY)
    page.get_by_label("Model", exact=True).fill("gpt-4.1-mini-2025-04-14")
    expect(page.get_by_label("$ per million tokens in")).to_have_value("0.40")
    expect(page.get_by_text("Price as of 2025-04-14. Check it.")).to_be_visible()
    page.get_by_label("$ per million tokens in").fill("0.5")
    page.get_by_role("button", name="Save and test").click()
    expect(page.get_by_text("works. “Paris”")).to_be_visible()
    assert Price.objects.get().input_per_million == 5 * 10**8
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    row = ModelEndpoint.objects.get()
    assert (row.key_hint, row.base_url) == ("7f2a", server.base_url)
