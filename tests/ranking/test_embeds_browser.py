"""The badge and the embedded board inside a page of another site, and a copy of a leaderboard."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from arena.models import Arena
from ranking import leaderboard_copy
from tests.ranking.helpers import make_voted_arena, publish, serious_violations, width_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def published() -> Arena:
    arena = make_voted_arena(4, name="Support answers & more")
    publish(arena)
    return arena


@pytest.fixture
def other_site(published: Arena, live_server: Any) -> Iterator[str]:
    """Another site, whose page shows the badge, the board, and a page that may not be framed."""
    pk = published.candidates.order_by("pk")[0].pk
    here = live_server.url
    body = f"""<!doctype html><title>Elsewhere</title>
        <img id="badge" src="{here}/a/support/badge/{pk}.svg" alt="badge">
        <iframe id="board" src="{here}/a/support/embed/" width="320" height="480"></iframe>
        <iframe id="refused" src="{here}/a/support/" width="320" height="100"></iframe>"""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *args: Any) -> None:
            """Tests print nothing."""

    server = HTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def test_other_sites_show_only_the_badge_and_the_board(page: Any, other_site: str) -> None:
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(other_site, wait_until="networkidle")
    assert page.evaluate("document.querySelector('#badge').naturalWidth") > 100
    board = page.frame_locator("#board")
    assert board.locator("tbody tr").count() == 4
    assert page.frame_locator("#refused").get_by_text("Support answers").count() == 0
    assert all("frame-ancestors" in line or "X-Frame-Options" in line for line in said), said
    assert not page.context.cookies()


def test_links_of_the_board_open_in_the_whole_window(page: Any, other_site: str) -> None:
    page.goto(other_site, wait_until="networkidle")
    page.frame_locator("#board").get_by_role("link", name="candidate-0").click()
    page.wait_for_url("**/a/support/candidates/*/")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_board_fits_320_pixels_in_either_scheme(
    browser: Any, published: Arena, live_server: Any, scheme: str
) -> None:
    context = browser.new_context(viewport={"width": 320, "height": 600}, color_scheme=scheme)
    page = context.new_page()
    page.goto(f"{live_server.url}/a/support/embed/")
    width = width_of(page)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    serious = serious_violations(page)
    context.close()
    assert width == 320
    assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(23, 28, 36)"}[scheme]
    assert not serious


@pytest.mark.parametrize("most_votes", [100_000, 10])
def test_a_copy_opens_without_a_network_and_computes_the_scores_again(
    browser: Any, client: Any, tmp_path: Path, monkeypatch: Any, most_votes: int
) -> None:
    monkeypatch.setattr(leaderboard_copy, "MOST_VOTES", most_votes)
    arena = make_voted_arena(5, rounds=2)
    arena.candidates.filter(name="candidate-1").update(name='</script><b>"x" & y')
    snapshot = publish(arena)
    answer = client.get("/api/v1/arenas/support/exports/leaderboard.html")
    assert answer["Content-Disposition"] == 'attachment; filename="support-leaderboard.html"'
    content = answer.getvalue()
    assert b"Answer 0-0 of somebody" not in content
    file = tmp_path / "leaderboard.html"
    file.write_bytes(content)
    context = browser.new_context(offline=True)
    page, asked, errors = context.new_page(), [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text))
    page.goto(file.as_uri())
    scored = [row for row in snapshot.standings.all() if row.score is not None]
    assert errors == []
    assert len(scored) == 5
    for row in scored:
        again = float(page.locator(f"#again-{row.candidate_id}").inner_text())
        assert abs(again - row.score) < 0.5
    assert '</script><b>"x" & y' in page.locator("table").inner_text()
    assert '"signature"' in page.locator("pre").inner_text()
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert not serious_violations(page)
    assert asked == [file.as_uri()]
    context.close()
