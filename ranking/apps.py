from importlib import import_module

from django.apps import AppConfig


class RankingConfig(AppConfig):
    name = "ranking"
    verbose_name = "Ranking: boards and snapshots"

    def ready(self) -> None:
        import_module("ranking.signals")
