"""A board on other sites: a candidate's badge, and the top in a frame."""

import html
import re
import struct
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from arena.models import Arena, Candidate
from ranking import tasks
from ranking.board_data import BoardQuery
from ranking.comparison import read_published
from ranking.models import ArenaRefresh, BoardPage, Snapshot, Standing
from ranking.services import leases
from ranking.views.badges import lay_out
from ranking.views.pictures import TEXT_WIDTH, draw_board, draw_candidate, shorten, wrap
from ranking.wording import badge_message
from tests.arena.rest import undisclosed
from tests.factories import make_arena, make_team
from tests.ranking.helpers import cast, fill, publish, rank_anyway, words

pytestmark = pytest.mark.any_database
SVG = "{http://www.w3.org/2000/svg}"


def standing(**values: Any) -> Standing:
    ranked = {"rank": 2, "sure_rank_low": 1, "sure_rank_high": 3, "score": 1043.4, "votes": 9}
    return Standing(**ranked | {"low": 1025.6, "high": 1060.2} | values)


def texts(svg: bytes) -> list[str | None]:
    return [text.text for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (standing(), "#1–3, 1043 (1026–1060)"),
        (standing(sure_rank_low=2, sure_rank_high=2), "#2, 1043 (1026–1060)"),
        (standing(low=849.4, high=1284.0), "#1–3, 1043 (849–1284)"),
        (
            standing(sure_rank_low=None, sure_rank_high=None, low=None, high=None),
            "1043, no interval yet",
        ),
        (Standing(votes=5), "not comparable yet"),
        (Standing(votes=9, wins=9, rank=1, sure_rank_low=1, sure_rank_high=1), "#1, never lost"),
        (Standing(votes=9, losses=9, rank=3, sure_rank_low=2, sure_rank_high=3), "#2–3, never won"),
        (Standing(votes=0), "no votes yet"),
        (None, "no votes yet"),
    ],
)
def test_a_badge_claims_no_more_than_its_board(found: Standing | None, message: str) -> None:
    assert badge_message(found) == message


@given(st.text(max_size=300), st.text(max_size=300))
def test_whatever_an_arena_is_called_the_badge_can_be_read(name: str, title: str) -> None:
    from django.template.loader import render_to_string

    badge = lay_out(name, "#1, 1000 ± 9", title)
    svg = render_to_string("ranking/badge.svg", {"badge": badge})
    label, message = texts(svg.encode())
    assert message == "#1, 1000 ± 9"
    assert len(label or "") <= 32
    assert badge.message.left == badge.label.width > badge.label.text_width >= 0


@pytest.fixture
def addresses(arena: Arena) -> list[str]:
    publish(arena)
    first = arena.candidates.order_by("pk")[0]
    return [f"/a/support/badge/{first.pk}.svg", "/a/support/embed/"]


@pytest.mark.django_db
def test_a_badge_is_a_picture_for_any_site(client: Client, addresses: list[str]) -> None:
    answer = client.get(addresses[0])
    label, message = texts(answer.content)
    assert label == "Support answers"
    assert message is not None
    assert message.startswith("#")
    assert re.search(r", \d+ \(\d+–\d+\)$", message)
    title = ElementTree.fromstring(answer.content).find(f"{SVG}title")
    assert title is not None
    assert title.text is not None
    assert title.text.startswith("candidate-0 in Support answers: rank ")
    assert answer["Content-Type"] == "image/svg+xml"
    assert answer["Cache-Control"] == "public, max-age=300"
    assert answer["Cross-Origin-Resource-Policy"] == "cross-origin"
    said = {part.strip() for part in answer["Content-Security-Policy"].split(";")}
    assert said == {"default-src 'none'", "frame-ancestors 'none'", "sandbox"}


@pytest.mark.django_db
def test_an_embedded_board_may_be_framed_and_does_nothing(
    client: Client, addresses: list[str]
) -> None:
    answer = client.get(addresses[1])
    page = answer.content.decode()
    assert "X-Frame-Options" not in answer
    said = {part.strip() for part in answer["Content-Security-Policy"].split(";")}
    assert {"frame-ancestors *", "default-src 'none'", "style-src 'self'"} <= said
    assert 'rel="icon"' in page
    assert "img-src 'self'" in said
    assert "<script" not in page
    assert "style=" not in page
    assert page.count('<th scope="row">') == 3
    assert '<base target="_top">' in page


@pytest.mark.django_db
def test_only_the_embedded_board_may_be_framed(client: Client, published: Snapshot) -> None:
    for path in ("/", "/a/support/", "/a/none/embed/"):
        answer = client.get(path)
        assert answer["X-Frame-Options"] == "DENY"
        assert "frame-ancestors 'none'" in answer["Content-Security-Policy"]


@pytest.mark.django_db
def test_both_are_cached_and_revalidated(
    client: Client,
    arena: Arena,
    addresses: list[str],
    django_assert_num_queries: Callable[..., Any],
) -> None:
    for address in addresses:
        first = client.get(address)
        with django_assert_num_queries(1):
            again = client.get(address)
        known = client.get(address, headers={"If-None-Match": first["ETag"]})
        assert again.content == first.content
        assert (known.status_code, known["Cache-Control"]) == (304, first["Cache-Control"])
        assert not first.cookies
        assert "Cookie" not in first["Vary"]
    cast(arena)
    publish(arena)
    assert b"25 blind votes" in client.get(addresses[1]).content


@pytest.mark.django_db
@pytest.mark.parametrize(("visibility", "status"), [("unlisted", 200), ("private", 404)])
def test_a_private_arena_has_neither_even_for_operators(
    client: Client, arena: Arena, addresses: list[str], visibility: str, status: int
) -> None:
    from tests.arena.teams import make_team

    for address in addresses:
        client.get(address)  # stored while everybody may see it
    arena.team, arena.visibility = make_team(), visibility
    arena.save()
    client.force_login(get_user_model().objects.create_user("op", is_staff=True))
    for address in addresses:
        assert client.get(address).status_code == status
        assert Client().get(address).status_code == status


@pytest.mark.django_db
def test_a_private_badge_and_a_missing_one_are_the_same(
    client: Client, arena: Arena, addresses: list[str]
) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from tests.arena.teams import make_team

    arena.team, arena.visibility = make_team(), "private"
    arena.save()
    for address in addresses:
        answers = []
        for path in (address, address.replace("support", "nothing")):
            with CaptureQueriesContext(connection) as queries:
                answer = client.get(path)
            body = answer.content.replace(b"support", b"nothing")
            headers = dict(answer.headers)
            del headers["X-Request-ID"]
            answers.append((answer.status_code, body, headers, len(queries)))
        assert answers[0] == answers[1]


@pytest.mark.django_db
def test_candidates_that_are_not_there_have_no_badge(client: Client, arena: Arena) -> None:
    elsewhere = make_arena().candidates.first()
    for pk in (elsewhere.pk, 10**30):
        assert client.get(f"/a/support/badge/{pk}.svg").status_code == 404


@pytest.mark.django_db
def test_a_candidate_that_nobody_voted_on_yet_has_a_badge(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    newcomer = Candidate.objects.create(arena=arena, name="newcomer")
    assert texts(client.get(f"/a/support/badge/{newcomer.pk}.svg").content)[1] == "no votes yet"


@pytest.mark.django_db
def test_nothing_names_an_undisclosed_candidate(client: Client, arena: Arena) -> None:
    hidden = undisclosed(arena)
    fill(arena, rounds=1)
    publish(arena)
    for path in (f"badge/{hidden.pk}.svg", "embed/"):
        page = client.get(f"/a/support/{path}").content.decode()
        assert f"Undisclosed {hidden.pk}" in page
        assert "secret-recipe" not in page
    rank_anyway(arena)
    board = published_board(arena)
    shown = next(row.candidate for row in board.standings if row.candidate_id == hidden.pk)
    for picture in (draw_board(board), draw_candidate(board, shown, "rank 1")):
        assert f"Undisclosed {hidden.pk}" in picture
        assert "secret-recipe" not in picture


@pytest.mark.django_db
def test_a_board_without_votes_says_so(client: Client) -> None:
    make_arena(slug="quiet")
    assert b"No ranking yet." in client.get("/a/quiet/embed/").content


@pytest.mark.django_db
def test_what_leaves_out_says_how_many(client: Client) -> None:
    arena = make_arena(12, 2, slug="many")
    fill(arena, rounds=1)
    publish(arena)
    rank_anyway(arena)
    page = client.get("/a/many/embed/").content.decode()
    shown = page.count('<th scope="row">')
    assert shown <= 10
    assert f"{12 - shown} more on the leaderboard" in page


@pytest.mark.django_db
def test_pages_say_how_to_show_them_elsewhere(
    client: Client, arena: Arena, addresses: list[str], settings: Any
) -> None:
    settings.SITE_URL = "https://arena.example"
    arena.name = 'The "best" & brightest'
    arena.save()
    publish(arena)
    board = client.get("/a/support/").content.decode()
    frame = html.unescape(re.search('value="(&lt;iframe[^"]+)"', board)[1])  # type: ignore[index]
    assert frame.startswith('<iframe src="https://arena.example/a/support/embed/?raters=people"')
    assert 'title="The &quot;best&quot; &amp; brightest"' in frame
    pk = arena.candidates.order_by("pk")[0].pk
    candidate = client.get(f"/a/support/candidates/{pk}/").content.decode()
    assert f"https://arena.example/a/support/badge/{pk}.svg" in candidate


@pytest.mark.django_db
def test_a_bare_rank_is_not_read_as_the_best(client: Client, published: Snapshot) -> None:
    board, embedded = (words(client.get(f"/a/support/{path}").text) for path in ("", "embed/"))
    said = re.search(r"No clear leader yet. \S+ is ahead, but [^.]+", board)
    assert said is not None
    assert said[0] in embedded


@pytest.mark.django_db
def test_a_candidate_that_is_clearly_first_is_called_so(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    snapshot = Snapshot.objects.current().of_arena(arena).get(board__category="")
    first = snapshot.standings.get(rank=1)
    snapshot.findings["leader"] = first.candidate_id
    snapshot.save()
    page = client.get("/a/support/embed/").content.decode()
    assert f"{first.candidate} is the clear leader." in page


@pytest.mark.django_db
@pytest.mark.parametrize("is_sample", [True, False])
def test_a_sample_says_whose_opinion_it_is(client: Client, is_sample: bool) -> None:
    make_arena(slug="quiet", is_sample=is_sample)
    page = client.get("/a/quiet/embed/").content.decode()
    assert ("Demo only: these votes come from a script." in page) == is_sample


@pytest.mark.django_db
def test_a_single_rank_is_not_shown_as_a_range_on_the_board(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    Standing.objects.filter(snapshot__board__arena=arena).update(sure_rank_low=2, sure_rank_high=2)
    rank_anyway(arena)
    page = client.get("/a/support/").content.decode()
    assert (
        "possible ranks</span>" not in page.split('<table class="board">')[1].split("</table>")[0]
    )


def published_board(arena: Arena) -> Any:
    return read_published(Arena.objects.get(pk=arena.pk), BoardQuery("people", ""))


@pytest.mark.django_db
def test_a_picture_is_a_png_of_the_size_that_chats_show(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    rank_anyway(arena)
    pk = arena.candidates.order_by("pk")[0].pk
    bodies = set()
    for path in ("picture.png", f"candidates/{pk}/picture.png"):
        answer = client.get(f"/a/support/{path}")
        assert answer["Content-Type"] == "image/png"
        assert answer["Cache-Control"] == "public, max-age=300"
        assert answer.content[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", answer.content[16:24]) == (1200, 630)
        again = client.get(f"/a/support/{path}", headers={"If-None-Match": answer["ETag"]})
        assert again.status_code == 304
        bodies.add(answer.content)
    assert len(bodies) == 2


@pytest.mark.django_db
def test_a_picture_is_rendered_once_per_snapshot(
    client: Client, published: Snapshot, django_assert_num_queries: Callable[..., Any]
) -> None:
    client.get("/a/support/picture.png")
    with django_assert_num_queries(1):
        client.get("/a/support/picture.png?sort=votes")


@pytest.mark.django_db
def test_names_in_a_picture_are_escaped(arena: Arena) -> None:
    arena.name, arena.question = '<&"arena', "<image href='file:///etc/passwd'/> " * 4
    arena.save()
    first = arena.candidates.order_by("pk")[0]
    first.name = '<&"one\x01'
    first.save()
    publish(arena)
    rank_anyway(arena)
    board = published_board(arena)
    pictures = draw_board(board), draw_candidate(board, first, "rank 1")
    for picture, title in zip(pictures, ('<&"arena', '<&"one'), strict=True):
        assert "<image" not in picture
        shown = texts(picture.encode())
        assert shown[0] == title
        assert '<&"one' in shown


@pytest.mark.django_db
def test_a_picture_shows_ranks_scores_and_intervals_on_one_axis(
    arena: Arena, published: Snapshot
) -> None:
    rank_anyway(arena)
    board = published_board(arena)
    svg = draw_board(board)
    shown = texts(svg.encode())
    for row in board.standings[:6]:
        assert str(row.candidate) in shown
        assert f"{row.score:.0f}" in shown
    circles = [float(x) for x in re.findall(r'<circle cx="([^"]+)"', svg)]
    assert circles == sorted(circles, reverse=True)
    assert any(text and "votes by" in text for text in shown)


@pytest.mark.django_db
def test_a_picture_says_how_many_candidates_it_leaves_out() -> None:
    many = make_arena(8, 2, slug="many")
    fill(many)
    publish(many)
    rank_anyway(many)
    assert "and 2 more" in texts(draw_board(published_board(many)).encode())


@pytest.mark.django_db
@pytest.mark.parametrize("is_sample", [True, False])
def test_a_picture_of_a_demonstration_says_so(
    client: Client, arena: Arena, published: Snapshot, is_sample: bool
) -> None:
    arena.is_sample = is_sample
    arena.save()
    assert ("Demo only" in draw_board(published_board(arena))) == is_sample


@pytest.mark.django_db
def test_a_picture_ranks_nobody_before_there_are_enough_votes() -> None:
    few = make_arena(3, slug="few")
    cast(few)
    publish(few)
    svg = draw_board(published_board(few))
    assert "Collecting votes" in svg
    assert "<circle" not in svg


@pytest.mark.django_db
def test_a_picture_has_no_boxes_for_scripts_that_its_font_lacks(
    arena: Arena, published: Snapshot
) -> None:
    rank_anyway(arena)
    Arena.objects.update(name="模型竞技场", question="哪个答案更好?")
    names = ["通义千问 Qwen-Max", "جيس", "Ωμέγα"]
    for candidate, name in zip(arena.candidates.order_by("pk"), names, strict=False):
        Candidate.objects.filter(pk=candidate.pk).update(name=name, version=1)
    shown = texts(draw_board(published_board(arena)).encode())
    nameless = arena.candidates.order_by("pk")[1].pk
    assert {arena.slug, "… Qwen-Max", f"Candidate {nameless}", "Ωμέγα"} <= set(shown)


@given(st.text(max_size=300))
def test_texts_of_a_picture_fit(text: str) -> None:
    lines = list(wrap(text, TEXT_WIDTH, 30, lines=2))
    assert len(lines) <= 2
    assert all(len(line) <= 120 for line in lines)
    assert len(shorten(text, 300, 28)) <= 40


@pytest.mark.django_db
def test_a_leaderboard_s_picture_is_drawn_with_its_publication(
    client: Client, arena: Arena, django_assert_num_queries: Callable[..., Any]
) -> None:
    leases.open_arena(arena_id=arena.pk)
    tasks.refresh_arena(arena.pk)
    with django_assert_num_queries(1):
        assert client.get("/a/support/picture.png").content.startswith(b"\x89PNG")
    Arena.objects.filter(pk=arena.pk).update(visibility="private", team=make_team())
    BoardPage.objects.all().delete()
    cast(arena)
    ArenaRefresh.objects.update(not_before=None)
    tasks.refresh_arena(arena.pk)
    assert not BoardPage.objects.exists()
