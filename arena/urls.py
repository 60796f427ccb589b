"""The project's routes: this app's pages and API, the admin, and what the other apps add."""

from allauth.account import views as allauth
from allauth.socialaccount.providers.openid_connect.views import callback
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.views import LogoutView
from django.urls import URLPattern, include, path, re_path, register_converter
from django.urls.converters import PathConverter
from django.views import View
from django.views.generic import RedirectView

from arena import language
from arena.api import arenas as api_arenas
from arena.api import candidates as api_candidates
from arena.api import checks as api_checks
from arena.api import comparisons
from arena.api import prompts as api_prompts
from arena.api import runs as api_runs
from arena.api import teams as api_teams
from arena.api.core import schema
from arena.api.core.views import endpoint
from arena.language import translated
from arena.views import (
    accounts,
    arenas,
    candidates,
    checks,
    invitations,
    live,
    notices,
    prompts,
    raters,
    runs,
    teams,
    tokens,
    voting,
    webhooks,
    workspaces,
)

admin.autodiscover()  # here, so that commands that serve no pages start sooner

handler400 = "arena.language.bad_request"
handler403 = "arena.language.no_access"
handler404 = "arena.language.not_found"
handler500 = "arena.views.errors.fault"


def page(route: str, view: type[View], name: str) -> URLPattern:
    return path(route, translated(view.as_view()), name=name)


# Some pages have two names: ours, and the one that django-allauth uses.
account_urls = [
    page("sign-in/", accounts.SignIn, "sign_in"),
    page("sign-in/", accounts.SignIn, "account_login"),
    path("sign-out/", LogoutView.as_view(), name="sign_out"),
    page("sign-up/", accounts.SignUp, "sign_up"),
    page("sign-up/", accounts.SignUp, "account_signup"),
    page("sign-up/sent/", allauth.EmailVerificationSentView, "account_email_verification_sent"),
    page("sign-up/address/<str:key>/", allauth.ConfirmEmailView, "account_confirm_email"),
    page("sign-in/inactive/", allauth.AccountInactiveView, "account_inactive"),
    page("account/email/", accounts.ChangeEmail, "change_email"),
    path("account/data/", accounts.download_data, name="download_data"),
    page("account/close/", accounts.CloseAccount, "close_account"),
    page("password/", accounts.ChangePassword, "change_password"),
    page("password/forgotten/", accounts.ForgottenPassword, "account_reset_password"),
    page("password/forgotten/sent/", allauth.PasswordResetDoneView, "account_reset_password_done"),
    re_path(
        r"^password/new/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>[^/]+)/$",
        translated(accounts.NewPassword.as_view()),
        name="account_reset_password_from_key",
    ),
    page(
        "password/new/done/",
        allauth.PasswordResetFromKeyDoneView,
        "account_reset_password_from_key_done",
    ),
]


def oidc_urls() -> list[URLPattern]:
    """Return the routes to the site's OpenID Connect server and back."""
    return [
        path(
            "sign-in/elsewhere/", translated(accounts.sign_in_elsewhere), name="sign_in_elsewhere"
        ),
        path(
            "sign-in/<str:provider_id>/callback/",
            translated(callback),
            name="openid_connect_callback",
        ),
        path(
            "sign-in/elsewhere/cancelled/",
            RedirectView.as_view(pattern_name="sign_in"),
            name="socialaccount_login_cancelled",
        ),
    ]


if settings.OIDC_NAME:
    account_urls += oidc_urls()


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
        invitations.revoke_invitation,
        name="revoke_invitation",
    ),
    path("teams/<slug:slug>/tokens/", tokens.team_tokens, name="team_tokens"),
    path("teams/<slug:slug>/tokens/<int:pk>/revoke/", tokens.revoke_token, name="revoke_token"),
    path("teams/<slug:slug>/audit/", teams.team_audit, name="team_audit"),
    path("teams/<slug:slug>/notices/", notices.team_notices, name="team_notices"),
    path("teams/<slug:slug>/webhooks/", webhooks.team_webhooks, name="team_webhooks"),
    path(
        "teams/<slug:slug>/webhooks/<int:pk>/remove/",
        webhooks.remove_webhook,
        name="remove_webhook",
    ),
    path("teams/<slug:slug>/webhooks/<int:pk>/test/", webhooks.send_test, name="test_webhook"),
    path("invitations/", invitations.open_invitation, name="open_invitation"),
    path("invitations/<str:secret>/", invitations.follow_link, name="invitation"),
]
WORKSPACE = "a/<slug:slug>/manage"
LIVE = "a/<slug:slug>/live/<uuid:key>"
CANDIDATE = f"{WORKSPACE}/candidates/<int:pk>"

workspace_urls = [
    path("compare-prompts/", workspaces.compare_prompts, name="compare_prompts"),
    path("import/", workspaces.choose_import, name="choose_import"),
    path("teams/<slug:slug>/arenas/new/", arenas.new_arena, name="new_arena"),
    path(f"{WORKSPACE}/", arenas.manage_arena, name="manage_arena"),
    path(f"{WORKSPACE}/settings/", arenas.arena_settings, name="arena_settings"),
    path("teams/<slug:slug>/arenas/import/", arenas.import_arena, name="import_arena"),
    path(f"{WORKSPACE}/export/", arenas.download_arena, name="download_arena"),
    path(f"{WORKSPACE}/delete/", arenas.remove_arena, name="delete_arena"),
    path(f"{WORKSPACE}/prompts/", prompts.manage_prompts, name="manage_prompts"),
    path(f"{WORKSPACE}/prompts/retire/", prompts.retire_prompts, name="retire_prompts"),
    path(f"{WORKSPACE}/prompts/documents/", prompts.use_categories, name="use_categories"),
    path(f"{WORKSPACE}/prompts/add/", prompts.add_prompts, name="add_prompts"),
    path(f"{WORKSPACE}/import/", prompts.import_file, name="import_file"),
    path(f"{WORKSPACE}/prompts/<int:pk>/", prompts.edit_prompt, name="edit_prompt"),
    path(f"{WORKSPACE}/prompts/<int:pk>/retire/", prompts.retire_prompt, name="retire_prompt"),
    path(f"{WORKSPACE}/prompts/<int:pk>/showcase/", prompts.showcase, name="showcase_prompt"),
    path(f"{WORKSPACE}/prompts/<int:pk>/delete/", prompts.remove_prompt, name="delete_prompt"),
    path("a/<slug:slug>/checks/", checks.manage_checks, name="manage_checks"),
    path("a/<slug:slug>/checks/<int:pk>/delete/", checks.delete_check, name="delete_check"),
    path(f"{WORKSPACE}/live/", live.manage_live, name="manage_live"),
    path(f"{WORKSPACE}/live/<uuid:key>/", live.hide_conversation, name="live_hide"),
    path(f"{WORKSPACE}/votes/", arenas.vote_orders, name="vote_orders"),
    path(f"{WORKSPACE}/votes/<int:pk>/cancel/", arenas.cancel_order, name="cancel_order"),
    path(f"{WORKSPACE}/votes/link/", arenas.change_raters_link, name="change_raters_link"),
    path(f"{WORKSPACE}/candidates/", candidates.manage_candidates, name="manage_candidates"),
    path(f"{WORKSPACE}/candidates/new/", candidates.new_candidate, name="new_candidate"),
    path(
        f"{WORKSPACE}/candidates/archive/",
        candidates.archive_candidates,
        name="archive_candidates",
    ),
    path(f"{CANDIDATE}/", candidates.manage_candidate, name="manage_candidate"),
    path(f"{CANDIDATE}/edit/", candidates.edit_candidate, name="edit_candidate"),
    path(f"{CANDIDATE}/retire/", candidates.retire_candidate, name="retire_candidate"),
    path(f"{CANDIDATE}/delete/", candidates.remove_candidate, name="delete_candidate"),
    path(f"{CANDIDATE}/upload/", prompts.upload_answers, name="upload_answers"),
    path(f"{CANDIDATE}/answers/", runs.order_answers, name="order_answers"),
    path(f"{WORKSPACE}/answers/<int:pk>/", runs.answer_run, name="answer_run"),
    path(f"{WORKSPACE}/answers/<int:pk>/steer/", runs.steer_answers, name="steer_answers"),
]


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
    endpoint("me/", api_teams.Me, "api_me"),
    endpoint("teams/", api_teams.Teams, "api_teams"),
    endpoint("teams/<slug:slug>/", api_teams.OneTeam, "api_team"),
    endpoint("arenas/", api_arenas.Arenas, "api_arenas"),
    endpoint(ARENA, api_arenas.OneArena, "api_arena"),
    endpoint(f"{ARENA}prompts/", api_prompts.Prompts, "api_prompts"),
    endpoint(f"{ARENA}prompts/<external_id:external_id>/", api_prompts.OnePrompt, "api_prompt"),
    endpoint(f"{ARENA}checks/", api_checks.Checks, "api_checks"),
    endpoint(f"{ARENA}checks/<int:pk>/", api_checks.OneCheck, "api_check"),
    endpoint(f"{ARENA}imports/", api_prompts.Imports, "api_imports"),
    endpoint(f"{ARENA}candidates/", api_candidates.Candidates, "api_candidates"),
    endpoint(f"{ARENA}candidates/archive/", api_candidates.Archive, "api_archive_candidates"),
    endpoint(API_CANDIDATE, api_candidates.OneCandidate, "api_candidate"),
    endpoint(f"{API_CANDIDATE}versions/", api_candidates.Versions, "api_versions"),
    endpoint(f"{API_CANDIDATE}retire/", api_candidates.Retire, "api_retire_candidate"),
    endpoint(f"{API_CANDIDATE}responses/", api_prompts.Responses, "api_responses"),
    endpoint(f"{API_CANDIDATE}answers/", api_runs.AnswerRuns, "api_answers"),
    endpoint(ANSWER_RUN, api_runs.OneAnswerRun, "api_answer_run"),
    endpoint(f"{ANSWER_RUN}pause/", api_runs.PauseAnswerRun, "api_pause_answer_run"),
    endpoint(f"{ANSWER_RUN}resume/", api_runs.ResumeAnswerRun, "api_resume_answer_run"),
    endpoint(f"{ANSWER_RUN}cancel/", api_runs.CancelAnswerRun, "api_cancel_answer_run"),
    endpoint(f"{ANSWER_RUN}retry/", api_runs.RetryAnswerRun, "api_retry_answer_run"),
    endpoint(f"{ARENA}comparisons/", comparisons.Comparisons, "api_comparisons"),
    endpoint(COMPARISON, comparisons.OneComparison, "api_comparison"),
    endpoint(f"{COMPARISON}vote/", comparisons.CastVote, "api_vote"),
    endpoint(f"{COMPARISON}skip/", comparisons.Skip, "api_skip"),
    endpoint("schema/", schema.SchemaView, "api_schema"),
    path("docs/", schema.docs, name="api_docs"),
    # A path may contain line breaks, which `.` does not match.
    re_path(r"^[\s\S]*$", schema.NotFound.as_view(), name="api_not_here"),
]

urlpatterns = [
    # The admin's own sign-in page would not limit attempts.
    path("admin/login/", RedirectView.as_view(pattern_name="sign_in", query_string=True)),
    path("admin/", admin.site.urls),
    # Routes are tried from the top, so the most frequent ones and prefixes come first.
    path("a/<slug:slug>/live/", live.live_questions, name="live"),
    path("a/<slug:slug>/live/shared.jsonl", live.export_conversations, name="live_export"),
    path(f"{LIVE}/", live.live_conversation, name="live_conversation"),
    path(f"{LIVE}/stream/", live.stream_answers, name="live_stream"),
    path(f"{LIVE}/ask/", live.ask_again, name="live_ask_again"),
    path(f"{LIVE}/vote/", live.live_vote, name="live_vote"),
    path(f"{LIVE}/change/", live.change_conversation, name="live_change"),
    path(f"{LIVE}/report/", live.report_conversation, name="live_report"),
    path("a/<slug:slug>/vote/", voting.vote, name="vote"),
    path("a/<slug:slug>/vote/next/", voting.next_pair, name="next_pair"),
    path("a/<slug:slug>/vote/objection/", voting.object_to_hold, name="object_to_hold"),
    path("a/<slug:slug>/vote/<uuid:key>/", voting.cast_vote, name="cast_vote"),
    path("a/<slug:slug>/vote/<uuid:key>/undo/", voting.undo_vote, name="undo_vote"),
    path("a/<slug:slug>/vote/<uuid:key>/reasons/", voting.give_reasons, name="give_reasons"),
    path("a/<slug:slug>/vote/invited/<str:secret>/", raters.follow_raters_link, name="raters_link"),
    path("language/<str:code>/", language.set_language, name="set_language"),
    path("", include("ranking.urls")),
    *account_urls,
    *team_urls,
    *workspace_urls,
    path("", include("judges.urls")),
    path("api/v1/", include(api_urls)),  # last, because it answers 404 for all other paths
]
