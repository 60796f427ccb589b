"""What was done for a team, and what it was told."""

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from arena.access import actor_of
from arena.models import Membership, Team
from arena.services.notices import set_notices_by_email
from arena.views.teams.finding import about, for_team, page_of

NO_MAIL = "No notices are mailed to you."


@for_team()
@require_safe
def team_audit(request: HttpRequest, team: Team) -> HttpResponse:
    """Who did what, newest first."""
    page = page_of(request, team.audit_entries.order_by("-pk"))
    return render(request, "teams/audit.html", about(request, team) | {"page": page})


@for_team()
@require_http_methods(["GET", "HEAD", "POST"])
def team_notices(request: HttpRequest, team: Team) -> HttpResponse:
    """What the team was told, newest first; a member says whether it is mailed to them too."""
    own = team.memberships.select_related("team", "user").filter(user=request.user.pk).first()
    if request.method == "POST":
        return _mail_notices(request, team, own)
    page = page_of(request, team.notices.select_related("arena").order_by("-pk"))
    context = about(request, team) | {"page": page, "own": own}
    context["is_printed"] = _is_printed()
    return render(request, "teams/notices.html", context)


def _mail_notices(request: HttpRequest, team: Team, own: Membership | None) -> HttpResponse:
    if own is None:
        raise PermissionDenied("Notices are mailed to members of the team. You are not one.")
    wanted = "wanted" in request.POST
    set_notices_by_email(membership=own, wanted=wanted, by=actor_of(request))
    promised = "would be" if _is_printed() else "are"
    said = f"New notices {promised} mailed to you too." if wanted else NO_MAIL
    messages.success(request, said)
    return redirect("team_notices", team.slug)


def _is_printed() -> bool:
    """Does mail end where Ringside runs, for want of a mail server?"""
    return "console" in settings.EMAIL_BACKEND
