from importlib import import_module

from django.apps import AppConfig


class JudgesConfig(AppConfig):
    name = "judges"
    verbose_name = "Judges: LLMs that vote"

    def ready(self) -> None:
        """Register the checks of the rubrics."""
        import_module("judges.checks")
