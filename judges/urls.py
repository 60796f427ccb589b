"""The pages and the API of judges, their runs and their verdicts."""

from django.urls import include, path, register_converter

from arena.api.core.views import endpoint
from judges.api import decisions as api_decisions
from judges.api import experiments as api_experiments
from judges.api import exports
from judges.api import judges as api_judges
from judges.api import rubrics as api_rubrics
from judges.api import runs as api_runs
from judges.exports import EXPORTS
from judges.views import (
    arena_judges,
    decisions,
    disagreements,
    experiments,
    judges,
    labels,
    model_servers,
    operators,
    orders,
    rubrics,
    runs,
    setups,
    verdicts,
)
from ranking.exports import file_names
from ranking.urls import ExportName

IN_ARENA = "a/<slug:slug>/runs"
VERDICT = "<int:pk>/verdicts/<int:judgement>"
EXPERIMENT = "experiments/<slug:slug>"
LABELS = "teams/<slug:slug>/labels"
RUBRICS = "teams/<slug:slug>/rubrics"
RUBRIC = f"{RUBRICS}/<slug:rubric>"
VERSION = f"{RUBRIC}/versions/<int:number>"

page_urls = [
    path(f"{IN_ARENA}/", runs.judge_runs, name="judge_runs"),
    path(f"{IN_ARENA}/new/", orders.order_run, name="order_run"),
    path(f"{IN_ARENA}/criteria/", orders.set_arena_criteria, name="arena_criteria"),
    path(f"{IN_ARENA}/measure/", arena_judges.measure_judges, name="measure_judges"),
    path(f"{IN_ARENA}/<int:pk>/", runs.judge_run, name="judge_run"),
    path(f"{IN_ARENA}/{VERDICT}/", verdicts.judge_verdict, name="judge_verdict"),
    path(f"{IN_ARENA}/{VERDICT}/vote/", verdicts.vote_on_verdict, name="vote_on_verdict"),
    path(f"{IN_ARENA}/{VERDICT}/marks/", verdicts.mark_verdict, name="mark_verdict"),
    path("teams/<slug:slug>/arenas/<slug:arena>/", decisions.decision, name="decision"),
    path("a/<slug:slug>/experiments/", experiments.experiments, name="experiments"),
    path("a/<slug:slug>/experiments/new/", experiments.new_experiment, name="new_experiment"),
    path(f"{EXPERIMENT}/", experiments.experiment, name="experiment"),
    path(f"{EXPERIMENT}/drafts/", experiments.add_draft, name="add_draft"),
    path(f"{EXPERIMENT}/drafts/<int:pk>/", experiments.save_draft, name="save_draft"),
    path(f"{EXPERIMENT}/drafts/<int:pk>/promote/", experiments.promote, name="promote_draft"),
    path(f"{EXPERIMENT}/drafts/<int:pk>/enter/", experiments.enter, name="enter_draft"),
    path(f"{EXPERIMENT}/try/", experiments.try_drafts, name="try_drafts"),
    path(f"{EXPERIMENT}/start/", experiments.start, name="start_experiment"),
    path(f"{EXPERIMENT}/stop/", experiments.stop, name="stop_experiment"),
    path(f"{EXPERIMENT}/twin/", experiments.start_twin, name="start_twin"),
    path(f"{EXPERIMENT}/delete/", experiments.delete, name="delete_experiment"),
    path(f"{LABELS}/", labels.team_labels, name="team_labels"),
    path(f"{LABELS}/new/", labels.new_labels, name="new_labels"),
    path(f"{LABELS}/<int:pk>/delete/", labels.delete_labels, name="delete_labels"),
    path(f"{RUBRICS}/", rubrics.team_rubrics, name="team_rubrics"),
    path(f"{RUBRICS}/new/", rubrics.new_rubric, name="new_rubric"),
    path(f"{RUBRICS}/import/", rubrics.import_rubric, name="import_rubric"),
    path(f"{RUBRICS}/trials/<int:pk>/", rubrics.rubric_trial, name="rubric_trial"),
    path(f"{RUBRIC}/", rubrics.team_rubric, name="team_rubric"),
    path(f"{RUBRIC}/edit/", rubrics.edit_rubric, name="edit_rubric"),
    path(f"{RUBRIC}/delete/", rubrics.delete_rubric, name="delete_rubric"),
    path(f"{VERSION}/", rubrics.rubric_version, name="rubric_version"),
    path(f"{VERSION}/files/", rubrics.rubric_files, name="rubric_files"),
    path(f"{VERSION}/try/", rubrics.try_rubric, name="try_rubric"),
    path("operators/", operators.operators, name="operators"),
    path("operators/settings/", operators.site_settings, name="operators_settings"),
    path("operators/settings/mail/", operators.try_mail, name="operators_mail"),
    path("operators/health/", operators.site_health, name="operators_health"),
    path("operators/models/", model_servers.models, name="operators_models"),
    path("operators/models/<str:name>/", model_servers.endpoint, name="operators_endpoint"),
    path(
        "operators/models/<str:name>/model/",
        model_servers.endpoint_model,
        name="operators_endpoint_model",
    ),
    path("judges/", judges.leaderboard, name="judges"),
    path("judges/<int:pk>/", judges.judge, name="judge"),
    path("judges/<int:pk>/setups/", setups.setups, name="judge_setups"),
    path(
        "judges/<int:pk>/disagreements/<slug:slug>/",
        disagreements.disagreements,
        name="disagreements",
    ),
    path("judges/<int:pk>/honeypots/", orders.honeypot_test, name="honeypot_test"),
    path("judges/runs/", runs.trial_runs, name="trial_runs"),
    path("judges/runs/<int:pk>/", runs.trial_run, name="trial_run"),
    path("judges/runs/<int:pk>/steer/", runs.steer_run, name="steer_run"),
    path(f"judges/runs/{VERDICT}/", verdicts.trial_verdict, name="trial_verdict"),
    path(f"judges/runs/{VERDICT}/marks/", verdicts.mark_trial, name="mark_trial"),
]


class JudgementFile(ExportName):
    regex = ExportName.any_of(file_names(EXPORTS))


register_converter(JudgementFile, "judgement_file")

ARENA = "arenas/<slug:slug>/"
RUN = "judge-runs/<int:pk>/"
ONE = "experiments/<slug:slug>/"

api_urls = [
    endpoint("teams/<slug:slug>/rubrics/", api_rubrics.Rubrics, "api_rubrics"),
    endpoint(
        "teams/<slug:slug>/rubrics/<slug:rubric>/versions/",
        api_rubrics.RubricVersions,
        "api_rubric_versions",
    ),
    endpoint(f"{ARENA}judges/", api_judges.Judges, "api_judges"),
    endpoint(
        f"{ARENA}judge-exports/<judgement_file:file>",
        exports.JudgementExport,
        "api_export_judgements",
    ),
    endpoint(f"{ARENA}experiments/", api_experiments.Experiments, "api_experiments"),
    endpoint(ONE, api_experiments.OneExperiment, "api_experiment"),
    endpoint(f"{ONE}quote/", api_experiments.QuoteExperiment, "api_quote_experiment"),
    endpoint(f"{ONE}run/", api_experiments.RunExperiment, "api_run_experiment"),
    endpoint(f"{ONE}try/", api_experiments.TryExperiment, "api_try_experiment"),
    endpoint(f"{ONE}stop/", api_experiments.StopExperiment, "api_stop_experiment"),
    endpoint(f"{ONE}twin/", api_experiments.TwinOfExperiment, "api_test_baseline"),
    endpoint(f"{ONE}drafts/<int:pk>/promote/", api_experiments.PromoteDraft, "api_promote_draft"),
    endpoint(f"{ONE}drafts/<int:pk>/enter/", api_experiments.EnterDraft, "api_enter_draft"),
    endpoint(f"{ARENA}judge-runs/", api_runs.JudgeRuns, "api_judge_runs"),
    endpoint(f"{ARENA}decision/", api_decisions.OneDecision, "api_decision"),
    endpoint(f"{ARENA}{RUN}", api_runs.RunOfArena, "api_judge_run_of_arena"),
    endpoint(RUN, api_runs.OneRun, "api_judge_run"),
    endpoint(f"{RUN}pause/", api_runs.PauseJudgeRun, "api_pause_judge_run"),
    endpoint(f"{RUN}resume/", api_runs.ResumeJudgeRun, "api_resume_judge_run"),
    endpoint(f"{RUN}cancel/", api_runs.CancelJudgeRun, "api_cancel_judge_run"),
    endpoint(f"{RUN}retry/", api_runs.RetryJudgeRun, "api_retry_judge_run"),
]

urlpatterns = [path("api/v1/", include(api_urls)), *page_urls]
