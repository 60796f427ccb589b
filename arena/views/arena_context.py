"""The arena of a workspace page, and what its reader may do there."""

from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any, Literal

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache

from arena.actors import Actor, TeamPermission, actor_of
from arena.models import Arena, Candidate, Team
from arena.permissions import (
    FieldVisibility,
    can_change,
    can_read_texts,
    can_retire,
    can_see_variables,
    can_visit,
    entering_teams,
    is_blind,
    needed_to_change,
    own_candidates,
    readable_candidates,
    visible_arenas,
)

View = Callable[..., HttpResponseBase]
Permission = Literal["can_visit", "can_read", "can_enter", "can_submit", "can_judge", "can_manage"]
NO_ACCESS = gettext_lazy(
    "Only the arena’s team, and teams with candidates in it, have access to this page."
)
HIDDEN_NAMES = gettext_lazy("The names are hidden from you until everyone has voted.")
READ_ONLY = gettext_lazy("You have read-only access. An owner of the team can change your role.")


class ArenaContext:
    """An arena and its reader. A guest belongs to another team, which may have candidates here.

    Templates get this context as `access`.
    """

    def __init__(self, request: HttpRequest, arena: Arena, actor: Actor) -> None:
        self.request = request
        self.arena = arena
        self.actor = actor

    def render(self, template: str, *, tab: str, **data: Any) -> HttpResponse:
        """Render a page of the workspace, with `tab` as the current one in its navigation."""
        common = {"arena": self.arena, "access": self, "tab": tab}
        return render(self.request, template, common | data)

    @cached_property
    def reader(self) -> FieldVisibility:
        return FieldVisibility(self.actor, self.arena)

    @property
    def can_read(self) -> bool:
        """Whether the arena's own data (references, rubrics, all prompts) may be read."""
        return self.reader.is_of_arena

    @cached_property
    def can_see_variables(self) -> bool:
        return can_see_variables(self.actor, self.arena)

    @cached_property
    def can_submit(self) -> bool:
        """Whether prompts may be added."""
        return self.actor.may(TeamPermission.SUBMIT, self.arena.team_id)

    @cached_property
    def can_manage(self) -> bool:
        """Whether the settings may be changed."""
        return self.actor.may(needed_to_change(Arena.SETTINGS), self.arena.team_id)

    @cached_property
    def can_judge(self) -> bool:
        """Whether judge runs may be started."""
        return self.actor.may(TeamPermission.JUDGE, self.arena.team_id)

    @cached_property
    def entering_teams(self) -> list[Team | None]:
        return entering_teams(self.actor, self.arena)

    @property
    def can_enter(self) -> bool:
        return bool(self.entering_teams)

    @cached_property
    def can_visit(self) -> bool:
        return can_visit(self.reader)

    def readable_candidates(self) -> QuerySet[Candidate]:
        return readable_candidates(self.reader)

    def own_candidates(self) -> QuerySet[Candidate]:
        """The candidates of the reader's own teams; for administrators, all."""
        rows = Candidate.objects.revealed().filter(arena=self.arena)
        return rows if self.actor.is_operator else rows.filter(own_candidates(self.reader))

    def find_candidate(self, pk: int) -> Candidate:
        """Return a candidate whose texts may be read; raises Http404 for all others."""
        candidate = self._get_candidate(pk)
        if not can_read_texts(self.actor, candidate):
            if is_blind(self.actor, self.arena):
                raise PermissionDenied(HIDDEN_NAMES)
            raise Http404("There is no such candidate.")
        return candidate

    def find_candidate_to_change(self, pk: int) -> Candidate:
        """Like `find_candidate`; raises PermissionDenied if the candidate may only be read."""
        candidate = self.find_candidate(pk)
        if not can_change(self.actor, candidate):
            raise PermissionDenied(gettext_lazy("You can read this candidate but not change it."))
        return candidate

    def find_candidate_to_retire(self, pk: int) -> Candidate:
        """Like `find_candidate_to_change`, but also finds guests' candidates for the arena's team.

        Their texts may still be hidden from that team.
        """
        candidate = self._get_candidate(pk)
        if can_retire(self.actor, candidate):
            return candidate
        return self.find_candidate_to_change(pk)

    def _get_candidate(self, pk: int) -> Candidate:
        rows = Candidate.objects.revealed().select_related("arena__team", "team", "created_by")
        candidate: Candidate = get_object_or_404(rows, arena=self.arena, pk=pk)
        return candidate


def require_permission(permission: Permission) -> Callable[[View], View]:
    """Call the view with an ArenaContext in place of the slug, if `permission` is granted.

    An arena that is hidden from the reader is a 404, even before they sign in.
    """

    def decorate(view: View) -> View:
        @never_cache
        @wraps(view)
        def guarded(request: HttpRequest, slug: str, **kwargs: Any) -> HttpResponseBase:
            actor = actor_of(request)
            # Live questions are managed with the arena whose raters ask them.
            arenas = visible_arenas(actor).not_live().select_related("team")
            context = ArenaContext(request, get_object_or_404(arenas, slug=slug), actor)
            if getattr(context, permission):
                return view(request, context, **kwargs)
            if not request.user.is_authenticated and request.method in ("GET", "HEAD"):
                return redirect_to_login(request.get_full_path())
            raise PermissionDenied(READ_ONLY if context.can_read else NO_ACCESS)

        return guarded

    return decorate
