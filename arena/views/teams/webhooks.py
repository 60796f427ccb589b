"""A team's webhooks: added, tried, removed, and what became of the last deliveries."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from arena.access import Ability, actor_of
from arena.forms.blaming import blame
from arena.forms.webhooks import WebhookForm
from arena.models import Delivery, Team, Webhook
from arena.services import webhooks
from arena.services.deliveries import MOST_TRIES
from arena.views.teams.finding import about, for_team

MOST_DELIVERIES = 20


@for_team(Ability.MANAGE)
@require_http_methods(["GET", "HEAD", "POST"])
def team_webhooks(request: HttpRequest, team: Team) -> HttpResponse:
    """The team's webhooks with their secrets, and their last deliveries; one is added here."""
    form = WebhookForm(request.POST or None)
    if form.is_valid():
        try:
            webhooks.add_webhook(team=team, by=actor_of(request), **form.cleaned_data)
        except webhooks.WebhookRefused as refused:
            blame(form, refused)
        else:
            messages.success(request, "The webhook is added. Send a test to see that it arrives.")
            return redirect("team_webhooks", team.slug)
    kept = team.webhooks.live().order_by("-pk")
    context = {
        "form": form,
        "webhooks": [(webhook, webhooks.secret_of(webhook)) for webhook in kept],
        "deliveries": _last_deliveries(team),
        "most_tries": MOST_TRIES,
    }
    return render(request, "teams/webhooks.html", about(request, team) | context)


@for_team(Ability.MANAGE)
@require_POST
def remove(request: HttpRequest, team: Team, pk: int) -> HttpResponse:
    """Send nothing to a webhook any more."""
    webhook = _find(team, pk)
    if webhooks.remove_webhook(webhook=webhook, by=actor_of(request), now=timezone.now()):
        messages.success(request, "The webhook is removed: nothing is sent there any more.")
    else:
        messages.error(request, "That webhook was removed already.")
    return redirect("team_webhooks", team.slug)


@for_team(Ability.MANAGE)
@require_POST
def send_test(request: HttpRequest, team: Team, pk: int) -> HttpResponse:
    """Send a notice that says that it is a test."""
    webhook = get_object_or_404(team.webhooks.live().select_related("team"), pk=pk)
    try:
        webhooks.send_test(webhook=webhook, by=actor_of(request), now=timezone.now())
    except webhooks.WebhookRefused as refused:
        messages.error(request, refused.sentence)
    else:
        messages.success(
            request, "The test is on its way. Load this page again to see whether it arrived."
        )
    return redirect("team_webhooks", team.slug)


def _find(team: Team, pk: int) -> Webhook:
    return get_object_or_404(team.webhooks.select_related("team"), pk=pk)


def _last_deliveries(team: Team) -> list[Delivery]:
    """Those to webhooks that are still there, newest first."""
    found = Delivery.objects.filter(webhook__team=team, webhook__removed_at=None)
    return list(found.select_related("webhook", "notice").order_by("-pk")[:MOST_DELIVERIES])
