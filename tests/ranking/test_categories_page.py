"""Ranks by category, and leaderboards' metadata for search engines and chats."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from arena.models import Arena
from ranking.models import Snapshot
from tests.factories import make_arena
from tests.ranking.helpers import make_voted_arena, publish, rank_anyway, words

pytestmark = pytest.mark.django_db


def rows_of(page: str) -> list[list[str]]:
    body = page.split("<tbody>")[1].split("</tbody>")[0]
    return [
        [words(cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)]
        for row in body.split("<tr>")[1:]
    ]


@pytest.fixture
def arena(db: None) -> Arena:
    """Three candidates; two categories with four prompts each, which is too few for a ranking."""
    arena = make_voted_arena()
    publish(arena)
    return arena


def test_each_candidate_has_its_rank_in_each_category(client: Client, arena: Arena) -> None:
    too_few = rows_of(client.get("/a/support/categories/").text)
    assert [row[2:] for row in too_few] == [["few prompts", "few prompts"]] * 3
    rank_anyway(arena)
    rows = rows_of(client.get("/a/support/categories/").text)
    for column, category in enumerate(("", "category-0", "category-1"), 1):
        current = Snapshot.objects.current().get(board__raters="people", board__category=category)
        ranks = {str(s.candidate): s.rank for s in current.standings.all()}
        places = {row[0]: row[column].split()[0] for row in rows}
        assert places == {name: str(rank or "not") for name, rank in ranks.items()}, category


def test_the_page_is_offered_where_there_are_two_categories(client: Client, arena: Arena) -> None:
    link = 'href="/a/support/categories/?raters=people"'
    assert link in client.get("/a/support/").text
    arena.prompts.update(category="")
    other = make_arena(slug="plain")
    publish(other)
    assert "/categories/" not in client.get("/a/plain/").text
    assert "No votes to score yet" in client.get("/a/plain/categories/").text


def test_a_stored_page_costs_one_query(
    client: Client, arena: Arena, django_assert_num_queries: Callable[..., Any]
) -> None:
    client.get("/a/support/categories/")
    with django_assert_num_queries(1):
        client.get("/a/support/categories/?category=ignored")


def test_a_leaderboard_describes_itself(client: Client, arena: Arena, settings: Any) -> None:
    settings.SITE_URL = "https://arena.example"
    page = client.get("/a/support/?sort=votes").text
    assert '<link rel="canonical" href="https://arena.example/a/support/">' in page
    (said,) = re.findall(r'<meta name="description" content="([^"]*)"', page)
    assert said.startswith("Which answer helps more? No clear leader yet.")
    assert said.endswith("24 blind votes.")


def test_every_public_page_describes_itself(client: Client, arena: Arena, settings: Any) -> None:
    settings.SITE_URL = "https://arena.example"
    first, second = arena.candidates.order_by("pk")[:2]
    Arena.objects.update(name='<b>"Tea" & more</b>')
    first.name = '<i>"one"</i>'
    first.save()
    key = arena.comparisons.filter(votes__isnull=False).first().key
    leads = f"candidates/{first.pk}/", f"comparisons/{key}/", f"compare/?a={first.pk}&b={second.pk}"
    views = "", "methodology/", "categories/", "price/", "compare/", "history/", "side-by-side/"
    pages = [f"/a/support/{path}" for path in (*views, "entries/", "exports/", *leads)]
    for address in ["/", *pages]:
        page = client.get(address).text
        head = page[: page.index("</head>")]
        url = f"https://arena.example{address}".replace("&", "&amp;")
        assert f'<link rel="canonical" href="{url}">' in head, address
        assert f'<meta property="og:url" content="{url}">' in head
        assert '<meta name="twitter:card" content="summary' in head
        (title,), (said,) = (
            re.findall(pattern, head)
            for pattern in ("<title>([^<]+)</title>", '<meta name="description" content="([^"]+)">')
        )
        assert "Ringside" in title
        assert len(said) > 30, said
        assert f'<meta property="og:description" content="{said}">' in head
        of = f"candidates/{first.pk}/" if address.endswith(leads[0]) else ""
        picture = f"https://arena.example/a/support/{of}picture.png"
        for name in ('name="twitter:image"', 'property="og:image"'):
            assert (f'<meta {name} content="{picture}">' in head) == (address != "/"), address
        assert "<b>" not in head, address
        assert "<i>" not in head, address
    candidate = client.get(f"/a/support/candidates/{first.pk}/").text
    assert 'content="&lt;i&gt;&quot;one&quot;&lt;/i&gt; in &lt;b&gt;' in candidate


def test_the_sitemap_lists_what_everybody_finds(
    client: Client, arena: Arena, settings: Any
) -> None:
    settings.SITE_URL = "https://arena.example"
    make_arena(2, slug="hidden", visibility="unlisted")
    sitemap = client.get("/sitemap.xml")
    for path in ("history/", f"candidates/{arena.candidates.first().pk}/"):
        assert f"<loc>https://arena.example/a/support/{path}</loc>" in sitemap.text
    assert sitemap["Content-Type"] == "application/xml"
    assert "<loc>https://arena.example/a/support/</loc>" in sitemap.text
    assert "hidden" not in sitemap.text
    assert sitemap.text.count("/candidates/") == arena.candidates.count()
    assert "Sitemap: https://arena.example/sitemap.xml" in client.get("/robots.txt").text
