"""The project's routes: voting, the admin, and those of each app."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from arena.views import voting

handler500 = "ranking.views.health.fault"
urlpatterns = [
    # The admin's own sign-in page would not limit attempts.
    path("admin/login/", RedirectView.as_view(pattern_name="sign_in", query_string=True)),
    path("admin/", admin.site.urls),
    # Routes are tried from the top, so the most frequent ones and prefixes come first.
    path("a/<slug:slug>/vote/", voting.vote, name="vote"),
    path("a/<slug:slug>/vote/next/", voting.next_pair, name="next_pair"),
    path("a/<slug:slug>/vote/objection/", voting.object_to_hold, name="object_to_hold"),
    path("a/<slug:slug>/vote/<uuid:key>/", voting.cast_vote, name="cast_vote"),
    path("a/<slug:slug>/vote/<uuid:key>/undo/", voting.undo_vote, name="undo_vote"),
    path("a/<slug:slug>/vote/<uuid:key>/reasons/", voting.give_reasons, name="give_reasons"),
    path("api/v1/", include("ranking.api.urls")),
    path("api/v1/", include("judges.api.urls")),
    path("api/v1/", include("arena.api.urls")),  # last, because it answers 404 for all other paths
    path("", include("ranking.urls")),
    path("", include("arena.views.urls")),
    path("", include("judges.urls")),
]
