from importlib import import_module

from django.apps import AppConfig


class ArenaConfig(AppConfig):
    name = "arena"
    verbose_name = "Arena: collecting votes"

    def ready(self) -> None:
        """Have workers generate answers."""
        generation = import_module("arena.generation_runs")
        import_module("arena.services.runs").HANDLERS["answers"] = generation.AnswerRunHandler()
