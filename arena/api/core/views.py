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

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path
from rest_framework import generics
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response

from arena.actors import Actor, TeamPermission, actor_of
from arena.api.core.bodies import USUAL_BODY
from arena.api.core.errors import BadParameter, is_server_fault
from arena.api.core.etags import with_etag
from arena.api.core.idempotency import key_of, run_once
from arena.api.core.parameters import check_names
from arena.api.core.permissions import require
from arena.api.core.quotas import Quota, count
from arena.models import Arena
from arena.permissions import FieldVisibility, known_arenas, visible_arenas

BY_LINK = "The same, by the arena's address. An id alone does not open an unlisted arena."
UNSAFE = ("POST", "PATCH", "PUT", "DELETE")


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
            # Raise BadParameter for a parameter with NUL, which PostgreSQL cannot compare.
            for name, values in self.request.query_params.lists():
                if any("\0" in value for value in values):
                    raise BadParameter(name.replace("\0", ""), "Null characters are not allowed.")
            # Requests with unknown methods are not counted, so they must not store keys either.
            key = key_of(self.request) if self.permission is not None else ""
            if key:
                return run_once(self.request, self.actor, key, self._handle_in_savepoint)
            response = self._handle()
        except Exception as error:
            response = self.handle_exception(error)
        return self._finish(response)

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
        """The arenas that the actor may know of; live questions are managed with the arena beside
        them."""
        visible = visible_arenas(self.actor)
        return visible if self.request.method in SAFE_METHODS else visible.not_live()


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
