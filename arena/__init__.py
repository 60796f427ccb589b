"""The lowest app: teams, prompts, candidates, answers, comparisons, votes and model calls."""

from arena.celery import app as celery_app

__all__ = ["celery_app"]

__version__ = "0.1.0"
