"""Where a team's webhooks are."""

from django.urls import path

from arena.views.teams import webhooks

WEBHOOKS = "teams/<slug:slug>/webhooks"

urlpatterns = [
    path(f"{WEBHOOKS}/", webhooks.team_webhooks, name="team_webhooks"),
    path(f"{WEBHOOKS}/<int:pk>/remove/", webhooks.remove, name="remove_webhook"),
    path(f"{WEBHOOKS}/<int:pk>/test/", webhooks.send_test, name="test_webhook"),
]
