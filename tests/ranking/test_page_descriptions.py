"""The metadata of public pages for search engines and chats, and where old addresses lead."""

import re
from typing import Any

import pytest
from django.test import Client

from arena.models import Arena
from tests.factories import make_arena, make_team
from tests.ranking.helpers import make_voted_arena, publish

pytestmark = pytest.mark.django_db


@pytest.fixture
def arena(db: None) -> Arena:
    arena = make_voted_arena()
    publish(arena)
    return arena


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
    views = "", "about/", "price/", "compare/"
    pages = [f"/a/support/{path}" for path in (*views, *leads)]
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
    for path in ("about/", f"candidates/{arena.candidates.first().pk}/"):
        assert f"<loc>https://arena.example/a/support/{path}</loc>" in sitemap.text
    assert sitemap["Content-Type"] == "application/xml"
    assert "<loc>https://arena.example/a/support/</loc>" in sitemap.text
    assert "hidden" not in sitemap.text
    assert sitemap.text.count("/candidates/") == arena.candidates.count()
    assert "Sitemap: https://arena.example/sitemap.xml" in client.get("/robots.txt").text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("methodology/?raters=people", "about/?raters=people"),
        ("entries/", "about/#entries"),
        ("exports/", "about/#exports"),
        ("categories/?raters=people", "?raters=people&columns=categories"),
        ("matrix/?category=category-1", "compare/?category=category-1#matrix"),
        ("side-by-side/?category=category-1", "compare/?category=category-1#others"),
    ],
)
def test_an_old_address_leads_to_the_new_one(
    client: Client, arena: Arena, old: str, new: str
) -> None:
    answer = client.get(f"/a/support/{old}")
    assert (answer.status_code, answer["Location"]) == (301, f"/a/support/{new}")
    assert client.get(answer["Location"]).status_code == 200
    Arena.objects.update(visibility="private", team=make_team())
    assert client.get(f"/a/support/{old}").status_code == 404
