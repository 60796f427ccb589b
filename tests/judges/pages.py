"""Asking the pages of judges, as somebody or as nobody."""

from typing import Any

from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

from arena.models import Arena, Import, Run

QUOTE = {
    "scripted": ["scripted:scripted-1"],
    "rubric": "pairwise",
    "pairs": "all",
    "per_pair": "2",
    "order_policy": "abstain",
}


def run_url(run: Run, **query: Any) -> str:
    return reverse("judge_run", args=[run.arena.slug, run.pk], query=query or None)


def verdict_url(run: Run, judgement: int, **query: Any) -> str:
    path = [run.arena.slug, run.pk, judgement]
    return reverse("judge_verdict", args=path, query=query or None)


def signed_in(name: str, *, staff: bool = False) -> Client:
    client = Client()
    client.force_login(get_user_model().objects.create_user(name, is_staff=staff))
    return client


def text(client: Client, url: str, **kwargs: Any) -> str:
    """A page with each run of white space as one space: how a template is laid out is no matter."""
    answer = client.get(url, **kwargs)
    assert answer.status_code == 200, answer.status_code
    return " ".join(answer.content.decode().split())


def hide(arena: Arena) -> None:
    arena.founded_by = Import.objects.create(
        arena=arena, file_name="f", sha256="0", format="native", started_at=arena.created_at
    )
    arena.save()
