"""Runs of judges."""

from django.urls import path

from judges import views

urlpatterns = [
    path("a/<slug:slug>/runs/<int:pk>/", views.judge_run, name="judge_run"),
]
