"""Authentication, parsing, filters and pagination of requests, and the base serializers."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.utils import timezone
from django_filters import rest_framework as filters
from drf_spectacular.utils import OpenApiParameter, extend_schema_field
from rest_framework import serializers
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import (
    AuthenticationFailed,
    NotAuthenticated,
    NotFound,
    ParseError,
    PermissionDenied,
)
from rest_framework.pagination import CursorPagination
from rest_framework.parsers import BaseParser
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from arena.actors import Actor, TeamPermission
from arena.api.core.errors import BadParameter, TooLarge, Unprocessable
from arena.conversations import ROLES, clean_messages
from arena.files.reader import MOST_VALUES, holds_more_values
from arena.files.tables import AT_MOST_ROWS
from arena.models import ApiToken
from arena.services.teams import find_token
from arena.validation import MOST, NANO, InputError, clean_text, decode_json, json_type

MAX_UNKNOWN = 10  # unknown members that an error lists
YES_OR_NO = {"true": True, "1": True, "false": False, "0": False, "": False}


class StrictSerializer(serializers.Serializer[Any]):
    """A body that refuses unknown members, so that no misspelling goes unnoticed."""

    def to_internal_value(self, data: Any) -> Any:
        known = [name for name, field in self.fields.items() if not field.read_only]
        if isinstance(data, Mapping) and (unknown := [name for name in data if name not in known]):
            detail = f"Unknown member. Known members: {', '.join(known)}."
            raise serializers.ValidationError(dict.fromkeys(unknown[:MAX_UNKNOWN], detail))
        return super().to_internal_value(data)


class PatchSerializer(StrictSerializer):
    """A body of at least one change."""

    def validate(self, attrs: Any) -> Any:
        if not attrs:
            raise Unprocessable("The body contains no changes.")
        return attrs


class Text(serializers.CharField):
    """A text that is stored unchanged, including leading and trailing spaces."""

    def __init__(self, **options: Any) -> None:
        defaults = {"trim_whitespace": False, "max_length": 1_000_000, "allow_blank": True}
        super().__init__(**defaults | options)

    def to_internal_value(self, data: Any) -> str:
        """Refuse numbers, which CharField would convert."""
        if not isinstance(data, str):
            raise serializers.ValidationError(f"Must be text, not {json_type(data)}.")
        return super().to_internal_value(data)


@extend_schema_field({"type": "number", "minimum": 0, "maximum": MOST})
class Dollars(serializers.Field[Any, Any, Any, Any]):
    """US dollars in JSON, nano-dollars in Python."""

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int | float):
            raise serializers.ValidationError(
                f"Must be a number of dollars, not {json_type(data)}."
            )
        if not 0 <= data <= MOST:
            raise serializers.ValidationError(f"Must be a number from 0 to {MOST:,}.")
        return round(Decimal(str(data)) * NANO)

    def to_representation(self, value: int) -> float:
        return value / NANO


@extend_schema_field(
    {
        "type": "array",
        "items": {
            "type": "object",
            "required": ["role", "content"],
            "properties": {
                "role": {"type": "string", "enum": list(ROLES)},
                "content": {"type": "string"},
                "name": {"type": "string"},
                "tool_calls": {"type": "array", "items": {"type": "object"}},
                "tool_call_id": {"type": "string"},
            },
        },
    }
)
class MessagesField(serializers.Field[Any, Any, Any, Any]):
    """A conversation: a list of messages."""

    def to_internal_value(self, data: Any) -> Any:
        try:
            return clean_messages(data)
        except InputError as error:
            raise serializers.ValidationError(f"It {error.reason}.") from None

    def to_representation(self, value: Any) -> Any:
        return value


class RowsField(serializers.Field[Any, Any, Any, Any]):
    """A list of at most 10,000 rows, which are validated one by one later."""

    def to_internal_value(self, data: Any) -> list[Any]:
        if not isinstance(data, list):
            raise serializers.ValidationError(f"Must be a list of rows, not {json_type(data)}.")
        if len(data) > AT_MOST_ROWS:
            raise TooLarge(f"The limit is {AT_MOST_ROWS:,} rows; the request has {len(data):,}.")
        return data

    def to_representation(self, value: Any) -> Any:
        return value


def yes_or_no(request: Any, parameter: str) -> bool:
    """Return the value of a boolean query parameter, False by default; raises BadParameter."""
    value = request.query_params.get(parameter, "").lower()
    if value not in YES_OR_NO:
        raise BadParameter(parameter, "Must be true or false.")
    return YES_OR_NO[value]


CONFIRM = OpenApiParameter(
    "confirm", str, description="The slug again; without it, nothing is deleted."
)


def check_confirmed(request: Any, slug: str, loss: str) -> None:
    """Raise Unprocessable with what would be lost, unless the query has `confirm=slug`."""
    check_names(request, [CONFIRM.name])
    if request.query_params.get(CONFIRM.name) != slug:
        raise Unprocessable(
            f"Nothing was deleted. {loss} To delete it, repeat the request with ?confirm={slug}.",
            [{"parameter": CONFIRM.name, "detail": f"Must be {slug}."}],
        )


# -- Requests --------------------------------------------------------------------------------------

SCHEME = "Bearer"
UNKNOWN = "This token does not exist or was revoked. An owner of the team can create a new one."
MALFORMED = "The Authorization header must be “Bearer”, one space, and a token (rs_...)."
NO_ACCESS = "This belongs to another team, or your role in the team does not allow it."
SIGN_IN = "Send a team token, or sign in."

PAGE_PARAMETERS = ("cursor", "page_size")
LONGEST_POSITION = 18  # digits that always fit into a database's integer

MEGABYTE = 1024 * 1024
USUAL_BODY = MEGABYTE
BULK_BODY = 32 * MEGABYTE
DEEPEST = 40


# -- Authentication and permissions ----------------------------------------------------------------


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer rs_...`. An unknown token is an error, not an anonymous request."""

    def authenticate(self, request: Request) -> tuple[Any, ApiToken] | None:
        """Return an anonymous user and the token; None without the header."""
        header = request.headers.get("Authorization")
        if header is None:
            return None
        scheme, _, secret = header.partition(" ")
        if scheme.lower() != SCHEME.lower() or not secret or not secret.isascii():
            raise AuthenticationFailed(MALFORMED)
        token = find_token(secret, now=timezone.now())
        if token is None:
            raise AuthenticationFailed(UNKNOWN)
        return AnonymousUser(), token

    def authenticate_header(self, request: Request) -> str:
        return f'{SCHEME} realm="Ringside"'


class SiteSession(SessionAuthentication):
    """The browser's session; writes need its CSRF token."""


class HasScope(BasePermission):
    """Tokens need the scope that the endpoint names; anonymous requests can only read."""

    def has_permission(self, request: Request, view: Any) -> bool:
        permission = view.permission
        if permission is None:
            return True
        check_scope(view.actor, permission)
        is_open = view.is_open and request.method in SAFE_METHODS
        if not view.actor.key and not is_open:
            raise NotAuthenticated(SIGN_IN)
        return True


def check_scope(actor: Actor, permission: TeamPermission) -> None:
    """Raise PermissionDenied for a token without the scope."""
    if actor.has_scope(permission):
        return
    if permission == TeamPermission.MANAGE:
        raise PermissionDenied("Tokens cannot do this. A signed-in owner of the team can.")
    raise PermissionDenied(f"This token lacks the scope {permission}.")


def require(actor: Actor, permission: TeamPermission, team: Any) -> None:
    """Raise PermissionDenied without `permission`; for an anonymous actor, NotAuthenticated."""
    check_scope(actor, permission)
    refuse_unless(actor, actor.may(permission, team))


def refuse_unless(actor: Actor, allowed: bool) -> None:
    """Unless `allowed`, raise NotAuthenticated for an anonymous actor, else PermissionDenied."""
    if allowed:
        return
    if not actor.key:
        raise NotAuthenticated(SIGN_IN)
    raise PermissionDenied(NO_ACCESS)


# -- Query parameters and pages --------------------------------------------------------------------


def check_names(request: Request, names: Iterable[str]) -> None:
    """Raise BadParameter for any parameter except `names` and those for pagination.

    If misspelt filters were ignored, they would return everything.
    """
    known = {*names, *PAGE_PARAMETERS}
    for name in request.query_params:
        if name not in known:
            raise BadParameter(
                name, f"Unknown parameter. Known parameters: {', '.join(sorted(known))}."
            )


class StrictFilterBackend(filters.DjangoFilterBackend):
    """Applies the endpoint's `filterset_class`; raises BadParameter."""

    def filter_queryset(self, request: Request, queryset: Any, view: Any) -> Any:
        filterset = self.get_filterset(request, queryset, view)
        if filterset is None:
            return queryset
        if not filterset.is_valid():
            name, errors = next(iter(filterset.errors.items()))
            choices = dict(filterset.filters[name].extra.get("choices", ()))
            known = f"{name} must be one of: {', '.join(map(str, choices))}." if choices else ""
            raise BadParameter(name, known or str(errors[0]))
        return filterset.qs


class Pages(CursorPagination):
    """Cursor pages by id, oldest first unless the endpoint sets `newest_first`."""

    page_size = 100
    max_page_size = 1000
    page_size_query_param = "page_size"
    page_size_query_description = "Rows per page, from 1 to 1,000; 100 by default."
    cursor_query_description = "The start of the page, taken from `next` or `previous`."

    def get_ordering(self, request: Request, queryset: Any, view: Any) -> tuple[str, ...]:
        return ("-id",) if getattr(view, "newest_first", False) else ("id",)

    def get_page_size(self, request: Request) -> int:
        size = request.query_params.get(self.page_size_query_param, str(self.page_size))
        # The length is checked first, so that thousands of digits are never converted.
        if not size.isdecimal() or len(size) > 4 or not 1 <= int(size) <= self.max_page_size:
            detail = f"Must be a whole number from 1 to {self.max_page_size:,}."
            raise BadParameter(self.page_size_query_param, detail)
        return int(size)

    def decode_cursor(self, request: Request) -> Any:
        """Decode the cursor; raise BadParameter for one that no page could have returned."""
        try:
            cursor: Any = super().decode_cursor(request)
        except NotFound:
            raise self._unreadable() from None
        position = cursor.position if cursor else None
        if position is None or (position.isdecimal() and len(position) <= LONGEST_POSITION):
            return cursor
        raise self._unreadable()

    def _unreadable(self) -> BadParameter:
        detail = "Invalid cursor. Take it from a page's next or previous."
        return BadParameter(self.cursor_query_param, detail)

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        link = {"type": ["string", "null"], "format": "uri"}
        names = ["next", "previous", "results"]
        example = "https://arena.example/api/v1/arenas/?cursor=cD0xMDA%3D"
        properties = {
            "next": link | {"example": example},
            "previous": link | {"example": None},
            "results": schema,
        }
        return {"type": "object", "required": names, "properties": properties}

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        cursor, size = super().get_schema_operation_parameters(view)
        bounds = {"minimum": 1, "maximum": self.max_page_size, "default": self.page_size}
        return [cursor, size | {"schema": size["schema"] | bounds}]


# -- Bodies ----------------------------------------------------------------------------------------


class CheckedJson(BaseParser):
    """JSON in UTF-8, of at most the endpoint's `body_limit` bytes."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        """Return the parsed body; its bytes stay on the request as `raw_body`."""
        request, view = parser_context["request"], parser_context["view"]
        request.raw_body = read_at_most(stream, view.body_limit)
        return parsed(request.raw_body)


def read_at_most(stream: Any, limit: int) -> bytes:
    """Read the body; raises TooLarge beyond `limit` bytes, without reading the rest."""
    body: bytes = stream.read(limit + 1)
    if len(body) > limit:
        raise TooLarge(f"The body is larger than the limit of {limit // MEGABYTE} MB.")
    return body


def parsed(body: bytes) -> Any:
    """Parse JSON; raises ParseError, and TooLarge for too many values."""
    if holds_more_values(body):
        raise TooLarge(f"The body has more than {MOST_VALUES:,} values.")
    try:
        value = decode_json(body.decode())
    except UnicodeDecodeError:
        raise ParseError("The body is not UTF-8 text.") from None
    except InputError as error:
        raise ParseError(f"The body {error.reason}.") from None
    _check(value)
    return value


def _check(value: Any) -> None:
    """Raise ParseError for texts that cannot be stored, and for deep nesting."""
    level = [value]
    for _ in range(DEEPEST):
        _check_texts([item for item in level if isinstance(item, str)])
        level = [inner for item in level for inner in _inside(item)]
        if not level:
            return
    raise ParseError(f"The body is nested more than {DEEPEST} levels deep.")


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else []


def _check_texts(texts: list[str]) -> None:
    try:
        for text in texts:
            clean_text(text, limit=BULK_BODY)
    except InputError as error:
        raise ParseError(f"A text in the body {error.reason}.") from None
