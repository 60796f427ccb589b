"""Addresses of runs and verdicts, in an arena or on labelled items."""

from django.urls import reverse

from arena.models import Run


def run_url(run: Run) -> str:
    return _reverse_for(run, "judge_run", "trial_run")


def verdict_url(run: Run, judgement: int, query: str = "") -> str:
    """`query` is the filter of the list that the reader came from."""
    path = _reverse_for(run, "judge_verdict", "trial_verdict", judgement)
    return f"{path}?{query}" if query else path


def marks_url(run: Run, judgement: int) -> str:
    return _reverse_for(run, "mark_verdict", "mark_trial", judgement)


def _reverse_for(run: Run, name: str, name_of_trial: str, *args: int) -> str:
    if run.arena is None:
        return reverse(name_of_trial, args=[run.pk, *args])
    return reverse(name, args=[run.arena.slug, run.pk, *args])
