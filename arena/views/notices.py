"""The page of a team's notices."""

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from arena.actors import actor_of
from arena.models import Team
from arena.services.notices import set_notices_by_email
from arena.site import prints_mail
from arena.views.teams import for_team, paginate, render_team_page


@for_team()
@require_http_methods(["GET", "HEAD", "POST"])
def team_notices(request: HttpRequest, team: Team) -> HttpResponse:
    """List the team's notifications; members also choose here whether to get them by email."""
    membership = team.memberships.select_related("team", "user").filter(user=request.user.pk)
    own_membership = membership.first()
    # Without a mail server, mail is printed by the server process.
    is_printed = prints_mail()
    if request.method != "POST":
        page = paginate(request, team.notices.select_related("arena").order_by("-pk"))
        return render_team_page(
            request,
            team,
            "teams/notifications.html",
            page=page,
            membership=own_membership,
            is_printed=is_printed,
        )
    if own_membership is None:
        raise PermissionDenied(
            gettext_lazy("Only members of the team can get its notifications by email.")
        )
    wanted = "wanted" in request.POST
    set_notices_by_email(membership=own_membership, wanted=wanted, by=actor_of(request))
    if not wanted:
        message = "Email notifications are off."
    elif is_printed:
        message = "Email notifications are on, but this site does not send email."
    else:
        message = "Email notifications are on."
    messages.success(request, message)
    return redirect("team_notices", team.slug)
