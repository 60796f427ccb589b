"""What a request may see and do: what is seen by whoever sees the arena, steered by its team."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404

from arena.access import actor_of
from arena.models import Arena, Run
from judges.pages.runs import runs_of_judges
from judges.services.steering import may_steer

View = Callable[..., HttpResponse]
NOT_YOURS = (
    "Runs of judges here are ordered and steered by members of the arena’s team, and by operators: "
    "they spend money."
)


def operators_only(view: View) -> View:
    """Let operators in; ask nobody who opens the page to sign in, and refuse all others."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return _turned_away(request, None) or view(request, *args, **kwargs)

    return guarded


def for_judging(view: View) -> View:
    """Hand a view its arena instead of the slug, if the request may have judges asked there."""

    @wraps(view)
    def guarded(request: HttpRequest, slug: str) -> HttpResponse:
        arena = find_arena(request, slug)
        return _turned_away(request, arena) or view(request, arena)

    return guarded


def check_steering(request: HttpRequest, arena: Arena | None) -> None:
    """Raise PermissionDenied unless the request may steer what judges do there."""
    if not may_steer(actor_of(request), arena):
        raise PermissionDenied(NOT_YOURS if arena and arena.team_id else "")


def _turned_away(request: HttpRequest, arena: Arena | None) -> HttpResponse | None:
    reads = request.method in ("GET", "HEAD")
    if reads and not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    check_steering(request, arena)
    return None


def find_arena(request: HttpRequest, slug: str) -> Arena:
    return get_object_or_404(Arena.objects.visible_to(actor_of(request)), slug=slug)


def find_run(request: HttpRequest, slug: str, pk: int) -> Run:
    """A judges' run of an arena that the request may see."""
    arena = find_arena(request, slug)
    return get_object_or_404(_runs(), pk=pk, arena=arena)


def find_trial(pk: int) -> Run:
    """A run on labelled items, which belongs to no arena."""
    return get_object_or_404(runs_of_judges(), pk=pk, arena=None)


def find_any_run(request: HttpRequest, pk: int) -> Run:
    """A run of judges of no arena, or of one to which its number may lead the request."""
    known = Arena.objects.known_to(actor_of(request))
    return get_object_or_404(_runs().filter(Q(arena=None) | Q(arena__in=known)), pk=pk)


def _runs() -> Any:
    return runs_of_judges().select_related("arena", "team")
