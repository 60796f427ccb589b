"""The API's OpenAPI schema and its documentation page."""

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

from arena.api.core.views import ApiEndpoint

PUBLIC = "public, max-age=300"
_schema_lock = Lock()


@extend_schema(exclude=True)
class SchemaView(ApiEndpoint):
    """The OpenAPI 3.1 schema, which is the same for everybody."""

    is_throttled = False

    def get(self, request: Any) -> HttpResponse:
        response = HttpResponse(schema(), content_type="application/json")
        response.headers["Cache-Control"] = PUBLIC
        return response


@extend_schema(exclude=True)
class NotFound(ApiEndpoint):
    """All other addresses under /api/v1/."""

    is_throttled = False

    def initial(self, request: Any, *args: Any, **kwargs: Any) -> None:
        """Answer 404 before checking authentication, scopes or methods."""
        raise Http404


@never_cache
@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    """Swagger UI, which sends requests as the signed-in person."""
    return render(request, "api/docs.html", {"csrf": get_token(request)})


@require_safe
def root(request: HttpRequest) -> HttpResponse:
    """Redirect the API's base address to its documentation."""
    return redirect("api_docs")


def schema() -> bytes:
    """Return the schema as JSON, which is generated once per process."""
    with _schema_lock:  # generators are not thread-safe
        return _generate_schema()


@cache
def _generate_schema() -> bytes:
    generator: Any = SchemaGenerator()
    openapi = generator.get_schema(request=None, public=True)
    body: bytes = OpenApiJsonRenderer2().render(openapi)
    return body
