"""The OpenAPI 3.1 schema, the defaults of all operations, and the documentation page."""

from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any, TypeVar

from django.http import Http404, HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.renderers import OpenApiJsonRenderer2
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers

from arena.api.core.serializers import PatchSerializer, StrictSerializer
from arena.api.core.views import ApiEndpoint
from arena.api.core.webhooks import webhooks

V = TypeVar("V", bound=Callable[..., Any])
NOT_MODIFIED = "Not modified: the ETag in If-None-Match is still current."
PROBLEM = {"$ref": "#/components/responses/Problem"}
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    str,
    OpenApiParameter.HEADER,
    description="A key of your choice. A request repeated with the same key within 24 hours runs "
    "only once.",
    pattern=r"^[\x21-\x7e]{1,255}$",
    examples=[OpenApiExample("A key", value="upload-2026-11-22-1")],
)
IF_MATCH = OpenApiParameter(
    "If-Match",
    str,
    OpenApiParameter.HEADER,
    description="The ETag of what you retrieved; the status is 412 if it has changed since.",
)
IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match",
    str,
    OpenApiParameter.HEADER,
    description="The ETag of what you have; the status is 304 if it has not changed.",
)


def operation(
    operation_id: str,
    summary: str,
    *,
    answer: Any,
    shown: Any,
    status: int = 200,
    or_status: int | None = None,
    body: Any = None,
    sent: Any = None,
    parameters: list[OpenApiParameter] | None = None,
    description: str = "",
) -> Callable[[V], V]:
    """Describe a method of an endpoint: its request and its response, each with an example.

    `answer` is the response's serializer (None: no body) and `shown` an example of the response (of
    one row, for a list). `body` and `sent` are the same for the request.
    """
    examples = []
    if body is not None:
        examples.append(OpenApiExample("A body", value=sent, request_only=True))
    if answer is not None:
        examples.append(OpenApiExample("An answer", value=shown, response_only=True))
    return extend_schema(
        operation_id=operation_id,
        summary=summary,
        description=description or summary,
        request=body,
        responses=dict.fromkeys(filter(None, [status, or_status]), answer),
        parameters=parameters,
        examples=examples,
    )


class Operations(AutoSchema):
    """Adds details derived from an operation's method and endpoint."""

    view: Any

    def get_tags(self) -> list[str]:
        return [self.view.tag]

    def get_override_parameters(self) -> list[Any]:
        if self.method == "POST":
            return [IDEMPOTENCY_KEY]
        if self.method == "PATCH" and self.view.has_match:
            return [IF_MATCH]
        return [IF_NONE_MATCH] if self.method == "GET" else []

    def get_auth(self) -> list[dict[str, Any]]:
        """A token or a session; open endpoints can be read without either."""
        auths: list[dict[str, Any]] = super().get_auth()
        return [*auths, {}] if self.method == "GET" and self.view.is_open else auths

    def get_extensions(self) -> dict[str, Any]:
        permission = self.view.permissions.get(self.method, "read")
        return {"x-required-scope": str(permission)}

    def _get_response_bodies(self, direction: Any = "response") -> dict[str, Any]:
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        not_modified = {"304": {"description": NOT_MODIFIED}} if self.method == "GET" else {}
        return bodies | not_modified | {"default": PROBLEM}

    def _map_serializer(
        self, serializer: Any, direction: Any, bypass_extensions: bool = False
    ) -> dict[str, Any]:
        """Mark bodies that refuse unknown members, and those that must not be empty."""
        schema: dict[str, Any] = super()._map_serializer(serializer, direction, bypass_extensions)
        is_strict = isinstance(serializer, StrictSerializer) and not isinstance(
            serializer, serializers.ListSerializer
        )
        if isinstance(serializer, PatchSerializer):
            schema |= {"minProperties": 1}
        return schema | {"additionalProperties": False} if is_strict else schema


class TokenScheme(OpenApiAuthenticationExtension):
    target_class = "arena.api.core.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        description = "A team's token (`rs_...`), which an owner creates on the team's page."
        return {"type": "http", "scheme": "bearer", "description": description}


class SessionScheme(OpenApiAuthenticationExtension):
    target_class = "arena.api.core.authentication.SiteSession"
    name = "session"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        description = "The session of a signed-in browser; writes also need X-CSRFToken."
        return {"type": "apiKey", "in": "cookie", "name": "sessionid", "description": description}


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
    openapi = generator.get_schema(request=None, public=True) | {"webhooks": webhooks()}
    body: bytes = OpenApiJsonRenderer2().render(openapi)
    return body
