"""Judges, their runs and their verdicts."""

from django.urls import path

from judges.views import judges, runs, verdicts

IN_ARENA = "a/<slug:slug>/runs"
VERDICT = "<int:pk>/verdicts/<int:judgement>"

urlpatterns = [
    path(f"{IN_ARENA}/", runs.judge_runs, name="judge_runs"),
    path(f"{IN_ARENA}/new/", runs.order_run, name="order_run"),
    path(f"{IN_ARENA}/criteria/", runs.set_arena_criteria, name="arena_criteria"),
    path(f"{IN_ARENA}/<int:pk>/", runs.judge_run, name="judge_run"),
    path(f"{IN_ARENA}/{VERDICT}/", verdicts.judge_verdict, name="judge_verdict"),
    path(f"{IN_ARENA}/{VERDICT}/vote/", verdicts.vote_on_verdict, name="vote_on_verdict"),
    path(f"{IN_ARENA}/{VERDICT}/marks/", verdicts.mark_verdict, name="mark_verdict"),
    path("teams/<slug:slug>/arenas/<slug:arena>/", judges.decision, name="decision"),
    path("judges/", judges.leaderboard, name="judges"),
    path("judges/<int:pk>/", judges.judge, name="judge"),
    path("judges/runs/", runs.trial_runs, name="trial_runs"),
    path("judges/runs/<int:pk>/", runs.trial_run, name="trial_run"),
    path("judges/runs/<int:pk>/steer/", runs.steer_run, name="steer_run"),
    path(f"judges/runs/{VERDICT}/", verdicts.trial_verdict, name="trial_verdict"),
    path(f"judges/runs/{VERDICT}/marks/", verdicts.mark_trial, name="mark_trial"),
]
