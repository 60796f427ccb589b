"""The pages of teams: members, budget, audit log."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.core.paginator import Page, Paginator
from django.db.models import Count, Prefetch, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from arena.actors import TeamPermission, actor_of
from arena.calls.money import dollars
from arena.forms.base import errors_as_messages, errors_in
from arena.forms.teams import InvitationForm, RoleForm, TeamBudgetForm, TeamForm
from arena.models import Arena, Membership, Role, Team
from arena.permissions import visible_arenas, visible_teams
from arena.services import budgets, invitations, teams
from arena.services.budgets import committed_by, uncertain_of
from arena.site import absolute_url
from arena.validation import in_dollars

ROWS_PER_PAGE = 50
MEMBERS_ONLY = gettext_lazy(
    "Only members and owners of the team can do this. Your access is read-only."
)
REFUSALS = {
    TeamPermission.SUBMIT: MEMBERS_ONLY,
    TeamPermission.JUDGE: MEMBERS_ONLY,
    TeamPermission.MANAGE: gettext_lazy("Only owners of the team can do this. Ask one of them."),
}
View = Callable[..., HttpResponse]


def find_team(
    request: HttpRequest, slug: str, permission: TeamPermission = TeamPermission.READ
) -> Team:
    """Return the team; raises Http404 for outsiders, PermissionDenied without `permission`."""
    actor = actor_of(request)
    team = get_object_or_404(visible_teams(actor), slug=slug)
    if permission != TeamPermission.READ and not actor.may(permission, team):
        raise PermissionDenied(REFUSALS[permission])
    return team


def for_team(permission: TeamPermission = TeamPermission.READ) -> Callable[[View], View]:
    """Call the view with the team in place of the slug; visitors are asked to sign in first."""

    def decorate(view: View) -> View:
        @never_cache
        @login_required
        @wraps(view)
        def with_team(request: HttpRequest, slug: str, **kwargs: Any) -> HttpResponse:
            return view(request, find_team(request, slug, permission), **kwargs)

        return with_team

    return decorate


def render_team_page(
    request: HttpRequest, team: Team, template: str, **context: Any
) -> HttpResponse:
    can_manage = actor_of(request).may(TeamPermission.MANAGE, team)
    return render(request, template, {"team": team, "can_manage": can_manage, **context})


def paginate(request: HttpRequest, rows: QuerySet[Any]) -> Page[Any]:
    return Paginator(rows, ROWS_PER_PAGE).get_page(request.GET.get("page"))


@never_cache
@login_required
@require_safe
def my_teams(request: HttpRequest) -> HttpResponse:
    """List the reader's teams; for administrators, all teams."""
    own_memberships = Membership.objects.filter(user=request.user.pk)
    teams_with_counts = (
        visible_teams(actor_of(request))
        .annotate(
            members=Count("memberships", distinct=True), n_arenas=Count("arenas", distinct=True)
        )
        .prefetch_related(Prefetch("memberships", own_memberships, to_attr="own_memberships"))
        .order_by("name")
    )
    return render(request, "teams/teams.html", {"teams": teams_with_counts})


@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def new_team(request: HttpRequest) -> HttpResponse:
    """Create a team; its creator becomes its owner."""
    form = TeamForm(request.POST or None)
    if form.is_valid():
        with errors_in(form):
            return redirect(teams.create_team(name=form.cleaned_data["name"], by=actor_of(request)))
    return render(request, "teams/new.html", {"form": form})


@for_team()
@require_safe
def team(request: HttpRequest, team: Team) -> HttpResponse:
    """Show the team's arenas, other teams' arenas that it has candidates in, and its budget."""
    actor = actor_of(request)
    entered = visible_arenas(actor).exclude(team=team)
    entered = entered.filter(pk__in=team.candidates.values("arena"))
    committed, uncertain = committed_by(team), uncertain_of(team)
    return render_team_page(
        request,
        team,
        "teams/team.html",
        arenas=with_counts(team.arenas.listed()),
        entered_arenas=with_counts(entered),
        can_submit=actor.may(TeamPermission.SUBMIT, team),
        n_members=team.memberships.count(),
        spent=committed - uncertain,
        uncertain=uncertain,
        remaining=max(0, team.budget - committed),
        is_operator=actor.is_operator,
        budget_form=TeamBudgetForm(initial={"budget": in_dollars(team.budget)}),
        form=TeamForm(initial={"name": team.name}),
    )


def with_counts(arenas: QuerySet[Arena]) -> QuerySet[Arena]:
    """Order arenas by name, and annotate their numbers of active prompts and candidates."""
    prompts, candidates = (Q(**{f"{what}__retired_at": None}) for what in ("prompts", "candidates"))
    return arenas.annotate(
        n_prompts=Count("prompts", distinct=True, filter=prompts),
        n_candidates=Count("candidates", distinct=True, filter=candidates),
    ).order_by("name")


@for_team(TeamPermission.MANAGE)
@require_POST
def rename_team(request: HttpRequest, team: Team) -> HttpResponse:
    form = TeamForm(request.POST)
    if not form.is_valid():
        messages.error(request, form.errors["name"].as_text().removeprefix("* "))
        return redirect(team)
    with errors_as_messages(request):
        teams.rename_team(team=team, name=form.cleaned_data["name"], by=actor_of(request))
        messages.success(request, f"The team is now called {team}.")
    return redirect(team)


@for_team(TeamPermission.MANAGE)
@require_POST
def remove_team(request: HttpRequest, team: Team) -> HttpResponse:
    """Delete the team, if its address was typed to confirm."""
    if request.POST.get("slug", "").strip() != team.slug:
        messages.error(request, f"Nothing was deleted. Type {team.slug} to delete the team.")
        return redirect(team)
    with errors_as_messages(request):
        teams.delete_team(team=team, by=actor_of(request))
        messages.success(request, f"{team} has been deleted.")
        return redirect("teams")
    return redirect(team)


@for_team()
@require_POST
def change_budget(request: HttpRequest, team: Team) -> HttpResponse:
    """Raise or lower what the team may spend; administrators only."""
    if not actor_of(request).is_operator:
        raise PermissionDenied(gettext_lazy("Only the site’s administrators can change budgets."))
    form = TeamBudgetForm(request.POST)
    if not form.is_valid():
        messages.error(request, form.errors["budget"].as_text().removeprefix("* "))
        return redirect(team)
    budget = form.cleaned_data["budget"]
    changed = budgets.set_budget(team=team, budget=budget, by=actor_of(request))
    messages.success(request, f"{team} may spend {dollars(changed.budget)}.")
    return redirect(team)


@for_team()
@require_http_methods(["GET", "HEAD", "POST"])
def team_members(request: HttpRequest, team: Team) -> HttpResponse:
    """List members and open invitations; owners create invitations here."""
    form, link, now = InvitationForm(), "", timezone.now()
    if request.method == "POST":
        find_team(request, team.slug, TeamPermission.MANAGE)
        form = InvitationForm(request.POST)
        if form.is_valid():
            with errors_in(form):
                _, secret = invitations.create_invitation(
                    team=team, by=actor_of(request), now=now, **form.cleaned_data
                )
                # Shown in this response only: a redirect would have to store the secret.
                form, link = InvitationForm(), absolute_url(reverse("invitation", args=[secret]))
    return render_team_page(
        request,
        team,
        "teams/members.html",
        members=team.memberships.select_related("user").order_by("joined_at", "pk"),
        invitations=team.invitations.open(now).select_related("created_by").order_by("-pk"),
        roles=Role.choices,
        days=invitations.INVITATION_LIFETIME.days,
        form=form,
        link=link,
    )


@for_team(TeamPermission.MANAGE)
@require_POST
def change_role(request: HttpRequest, team: Team, pk: int) -> HttpResponse:
    member = get_object_or_404(team.memberships.select_related("user"), pk=pk)
    form = RoleForm(request.POST)
    role = form.cleaned_data["role"] if form.is_valid() else ""
    with errors_as_messages(request):
        teams.change_role(membership=member, role=role, by=actor_of(request), now=timezone.now())
        article = "an" if role == Role.OWNER else "a"
        messages.success(request, f"{member.user} is now {article} {role}.")
    return redirect("team_members", team.slug)


@for_team(TeamPermission.MANAGE)
@require_POST
def remove_member(request: HttpRequest, team: Team, pk: int) -> HttpResponse:
    member = get_object_or_404(team.memberships.select_related("user"), pk=pk)
    return _remove_member(request, team, member, f"{member.user} has been removed from the team.")


@for_team()
@require_POST
def leave_team(request: HttpRequest, team: Team) -> HttpResponse:
    member = get_object_or_404(team.memberships, user=request.user)
    return _remove_member(request, team, member, f"You have left {team}.")


def _remove_member(
    request: HttpRequest, team: Team, member: Membership, message: str
) -> HttpResponse:
    with errors_as_messages(request):
        teams.remove_member(membership=member, by=actor_of(request), now=timezone.now())
        messages.success(request, message)
        if member.user_id == request.user.pk:
            return redirect("teams")
    return redirect("team_members", team.slug)


# The link's address only redirects, which keeps its secret out of pages, referrers and error logs.


@for_team()
@require_safe
def team_audit(request: HttpRequest, team: Team) -> HttpResponse:
    page = paginate(request, team.audit_entries.order_by("-pk"))
    return render_team_page(request, team, "teams/audit_log.html", page=page)
