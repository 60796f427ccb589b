"""Judge runs in a real browser: started, watched to the end, read, and voted on; for everybody."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse
from playwright.sync_api import expect

from arena.actors import CLI
from arena.models import Arena, Run
from judges.services.registry import spec_named
from tests.factories import make_arena, make_empty_team
from tests.judges.helpers import ask_and_measure, make_labels, order, register_used_judge, work_off
from tests.ranking.helpers import open_details, serious_violations, width_of

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def support_arena() -> Arena:
    return make_arena(3, 6, slug="support", name="Support answers")


@pytest.fixture
def boss(page: Any, live_server: Any) -> Iterator[Any]:
    """A page for signed-in staff, without errors and without requests to other hosts."""
    get_user_model().objects.create_user("boss", password="s3cret-words", is_staff=True)
    failed: list[str] = []
    page.on("requestfailed", lambda request: _left_behind(request) or failed.append(request.url))
    page.on("console", lambda message: message.type == "error" and failed.append(message.text))
    page.on(
        "request",
        lambda request: request.url.startswith(live_server.url) or failed.append(request.url),
    )
    page.goto(f"{live_server.url}/sign-in/")
    page.get_by_label("User name").fill("boss")
    page.get_by_label("Password").fill("s3cret-words")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda url: "sign-in" not in url)
    yield page
    assert not failed


def _left_behind(request: Any) -> bool:
    """Whether it was still in progress when the page was left."""
    return request.failure == "net::ERR_ABORTED"


def test_labels_are_uploaded_on_a_phone_and_by_keyboard(
    boss: Any, live_server: Any, tmp_path: Path
) -> None:
    make_empty_team(slug="search")
    page, file = boss, tmp_path / "labels.csv"
    file.write_text(
        "Frage,eins,zwei,urteil\n" + "".join(f"Warum {n}?,Ja.,Nein.,{n % 3}\n" for n in range(9))
    )
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(live_server.url + reverse("team_labels", args=["search"]))
    page.get_by_role("link", name="Upload labels").click()
    page.get_by_label("File").set_input_files(str(file))
    page.get_by_role("button", name="Preview").press("Enter")
    for column, role in (
        ("Frage", "Prompt"),
        ("eins", "First answer"),
        ("zwei", "Second answer"),
        ("urteil", "Which is better"),
    ):
        choice = page.get_by_label(column, exact=True)
        choice.focus()
        page.keyboard.type(role)
        expect(choice.locator("option:checked")).to_have_text(role)
    page.get_by_role("button", name="Preview again").press("Enter")
    page.get_by_label("0", exact=True).select_option("Tie")
    assert width_of(page) <= 390
    assert not serious_violations(page)
    page.get_by_role("button", name="Save labels").press("Enter")
    expect(page.get_by_text("labels.csv saved.")).to_be_visible()
    assert width_of(page) <= 390
    assert not serious_violations(page)


def test_a_jury_is_ordered_watched_and_read(
    boss: Any, live_server: Any, support_arena: Arena
) -> None:
    page = boss
    page.goto(live_server.url + reverse("judge_runs", args=["support"]))
    page.get_by_role("link", name="Start a judge run").click()
    for number in (1, 2, 3):
        page.get_by_label(f"scripted:scripted-{number}").check()
    page.get_by_label("Comparisons per pair").fill("4")
    page.get_by_role("button", name="Get a quote").click()
    expect(page.get_by_role("heading", name="Quote")).to_be_visible()
    expect(page.get_by_label("Comparisons per pair")).to_have_value("4")
    expect(page.get_by_text("Comparison 1 of 12")).to_be_visible()
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("Comparison 2 of 12")).to_be_visible()
    page.get_by_role("button", name="Start this run").click()

    page.wait_for_url("**/runs/*/#main")
    page.evaluate("() => { window.samePage = true; }")
    expect(page.locator("#progress")).to_contain_text("0 of 36")
    pause = page.get_by_role("button", name="Pause")
    pause.focus()
    work_off(Run.objects.get())
    expect(page.locator("#progress")).to_contain_text("36 of 36")
    expect(page.locator("#said")).to_contain_text("Run state: done")
    expect(pause).to_have_count(0)
    assert page.evaluate("() => window.samePage")

    expect(page.locator(".verdicts a").first).to_be_visible(timeout=20_000)  # it is polled
    page.locator(".verdicts a").first.click()
    expect(page.get_by_role("heading", name="Judge’s replies")).to_be_visible()
    assert "candidate-" not in page.content()
    page.wait_for_load_state()
    first = page.url
    page.keyboard.press("ArrowRight")
    page.wait_for_url(lambda url: url != first)
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(first)
    page.locator(".judge-who summary").click()
    expect(page.locator(".judge-names")).to_contain_text("candidate-")
    vote_on_it = page.get_by_role("button", name="Vote on this pair yourself")
    expect(vote_on_it).to_have_count(0)
    expect(page.locator("#own-vote")).to_contain_text("You’ve seen which candidates these are")

    marks = page.get_by_role("group", name="Consistent")
    marks.get_by_role("button", name="Yes").click()
    expect(marks.get_by_role("button", name="Yes")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("link", name="Older").click()
    page.wait_for_url(lambda url: url != first)
    expect(page.locator("#own-vote")).to_contain_text("You’ve seen which candidates these are")
    expect(vote_on_it).to_have_count(0)  # the run's page has named them beside each verdict


def test_a_button_keeps_the_focus_while_news_come_in(
    boss: Any, live_server: Any, support_arena: Arena
) -> None:
    run = order(support_arena, "scripted")
    boss.goto(live_server.url + reverse("judge_run", args=["support", run.pk]))
    boss.get_by_role("button", name="Pause").focus()
    with boss.expect_response(lambda response: "seen=open" in response.url):
        pass
    expect(boss.get_by_role("button", name="Pause")).to_be_focused()
    boss.keyboard.press("Enter")
    expect(boss.get_by_text("Paused by an administrator.")).to_be_visible()
    boss.get_by_text("Cancel run…").click()
    boss.get_by_role("button", name="Yes, cancel").click()
    expect(boss.locator("#progress")).to_contain_text("Cancelled")


def test_order_errors_are_in_view_and_focused(
    boss: Any, live_server: Any, support_arena: Arena
) -> None:
    boss.goto(live_server.url + reverse("order_run", args=["support"]))
    boss.get_by_label("scripted:scripted-3", exact=True).check()
    boss.get_by_label("Spending cap in dollars").fill("-1")
    boss.get_by_role("button", name="Get a quote").click()
    expect(boss.get_by_text("No run was started.")).to_be_in_viewport()
    expect(boss.locator("#offer")).to_be_focused()
    boss.get_by_role("link", name="Spending cap in dollars").click()
    expect(boss.get_by_label("Spending cap in dollars")).to_be_focused()


@pytest.fixture
def pages(support_arena: Arena, live_server: Any) -> dict[str, str]:
    """An address of every page, each with as much content as possible."""
    jury = [f"scripted:scripted-{number}" for number in (1, 2, 3)]
    done = work_off(order(support_arena, *jury, per_pair=4))
    going = order(support_arena, "scripted:scripted-1@pairwise-note")
    Run.objects.filter(pk=going.pk).update(cap=5 * 10**9, settled=10**8, uncertain=10**7)
    epoch = register_used_judge("scripted:scripted-1")
    ask_and_measure(epoch, make_labels())
    one = done.judgements.filter(state="voted").first()
    slug = support_arena.slug
    found = {
        "runs": reverse("judge_runs", args=[slug]),
        "done": reverse("judge_run", args=[slug, done.pk]),
        "going": reverse("judge_run", args=[slug, going.pk]),
        "verdict": reverse("judge_verdict", args=[slug, done.pk, one.pk]),
        "order": reverse("order_run", args=[slug]),
        "judges": reverse("judges"),
        "judge": epoch.judge.get_absolute_url(),
    }
    return {name: live_server.url + path for name, path in found.items()}


def quote(page: Any) -> None:
    page.get_by_label("scripted:scripted-3", exact=True).check()
    page.get_by_role("button", name="Get a quote").click()
    page.get_by_role("heading", name="Quote").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(boss: Any, pages: dict[str, str], scheme: str) -> None:
    boss.emulate_media(color_scheme=scheme)
    for name, url in pages.items():
        boss.goto(url)
        if name == "order":
            quote(boss)
        open_details(boss)
        assert not serious_violations(boss), name


def test_a_phone_shows_whether_a_judge_is_trusted(boss: Any, pages: dict[str, str]) -> None:
    boss.set_viewport_size({"width": 390, "height": 844})
    for name in ("judges", "judge"):
        boss.goto(pages[name])
        expect(boss.locator("table .judge-badge[data-trusted]").first).to_be_visible()


@pytest.mark.parametrize("width", [390, 320])
def test_a_phone_scrolls_down_only(boss: Any, pages: dict[str, str], width: int) -> None:
    boss.set_viewport_size({"width": width, "height": 844})
    widths = {}
    for name, url in pages.items():
        boss.goto(url)
        if name == "order":
            quote(boss)
        open_details(boss)
        widths[name] = width_of(boss)
    assert set(widths.values()) == {width}, widths


def test_a_rubric_is_written_previewed_and_tried_by_the_browser_alone(
    boss: Any, live_server: Any, team: Any, voted: Arena
) -> None:
    """From no rubric to a measured change, as an evaluation lead would."""
    page, rubrics = boss, live_server.url + reverse("team_rubrics", args=[team.slug])
    page.goto(rubrics)
    page.get_by_role("link", name=re.compile("Start from it ?: pairwise$")).click()
    page.get_by_label("Address").fill("support")
    written = page.get_by_label("user.md").input_value()
    page.get_by_label("user.md").fill("{prompt}")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert").first).to_contain_text("{answer_a} is missing")
    page.get_by_label("user.md").fill(written)
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("heading", name="Requests about 5 pairs")).to_be_visible()
    expect(page.get_by_text("10 calls")).to_be_visible()
    assert not serious_violations(page)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="support, version 1")).to_be_visible()

    spec = spec_named("scripted@help/support", by=CLI)
    work_off(order(voted, spec.label, per_pair=24, by=CLI))
    page.get_by_role("link", name="Edit").click()
    page.get_by_label("system.md").press("Control+End")
    page.get_by_label("system.md").type("Be strict.")
    page.get_by_label("What changed, and why").fill("It was lenient.")
    page.get_by_role("button", name="Save version 2").click()
    expect(page.locator(".difference ins")).to_contain_text("Be strict.")
    assert not serious_violations(page)

    page.get_by_role("link", name=spec.label).click()
    page.get_by_role("heading", name="Disagreements with people").wait_for()
    page.get_by_role("heading", name="Configuration").scroll_into_view_if_needed()
    first = page.locator("#disagreements details").first
    expect(first).to_contain_text("Left answer first")
    assert not serious_violations(page)
    page.get_by_role("link", name="Try a change").click()
    page.get_by_role("link", name="Try version 2").click()
    page.get_by_role("button", name="Get a quote").click()
    expect(page.get_by_text("13 pairs of the half that measures")).to_be_visible()
    page.get_by_role("button", name="Start the trial").click()
    expect(page.locator("#result")).to_contain_text("0 of 13")
    for run in Run.objects.filter(arena=None):
        work_off(run)
    expect(page.locator("#result")).to_contain_text("p (McNemar, exact)", timeout=10_000)
    assert not serious_violations(page)
    page.set_viewport_size({"width": 390, "height": 844})
    for url in (page.url, rubrics, rubrics + "support/", rubrics + "support/edit/"):
        page.goto(url)
        assert width_of(page) <= 390
