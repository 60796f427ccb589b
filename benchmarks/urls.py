"""The project's routes, and those of the bare views to compare them with."""

from django.urls import include, path

from benchmarks import views

urlpatterns = [
    path("bare/insert/", views.insert),
    path("bare/constant/", views.constant),
    path("", include("arena.urls")),
]
