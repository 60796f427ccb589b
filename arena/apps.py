from functools import cache
from importlib import import_module
from typing import Any

from django.apps import AppConfig

from arena.celery import app as celery_app

__all__ = ["ArenaConfig", "celery_app"]  # without the app, shared tasks would have another one


@cache
def answer_handler() -> Any:
    return import_module("arena.generation_runs").AnswerRunHandler()


class ArenaConfig(AppConfig):
    name = "arena"
    verbose_name = "Arena: collecting votes"

    def ready(self) -> None:
        """Have workers generate answers."""
        import_module("arena.services.runs").HANDLERS["answers"] = answer_handler
