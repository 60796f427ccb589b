"""The OpenAPI 3.1 description, with what all operations have in common."""

from collections.abc import Callable
from typing import Any, TypeVar

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    extend_schema,
)
from rest_framework import serializers

from arena.api.core.serializers import PatchSerializer, StrictSerializer

V = TypeVar("V", bound=Callable[..., Any])
NOT_MODIFIED = "Nothing has changed since the ETag in If-None-Match."
PROBLEM = {"$ref": "#/components/responses/Problem"}
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    str,
    OpenApiParameter.HEADER,
    description="A key of your choice. With it, a repeated request runs only once in 24 hours.",
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

    `answer` is the response's serializer (None: no body) and `shown` an example of it, of one row
    if it is a list. `body` and `sent` are the same for the request.
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
    """Adds what follows from an operation's method and endpoint."""

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
        ability = self.view.abilities.get(self.method, "read")
        return {"x-required-scope": str(ability)}

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
    target_class = "arena.api.core.requests.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        description = "A team's token (`rs_...`), which an owner creates on the team's page."
        return {"type": "http", "scheme": "bearer", "description": description}


class SessionScheme(OpenApiAuthenticationExtension):
    target_class = "arena.api.core.requests.SiteSession"
    name = "session"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        description = "The session of a signed-in browser; writes also need X-CSRFToken."
        return {"type": "apiKey", "in": "cookie", "name": "sessionid", "description": description}
