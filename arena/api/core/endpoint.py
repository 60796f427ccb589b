"""The endpoint that all others are made of."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from rest_framework import generics
from rest_framework.request import Request
from rest_framework.response import Response

from arena.access import Ability, Actor, actor_of
from arena.api.core import once, parsing, throttling
from arena.api.core.conditional import with_etag
from arena.api.core.filtering import check_names
from arena.api.core.permissions import require
from arena.api.core.problems import is_server_fault
from arena.models import Arena

BY_LINK = "The same by the link of the arena: an unlisted one is not found by numbers alone."
UNSAFE = ("POST", "PATCH", "PUT", "DELETE")


class Endpoint(generics.GenericAPIView[Any]):
    """One path. Its methods name in `abilities` what they need.

    A token must have that scope whatever it asks for; nobody may only read, and where `is_open` is
    false not even that. What the actor may do with the very row is asked by the method, through
    `require`.
    """

    abilities: ClassVar[Mapping[str, Ability]] = {}
    tag: ClassVar[str] = ""
    body_limit: ClassVar[int] = parsing.USUAL_BODY
    is_open: ClassVar[bool] = True
    is_throttled: ClassVar[bool] = True
    has_match: ClassVar[bool] = False
    http_method_names = ["get", "head", "post", "patch", "delete"]
    queryset: Any = Arena.objects.none()

    # -- Who asks, and for what --------------------------------------------------------------------

    @cached_property
    def actor(self) -> Actor:
        """Who asks."""
        return actor_of(self.request)

    @property
    def ability(self) -> Ability | None:
        """What the request's method needs; None for a method that is not there."""
        method = "GET" if self.request.method == "HEAD" else str(self.request.method)
        if not hasattr(self, method.lower()):
            return None
        return self.abilities[method] if method in UNSAFE else self.abilities.get(method, _READ)

    def require(self, ability: Ability, team: Any) -> None:
        """Refuse whoever may not do this for `team` (a Team, its id, or None)."""
        require(self.actor, ability, team)

    def check_throttles(self, request: Request) -> None:
        if self.is_throttled and self.ability is not None:
            throttling.count(request._request, self.actor, self.ability)

    # -- What was sent -----------------------------------------------------------------------------

    def given(self, serializer: type[Any], **options: Any) -> dict[str, Any]:
        """Return the body as `serializer` reads it; a ValidationError says what is wrong."""
        sent = serializer(data=self.request.data, context=self.get_serializer_context(), **options)
        sent.is_valid(raise_exception=True)
        return dict(sent.validated_data)

    # -- From the request to the answer ------------------------------------------------------------

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """As the framework's, but that a POST with an Idempotency-Key is carried out once."""
        self.args, self.kwargs = args, kwargs
        self.request = self.initialize_request(request, *args, **kwargs)
        self.headers = self.default_response_headers
        try:
            self.initial(self.request, *args, **kwargs)
            # A method that is not there leaves nothing to be repeated, and is counted by no limit.
            key = once.key_of(self.request) if self.ability is not None else ""
            if key:
                return once.answered(self.request, self.actor, key, self._answer_in_savepoint)
            response = self._handle()
        except Exception as error:
            response = self.handle_exception(error)
        return self._finished(response)

    def _handle(self) -> HttpResponse:
        method = str(self.request.method).lower()
        known = method in self.http_method_names
        handler = getattr(self, method, None) if known else None
        handler = handler or self.http_method_not_allowed
        response: HttpResponse = handler(self.request, *self.args, **self.kwargs)
        return response

    def _answer_in_savepoint(self) -> HttpResponse:
        """The whole answer, problems included; faults of ours are raised instead."""
        try:
            with transaction.atomic():
                response = self._handle()
        except Exception as error:
            if is_server_fault(error):
                raise
            response = self.handle_exception(error)
        return self._finished(response)

    def _finished(self, response: HttpResponse) -> HttpResponse:
        finished: Any = response
        finished = self.finalize_response(self.request, finished, *self.args, **self.kwargs)
        if isinstance(finished, Response):
            finished.render()
        return with_etag(self.request._request, finished)


class ArenaEndpoint(Endpoint):
    """A path under /arenas/<slug>/. A private arena is missing for whoever may not see it."""

    @cached_property
    def arena(self) -> Arena:
        """The arena that the path names."""
        return get_object_or_404(self.arenas().select_related("team"), slug=self.kwargs["slug"])

    def arenas(self) -> QuerySet[Arena]:
        """The arenas that exist for whoever asks."""
        return Arena.objects.visible_to(self.actor)


class NumberedEndpoint(Endpoint):
    """A path that names something by its number: below its arena, or by the number alone."""

    def arenas(self) -> QuerySet[Arena]:
        """Where to look for it: in the arena that the path names, else where numbers lead.

        Numbers can be counted through, so alone they lead into no unlisted arena but one's own.
        """
        if "slug" not in self.kwargs:
            return Arena.objects.known_to(self.actor)
        return Arena.objects.visible_to(self.actor).filter(slug=self.kwargs["slug"])


class ListEndpoint(Endpoint):
    """Adds pages to an endpoint. `asked_by` are parameters that it reads besides its filters."""

    newest_first: ClassVar[bool] = False
    asked_by: ClassVar[tuple[str, ...]] = ()
    filterset_class: Any = None

    def page(self, rows: QuerySet[Any], serializer: type[Any] | None = None) -> Response:
        """Answer with one page of `rows`, filtered as the query says; raises BadParameter."""
        filters = self.filterset_class.base_filters if self.filterset_class else ()
        check_names(self.request, [*self.asked_by, *filters])
        found = self.paginate_queryset(self.filter_queryset(rows))
        shown = (serializer or self.get_serializer_class())(
            found, many=True, context=self.get_serializer_context()
        )
        return self.get_paginated_response(shown.data)


_READ = Ability.READ
