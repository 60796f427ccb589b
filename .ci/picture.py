"""Writes docs/ringside.webp, the README's moving picture, from the running product: `make picture`.

It starts an installation with the sample arena in a throwaway folder, votes in a real browser, and
goes on to the leaderboard and a comparison. CHROMIUM names another browser than Debian's.
"""

import os
import sys
import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Locator, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.ops.running import up  # noqa: E402

TARGET = ROOT / "docs" / "ringside.webp"
SIZE = {"width": 1040, "height": 650}
MOST_BYTES = 2_000_000
POINTER = """([x, y]) => {
  let dot = document.getElementById("pointer");
  if (!dot) {
    dot = document.createElement("div");
    dot.id = "pointer";
    Object.assign(dot.style, {
      position: "fixed", width: "22px", height: "22px", borderRadius: "50%", zIndex: 999,
      background: "rgb(20 20 40 / 35%)", border: "2px solid white", pointerEvents: "none",
      boxShadow: "0 0 4px rgb(0 0 0 / 40%)",
    });
    document.body.append(dot);
  }
  dot.style.left = `${x - 11}px`;
  dot.style.top = `${y - 11}px`;
}"""


class Film:
    """Frames of a page, and how long each is shown, in milliseconds."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.frames: list[Image.Image] = []
        self.durations: list[int] = []
        self.at = (SIZE["width"] * 0.7, SIZE["height"] * 0.9)

    def show(self, milliseconds: int) -> None:
        self.frames.append(Image.open(BytesIO(self.page.screenshot())).convert("RGB"))
        self.durations.append(milliseconds)

    def press(self, target: Locator) -> None:
        """Move the pointer there in a few frames, and click."""
        target.scroll_into_view_if_needed()
        box = target.bounding_box()
        assert box is not None
        end = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        for step in (0.35, 0.7, 1.0):
            there = [a + (b - a) * step for a, b in zip(self.at, end, strict=True)]
            self.page.evaluate(POINTER, there)
            self.show(90 if step < 1 else 350)
        self.at = end
        target.click()

    def save(self, path: Path) -> None:
        first, *others = self.frames
        first.save(
            path,
            save_all=True,
            append_images=others,
            duration=self.durations,
            loop=0,
            quality=85,
            method=6,
        )


def record(page: Page, url: str) -> Film:
    film = Film(page)
    for button in ("A is better", "B is better"):
        find_short_pair(page, f"{url}a/sample/vote/")
        choice = page.get_by_role("button", name=button)
        film.show(2800)
        page.wait_for_timeout(4000)  # a quicker vote is not believed
        film.press(choice)
        following = page.get_by_role("link", name="Next pair")
        following.wait_for()
        page.wait_for_timeout(800)  # the names have arrived
        film.show(2400)
    page.goto(f"{url}a/sample/")
    page.wait_for_load_state("networkidle")
    film.show(3800)
    film.press(page.get_by_role("link", name="Compare", exact=True).first)
    page.wait_for_load_state("networkidle")
    film.show(4400)
    return film


def find_short_pair(page: Page, address: str) -> None:
    """A page that has not been voted on shows another pair each time."""
    for _ in range(40):
        page.goto(address)
        page.get_by_role("button", name="A is better").wait_for()
        if page.evaluate("document.documentElement.scrollHeight") <= SIZE["height"]:
            return


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as home,
        up(Path(home)) as running,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        record(page, running.url()).save(TARGET)
        browser.close()
    size = TARGET.stat().st_size
    if size > MOST_BYTES:
        raise SystemExit(f"{TARGET} has {size:,} bytes; at most {MOST_BYTES:,} are wanted.")
    sys.stdout.write(f"{TARGET}: {size:,} bytes\n")


if __name__ == "__main__":
    main()
