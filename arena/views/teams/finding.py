"""Which team a page is about, and what its reader may do there."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.cache import never_cache

from arena.access import Ability, actor_of, teams_of
from arena.models import Team

ROWS_OF_A_PAGE = 50
NOT_YOURS = {
    Ability.SUBMIT: "This is for members and owners of the team. You may read what is in it.",
    Ability.MANAGE: "This is for owners of the team. Ask one of them, or have them make you one.",
}
View = Callable[..., HttpResponse]


def find_team(request: HttpRequest, slug: str, ability: Ability = Ability.READ) -> Team:
    """Return the team at `slug`: 404 for whoever is not in it, 403 without `ability`."""
    actor = actor_of(request)
    team = get_object_or_404(teams_of(actor), slug=slug)
    if ability != Ability.READ and not actor.may(ability, team):
        raise PermissionDenied(NOT_YOURS[ability])
    return team


def for_team(ability: Ability = Ability.READ) -> Callable[[View], View]:
    """Hand a view its team instead of the slug; nobody is led to the sign-in first."""

    def decorate(view: View) -> View:
        @never_cache
        @login_required
        @wraps(view)
        def found(request: HttpRequest, slug: str, **kwargs: Any) -> HttpResponse:
            return view(request, find_team(request, slug, ability), **kwargs)

        return found

    return decorate


def about(request: HttpRequest, team: Team) -> dict[str, Any]:
    """What every page of a team shows: the team, and which tabs its reader has."""
    return {"team": team, "may_manage": actor_of(request).may(Ability.MANAGE, team)}


def page_of(request: HttpRequest, rows: QuerySet[Any]) -> Page[Any]:
    """The asked-for page of `rows`; the nearest one for a number that there is not."""
    return Paginator(rows, ROWS_OF_A_PAGE).get_page(request.GET.get("page"))
