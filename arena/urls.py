"""The project's routes: each app's own, by string, and the admin."""

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("", include("arena.views.urls")),
    path("", include("ranking.urls")),
    path("", include("judges.urls")),
]
