"""Addresses of runs and verdicts, in an arena or on labelled items."""

from django.urls import reverse

from arena.models import Run


def run_url(run: Run) -> str:
    if run.arena is None:
        return reverse("trial_run", args=[run.pk])
    return reverse("judge_run", args=[run.arena.slug, run.pk])


def verdict_url(run: Run, judgement: int, query: str = "") -> str:
    """`query` is the filter of the list that the reader came from."""
    if run.arena is None:
        path = reverse("trial_verdict", args=[run.pk, judgement])
    else:
        path = reverse("judge_verdict", args=[run.arena.slug, run.pk, judgement])
    return f"{path}?{query}" if query else path


def marks_url(run: Run, judgement: int) -> str:
    if run.arena is None:
        return reverse("mark_trial", args=[run.pk, judgement])
    return reverse("mark_verdict", args=[run.arena.slug, run.pk, judgement])
