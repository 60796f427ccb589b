"""The base classes of all endpoints, with rate limits, ETags and bulk requests.

An endpoint of any app is written like this:

    from arena.api.core.schema import operation
    from arena.api.core.views import ArenaEndpoint, ListEndpoint

    class Boards(ArenaEndpoint, ListEndpoint):
        tag = "Boards"                              # the section of the documentation
        permissions = {"POST": TeamPermission.JUDGE}  # for unsafe methods; GET needs READ

        @operation("list_boards", "List the boards of an arena",
                   answer=BoardShown(many=True), shown={...})
        def get(self, request, slug):
            return self.page(self.arena.boards.all(), BoardShown)

Its route has a name that begins with `api_` and stands in the `urls.py` of its app. The last route
of `arena/urls.py` answers 404 for every other path.

- `self.actor` is the sender of the request: a token, a signed-in person, or nobody. Before the
  method runs, a token without the scope in `permissions` gets 403, and an anonymous write gets 401.
  Anybody can read unless `is_open = False`. A method that shows more than the public may see calls
  `self.require(permission, team)`, which raises 401 or 403.
- `self.arena` (of an ArenaEndpoint) is the arena in the path. To outsiders a private arena looks
  like a missing one, with the same query and the same body. Start every other query from
  `self.arena` or from `self.arenas()`.
- `self.validated(SomeGiven)` reads the body. `SomeGiven` is a StrictSerializer, which refuses
  unknown members; use `Text` where spaces matter. `body_limit = BULK_BODY` accepts 32 MB instead
  of 1 MB.
- Writes go through services. A ServiceError becomes 422 with its message and a pointer to its
  field, a VoteError becomes 409; `core.errors` has the others. Any other exception is a 500 without
  details.
- Every POST accepts an Idempotency-Key. The method then runs in one transaction with the key and
  its stored answer, so slow work belongs in tasks, on commit.
- `self.page(rows, Serializer)` paginates by id (`newest_first = True` reverses it), after the
  filters of `filterset_class` (django-filter). Unknown parameters are refused.
- Every 200 of a GET has an ETag. `check_match(request, data)`, called in the transaction that
  changes the row, makes a PATCH obey If-Match; `has_match = True` documents it.
- Requests are counted per scope, and per token, person or address. Stored public pages may set
  `is_throttled = False`.
- `operation` gives each method an operation id (verb_noun), a summary and examples.
"""

import hashlib
import math
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any, ClassVar, Generic

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.cache import get_conditional_response, patch_cache_control, patch_vary_headers
from drf_spectacular.utils import OpenApiParameter
from rest_framework import generics, serializers
from rest_framework.exceptions import ParseError
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from arena.actors import Actor, TeamPermission, actor_of
from arena.api.core.errors import (
    BadParameter,
    OtherRequest,
    PreconditionFailed,
    StillAtWork,
    TooMany,
    Unprocessable,
    is_server_fault,
)
from arena.api.core.serializers import USUAL_BODY, check_names, require
from arena.files.rows import UploadRow
from arena.files.tables import Columns, Problem, refuse_repeated
from arena.models import Arena
from arena.permissions import FieldVisibility, known_arenas, visible_arenas
from arena.services import idempotency, rate_limits
from arena.services.rate_limits import client_address
from arena.services.responses import UploadReport
from arena.validation import InputError, json_type, quoted

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
KEY = re.compile(r"[\x21-\x7e]{1,255}")


def key_of(request: Request) -> str:
    """Return the key of a POST, or ''; raises ParseError for an invalid key."""
    key = request.headers.get(HEADER)
    if request.method != "POST" or key is None:
        return ""
    if not KEY.fullmatch(key):
        raise ParseError(f"{HEADER} must have 1 to 255 visible ASCII characters, and no spaces.")
    return key


def run_once(
    request: Request, actor: Actor, key: str, work: Callable[[], HttpResponse]
) -> HttpResponse:
    """Return the response of `work`, or the stored one if the request was sent before."""
    try:
        reply = idempotency.carry_out_once(
            owner=actor.key,
            key=key,
            fingerprint=fingerprint(request),
            rights=actor.rights,
            now=timezone.now(),
            work=lambda: _stored(work()),
        )
    except idempotency.IdempotencyKeyError:
        raise OtherRequest from None
    except idempotency.FirstRequestRunningError:
        raise StillAtWork from None
    response = HttpResponse(reply.body, status=reply.status, headers=reply.headers)
    if reply.is_repeated:
        response.headers[REPLAYED] = "true"
    return response


def fingerprint(request: Request) -> str:
    """Return a digest of the method, the path with its query, and the body."""
    _ = request.data  # reads the body, within its limit
    target = f"{request.method} {request.get_full_path()}\n".encode()
    return hashlib.sha256(target + getattr(request, "raw_body", b"")).hexdigest()


def _stored(response: HttpResponse) -> idempotency.StoredReply:
    return idempotency.StoredReply(response.status_code, dict(response.headers), response.content)


# -- Idempotency keys ------------------------------------------------------------------------------

MINUTE = timedelta(minutes=1)
# All tokens of a team together get this many times the limit of one token; otherwise a team could
# circumvent the limit by creating tokens.
TOKENS_OF_A_TEAM = 3
TAG = re.compile(r'(?:W/)?("[^"]*")')
BY_LINK = "The same, by the arena's address. An id alone does not open an unlisted arena."
UNSAFE = ("POST", "PATCH", "PUT", "DELETE")


# -- Rate limits -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Quota:
    """What is left of a limit per minute, and the seconds until it resets."""

    limit: int
    left: int
    seconds: int

    def headers(self) -> dict[str, str]:
        values = {"Limit": self.limit, "Remaining": max(self.left, 0), "Reset": self.seconds}
        return {f"RateLimit-{name}": str(value) for name, value in values.items()}


def count(request: HttpRequest, actor: Actor, permission: TeamPermission) -> Iterator[Quota]:
    """Count one request, and yield what is left of each limit per minute; raises TooMany."""
    now = timezone.now()
    # A request that exceeds one limit is not counted against the next.
    for who, allowed, by in _counters(request, actor, settings.API_REQUESTS_PER_MINUTE[permission]):
        hits, seconds = rate_limits.count_use(key=f"api:{permission}:{who}", window=MINUTE, now=now)
        quota = Quota(allowed, allowed - hits, math.ceil(seconds))
        yield quota
        if quota.left < 0:
            limit = f"{allowed:,} requests to {permission}"
            raise TooMany(f"More than {limit} within a minute{by}.", quota.seconds)


def _counters(request: HttpRequest, actor: Actor, allowed: int) -> Iterator[tuple[str, int, str]]:
    """Yield, in order, the key and the limit of each counter, and whose requests it counts."""
    yield actor.key or client_address(request), allowed, ""
    if actor.token is not None:
        team = f"team:{actor.token.team_id}"
        yield team, allowed * TOKENS_OF_A_TEAM, ", by all tokens of this team"


# -- ETags -----------------------------------------------------------------------------------------


def etag_of(body: bytes) -> str:
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def with_etag(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Add the ETag to a GET's response, or return 304 if the client has it already.

    Responses depend on the actor, so they are marked as private.
    """
    if "Cache-Control" not in response.headers:
        patch_cache_control(response, private=True, no_cache=True)
    patch_vary_headers(response, ["Authorization", "Cookie"])
    if request.method not in ("GET", "HEAD") or response.status_code != 200 or response.streaming:
        return response
    if "ETag" in response.headers:  # a cached page, which has been compared already
        return response
    etag = etag_of(_body_without_indent(response))
    response.headers["ETag"] = etag
    conditional = get_conditional_response(request, etag=etag, response=response)
    assert conditional is not None, "never None if a response is given"
    return conditional


def _body_without_indent(response: HttpResponse) -> bytes:
    """Return the body unindented: the ETag must not depend on `indent=4` in Accept."""
    if "indent" in getattr(response, "accepted_media_type", ""):
        return _rendered(response.data)  # type: ignore[attr-defined]  # it is REST framework's
    return response.content


def _rendered(data: Any) -> bytes:
    return bytes(JSONRenderer().render(data))


def check_match(request: Request, data: Any) -> None:
    """Raise PreconditionFailed if there is an If-Match without the ETag of `data`.

    Weak ETags match too, because compressing proxies weaken them.
    """
    header = request.headers.get("If-Match")
    if header is None or header.strip() == "*":
        return
    if etag_of(_rendered(data)) not in TAG.findall(header):
        raise PreconditionFailed


# -- Endpoints -------------------------------------------------------------------------------------


class ApiEndpoint(generics.GenericAPIView[Any]):
    """The base of all endpoints. `permissions` names the permission that each unsafe method needs.

    A token must have that scope. Anonymous requests can only read, and only if `is_open`. Whether
    the actor may change a particular row is checked by the method, through `require`.
    """

    permissions: ClassVar[Mapping[str, TeamPermission]] = {}
    tag: ClassVar[str] = ""
    body_limit: ClassVar[int] = USUAL_BODY
    is_open: ClassVar[bool] = True
    is_throttled: ClassVar[bool] = True
    has_match: ClassVar[bool] = False
    quota: Quota | None = None
    http_method_names = ["get", "head", "post", "patch", "delete"]
    queryset: Any = Arena.objects.none()

    @cached_property
    def actor(self) -> Actor:
        return actor_of(self.request)

    @property
    def permission(self) -> TeamPermission | None:
        """The permission that the request's method needs; None for an unknown method."""
        method = "GET" if self.request.method == "HEAD" else str(self.request.method)
        if not hasattr(self, method.lower()):
            return None
        if method in UNSAFE:
            return self.permissions[method]
        return self.permissions.get(method, TeamPermission.READ)

    def require(self, permission: TeamPermission, team: Any) -> None:
        """Raise PermissionDenied or NotAuthenticated; `team` is a Team, its id or None."""
        require(self.actor, permission, team)

    def check_throttles(self, request: Request) -> None:
        if self.is_throttled and self.permission is not None:
            for quota in count(request._request, self.actor, self.permission):
                if self.quota is None or quota.left < self.quota.left:
                    self.quota = quota

    def validated(self, serializer: type[Any], **options: Any) -> dict[str, Any]:
        """Return the validated body; raises ValidationError."""
        context = self.get_serializer_context()
        body = serializer(data=self.request.data, context=context, **options)
        body.is_valid(raise_exception=True)
        return dict(body.validated_data)

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Dispatch as REST framework does, but run a POST with an Idempotency-Key only once."""
        response = self._dispatch(request, *args, **kwargs)
        for name, value in self.quota.headers().items() if self.quota else ():
            response.headers[name] = value
        return response

    def _dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        self.args, self.kwargs = args, kwargs
        self.request = self.initialize_request(request, *args, **kwargs)
        self.headers = self.default_response_headers
        try:
            self.initial(self.request, *args, **kwargs)
            self._refuse_null_characters()
            # Requests with unknown methods are not counted, so they must not store keys either.
            key = key_of(self.request) if self.permission is not None else ""
            if key:
                return run_once(self.request, self.actor, key, self._handle_in_savepoint)
            response = self._handle()
        except Exception as error:
            response = self.handle_exception(error)
        return self._finish(response)

    def _refuse_null_characters(self) -> None:
        """Raise BadParameter for a parameter with NUL, which PostgreSQL cannot compare."""
        for name, values in self.request.query_params.lists():
            if any("\0" in value for value in values):
                raise BadParameter(name.replace("\0", ""), "Null characters are not allowed.")

    def _handle(self) -> HttpResponse:
        method = str(self.request.method).lower()
        is_allowed = method in self.http_method_names
        handler = getattr(self, method, None) if is_allowed else None
        handler = handler or self.http_method_not_allowed
        response: HttpResponse = handler(self.request, *self.args, **self.kwargs)
        return response

    def _handle_in_savepoint(self) -> HttpResponse:
        """Return the complete response, also for errors; server errors are raised instead."""
        try:
            with transaction.atomic():
                response = self._handle()
        except Exception as error:
            if is_server_fault(error):
                raise
            response = self.handle_exception(error)
        return self._finish(response)

    def _finish(self, response: HttpResponse) -> HttpResponse:
        finished: Any = response
        finished = self.finalize_response(self.request, finished, *self.args, **self.kwargs)
        if isinstance(finished, Response):
            finished.render()
        return with_etag(self.request._request, finished)


def endpoint(route: str, view: type[ApiEndpoint], name: str) -> URLPattern:
    return path(route, view.as_view(), name=name)


class ArenaEndpoint(ApiEndpoint):
    """An endpoint under /arenas/<slug>/; answers 404 to actors who may not see the arena."""

    @cached_property
    def arena(self) -> Arena:
        return get_object_or_404(self.arenas().select_related("team"), slug=self.kwargs["slug"])

    @cached_property
    def reader(self) -> FieldVisibility:
        return FieldVisibility(self.actor, self.arena)

    def arenas(self) -> QuerySet[Arena]:
        """The arenas that the actor may know of."""
        return visible_arenas(self.actor)


class NumberedEndpoint(ApiEndpoint):
    """An endpoint with an id in its path, either under its arena or alone."""

    def arenas(self) -> QuerySet[Arena]:
        """The arenas to search: the one in the path, or else those that `known_to` allows.

        Ids can be guessed, so an id alone leads to no unlisted arena unless the actor's team owns
        the arena or has a candidate in it.
        """
        if "slug" not in self.kwargs:
            return known_arenas(self.actor)
        return visible_arenas(self.actor).filter(slug=self.kwargs["slug"])


class ListEndpoint(ApiEndpoint):
    """A paginated endpoint. `other_parameters` names its parameters other than filters."""

    newest_first: ClassVar[bool] = False
    other_parameters: ClassVar[tuple[str, ...]] = ()
    filterset_class: Any = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.filterset_class:  # the API's description reads the types of filters from the model
            cls.queryset = cls.filterset_class.Meta.model.objects.none()

    def page(self, rows: QuerySet[Any], serializer: type[Any] | None = None) -> Response:
        """Return one page of the filtered `rows`; raises BadParameter."""
        filters = self.filterset_class.base_filters if self.filterset_class else ()
        check_names(self.request, [*self.other_parameters, *filters])
        page = self.paginate_queryset(self.filter_queryset(rows))
        serializer = serializer or self.get_serializer_class()
        data = serializer(page, many=True, context=self.get_serializer_context()).data
        return self.get_paginated_response(data)


# -- Bulk requests ---------------------------------------------------------------------------------

ATOMIC = OpenApiParameter(
    "atomic",
    bool,
    description="Refuse all rows with 422 if any row is invalid; false by default.",
)


class RowProblem(serializers.Serializer[Any]):
    """Why a row was refused; `index` counts from 0."""

    index = serializers.IntegerField()
    pointer = serializers.CharField(help_text="JSON pointer into the body.")
    detail = serializers.CharField()


class ReportShown(serializers.Serializer[Any]):
    """The result of a bulk upload."""

    added = serializers.IntegerField()
    changed = serializers.IntegerField()
    unchanged = serializers.IntegerField()
    refused = RowProblem(many=True)


@dataclass(frozen=True)
class Kind(Generic[UploadRow]):
    """A kind of row: the body's member that lists such rows, and their columns."""

    member: str
    columns: Columns[UploadRow]

    def read(self, rows: list[Any]) -> tuple[list[UploadRow], list[Problem]]:
        """Return the valid rows, and the problems of the others."""
        good, bad, seen = list[UploadRow](), list[Problem](), dict[tuple[str, Hashable], int]()
        for index, row in enumerate(rows):
            try:
                parsed = self._parsed(index, row)
                refuse_repeated(index, parsed.key, seen)
                good.append(parsed)
            except InputError as error:
                subject = f"The member {quoted(error.column)}" if error.column else "The row"
                bad.append(Problem(index, error.column or "", f"{subject} {error.reason}."))
        return good, bad

    def _parsed(self, index: int, row: Any) -> UploadRow:
        if not isinstance(row, dict):
            raise InputError(f"is {json_type(row)}, not an object")
        fields = {self.columns.exported.get(name, name): value for name, value in row.items()}
        if len(fields) < len(row):
            raise InputError("contains a member twice")
        for name in row:
            if not self.columns.has_member(name):
                raise InputError("is not a known member", name)
        return self.columns.parse(index, fields, {})

    def errors(self, problems: list[Problem]) -> list[dict[str, Any]]:
        """Return the problems as the API shows them, in the order of the rows."""
        return [
            {"index": problem.row, "pointer": self._pointer(problem), "detail": problem.sentence}
            for problem in sorted(problems, key=lambda problem: problem.row)
        ]

    def _pointer(self, problem: Problem) -> str:
        column = problem.column.replace("~", "~0").replace("/", "~1")
        return f"#/{self.member}/{problem.row}" + (f"/{column}" if column else "")


def bring_in(
    kind: Kind[UploadRow],
    rows: list[Any],
    *,
    upsert: Callable[[list[UploadRow], list[Problem]], UploadReport],
) -> dict[str, Any]:
    """Have `upsert` write the valid rows, given the problems of the others; return the report.

    Raises Unprocessable if nothing was written because of a refused row.
    """
    report = upsert(*kind.read(rows))
    errors = kind.errors(report.problems)
    if not report.written:
        count = "one row" if len(errors) == 1 else f"{len(errors):,} rows"
        raise Unprocessable(f"Nothing was written, because {count} cannot be added.", errors)
    counts = {name: getattr(report, name) for name in ("added", "changed", "unchanged")}
    return counts | {"refused": errors, "missing": report.missing}
