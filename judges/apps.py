from functools import cache
from importlib import import_module
from typing import Any

from django.apps import AppConfig
from django.core.checks import Error, register
from django.db.models import Q

from arena.signals import run_cancelled


@cache
def judge_handler() -> Any:
    return import_module("judges.services.runs").JudgeRunHandler()


@cache
def label_handler() -> Any:
    return import_module("judges.services.label_runs").LabelRunHandler()


class JudgesConfig(AppConfig):
    name = "judges"
    verbose_name = "Judges: LLMs that vote"

    def ready(self) -> None:
        """Register judge runs, follow cancellations, and mark scripted raters: their votes disclose
        no candidates, and leaderboards warn about them.
        """
        engine = import_module("arena.services.runs")
        engine.HANDLERS["judge"] = judge_handler
        engine.HANDLERS[engine.LABELS] = label_handler
        run_cancelled.connect(cancel_judgements, dispatch_uid="cancel judgements")
        scripted = import_module("judges.models.judges").SCRIPTED
        disclosure = import_module("arena.services.candidates")
        disclosure.ignore_raters(Q(epoch__judge__endpoint=scripted))
        import_module("ranking.scripted_raters").register_scripted_raters(
            Q(epoch__judge__endpoint=scripted) | Q(epoch__judge__members__endpoint=scripted)
        )


def cancel_judgements(**cancelled: Any) -> None:
    import_module("judges.services.runs").cancel_judgements(**cancelled)


@register()
def check_rubrics(app_configs: Any, **kwargs: Any) -> list[Error]:
    """Check that every rubric can be loaded."""
    errors, rubrics = [], import_module("judges.core.rubric")
    for slug in rubrics.rubric_slugs():
        try:
            rubrics.load_rubric(slug)
        except rubrics.RubricError as error:
            errors.append(Error(str(error), id="judges.E001"))
    return errors
