"""docs/tutorial.md, done as it says: in a real browser and a shell, on a new installation."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.environment import REPOSITORY
from tests.ops.running import up

pytestmark = [pytest.mark.slow, pytest.mark.browser]
PAGE = (REPOSITORY / "docs" / "tutorial.md").read_text(encoding="utf-8")
QUESTIONS = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)
SHELL = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
PROMPTS = re.findall(r"prompt `(Answer [^`]+)`|second `(Answer [^`]+)`", PAGE)
PATIENCE = 60_000


def button(page: Page, name: str) -> None:
    """Press a button that the tutorial names."""
    assert f"*{name}*" in PAGE
    begins = re.compile(rf"^{re.escape(name)}\b")
    page.get_by_role("button", name=begins).or_(page.get_by_role("link", name=begins)).first.click()


def test_the_tutorial_leads_to_a_decision(browser: Browser, tmp_path: Path) -> None:
    with up(tmp_path) as running:
        address = running.url().rstrip("/")
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(PATIENCE)
        page.goto(f"{address}/")
        page.wait_for_timeout(4000)  # to read: a quicker vote is not believed
        button(page, "A is better")
        expect(page.get_by_role("link", name="Next pair")).to_be_visible(timeout=PATIENCE)

        page.goto(f"{address}/")
        button(page, "Compare two prompts")
        page.get_by_role("link", name="Create an account").click()
        page.get_by_label("Email address").fill("ann@example.org")
        page.get_by_label("Password").fill("a long pass phrase 7")
        page.get_by_role("button", name="Create account").click()
        assert QUESTIONS is not None
        page.get_by_label("Name of the arena").fill("Help centre")
        page.get_by_role("textbox", name="Questions", exact=True).fill(QUESTIONS[1])
        for place, given in enumerate(PROMPTS):
            page.get_by_label("System prompt").nth(place).fill("".join(given))
        button(page, "Check and show the price")
        expect(page.get_by_text("24 answers")).to_be_visible(timeout=PATIENCE)
        button(page, "Create the arena with 2 candidates and generate for free")
        expect(page.get_by_text("have answered every prompt")).to_be_visible(timeout=PATIENCE)
        found = re.search(r"/a/(help-centre-\w{8})/", page.url)
        assert found is not None
        arena = found[1]

        button(page, "Vote")
        page.wait_for_timeout(3000)
        button(page, "B is better")
        expect(page.get_by_role("link", name="Next pair")).to_be_visible(timeout=PATIENCE)

        page.goto(f"{address}/a/{arena}/manage/")
        button(page, "Start a judge run")
        page.get_by_label("scripted:scripted-1").check()
        page.get_by_label("Comparisons per pair").fill("12")
        button(page, "Get a quote")
        button(page, "Start this run")
        expect(page.get_by_text("12 of 12").first).to_be_visible(timeout=PATIENCE)
        button(page, "View the decision")
        decided = page.get_by_text("for this judge and prompts like these")
        for _ in range(30):  # leaderboards count within seconds
            if decided.count():
                break
            page.wait_for_timeout(2000)
            page.reload()
        expect(decided.first).to_be_visible()

        page.goto(f"{address}/teams/anns-team/tokens/")
        page.get_by_label("Where is it used?").fill("tutorial")
        for scope in ("Read:", "Submit:", "Judge:"):
            page.get_by_label(scope).check()
        page.get_by_role("button", name="Create token").click()
        page.get_by_text("rs_").first.wait_for()
        token = re.search(r"rs_[\w-]+", page.content())
        assert token is not None
        page.close()

        done = subprocess.run(
            ["bash", "-c", SHELL[-1].replace("python3 ", f"{sys.executable} {REPOSITORY}/")],
            cwd=tmp_path,
            env=os.environ | {"RINGSIDE_URL": address, "RINGSIDE_TOKEN": token[0], "ARENA": arena},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode in (0, 3), done.stdout + done.stderr
        assert "Prompt C" in done.stdout
