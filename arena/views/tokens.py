"""The pages of a team's API tokens."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from arena.actors import TeamPermission, actor_of
from arena.forms.base import errors_in
from arena.forms.teams import TokenForm
from arena.models import Team
from arena.services import tokens
from arena.views.teams import for_team, render_team_page


@for_team(TeamPermission.MANAGE)
@require_http_methods(["GET", "HEAD", "POST"])
def team_tokens(request: HttpRequest, team: Team) -> HttpResponse:
    """List the team's tokens; a new one's secret is shown only in the response that creates it."""
    form, secret = TokenForm(request.POST or None), ""
    if form.is_valid():
        with errors_in(form):
            _, secret = tokens.create_token(team=team, by=actor_of(request), **form.cleaned_data)
            form = TokenForm()
    live = team.tokens.live().select_related("created_by").order_by("-pk")
    return render_team_page(
        request, team, "teams/tokens.html", tokens=live, form=form, secret=secret
    )


@for_team(TeamPermission.MANAGE)
@require_POST
def revoke_token(request: HttpRequest, team: Team, pk: int) -> HttpResponse:
    token = get_object_or_404(team.tokens.select_related("team"), pk=pk)
    if tokens.revoke_token(token=token, by=actor_of(request), now=timezone.now()):
        messages.success(request, f"{token} revoked. It no longer works.")
    else:
        messages.error(request, f"{token} was already revoked.")
    return redirect("team_tokens", team.slug)
