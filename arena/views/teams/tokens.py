"""A team's API tokens: made, shown once, listed, revoked."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from arena.access import Ability, actor_of
from arena.forms.blaming import blame
from arena.forms.teams import TokenForm
from arena.models import Team
from arena.services import tokens
from arena.views.teams.finding import about, for_team


@for_team(Ability.MANAGE)
@require_http_methods(["GET", "HEAD", "POST"])
def team_tokens(request: HttpRequest, team: Team) -> HttpResponse:
    """The team's tokens; a new one is shown by the answer that makes it, and never again."""
    form = TokenForm(request.POST or None)
    if form.is_valid():
        try:
            token, secret = tokens.create_token(
                team=team, by=actor_of(request), **form.cleaned_data
            )
        except tokens.TokenRefused as refused:
            blame(form, refused)
        else:
            return _tokens(request, team, TokenForm(), new=token, secret=secret)
    return _tokens(request, team, form)


@for_team(Ability.MANAGE)
@require_POST
def revoke(request: HttpRequest, team: Team, pk: int) -> HttpResponse:
    """End a token for good."""
    token = get_object_or_404(team.tokens.select_related("team"), pk=pk)
    if tokens.revoke_token(token=token, by=actor_of(request), now=timezone.now()):
        messages.success(request, f"{token} is revoked: whoever holds it gets in no more.")
    else:
        messages.error(request, f"{token} was revoked already.")
    return redirect("team_tokens", team.slug)


def _tokens(request: HttpRequest, team: Team, form: TokenForm, **shown: object) -> HttpResponse:
    kept = team.tokens.live().select_related("created_by").order_by("-pk")
    context = {"tokens": kept, "form": form, **shown}
    return render(request, "teams/tokens.html", about(request, team) | context)
