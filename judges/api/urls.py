from django.urls import path, register_converter

from judges.api import decisions, judges, runs
from judges.exports import EXPORTS
from ranking.api.urls import ExportName
from ranking.exports import file_names


class JudgementFile(ExportName):
    """The name of a file with judgements."""

    regex = ExportName.any_of(file_names(EXPORTS))


register_converter(JudgementFile, "judgement_file")

ARENA = "arenas/<slug:slug>/"
RUN = "judge-runs/<int:pk>/"

urlpatterns = [
    path(f"{ARENA}judges/", judges.Judges.as_view(), name="api_judges"),
    path(
        f"{ARENA}judge-exports/<judgement_file:file>",
        judges.JudgementExport.as_view(),
        name="api_export_judgements",
    ),
    path(f"{ARENA}judge-runs/", runs.JudgeRuns.as_view(), name="api_judge_runs"),
    path(f"{ARENA}decision/", decisions.OneDecision.as_view(), name="api_decision"),
    path(f"{ARENA}{RUN}", runs.RunOfArena.as_view(), name="api_judge_run_of_arena"),
    path(RUN, runs.OneRun.as_view(), name="api_judge_run"),
    path(f"{RUN}pause/", runs.PauseJudgeRun.as_view(), name="api_pause_judge_run"),
    path(f"{RUN}resume/", runs.ResumeJudgeRun.as_view(), name="api_resume_judge_run"),
    path(f"{RUN}cancel/", runs.CancelJudgeRun.as_view(), name="api_cancel_judge_run"),
    path(f"{RUN}retry/", runs.RetryJudgeRun.as_view(), name="api_retry_judge_run"),
]
