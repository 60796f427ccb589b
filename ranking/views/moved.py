"""Pages that are parts of others now."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponsePermanentRedirect
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import require_safe

from arena.actors import actor_of
from ranking.board_data import find_arena


def moved_to(page: str, anchor: str = "", **parameters: str) -> Callable[..., HttpResponseBase]:
    """A view that redirects an arena's old page to `page`, with its query and these `parameters`.

    A browser keeps the anchor of the old address where none is given.
    """

    @require_safe
    def redirect(request: HttpRequest, slug: str) -> HttpResponseBase:
        arena = find_arena(slug, actor_of(request))  # a private one answers like a missing one
        query = request.GET.copy()
        for name, value in parameters.items():
            query[name] = value
        address = reverse(page, args=[arena.slug]) + (f"?{query.urlencode()}" if query else "")
        return HttpResponsePermanentRedirect(f"{address}#{anchor}" if anchor else address)

    return redirect
