"""The project's routes: this app's pages and API, the admin, and what the other apps add."""

from allauth.account import views as allauth
from allauth.socialaccount.providers.openid_connect.views import callback
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.views import LogoutView
from django.urls import URLPattern, include, path, re_path, register_converter
from django.urls.converters import PathConverter
from django.views.generic import RedirectView

from arena import language
from arena.api import arenas as api_arenas
from arena.api import candidates as api_candidates
from arena.api import comparisons
from arena.api import prompts as api_prompts
from arena.api import runs as api_runs
from arena.api import teams as api_teams
from arena.api.core import schema
from arena.language import translated
from arena.views import accounts, arenas, candidates, prompts, runs, teams, voting

handler400 = "arena.language.bad_request"
handler403 = "arena.language.no_access"
handler404 = "arena.language.not_found"
handler500 = "ranking.views.site.fault"

# -- Accounts -------------------------------------------------------------------------------------

# Some pages have two names: ours, and the one that django-allauth uses.
sign_in = translated(accounts.SignIn.as_view())
account_urls = [
    path("sign-in/", sign_in, name="sign_in"),
    path("sign-in/", sign_in, name="account_login"),
    path("sign-out/", LogoutView.as_view(), name="sign_out"),
    path("sign-up/", translated(accounts.SignUp.as_view()), name="sign_up"),
    path("sign-up/", translated(accounts.SignUp.as_view()), name="account_signup"),
    path(
        "sign-up/sent/",
        translated(allauth.EmailVerificationSentView.as_view()),
        name="account_email_verification_sent",
    ),
    path(
        "sign-up/address/<str:key>/",
        translated(allauth.ConfirmEmailView.as_view()),
        name="account_confirm_email",
    ),
    path(
        "sign-in/inactive/",
        translated(allauth.AccountInactiveView.as_view()),
        name="account_inactive",
    ),
    path("account/email/", translated(accounts.ChangeEmail.as_view()), name="change_email"),
    path("account/data/", accounts.download_data, name="download_data"),
    path("account/close/", translated(accounts.CloseAccount.as_view()), name="close_account"),
    path("password/", translated(accounts.ChangePassword.as_view()), name="change_password"),
    path(
        "password/forgotten/",
        translated(accounts.ForgottenPassword.as_view()),
        name="account_reset_password",
    ),
    path(
        "password/forgotten/sent/",
        translated(allauth.PasswordResetDoneView.as_view()),
        name="account_reset_password_done",
    ),
    re_path(
        r"^password/new/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>[^/]+)/$",
        translated(accounts.NewPassword.as_view()),
        name="account_reset_password_from_key",
    ),
    path(
        "password/new/done/",
        translated(allauth.PasswordResetFromKeyDoneView.as_view()),
        name="account_reset_password_from_key_done",
    ),
]


def oidc_urls() -> list[URLPattern]:
    """Return the routes to the site's OpenID Connect server and back."""
    return [
        path("sign-in/elsewhere/", accounts.sign_in_elsewhere, name="sign_in_elsewhere"),
        path("sign-in/<str:provider_id>/callback/", callback, name="openid_connect_callback"),
        path(
            "sign-in/elsewhere/cancelled/",
            RedirectView.as_view(pattern_name="sign_in"),
            name="socialaccount_login_cancelled",
        ),
    ]


if settings.OIDC_NAME:
    account_urls += oidc_urls()


# -- Teams -----------------------------------------------------------------------------------------

team_urls = [
    path("teams/", teams.my_teams, name="teams"),
    path("teams/new/", teams.new_team, name="new_team"),
    path("teams/<slug:slug>/", teams.team, name="team"),
    path("teams/<slug:slug>/rename/", teams.rename_team, name="rename_team"),
    path("teams/<slug:slug>/delete/", teams.remove_team, name="delete_team"),
    path("teams/<slug:slug>/budget/", teams.change_budget, name="change_budget"),
    path("teams/<slug:slug>/members/", teams.team_members, name="team_members"),
    path("teams/<slug:slug>/members/<int:pk>/role/", teams.change_role, name="change_role"),
    path("teams/<slug:slug>/members/<int:pk>/remove/", teams.remove_member, name="remove_member"),
    path("teams/<slug:slug>/leave/", teams.leave_team, name="leave_team"),
    path(
        "teams/<slug:slug>/invitations/<int:pk>/revoke/",
        teams.revoke_invitation,
        name="revoke_invitation",
    ),
    path("teams/<slug:slug>/tokens/", teams.team_tokens, name="team_tokens"),
    path("teams/<slug:slug>/tokens/<int:pk>/revoke/", teams.revoke_token, name="revoke_token"),
    path("teams/<slug:slug>/audit/", teams.team_audit, name="team_audit"),
    path("teams/<slug:slug>/notices/", teams.team_notices, name="team_notices"),
    path("teams/<slug:slug>/webhooks/", teams.team_webhooks, name="team_webhooks"),
    path(
        "teams/<slug:slug>/webhooks/<int:pk>/remove/", teams.remove_webhook, name="remove_webhook"
    ),
    path("teams/<slug:slug>/webhooks/<int:pk>/test/", teams.send_test, name="test_webhook"),
    path("invitations/", teams.open_invitation, name="open_invitation"),
    path("invitations/<str:secret>/", teams.follow_link, name="invitation"),
]


# -- Workspaces ------------------------------------------------------------------------------------

WORKSPACE = "a/<slug:slug>/manage"
CANDIDATE = f"{WORKSPACE}/candidates/<int:pk>"

workspace_urls = [
    path("teams/<slug:slug>/arenas/new/", arenas.new_arena, name="new_arena"),
    path(f"{WORKSPACE}/", arenas.manage_arena, name="manage_arena"),
    path(f"{WORKSPACE}/settings/", arenas.arena_settings, name="arena_settings"),
    path("teams/<slug:slug>/arenas/import/", arenas.import_arena, name="import_arena"),
    path(f"{WORKSPACE}/export/", arenas.download_arena, name="download_arena"),
    path(f"{WORKSPACE}/delete/", arenas.remove_arena, name="delete_arena"),
    path(f"{WORKSPACE}/prompts/", prompts.manage_prompts, name="manage_prompts"),
    path(f"{WORKSPACE}/prompts/retire/", prompts.retire_prompts, name="retire_prompts"),
    path(f"{WORKSPACE}/prompts/add/", prompts.add_prompts, name="add_prompts"),
    path(f"{WORKSPACE}/import/", prompts.import_file, name="import_file"),
    path(f"{WORKSPACE}/prompts/<int:pk>/", prompts.edit_prompt, name="edit_prompt"),
    path(f"{WORKSPACE}/prompts/<int:pk>/retire/", prompts.retire_prompt, name="retire_prompt"),
    path(f"{WORKSPACE}/prompts/<int:pk>/delete/", prompts.remove_prompt, name="delete_prompt"),
    path(f"{WORKSPACE}/votes/", arenas.vote_orders, name="vote_orders"),
    path(f"{WORKSPACE}/votes/<int:pk>/cancel/", arenas.cancel_order, name="cancel_order"),
    path(f"{WORKSPACE}/candidates/", candidates.manage_candidates, name="manage_candidates"),
    path(f"{WORKSPACE}/candidates/new/", candidates.new_candidate, name="new_candidate"),
    path(f"{CANDIDATE}/", candidates.manage_candidate, name="manage_candidate"),
    path(f"{CANDIDATE}/edit/", candidates.edit_candidate, name="edit_candidate"),
    path(f"{CANDIDATE}/retire/", candidates.retire_candidate, name="retire_candidate"),
    path(f"{CANDIDATE}/delete/", candidates.remove_candidate, name="delete_candidate"),
    path(f"{CANDIDATE}/upload/", prompts.upload_answers, name="upload_answers"),
    path(f"{CANDIDATE}/answers/", runs.order_answers, name="order_answers"),
    path(f"{WORKSPACE}/answers/<int:pk>/", runs.answer_run, name="answer_run"),
    path(f"{WORKSPACE}/answers/<int:pk>/steer/", runs.steer_answers, name="steer_answers"),
]


# -- The API ---------------------------------------------------------------------------------------


class ExternalId(PathConverter):
    """A prompt's external id, which may contain slashes but no control characters."""

    regex = r"[^\x00-\x1f\x7f]+"


register_converter(ExternalId, "external_id")

ARENA = "arenas/<slug:slug>/"
API_CANDIDATE = f"{ARENA}candidates/<int:pk>/"
ANSWER_RUN = "answer-runs/<int:pk>/"
COMPARISON = f"{ARENA}comparisons/<uuid:key>/"

api_urls = [
    path("", schema.root, name="api_root"),
    path("me/", api_teams.Me.as_view(), name="api_me"),
    path("teams/", api_teams.Teams.as_view(), name="api_teams"),
    path("teams/<slug:slug>/", api_teams.OneTeam.as_view(), name="api_team"),
    path("arenas/", api_arenas.Arenas.as_view(), name="api_arenas"),
    path(ARENA, api_arenas.OneArena.as_view(), name="api_arena"),
    path(f"{ARENA}prompts/", api_prompts.Prompts.as_view(), name="api_prompts"),
    path(
        f"{ARENA}prompts/<external_id:external_id>/",
        api_prompts.OnePrompt.as_view(),
        name="api_prompt",
    ),
    path(f"{ARENA}imports/", api_prompts.Imports.as_view(), name="api_imports"),
    path(f"{ARENA}candidates/", api_candidates.Candidates.as_view(), name="api_candidates"),
    path(API_CANDIDATE, api_candidates.OneCandidate.as_view(), name="api_candidate"),
    path(f"{API_CANDIDATE}versions/", api_candidates.Versions.as_view(), name="api_versions"),
    path(f"{API_CANDIDATE}retire/", api_candidates.Retire.as_view(), name="api_retire_candidate"),
    path(f"{API_CANDIDATE}responses/", api_prompts.Responses.as_view(), name="api_responses"),
    path(f"{API_CANDIDATE}answers/", api_runs.AnswerRuns.as_view(), name="api_answers"),
    path(ANSWER_RUN, api_runs.OneAnswerRun.as_view(), name="api_answer_run"),
    path(f"{ANSWER_RUN}pause/", api_runs.PauseAnswerRun.as_view(), name="api_pause_answer_run"),
    path(f"{ANSWER_RUN}resume/", api_runs.ResumeAnswerRun.as_view(), name="api_resume_answer_run"),
    path(f"{ANSWER_RUN}cancel/", api_runs.CancelAnswerRun.as_view(), name="api_cancel_answer_run"),
    path(f"{ANSWER_RUN}retry/", api_runs.RetryAnswerRun.as_view(), name="api_retry_answer_run"),
    path(f"{ARENA}comparisons/", comparisons.Comparisons.as_view(), name="api_comparisons"),
    path(COMPARISON, comparisons.OneComparison.as_view(), name="api_comparison"),
    path(f"{COMPARISON}vote/", comparisons.CastVote.as_view(), name="api_vote"),
    path(f"{COMPARISON}skip/", comparisons.Skip.as_view(), name="api_skip"),
    path("schema/", schema.SchemaView.as_view(), name="api_schema"),
    path("docs/", schema.docs, name="api_docs"),
    # A path may contain line breaks, which `.` does not match.
    re_path(r"^[\s\S]*$", schema.NotFound.as_view(), name="api_not_here"),
]

# -- Everything ------------------------------------------------------------------------------------

urlpatterns = [
    # The admin's own sign-in page would not limit attempts.
    path("admin/login/", RedirectView.as_view(pattern_name="sign_in", query_string=True)),
    path("admin/", admin.site.urls),
    # Routes are tried from the top, so the most frequent ones and prefixes come first.
    path("a/<slug:slug>/vote/", voting.vote, name="vote"),
    path("a/<slug:slug>/vote/next/", voting.next_pair, name="next_pair"),
    path("a/<slug:slug>/vote/objection/", voting.object_to_hold, name="object_to_hold"),
    path("a/<slug:slug>/vote/<uuid:key>/", voting.cast_vote, name="cast_vote"),
    path("a/<slug:slug>/vote/<uuid:key>/undo/", voting.undo_vote, name="undo_vote"),
    path("a/<slug:slug>/vote/<uuid:key>/reasons/", voting.give_reasons, name="give_reasons"),
    path("language/<str:code>/", language.set_language, name="set_language"),
    path("", include("ranking.urls")),
    *account_urls,
    *team_urls,
    *workspace_urls,
    path("", include("judges.urls")),
    path("api/v1/", include(api_urls)),  # last, because it answers 404 for all other paths
]
