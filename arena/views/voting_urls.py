"""Voting has its own module, so that the busiest addresses can be matched first."""

from django.urls import path

from arena.views import voting

urlpatterns = [
    path("a/<slug:slug>/vote/", voting.vote, name="vote"),
    path("a/<slug:slug>/vote/next/", voting.next_pair, name="next_pair"),
    path("a/<slug:slug>/vote/<uuid:key>/", voting.cast_vote, name="cast_vote"),
    path("a/<slug:slug>/vote/<uuid:key>/undo/", voting.undo_vote, name="undo_vote"),
]
