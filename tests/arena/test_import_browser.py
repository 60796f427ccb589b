"""From one spreadsheet to the leaderboard and the first blind vote, in a real browser."""

from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone
from openpyxl import Workbook
from playwright.sync_api import expect

from arena.models import Arena, Vote
from ranking.services.refresh import refresh_arena
from tests.arena.test_variants_browser import COUNT_CLICKS, clicks, sign_in
from tests.factories import PASSWORD, make_arena, make_member, make_team, make_user
from tests.ranking.helpers import serious_violations, width_of

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.django_db(transaction=True)]
N = 12
VERDICTS = ["Oak", "Elm", "Oak", "tie"]
WIDE = [
    ["Question", "Answer of Oak", "Answer of Elm", "Who won?", "Rater"],
    *(
        [f"Why is number {n} odd?", f"Because, {n}.", f"Therefore, {n}.", VERDICTS[n % 4], "Ada"]
        for n in range(N)
    ),
]
GERMAN = "Frage;Antwort GPT;Antwort Claude;besser;wer\n" + "".join(
    f"Warum ist {n} ungerade?;Darum, {n}.;Weil {n}.;{n % 2 + 1};Ada\n" for n in range(N)
)
READ = 1_150  # ms: a vote before that is questioned


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    book, data, path = Workbook(), BytesIO(), tmp_path / "answers.xlsx"
    for row in WIDE:
        book.active.append(row)
    book.save(data)
    path.write_bytes(data.getvalue())
    return path


@pytest.fixture
def german(tmp_path: Path) -> Path:
    path = tmp_path / "antworten.csv"
    path.write_text(GERMAN, encoding="utf-8")
    return path


@pytest.fixture
def arena(db: None) -> Arena:
    return make_arena(0, 0, team=make_team(), name="Help answers")


@pytest.fixture
def import_page(page: Any, live_server: Any, arena: Arena) -> Any:
    assert arena.team is not None
    path = reverse("import_file", args=[arena.slug])
    sign_in(page, live_server, make_member(arena.team).user.username, path)
    return page


def preview(page: Any, path: Path) -> None:
    page.get_by_label("File", exact=True).set_input_files(path)
    page.get_by_role("button", name="Preview").click()


def choose_german_columns(page: Any) -> None:
    page.get_by_label("Frage", exact=True).select_option("Prompt")
    for name in ("GPT", "Claude"):
        heading = f"Antwort {name}"
        page.get_by_label(heading, exact=True).select_option("Answer of a candidate")
        page.get_by_label(f"Candidate in the column {heading}").fill(name)
    page.get_by_label("besser", exact=True).select_option("Winner")
    page.get_by_label("wer", exact=True).select_option("Rater")
    page.get_by_role("button", name="Preview", exact=True).click()


def test_from_a_spreadsheet_to_the_leaderboard_and_the_first_vote(
    page: Any, live_server: Any, db: None, wide: Path
) -> None:
    name = make_user("nora").username
    page.context.add_init_script(COUNT_CLICKS)
    page.goto(live_server.url)
    page.get_by_role("link", name="Import what I have").click()
    page.get_by_label("User name").fill(name)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_label("Name of the arena").fill("Odd numbers")
    page.get_by_role("button", name="Create and choose a file").click()
    preview(page, wide)
    expect(page.get_by_role("status")).to_contain_text(f"votes: {N}.")
    expect(page.get_by_label("Answer of Oak", exact=True)).to_have_value("answer:")
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_role("heading", name="Imported")).to_be_visible()
    page.get_by_role("link", name="Vote", exact=True).click()
    page.locator("#ballot .pair").wait_for()
    page.wait_for_timeout(READ)
    page.get_by_role("button", name="A is better").click()
    expect(page.locator("#round")).to_contain_text("1 of 10")
    assert clicks(page) == 7
    assert Vote.objects.count() == N + 1
    arena = Arena.objects.get(name="Odd numbers")
    refresh_arena(arena_id=arena.pk, now=timezone.now())
    page.goto(live_server.url + reverse("board", args=[arena.slug]))
    expect(page.get_by_role("link", name="Oak").first).to_be_visible()


def test_a_table_of_unknown_headings_is_mapped_on_one_page(
    import_page: Any, arena: Arena, german: Path
) -> None:
    page = import_page
    preview(page, german)
    expect(page.get_by_role("heading", name="What are these columns?")).to_be_visible()
    expect(page.get_by_label("Candidate in the column besser")).to_be_hidden()
    assert not serious_violations(page)
    choose_german_columns(page)
    expect(page.get_by_role("status")).to_contain_text(f"votes: {N}.")
    expect(page.get_by_label("1", exact=True)).to_have_value("left")
    assert not serious_violations(page)
    page.get_by_label("1", exact=True).select_option("Claude is better")
    page.get_by_label("2", exact=True).select_option("GPT is better")
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_role("link", name="Vote", exact=True)).to_be_visible()
    outcomes = Vote.objects.order_by("pk").values_list("outcome", flat=True)
    assert [*outcomes] == ["right", "left"] * (N // 2)


def test_the_columns_can_be_chosen_by_keyboard_and_on_a_phone(
    import_page: Any, arena: Arena, german: Path
) -> None:
    page = import_page
    page.set_viewport_size({"width": 390, "height": 844})
    preview(page, german)
    page.get_by_label("Frage", exact=True).focus()
    page.keyboard.type("Prompt")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Antwort GPT", exact=True)).to_be_focused()
    page.keyboard.type("Answer of a")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Candidate in the column Antwort GPT")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.type("Answer of a")
    page.keyboard.press("Enter")
    assert width_of(page) == 390
    assert not serious_violations(page)


def test_the_columns_can_be_chosen_without_scripts(
    browser: Any, live_server: Any, arena: Arena, german: Path
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    assert arena.team is not None
    path = reverse("import_file", args=[arena.slug])
    sign_in(page, live_server, make_member(arena.team).user.username, path)
    preview(page, german)
    choose_german_columns(page)
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_role("heading", name="Imported")).to_be_visible()
    assert Vote.objects.count() == N
    context.close()
