"""Voting, signing in, and what operators ask."""

from django.contrib.auth.views import LogoutView
from django.urls import path

from arena.views import accounts, health, voting

urlpatterns = [
    path("a/<slug:slug>/vote/", voting.vote, name="vote"),
    path("a/<slug:slug>/vote/next/", voting.next_pair, name="next_pair"),
    path("a/<slug:slug>/vote/<uuid:key>/", voting.cast_vote, name="cast_vote"),
    path("a/<slug:slug>/vote/<uuid:key>/undo/", voting.undo_vote, name="undo_vote"),
    path("sign-in/", accounts.SignIn.as_view(), name="sign_in"),
    path("sign-out/", LogoutView.as_view(), name="sign_out"),
    path("robots.txt", health.robots, name="robots"),
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
]
