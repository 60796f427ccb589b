from importlib import import_module
from typing import Any

from django.apps import AppConfig
from django.core.checks import Error, register
from django.db.models import Q

from arena.signals import run_cancelled
from judges.core.rubric import RubricError, load_rubric, rubric_slugs


class JudgesConfig(AppConfig):
    name = "judges"
    verbose_name = "Judges: LLMs that vote"

    def ready(self) -> None:
        """Register judge runs, follow cancellations, and mark scripted raters: their votes disclose
        no candidates, and leaderboards warn about them.
        """
        services = import_module("judges.services.runs")
        engine = import_module("arena.services.runs")
        engine.HANDLERS["judge"] = services.JudgeRunHandler()
        labels = import_module("judges.services.label_runs")
        engine.HANDLERS[engine.LABELS] = labels.LabelRunHandler()
        run_cancelled.connect(services.cancel_judgements, dispatch_uid="cancel judgements")
        scripted = import_module("judges.models.judges").SCRIPTED
        disclosure = import_module("arena.services.candidates")
        disclosure.ignore_raters(Q(epoch__judge__endpoint=scripted))
        import_module("ranking.board_data").register_scripted_raters(
            Q(epoch__judge__endpoint=scripted) | Q(epoch__judge__members__endpoint=scripted)
        )


@register()
def check_rubrics(app_configs: Any, **kwargs: Any) -> list[Error]:
    """Check that every rubric can be loaded."""
    errors = []
    for slug in rubric_slugs():
        try:
            load_rubric(slug)
        except RubricError as error:
            errors.append(Error(str(error), id="judges.E001"))
    return errors
