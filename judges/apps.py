from importlib import import_module

from django.apps import AppConfig
from django.db.models import Q


class JudgesConfig(AppConfig):
    name = "judges"
    verbose_name = "Judges: LLMs that vote"

    def ready(self) -> None:
        """Register the checks of the rubrics, and that a script's votes disclose nothing."""
        import_module("judges.checks")
        scripted = import_module("judges.models.judges").SCRIPTED
        disclosure = import_module("arena.services.disclosure")
        disclosure.disregard(Q(epoch__judge__endpoint=scripted))
