"""Following, accepting and revoking invitations."""

from http import HTTPStatus

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from arena.accounts import current_invitation, forget_invitation, remember_invitation
from arena.actors import TeamPermission, actor_of
from arena.attempts import too_many
from arena.models import Team
from arena.services import invitations
from arena.views.teams import for_team


@for_team(TeamPermission.MANAGE)
@require_POST
def revoke_invitation(request: HttpRequest, team: Team, pk: int) -> HttpResponse:
    invitation = get_object_or_404(team.invitations.select_related("team"), pk=pk)
    now = timezone.now()
    if invitations.revoke_invitation(invitation=invitation, by=actor_of(request), now=now):
        messages.success(request, "Invitation revoked. Its link no longer works.")
    else:
        messages.error(request, "That invitation is no longer open.")
    return redirect("team_members", team.slug)


@never_cache
@require_safe
def follow_link(request: HttpRequest, secret: str) -> HttpResponse:
    """Store the link's invitation in the session, and redirect to its page."""
    if why := too_many(request, "invitation"):
        forget_invitation(request)
        messages.error(request, why)
    else:
        remember_invitation(request, invitations.find_invitation(secret))
    return redirect("open_invitation")


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def open_invitation(request: HttpRequest) -> HttpResponse:
    """Show the invitation and accept it, or say why it cannot be used."""
    invitation, now = current_invitation(request), timezone.now()
    if why := invitations.closed_reason(invitation, now):
        return render(request, "teams/invitation.html", {"why": why}, status=HTTPStatus.GONE)
    if request.method != "POST":
        return render(request, "teams/invitation.html", {"invitation": invitation})
    if not request.user.is_authenticated:
        return redirect_to_login(request.path)
    assert invitation is not None, "a missing invitation is closed"
    try:
        invitations.accept_invitation(invitation=invitation, by=actor_of(request), now=now)
    except invitations.InvitationError as error:
        context = {"why": error.message, "team": invitation.team}
        return render(request, "teams/invitation.html", context, status=HTTPStatus.CONFLICT)
    forget_invitation(request)
    messages.success(request, f"You have joined {invitation.team}.")
    return redirect(invitation.team)
