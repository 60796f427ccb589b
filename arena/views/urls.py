"""Accounts, teams and their arenas, and what operators ask."""

from django.urls import include, path

from arena.views import health

urlpatterns = [
    path("", include("arena.views.account_urls")),
    path("", include("arena.views.teams.urls")),
    path("", include("arena.views.teams.webhook_urls")),
    path("", include("arena.views.manage.urls")),
    path("", include("arena.views.manage.answer_urls")),
    path("robots.txt", health.robots, name="robots"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
]
