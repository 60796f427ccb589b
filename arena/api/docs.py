"""The description of the API, and the page to read and try it."""

from functools import cache
from threading import Lock
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.renderers import OpenApiJsonRenderer2
from drf_spectacular.utils import extend_schema

from arena.api.core.endpoint import Endpoint

PUBLIC = "public, max-age=300"
_one_at_a_time = Lock()


@extend_schema(exclude=True)
class Schema(Endpoint):
    """The whole API in OpenAPI 3.1, the same for everybody."""

    is_throttled = False

    def get(self, request: Any) -> HttpResponse:
        response = HttpResponse(schema(), content_type="application/json")
        response.headers["Cache-Control"] = PUBLIC
        return response


@extend_schema(exclude=True)
class NotHere(Endpoint):
    """Whatever else is asked for under /api/v1/."""

    is_throttled = False

    def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
        """Nobody needs a name, a scope or a method to be told that nothing is here."""
        raise Http404


@never_cache
@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    """The page to read the description and try it, with the rights of whoever is signed in."""
    return render(request, "api/docs.html", {"csrf": get_token(request)})


@require_safe
def root(request: HttpRequest) -> HttpResponse:
    """Lead whoever opens the API's own address to its description."""
    return redirect("api_docs")


def schema() -> bytes:
    """Return the description as JSON; it is the same until the process ends."""
    with _one_at_a_time:  # two generators in one process trip over each other
        return _made()


@cache
def _made() -> bytes:
    generator: Any = SchemaGenerator()
    described = generator.get_schema(request=None, public=True)
    body: bytes = OpenApiJsonRenderer2().render(described)
    return body
