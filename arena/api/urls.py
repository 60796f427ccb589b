"""The addresses of the API; the last route answers 404 for all others."""

from django.urls import path, re_path, register_converter
from django.urls.converters import PathConverter

from arena.api import arenas, candidates, comparisons, prompts, runs, teams
from arena.api.core import schema


class ExternalId(PathConverter):
    """A prompt's external id, which may contain slashes but no control characters."""

    regex = r"[^\x00-\x1f\x7f]+"


register_converter(ExternalId, "external_id")

ARENA = "arenas/<slug:slug>/"
CANDIDATE = f"{ARENA}candidates/<int:pk>/"
ANSWER_RUN = "answer-runs/<int:pk>/"
COMPARISON = f"{ARENA}comparisons/<uuid:key>/"

urlpatterns = [
    path("", schema.root, name="api_root"),
    path("me/", teams.Me.as_view(), name="api_me"),
    path("teams/", teams.Teams.as_view(), name="api_teams"),
    path("teams/<slug:slug>/", teams.OneTeam.as_view(), name="api_team"),
    path("arenas/", arenas.Arenas.as_view(), name="api_arenas"),
    path(ARENA, arenas.OneArena.as_view(), name="api_arena"),
    path(f"{ARENA}prompts/", prompts.Prompts.as_view(), name="api_prompts"),
    path(
        f"{ARENA}prompts/<external_id:external_id>/",
        prompts.OnePrompt.as_view(),
        name="api_prompt",
    ),
    path(f"{ARENA}imports/", prompts.Imports.as_view(), name="api_imports"),
    path(f"{ARENA}candidates/", candidates.Candidates.as_view(), name="api_candidates"),
    path(CANDIDATE, candidates.OneCandidate.as_view(), name="api_candidate"),
    path(f"{CANDIDATE}versions/", candidates.Versions.as_view(), name="api_versions"),
    path(f"{CANDIDATE}retire/", candidates.Retire.as_view(), name="api_retire_candidate"),
    path(f"{CANDIDATE}responses/", prompts.Responses.as_view(), name="api_responses"),
    path(f"{CANDIDATE}answers/", runs.AnswerRuns.as_view(), name="api_answers"),
    path(ANSWER_RUN, runs.OneAnswerRun.as_view(), name="api_answer_run"),
    path(f"{ANSWER_RUN}pause/", runs.PauseAnswerRun.as_view(), name="api_pause_answer_run"),
    path(f"{ANSWER_RUN}resume/", runs.ResumeAnswerRun.as_view(), name="api_resume_answer_run"),
    path(f"{ANSWER_RUN}cancel/", runs.CancelAnswerRun.as_view(), name="api_cancel_answer_run"),
    path(f"{ANSWER_RUN}retry/", runs.RetryAnswerRun.as_view(), name="api_retry_answer_run"),
    path(f"{ARENA}comparisons/", comparisons.Comparisons.as_view(), name="api_comparisons"),
    path(COMPARISON, comparisons.OneComparison.as_view(), name="api_comparison"),
    path(f"{COMPARISON}vote/", comparisons.CastVote.as_view(), name="api_vote"),
    path(f"{COMPARISON}skip/", comparisons.Skip.as_view(), name="api_skip"),
    path("schema/", schema.SchemaView.as_view(), name="api_schema"),
    path("docs/", schema.docs, name="api_docs"),
    # A path may contain line breaks, which `.` does not match.
    re_path(r"^[\s\S]*$", schema.NotFound.as_view(), name="api_not_here"),
]
