"""How the API is described: OpenAPI 3.1, with what all operations have in common said once."""

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

from arena.api.core.fields import Changes, Given

V = TypeVar("V", bound=Callable[..., Any])
SAME = "Nothing has changed since the ETag in If-None-Match."
PROBLEM = {"$ref": "#/components/responses/Problem"}
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    str,
    OpenApiParameter.HEADER,
    description="A key of your choice: the same request with it is carried out once in 24 hours.",
    pattern=r"^[\x21-\x7e]{1,255}$",
    examples=[OpenApiExample("A key", value="upload-2026-11-22-1")],
)
IF_MATCH = OpenApiParameter(
    "If-Match",
    str,
    OpenApiParameter.HEADER,
    description="The ETag of what you read: refused with 412 if somebody changed it since.",
)
IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match",
    str,
    OpenApiParameter.HEADER,
    description="The ETag of what you have: answered with 304 while nothing has changed.",
)


def described(
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
    """Describe a method of an endpoint: what it takes and answers, each with an example.

    `answer` is a serializer (None: no body), `shown` an example of it; for a list, of one row.
    `body` and `sent` are the same for what is taken.
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
    """What every operation has by virtue of its method and its endpoint."""

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
        """A token or a session; for reading neither is needed where all may see."""
        auths: list[dict[str, Any]] = super().get_auth()
        return [*auths, {}] if self.method == "GET" and self.view.is_open else auths

    def get_extensions(self) -> dict[str, Any]:
        """Say which scope a token needs."""
        ability = self.view.abilities.get(self.method, "read")
        return {"x-required-scope": str(ability)}

    def _get_response_bodies(self, direction: Any = "response") -> dict[str, Any]:
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        same = {"304": {"description": SAME}} if self.method == "GET" else {}
        return bodies | same | {"default": PROBLEM}

    def _map_serializer(
        self, serializer: Any, direction: Any, bypass_extensions: bool = False
    ) -> dict[str, Any]:
        """Bodies that refuse unknown members say so, and those that may not be empty."""
        schema: dict[str, Any] = super()._map_serializer(serializer, direction, bypass_extensions)
        is_given = isinstance(serializer, Given) and not isinstance(
            serializer, serializers.ListSerializer
        )
        if isinstance(serializer, Changes):
            schema |= {"minProperties": 1}
        return schema | {"additionalProperties": False} if is_given else schema


class TokenScheme(OpenApiAuthenticationExtension):
    """The security scheme of tokens."""

    target_class = "arena.api.core.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        sentence = "A team's token, made by an owner on the team's page: `rs_...`."
        return {"type": "http", "scheme": "bearer", "description": sentence}


class SessionScheme(OpenApiAuthenticationExtension):
    """The security scheme of whoever is signed in."""

    target_class = "arena.api.core.authentication.SiteSession"
    name = "session"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        sentence = "The session of whoever is signed in; writes send X-CSRFToken too."
        return {"type": "apiKey", "in": "cookie", "name": "sessionid", "description": sentence}
