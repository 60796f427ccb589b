"""What a request may see and do: runs of revealed arenas for everybody, the rest for staff."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404

from arena.models import Arena, Run
from judges.pages.runs import runs_of_judges
from judges.services.steering import may_steer

View = Callable[..., HttpResponse]


def staff_only(view: View) -> View:
    """Let staff in; ask a stranger who opens the page to sign in, and refuse all others."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if may_steer(request.user):
            return view(request, *args, **kwargs)
        if not request.user.is_authenticated and request.method in ("GET", "HEAD"):
            return redirect_to_login(request.get_full_path())
        raise PermissionDenied

    return guarded


def find_arena(slug: str) -> Arena:
    return get_object_or_404(Arena.objects.revealed(), slug=slug)


def find_run(slug: str, pk: int) -> Run:
    """A judges' run of a revealed arena."""
    arena = find_arena(slug)
    return get_object_or_404(runs_of_judges().select_related("arena"), pk=pk, arena=arena)


def find_trial(pk: int) -> Run:
    """A run on labelled items, which belongs to no arena."""
    return get_object_or_404(runs_of_judges(), pk=pk, arena=None)


def find_any_run(pk: int) -> Run:
    """A run of judges, of a revealed arena or of none."""
    run = get_object_or_404(runs_of_judges().select_related("arena"), pk=pk)
    if run.arena is not None:
        find_arena(run.arena.slug)
    return run
