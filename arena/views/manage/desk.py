"""Who stands at the desk of an arena, and what they may do there."""

from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache

from arena.access import (
    Ability,
    Actor,
    actor_of,
    may_change,
    may_read_texts,
    may_retire,
    may_see_variables,
    needed_to_change,
)
from arena.forms.arenas import ArenaForm
from arena.models import Arena, Candidate, Team

View = Callable[..., HttpResponse]
NOT_YOURS = "This is for the team of the arena, and for teams that have candidates in it."
READS_ONLY = "You may read here, and your role allows no more: an owner of your team can change it."


class Desk:
    """An arena, and who asks. A guest is of another team that may have candidates here."""

    def __init__(self, arena: Arena, actor: Actor) -> None:
        self.arena = arena
        self.actor = actor

    @cached_property
    def reads(self) -> bool:
        """May they see what is the arena's own: references, rubrics, every prompt?"""
        return self.actor.may(Ability.READ, self.arena.team_id)

    @cached_property
    def sees_variables(self) -> bool:
        """May they see the prompts' variables?"""
        return may_see_variables(self.actor, self.arena)

    @cached_property
    def submits(self) -> bool:
        """May they bring prompts?"""
        return self.actor.may(Ability.SUBMIT, self.arena.team_id)

    @cached_property
    def manages(self) -> bool:
        """May they change the settings?"""
        return self.actor.may(needed_to_change(ArenaForm.base_fields), self.arena.team_id)

    @cached_property
    def judges(self) -> bool:
        """May they order runs of judges?"""
        return self.actor.may(Ability.JUDGE, self.arena.team_id)

    @cached_property
    def teams(self) -> list[Team | None]:
        """The teams for which they may enter candidates; None stands for the operators."""
        own: list[Team | None] = [self.arena.team] if self.submits else []
        if self.arena.open_to_teams or self.actor.is_operator:
            others = self.actor.teams_with(Ability.SUBMIT).order_by("name")
            own += [team for team in others if team.pk != self.arena.team_id]
        return own

    @cached_property
    def enters(self) -> bool:
        return bool(self.teams)

    @cached_property
    def visits(self) -> bool:
        """May they come to the desk: of the arena's team, or a guest?"""
        if self.reads:
            return True
        theirs = self.actor.teams_with(Ability.READ)
        if self.arena.open_to_teams:
            return theirs.exists()
        return self.arena.candidates.filter(team__in=theirs).exists()

    def own_candidates(self) -> QuerySet[Candidate]:
        """The candidates whose texts are theirs to read."""
        own = self._of_teams()
        return self._revealed(own | Q(disclosed_at__isnull=False) if self.reads else own)

    def candidates_of_teams(self) -> QuerySet[Candidate]:
        """The candidates of their own teams; to operators, all."""
        return self._revealed(self._of_teams())

    def _of_teams(self) -> Q:
        own = Q(team__in=self.actor.teams_with(Ability.READ))
        return own | Q(team=None) if self.reads else own

    def _revealed(self, own: Q) -> QuerySet[Candidate]:
        found = Candidate.objects.revealed().filter(arena=self.arena)
        return found if self.actor.is_operator else found.filter(own)

    def candidate(self, pk: int) -> Candidate:
        """A candidate whose texts they may read; what is not theirs is not there."""
        found = self._found(pk)
        if not may_read_texts(self.actor, found):
            raise Http404("There is no such candidate.")
        return found

    def candidate_to_change(self, pk: int) -> Candidate:
        """As `candidate`, and theirs to change."""
        found = self.candidate(pk)
        if not may_change(self.actor, found):
            raise PermissionDenied("You may read this candidate, but not change it.")
        return found

    def candidate_to_retire(self, pk: int) -> Candidate:
        """Theirs, or in an arena of theirs a guest's, of which they may know no more than all."""
        found = self._found(pk)
        return found if may_retire(self.actor, found) else self.candidate_to_change(pk)

    def _found(self, pk: int) -> Candidate:
        rows = Candidate.objects.revealed().select_related("arena__team", "team", "created_by")
        found: Candidate = get_object_or_404(rows, arena=self.arena, pk=pk)
        return found


def at_desk(allowed: Callable[[Desk], bool]) -> Callable[[View], View]:
    """Hand a view the desk instead of the slug, to whom `allowed` lets in.

    An arena that does not exist for the reader is a 404; nobody is led to the sign-in first.
    """

    def decorate(view: View) -> View:
        @never_cache
        @wraps(view)
        def guarded(request: HttpRequest, slug: str, **kwargs: Any) -> HttpResponse:
            desk = find_desk(request, slug)
            if allowed(desk):
                return view(request, desk, **kwargs)
            if not request.user.is_authenticated and request.method in ("GET", "HEAD"):
                return redirect_to_login(request.get_full_path())
            raise PermissionDenied(READS_ONLY if desk.reads else NOT_YOURS)

        return guarded

    return decorate


def find_desk(request: HttpRequest, slug: str) -> Desk:
    actor = actor_of(request)
    found = Arena.objects.visible_to(actor).select_related("team")
    return Desk(get_object_or_404(found, slug=slug), actor)


def desk_page(
    request: HttpRequest, desk: Desk, template: str, tab: str, context: dict[str, Any]
) -> HttpResponse:
    """Render a page of the desk; `tab` says which one it is."""
    return render(request, template, {"arena": desk.arena, "desk": desk, "tab": tab} | context)


def reads(desk: Desk) -> bool:
    return desk.reads


def visits(desk: Desk) -> bool:
    return desk.visits


def enters(desk: Desk) -> bool:
    return desk.enters


def submits(desk: Desk) -> bool:
    return desk.submits


def manages(desk: Desk) -> bool:
    return desk.manages
