from importlib import import_module

from django.apps import AppConfig
from django.db.models import Q


class JudgesConfig(AppConfig):
    name = "judges"
    verbose_name = "Judges: LLMs that vote"

    def ready(self) -> None:
        """Register the checks of the rubrics, and whose votes are a script's: they disclose
        nothing, and boards say so."""
        import_module("judges.checks")
        scripted = import_module("judges.models.judges").SCRIPTED
        disclosure = import_module("arena.services.disclosure")
        disclosure.disregard(Q(epoch__judge__endpoint=scripted))
        import_module("ranking.pages.scripted").name_scripts(
            Q(epoch__judge__endpoint=scripted) | Q(epoch__judge__members__endpoint=scripted)
        )
