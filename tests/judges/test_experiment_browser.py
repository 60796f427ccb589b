"""An experiment in a real browser: from a changed prompt to the promotion, without a script of its
own; for everybody."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse
from playwright.sync_api import expect

from arena.models import Arena, Membership
from judges.models import Experiment
from tests.judges.test_experiment_pages import priced  # noqa: F401 (a fixture)
from tests.judges.test_experiments import answers, go_on, make_calls, origin  # noqa: F401
from tests.ranking.helpers import open_details, serious_violations, width_of

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def ann(page: Any, live_server: Any, team: Any) -> Iterator[Any]:
    """A page for a member of the team, without errors in its console."""
    person = get_user_model().objects.create_user("ann", password="s3cret-words")
    Membership.objects.create(team=team, user=person, role="member")
    failed: list[str] = []
    page.on("console", lambda message: message.type == "error" and failed.append(message.text))
    page.goto(f"{live_server.url}/sign-in/")
    page.get_by_label("User name").fill("ann")
    page.get_by_label("Password").fill("s3cret-words")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda url: "sign-in" not in url)
    yield page
    assert not failed


def test_a_change_is_tried_measured_and_promoted(
    ann: Any,
    live_server: Any,
    priced: Arena,  # noqa: F811
) -> None:
    page = ann
    page.goto(live_server.url + reverse("experiments", args=[priced.slug]))
    page.get_by_role("link", name="New experiment").first.click()
    page.get_by_label("System prompt").fill("plain and GOOD")
    page.get_by_role("button", name="Create the experiment").click()
    expect(page.get_by_text("Not measured yet")).to_be_visible()
    experiment = Experiment.objects.get()
    check(page)

    page.get_by_role("button", name="Try", exact=True).click()
    expect(page.locator("#try")).to_contain_text("Generating 6 answers")
    page.evaluate("() => { window.samePage = true; }")
    price = page.locator("#dock .experiment-spent strong")
    before = price.inner_text()
    make_calls(experiment)
    expect(price).not_to_have_text(before)  # the lengths of answers are known now
    expect(page.locator("#try")).to_contain_text("6 answers for $")
    page.locator(".experiment-tabs a").nth(1).click()
    expect(page.locator(".experiment-tabs a").nth(1)).to_have_attribute("aria-current", "true")
    before = price.inner_text()
    page.locator("#size-20").check()
    expect(price).not_to_have_text(before)
    assert page.evaluate("() => window.samePage")
    page.locator("#size-40").check()
    expect(price).to_have_text(before)
    check(page)

    page.get_by_role("button", name="Measure").click()
    expect(page.locator("#measure-title")).to_have_text("Measuring")
    go_on(experiment)
    expect(page.locator("#measure-title")).to_have_text("Measured")
    expect(page.locator("#dock")).to_contain_text("Better")
    check(page)
    page.get_by_role("link", name="Promote").click()
    page.get_by_label("Why do you promote it?").fill("It greets people.")
    page.get_by_role("button", name="Promote it").click()
    expect(page.get_by_text("Promoted as")).to_be_visible()


def check(page: Any) -> None:
    """For readers of screens, and on a phone."""
    open_details(page)
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        assert width_of(page) <= width
        assert not serious_violations(page)
    page.set_viewport_size({"width": 1280, "height": 800})
    page.reload()
