"""Who is in a team, and the links that bring others in."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from arena.access import Ability, actor_of
from arena.forms.blaming import blame
from arena.forms.teams import InvitationForm, RoleForm
from arena.models import Role, Team
from arena.services import invitations, teams
from arena.services.deliveries import absolute
from arena.views.teams.finding import about, find_team, for_team


@for_team()
@require_http_methods(["GET", "HEAD", "POST"])
def team_members(request: HttpRequest, team: Team) -> HttpResponse:
    """The members and the open invitations; owners invite here."""
    if request.method != "POST":
        return _members(request, team, InvitationForm())
    find_team(request, team.slug, Ability.MANAGE)
    form = InvitationForm(request.POST)
    if form.is_valid():
        try:
            _, secret = invitations.create_invitation(
                team=team, by=actor_of(request), now=timezone.now(), **form.cleaned_data
            )
        except invitations.InvitationRefused as refused:
            blame(form, refused)
        else:
            # Shown by this answer alone: a redirect would have to carry the secret somewhere.
            link = absolute(reverse("invitation", args=[secret]))
            return _members(request, team, InvitationForm(), link=link)
    return _members(request, team, form)


@for_team(Ability.MANAGE)
@require_POST
def change_role(request: HttpRequest, team: Team, pk: int) -> HttpResponse:
    """Make a member an owner, a member or a viewer."""
    member = get_object_or_404(team.memberships.select_related("user"), pk=pk)
    form = RoleForm(request.POST)
    role = form.cleaned_data["role"] if form.is_valid() else ""
    try:
        teams.change_role(membership=member, role=role, by=actor_of(request), now=timezone.now())
    except teams.TeamRefused as refused:
        messages.error(request, refused.sentence)
    else:
        messages.success(request, f"{member.user} is {_a(role)} now.")
    return redirect("team_members", team.slug)


@for_team(Ability.MANAGE)
@require_POST
def remove(request: HttpRequest, team: Team, pk: int) -> HttpResponse:
    """Take a member out of the team."""
    member = get_object_or_404(team.memberships.select_related("user"), pk=pk)
    return _take_out(request, team, member, f"{member.user} is not in the team any more.")


@for_team()
@require_POST
def leave(request: HttpRequest, team: Team) -> HttpResponse:
    """Leave the team."""
    member = get_object_or_404(team.memberships, user=request.user)
    return _take_out(request, team, member, f"You have left {team}.")


@for_team(Ability.MANAGE)
@require_POST
def revoke(request: HttpRequest, team: Team, pk: int) -> HttpResponse:
    """Withdraw an invitation."""
    invitation = get_object_or_404(team.invitations.select_related("team"), pk=pk)
    now = timezone.now()
    if invitations.revoke_invitation(invitation=invitation, by=actor_of(request), now=now):
        messages.success(request, "The invitation is withdrawn: its link does not work any more.")
    else:
        messages.error(request, "That invitation was not open any more.")
    return redirect("team_members", team.slug)


def _members(
    request: HttpRequest, team: Team, form: InvitationForm, link: str = ""
) -> HttpResponse:
    now = timezone.now()
    context = {
        "members": team.memberships.select_related("user").order_by("joined_at", "pk"),
        "invitations": team.invitations.open(now).select_related("created_by").order_by("-pk"),
        "roles": Role.choices,
        "days": invitations.LASTS.days,
        "form": form,
        "link": link,
    }
    return render(request, "teams/members.html", about(request, team) | context)


def _take_out(request: HttpRequest, team: Team, member: Any, done: str) -> HttpResponse:
    try:
        teams.remove_member(membership=member, by=actor_of(request), now=timezone.now())
    except teams.TeamRefused as refused:
        messages.error(request, refused.sentence)
        return redirect("team_members", team.slug)
    messages.success(request, done)
    gone = member.user_id == request.user.pk
    return redirect("teams") if gone else redirect("team_members", team.slug)


def _a(role: str) -> str:
    return "an owner" if role == Role.OWNER else f"a {role}"
