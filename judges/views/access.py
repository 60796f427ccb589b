"""The arenas and runs that a request may see, and the judge runs that it may control."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext_lazy

from arena.actors import TeamPermission, actor_of
from arena.models import Arena, Run
from arena.permissions import visible_arenas
from judges.permissions import can_steer, known_runs
from judges.services.runs import runs_of_judges

View = Callable[..., HttpResponse]
MEMBERS_ONLY = gettext_lazy(
    "Judge runs cost money, so only members of the arena’s team and the site’s administrators can "
    "start and control them here."
)


def operators_only(view: View) -> View:
    """Admit operators; ask readers who are not signed in to sign in, and refuse all others."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return _require_steering(request, None) or view(request, *args, **kwargs)

    return guarded


def for_judging(view: View) -> View:
    """Hand a view its arena instead of the slug, if the request may start judge runs there."""

    @wraps(view)
    def guarded(request: HttpRequest, slug: str) -> HttpResponse:
        arena = find_arena(request, slug)
        return _require_steering(request, arena) or view(request, arena)

    return guarded


def check_steering(request: HttpRequest, arena: Arena | None) -> None:
    """Raise PermissionDenied unless the request may control judge runs there."""
    if not can_steer(actor_of(request), arena):
        raise PermissionDenied(MEMBERS_ONLY if arena and arena.team_id else "")


def require_reading(request: HttpRequest, arena: Arena) -> HttpResponse | None:
    """Admit the arena's team, asking who is not signed in to do so; raises PermissionDenied."""
    if not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    if not actor_of(request).may(TeamPermission.READ, arena.team_id):
        raise PermissionDenied
    return None


def _require_steering(request: HttpRequest, arena: Arena | None) -> HttpResponse | None:
    if request.method in ("GET", "HEAD") and not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    check_steering(request, arena)
    return None


def find_arena(request: HttpRequest, slug: str) -> Arena:
    return get_object_or_404(visible_arenas(actor_of(request)), slug=slug)


def find_run(request: HttpRequest, slug: str, pk: int) -> Run:
    """A judge run of an arena that the request may see."""
    arena = find_arena(request, slug)
    runs_with_owners = runs_of_judges().select_related("arena", "team")
    return get_object_or_404(runs_with_owners, pk=pk, arena=arena)


def find_trial(pk: int) -> Run:
    """A run on labelled items, which belongs to no arena."""
    return get_object_or_404(runs_of_judges(), pk=pk, arena=None)


def find_any_run(request: HttpRequest, pk: int) -> Run:
    """A trial, or a judge run of an arena that the request may reach by the run's number."""
    runs_in_reach = known_runs(actor_of(request)).select_related("arena", "team")
    return get_object_or_404(runs_in_reach, pk=pk)
