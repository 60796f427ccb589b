from importlib import import_module

from django.apps import AppConfig


class ArenaConfig(AppConfig):
    name = "arena"
    verbose_name = "Arena: collecting votes"

    def ready(self) -> None:
        """Have workers generate answers."""
        generation = import_module("arena.generation")
        import_module("arena.calls.dispatch").EXECUTORS["answers"] = generation.generate_answer
