"""The pages of a team's webhooks."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from arena.actors import TeamPermission, actor_of
from arena.forms.base import errors_as_messages, errors_in
from arena.forms.teams import WebhookForm
from arena.models import Delivery, Team
from arena.services import webhooks
from arena.services.deliveries import MAX_ATTEMPTS
from arena.views.teams import for_team, render_team_page

LISTED_DELIVERIES = 20


@for_team(TeamPermission.MANAGE)
@require_http_methods(["GET", "HEAD", "POST"])
def team_webhooks(request: HttpRequest, team: Team) -> HttpResponse:
    """List the team's webhooks with their secrets and recent deliveries, and add new ones."""
    form = WebhookForm(request.POST or None)
    if form.is_valid():
        with errors_in(form):
            webhooks.add_webhook(team=team, by=actor_of(request), **form.cleaned_data)
            messages.success(request, "Webhook added. Send a test to check that it works.")
            return redirect("team_webhooks", team.slug)
    rows = team.webhooks.live().order_by("-pk")
    deliveries = Delivery.objects.filter(webhook__team=team, webhook__removed_at=None)
    deliveries = deliveries.select_related("webhook", "notice").order_by("-pk")
    return render_team_page(
        request,
        team,
        "teams/webhooks.html",
        form=form,
        webhooks=[(webhook, webhooks.signing_secret(webhook)) for webhook in rows],
        deliveries=list(deliveries[:LISTED_DELIVERIES]),
        max_attempts=MAX_ATTEMPTS,
    )


@for_team(TeamPermission.MANAGE)
@require_POST
def remove_webhook(request: HttpRequest, team: Team, pk: int) -> HttpResponse:
    webhook = get_object_or_404(team.webhooks.select_related("team"), pk=pk)
    if webhooks.remove_webhook(webhook=webhook, by=actor_of(request), now=timezone.now()):
        messages.success(request, "Webhook removed. Nothing more is sent there.")
    else:
        messages.error(request, "That webhook was already removed.")
    return redirect("team_webhooks", team.slug)


@for_team(TeamPermission.MANAGE)
@require_POST
def send_test(request: HttpRequest, team: Team, pk: int) -> HttpResponse:
    webhook = get_object_or_404(team.webhooks.live().select_related("team"), pk=pk)
    with errors_as_messages(request):
        webhooks.send_test(webhook=webhook, by=actor_of(request), now=timezone.now())
        messages.success(request, "Test sent. Reload this page to see whether it arrived.")
    return redirect("team_webhooks", team.slug)
