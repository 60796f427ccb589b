"""Generating answers."""

from django.urls import path

from arena.views.manage import answers

DESK = "a/<slug:slug>/manage"

urlpatterns = [
    path(f"{DESK}/candidates/<int:pk>/answers/", answers.order_answers, name="order_answers"),
    path(f"{DESK}/answers/<int:pk>/", answers.answer_run, name="answer_run"),
    path(f"{DESK}/answers/<int:pk>/steer/", answers.steer_answers, name="steer_answers"),
]
