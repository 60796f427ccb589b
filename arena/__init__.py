"""Collecting: prompts, candidates, answers, comparisons, votes. The ground floor."""

from arena.celery import app as celery_app

__all__ = ["celery_app"]
