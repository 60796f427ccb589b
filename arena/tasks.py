"""Doorbells: load, call a service."""

from celery import shared_task
from django.utils import timezone

from arena.models import Run
from arena.services import runs


@shared_task
def tend_runs() -> None:
    """Open ordered runs of people, ask again for what expired, close what is complete."""
    for run in Run.objects.of_people().unfinished().order_by("pk"):
        runs.tend_run(run=run, now=timezone.now())
