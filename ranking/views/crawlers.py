"""What crawlers ask for: which pages there are, and which to leave alone."""

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_safe

from arena.actors import ANONYMOUS
from arena.models import Candidate
from arena.permissions import listed_arenas
from arena.site import absolute_url

INDEXED = ("board", "compare", "price", "about")
MOST_ADDRESSES = 50_000  # of a sitemap: https://www.sitemaps.org/protocol.html


@require_safe
def robots(request: HttpRequest) -> HttpResponse:
    """Keep crawlers off the voting pages, where each visit would take a pair from a rater."""
    address = absolute_url(reverse("sitemap"))
    content = f"User-agent: *\nDisallow: /*/vote/\nSitemap: {address}\n"
    return HttpResponse(content, content_type="text/plain")


@require_safe
def sitemap(request: HttpRequest) -> HttpResponse:
    """The home page, and the leaderboards that everybody finds there with their candidates."""
    pages = [reverse("index")]
    arenas = listed_arenas(ANONYMOUS).order_by("pk")
    for slug in arenas.values_list("slug", flat=True):
        pages += [reverse(name, args=[slug]) for name in INDEXED]
    candidates = Candidate.objects.revealed().filter(arena__in=arenas).order_by("pk")
    named = candidates.values_list("arena__slug", "pk")[:MOST_ADDRESSES]
    pages += [reverse("candidate", args=[slug, pk]) for slug, pk in named]
    addresses = [absolute_url(page) for page in pages[:MOST_ADDRESSES]]
    context = {"addresses": addresses}
    content = render_to_string("ranking/sitemap.xml", context)
    return HttpResponse(content, content_type="application/xml")
