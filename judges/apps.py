from functools import cache
from importlib import import_module
from typing import Any

from django.apps import AppConfig
from django.core.checks import WARNING, CheckMessage, register
from django.db import connections
from django.db.migrations.loader import MigrationLoader
from django.db.models import Q
from django.db.models.signals import post_migrate
from django.utils import timezone

from arena.signals import run_cancelled


@cache
def judge_handler() -> Any:
    return import_module("judges.services.runs").JudgeRunHandler()


@cache
def label_handler() -> Any:
    return import_module("judges.services.label_runs").LabelRunHandler()


def judge_export_kinds() -> Any:
    return import_module("judges.exports").KINDS


class JudgesConfig(AppConfig):
    name = "judges"
    verbose_name = "Judges: LLMs that vote"

    def ready(self) -> None:
        """Register judge runs, follow cancellations, and mark scripted raters: their votes disclose
        no candidates, and leaderboards warn about them. Add what judges export.
        """
        engine = import_module("arena.services.runs")
        engine.HANDLERS["judge"] = judge_handler
        engine.HANDLERS[engine.LABELS] = label_handler
        run_cancelled.connect(cancel_judgements, dispatch_uid="cancel judgements")
        post_migrate.connect(succeed_judges, sender=self, dispatch_uid="succeed judges")
        scripted = import_module("judges.models.judges").SCRIPTED
        disclosure = import_module("arena.services.candidates")
        disclosure.ignore_raters(Q(epoch__judge__endpoint=scripted))
        import_module("ranking.exports").OTHER_KINDS.append(judge_export_kinds)
        import_module("ranking.scripted_raters").register_scripted_raters(
            Q(epoch__judge__endpoint=scripted) | Q(epoch__judge__members__endpoint=scripted)
        )


def cancel_judgements(**cancelled: Any) -> None:
    import_module("judges.services.runs").cancel_judgements(**cancelled)


def succeed_judges(*, using: str, **migrated: Any) -> None:
    """Let judges follow a new reader of replies, once a database is on the newest migrations."""
    if "plan" not in migrated:  # a flush of a test's database
        return
    loader = MigrationLoader(connections[using])
    if set(loader.graph.leaf_nodes()) <= loader.applied_migrations.keys():
        import_module("judges.services.succession").succeed_judges(now=timezone.now())


@register()
def check_rubrics(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Warn of rubrics on the server that cannot be used: the others, and all commands, can."""
    warnings, rubrics = [], import_module("judges.core.rubric")
    for slug in rubrics.rubric_slugs():
        try:
            rubrics.load_rubric(slug)
        except rubrics.RubricError as error:
            warnings.append(CheckMessage(WARNING, str(error), id="judges.W001"))
    return warnings
