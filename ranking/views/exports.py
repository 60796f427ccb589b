"""The list of the files that can be downloaded."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from arena.actors import TeamPermission, actor_of
from ranking.board_data import find_arena
from ranking.http_cache import send_template
from ranking.preferences import DECIDED_BY


@require_safe
def exports(request: HttpRequest, slug: str) -> HttpResponseBase:
    """The files that can be downloaded; those with judges' replies are the team's."""
    actor = actor_of(request)
    arena = find_arena(slug, actor)
    of_team = actor.may(TeamPermission.READ, arena.team_id)
    context = {"arena": arena, "of_team": of_team, "deciders": list(DECIDED_BY)}
    private = arena.is_private or of_team
    return send_template(request, "ranking/exports.html", context, private=private)
