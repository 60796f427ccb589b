"""Coming in by a link.

The link itself answers with a redirect and no more: its secret then stands in no page, no referrer
and no line of a log about a page that failed.
"""

from http import HTTPStatus

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from arena.access import actor_of
from arena.accounts.invited import current_invitation, forget_invitation, remember_invitation
from arena.accounts.limits import too_many
from arena.services import invitations


@never_cache
@require_safe
def follow_link(request: HttpRequest, secret: str) -> HttpResponse:
    """Note which invitation the link is, and go on to its page."""
    if why := too_many(request, "invitation"):
        forget_invitation(request)
        messages.error(request, why)
    else:
        remember_invitation(request, invitations.find_invitation(secret))
    return redirect("open_invitation")


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def open_invitation(request: HttpRequest) -> HttpResponse:
    """Show what one is invited to, and come in; or say why the link does not work."""
    invitation, now = current_invitation(request), timezone.now()
    if why := invitations.why_closed(invitation, now):
        return render(request, "teams/invitation.html", {"why": why}, status=HTTPStatus.GONE)
    if request.method != "POST":
        return render(request, "teams/invitation.html", {"invitation": invitation})
    if not request.user.is_authenticated:
        return redirect_to_login(request.path)
    assert invitation is not None, "what is missing is closed"
    try:
        invitations.accept_invitation(invitation=invitation, by=actor_of(request), now=now)
    except invitations.InvitationRefused as refused:
        context = {"why": refused.sentence, "team": invitation.team}
        return render(request, "teams/invitation.html", context, status=HTTPStatus.CONFLICT)
    forget_invitation(request)
    messages.success(request, f"You are in {invitation.team} now.")
    return redirect(invitation.team)
