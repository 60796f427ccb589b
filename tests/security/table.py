"""The status for every caller, address and method: the whole rule in one place.

Statuses are written as the callers of `tests.security.world` are listed: people first, then the
tokens. Pages ignore tokens, so their rules name people only.
What a private arena hides is not written here: see `Row.expected`. What guests of an open arena may
do is written in `table_guests`.
"""

from dataclasses import dataclass
from typing import Any

from tests.security.world import CALLERS, OUTSIDE, PEOPLE, TOKENS

HIDDEN, UNKNOWN = 404, 401


@dataclass(frozen=True)
class Row:
    """What a method of an address answers, and what it is sent.

    `arena` says what the address has of an arena: "here" (it is hidden where the arena is),
    "listed" (where the arena is not listed, too), "elsewhere" (other sites show it without knowing
    who reads: nobody sees it of a private arena), "" (nothing).

    `answers` says what people outside the team read there of answers that are still on the ballot:
    "" (nothing), "unnamed" (texts, without saying whose they are). Nobody outside reads them with
    their authors anywhere.
    """

    rule: str
    body: Any = None
    arena: str = "here"
    answers: str = ""
    is_looked_for_first: bool = False

    def expected(self, caller: str, visibility: str) -> int:
        """The status for `caller`; hidden things look missing.

        A program that says nothing of who it is, or lacks the scope, hears that before anybody
        looks whether something is there: then it is no secret either.
        """
        status = self.statuses.get(caller, self.statuses["nobody"])
        if not self._hides(caller, visibility):
            return status
        return status if status == UNKNOWN and not self.is_looked_for_first else HIDDEN

    def _hides(self, caller: str, visibility: str) -> bool:
        outside = caller in OUTSIDE or (caller in TOKENS and not self.is_of_api)
        if visibility == "private":
            return self.arena == "elsewhere" or (outside and self.arena != "")
        return visibility == "unlisted" and self.arena == "listed" and outside

    @property
    def statuses(self) -> dict[str, int]:
        """By caller; a page's rule names people alone."""
        callers = CALLERS if self.is_of_api else PEOPLE
        return dict(zip(callers, map(int, self.rule.split()), strict=True))

    @property
    def is_of_api(self) -> bool:
        return len(self.rule.split()) == len(CALLERS)


# People: nobody stranger viewer member owner operator
ALL = "200 200 200 200 200 200"
MOVED = "301 301 301 301 301 301"
LED_ON = "302 302 302 302 302 302"
NOTHING_MORE = "204 204 204 204 204 204"
SIGNED_IN = "302 200 200 200 200 200"
OPERATORS = "302 403 403 403 403 200"
OPERATORS_DO = "403 403 403 403 403 200"
# An arena's own pages: who sees the arena sees that they are there.
READ_BY_TEAM = "302 403 200 200 200 200"
MEMBERS = "302 403 403 200 200 200"
OWNERS = "302 403 403 403 200 200"
MEMBERS_DO = "403 403 403 302 302 302"
# An experiment's own arena is private, whatever the arena it belongs to is.
EXPERIMENT = "404 404 200 200 200 200"
EXPERIMENT_CHANGES = "404 404 403 302 302 302"
EXPERIMENT_REFUSES = "404 404 403 200 200 200"
# A team's pages: who is not in the team finds none.
TEAM = "302 404 200 200 200 200"
TEAMS_MEMBERS = "302 404 403 200 200 200"
TEAMS_MEMBERS_DO = "302 404 403 302 302 302"
TEAMS_OWNERS = "302 404 403 403 200 200"
TEAMS_OWNERS_DO = "302 404 403 403 302 302"

START = {"name": "New", "team_name": "A new team"}
NEW_ARENA = {"name": "New", "question": "Which?", "visibility": "private", "voters": "members"}

PAGES: dict[tuple[str, str], Row] = {
    # Voting
    ("vote", "get"): Row(ALL, answers="unnamed"),
    ("next_pair", "get"): Row(NOTHING_MORE),
    ("cast_vote", "post"): Row(LED_ON, {"outcome": "left"}),
    ("undo_vote", "post"): Row(LED_ON),
    # Nobody has its secret; tests/arena/test_raters_link.py says what whoever has it may do.
    ("raters_link", "get"): Row("404 404 404 404 404 404"),
    ("object_to_hold", "post"): Row(LED_ON, {"objection": "A mistake."}),
    ("give_reasons", "post"): Row(LED_ON),
    ("vote_facts", "get"): Row("404 404 404 404 404 404"),
    ("my_votes", "get"): Row(ALL),
    # Nobody has voted here; tests/ranking/test_rounds.py says who sees a round.
    ("round", "get"): Row("404 404 404 404 404 404"),
    # Live questions: nobody here has asked the one in the world.
    ("live", "get"): Row(ALL),
    ("live", "post"): Row("422 422 422 422 422 422", {"question": ""}),
    ("live_export", "get"): Row(ALL),
    **{
        (f"live_{name}", method): Row("404 404 404 404 404 404")
        for name, method in (
            *(("conversation", "get"), ("stream", "get"), ("vote", "post")),
            *(("ask_again", "post"), ("change", "post"), ("report", "post")),
        )
    },
    # Boards
    ("index", "get"): Row(ALL, arena=""),
    ("board", "get"): Row(ALL),
    ("board_csv", "get"): Row(ALL),
    ("board_json", "get"): Row(ALL),
    ("win_matrix", "get"): Row(MOVED),
    ("compare", "get"): Row(ALL),
    ("side_by_side", "get"): Row(MOVED),
    ("history", "get"): Row(MOVED),
    ("categories", "get"): Row(MOVED),
    ("price", "get"): Row(ALL),
    ("entries", "get"): Row(MOVED),
    ("export_files", "get"): Row(ALL),
    ("exports", "get"): Row(MOVED),
    ("methodology", "get"): Row(MOVED),
    ("about", "get"): Row(ALL),
    ("candidate", "get"): Row(ALL),
    ("comparison", "get"): Row(ALL),
    ("badge", "get"): Row(ALL, arena="elsewhere"),
    ("board_picture", "get"): Row(ALL, arena="elsewhere"),
    ("candidate_picture", "get"): Row(ALL, arena="elsewhere"),
    ("embed_board", "get"): Row(ALL, arena="elsewhere"),
    # Judges
    ("judge_runs", "get"): Row(ALL),
    ("judge_run", "get"): Row(ALL),
    ("judge_verdict", "get"): Row(ALL),
    ("vote_on_verdict", "post"): Row(LED_ON),
    ("order_run", "get"): Row(MEMBERS),
    ("order_run", "post"): Row("403 403 403 200 200 200"),
    ("arena_criteria", "post"): Row(MEMBERS_DO, {"criteria": "Short answers are better."}),
    ("measure_judges", "post"): Row(MEMBERS_DO),
    ("steer_run", "post"): Row(MEMBERS_DO, {"action": "cancel"}, arena="listed"),
    ("mark_verdict", "post"): Row("403 403 302 302 302 302", {"mark": "coherent:yes"}),
    ("judges", "get"): Row(ALL, arena=""),
    ("judge", "get"): Row(ALL, arena="listed"),
    ("judge_setups", "get"): Row(ALL, arena="listed"),
    ("disagreements", "get"): Row(READ_BY_TEAM),
    ("honeypot_test", "get"): Row(OPERATORS, arena=""),
    ("honeypot_test", "post"): Row("403 403 403 403 403 200", arena=""),
    ("trial_runs", "get"): Row(OPERATORS, arena=""),
    ("trial_run", "get"): Row(OPERATORS, arena=""),
    ("trial_verdict", "get"): Row("302 403 403 403 403 404", arena=""),
    ("mark_trial", "post"): Row("403 403 403 403 403 404", {"mark": "coherent:yes"}, arena=""),
    # Experiments; those with a form are sent back with its errors
    ("experiments", "get"): Row(READ_BY_TEAM),
    ("new_experiment", "get"): Row(MEMBERS),
    ("new_experiment", "post"): Row("403 403 403 200 200 200"),
    ("experiment", "get"): Row(EXPERIMENT, arena=""),
    ("add_draft", "post"): Row(EXPERIMENT_CHANGES, arena=""),
    ("save_draft", "post"): Row(EXPERIMENT_CHANGES, {"do": "remove"}, arena=""),
    ("promote_draft", "post"): Row(EXPERIMENT_REFUSES, arena=""),
    ("enter_draft", "post"): Row(EXPERIMENT_REFUSES, arena=""),
    ("try_drafts", "post"): Row(EXPERIMENT_CHANGES, arena=""),
    ("start_experiment", "post"): Row(EXPERIMENT_REFUSES, arena=""),
    ("stop_experiment", "post"): Row(EXPERIMENT_CHANGES, arena=""),
    ("start_twin", "post"): Row(EXPERIMENT_CHANGES, arena=""),
    ("delete_experiment", "post"): Row(EXPERIMENT_CHANGES, arena=""),
    # A team's labels; those in the world are in use, so nobody deletes them
    ("team_labels", "get"): Row(TEAM, arena=""),
    ("new_labels", "get"): Row(TEAMS_MEMBERS, arena=""),
    ("new_labels", "post"): Row(TEAMS_MEMBERS, arena=""),
    ("delete_labels", "post"): Row(TEAMS_OWNERS_DO, arena=""),
    # A team's rubrics; the bodies write nothing, because a form has more fields
    ("team_rubrics", "get"): Row(TEAM, arena=""),
    ("new_rubric", "get"): Row(TEAMS_OWNERS, arena=""),
    ("new_rubric", "post"): Row(TEAMS_OWNERS, arena=""),
    ("import_rubric", "post"): Row(TEAMS_OWNERS, arena=""),
    ("team_rubric", "get"): Row(TEAM, arena=""),
    ("edit_rubric", "get"): Row(TEAMS_OWNERS, arena=""),
    ("edit_rubric", "post"): Row(TEAMS_OWNERS, arena=""),
    ("delete_rubric", "post"): Row(TEAMS_OWNERS_DO, arena=""),
    ("rubric_version", "get"): Row(TEAM, arena=""),
    ("rubric_files", "get"): Row(TEAM, arena=""),
    ("try_rubric", "get"): Row(TEAMS_MEMBERS, arena=""),
    ("try_rubric", "post"): Row(TEAMS_MEMBERS, arena=""),
    ("rubric_trial", "get"): Row(TEAM, arena=""),
    # Setting an arena up
    ("compare_prompts", "get"): Row(SIGNED_IN, arena=""),
    ("compare_prompts", "post"): Row(SIGNED_IN, arena=""),
    ("choose_import", "get"): Row(SIGNED_IN, arena=""),
    ("choose_import", "post"): Row(LED_ON, START, arena=""),
    ("new_arena", "get"): Row(TEAMS_MEMBERS, arena=""),
    ("new_arena", "post"): Row(TEAMS_MEMBERS_DO, NEW_ARENA, arena=""),
    ("manage_arena", "get"): Row(READ_BY_TEAM),
    ("arena_settings", "get"): Row(OWNERS),
    ("arena_settings", "post"): Row("403 403 403 403 200 200"),
    ("download_arena", "get"): Row("302 403 403 403 302 302"),
    ("delete_arena", "post"): Row("403 403 403 403 302 302"),
    ("delete_prompt", "post"): Row("403 403 403 403 302 302"),
    ("delete_candidate", "post"): Row("403 403 403 403 302 302"),
    ("manage_prompts", "get"): Row(READ_BY_TEAM),
    ("add_prompts", "get"): Row(MEMBERS),
    ("add_prompts", "post"): Row("403 403 403 200 200 200"),
    ("import_file", "get"): Row(MEMBERS),
    ("import_file", "post"): Row("403 403 403 200 200 200"),
    ("edit_prompt", "get"): Row(READ_BY_TEAM),
    ("edit_prompt", "post"): Row(MEMBERS_DO),  # the document of one in use
    ("retire_prompt", "post"): Row(MEMBERS_DO),
    ("retire_prompts", "post"): Row(MEMBERS_DO),
    ("showcase_prompt", "post"): Row(MEMBERS_DO),
    ("use_categories", "post"): Row(MEMBERS_DO),
    ("manage_checks", "get"): Row(READ_BY_TEAM),
    ("manage_checks", "post"): Row("403 403 403 200 200 200"),
    ("delete_check", "post"): Row(MEMBERS_DO),
    ("manage_live", "get"): Row(OWNERS),
    ("manage_live", "post"): Row("403 403 403 403 200 200"),
    # Nobody has shared it; tests/arena/test_live.py says what its writer and others may do then.
    ("live_hide", "post"): Row("403 403 403 403 404 404"),
    ("vote_orders", "get"): Row(READ_BY_TEAM),
    ("vote_orders", "post"): Row("403 403 403 302 302 302", {"per_pair": 1}),
    ("cancel_order", "post"): Row(MEMBERS_DO),
    ("change_raters_link", "post"): Row("403 403 403 403 302 302", {"action": "create"}),
    ("manage_candidates", "get"): Row(READ_BY_TEAM),
    ("new_candidate", "get"): Row(MEMBERS),
    ("new_candidate", "post"): Row("403 403 403 200 200 200"),
    ("archive_candidates", "get"): Row("302 403 403 302 302 302"),
    ("archive_candidates", "post"): Row(MEMBERS_DO),
    ("manage_candidate", "get"): Row(READ_BY_TEAM),
    ("edit_candidate", "get"): Row(MEMBERS),
    ("edit_candidate", "post"): Row("403 403 403 200 200 200"),
    ("retire_candidate", "post"): Row(MEMBERS_DO),
    ("upload_answers", "get"): Row(MEMBERS),
    ("upload_answers", "post"): Row("403 403 403 200 200 200"),
    ("order_answers", "post"): Row(MEMBERS_DO),
    ("answer_run", "get"): Row(READ_BY_TEAM),
    ("steer_answers", "post"): Row(MEMBERS_DO, {"action": "cancel"}),
    # Teams
    ("teams", "get"): Row(SIGNED_IN, arena=""),
    ("new_team", "get"): Row(SIGNED_IN, arena=""),
    ("new_team", "post"): Row(LED_ON, {"name": "Mine"}, arena=""),
    ("team", "get"): Row(TEAM, arena=""),
    ("import_arena", "get"): Row(TEAMS_MEMBERS, arena=""),
    ("import_arena", "post"): Row("302 404 403 200 200 200", arena=""),
    ("delete_team", "post"): Row(TEAMS_OWNERS_DO, arena=""),
    ("change_budget", "post"): Row("302 404 403 403 403 302", {"budget": "1"}, arena=""),
    ("rename_team", "post"): Row(TEAMS_OWNERS_DO, {"name": "Ours"}, arena=""),
    ("team_members", "get"): Row(TEAM, arena=""),
    ("team_members", "post"): Row(TEAMS_OWNERS, {"role": "member"}, arena=""),
    ("change_role", "post"): Row(TEAMS_OWNERS_DO, {"role": "member"}, arena=""),
    ("remove_member", "post"): Row(TEAMS_OWNERS_DO, arena=""),
    ("leave_team", "post"): Row("302 404 302 302 302 404", arena=""),
    ("revoke_invitation", "post"): Row(TEAMS_OWNERS_DO, arena=""),
    ("team_tokens", "get"): Row(TEAMS_OWNERS, arena=""),
    ("team_tokens", "post"): Row(TEAMS_OWNERS, {"name": "New", "scopes": ["read"]}, arena=""),
    ("revoke_token", "post"): Row(TEAMS_OWNERS_DO, arena=""),
    ("team_audit", "get"): Row(TEAM, arena=""),
    ("team_notices", "get"): Row(TEAM, arena=""),
    ("team_notices", "post"): Row("302 404 302 302 302 403", arena=""),
    ("team_webhooks", "get"): Row(TEAMS_OWNERS, arena=""),
    ("team_webhooks", "post"): Row(TEAMS_OWNERS, {"url": "http://10.0.0.1/"}, arena=""),
    ("remove_webhook", "post"): Row(TEAMS_OWNERS_DO, arena=""),
    ("test_webhook", "post"): Row(TEAMS_OWNERS_DO, arena=""),
    ("decision", "get"): Row(TEAM, arena=""),
    ("decision", "post"): Row(TEAMS_MEMBERS_DO, arena=""),
    ("invitation", "get"): Row(LED_ON, arena=""),
    ("open_invitation", "get"): Row("410 410 410 410 410 410", arena=""),
    ("open_invitation", "post"): Row("410 410 410 410 410 410", arena=""),
    # Accounts
    ("sign_in", "get"): Row(ALL, arena=""),
    ("sign_in", "post"): Row(ALL, arena=""),
    ("sign_in", "put"): Row(ALL, arena=""),
    ("sign_out", "post"): Row(LED_ON, arena=""),
    ("sign_up", "get"): Row(ALL, arena=""),
    ("sign_up", "post"): Row(ALL, arena=""),
    ("sign_up", "put"): Row(ALL, arena=""),
    ("change_email", "get"): Row(SIGNED_IN, arena=""),
    ("change_email", "post"): Row(SIGNED_IN, arena=""),
    ("change_email", "put"): Row(SIGNED_IN, arena=""),
    ("download_data", "get"): Row(SIGNED_IN, arena=""),
    ("close_account", "get"): Row(SIGNED_IN, arena=""),
    ("close_account", "post"): Row(SIGNED_IN, arena=""),
    ("close_account", "put"): Row(SIGNED_IN, arena=""),
    ("account_email_verification_sent", "get"): Row(ALL, arena=""),
    ("account_confirm_email", "get"): Row(ALL, arena=""),
    ("account_confirm_email", "post"): Row("404 404 404 404 404 404", arena=""),
    ("account_inactive", "get"): Row(ALL, arena=""),
    ("change_password", "get"): Row(SIGNED_IN, arena=""),
    ("change_password", "post"): Row(SIGNED_IN, arena=""),
    ("change_password", "put"): Row(SIGNED_IN, arena=""),
    ("account_reset_password", "get"): Row(ALL, arena=""),
    ("account_reset_password", "post"): Row(ALL, arena=""),
    ("account_reset_password", "put"): Row(ALL, arena=""),
    ("account_reset_password_done", "get"): Row(ALL, arena=""),
    ("account_reset_password_from_key", "get"): Row(ALL, arena=""),
    ("account_reset_password_from_key", "post"): Row(ALL, arena=""),
    ("account_reset_password_from_key", "put"): Row(ALL, arena=""),
    # A link that nobody was sent is told so, however it is asked.
    ("account_reset_password_from_key", "patch"): Row(ALL, arena=""),
    ("account_reset_password_from_key", "delete"): Row(ALL, arena=""),
    ("account_reset_password_from_key_done", "get"): Row(ALL, arena=""),
    # What operators and programs ask
    ("robots", "get"): Row(ALL, arena=""),
    ("sitemap", "get"): Row(ALL, arena=""),
    ("set_language", "get"): Row(LED_ON, arena=""),
    ("operators", "get"): Row(OPERATORS, arena=""),
    ("operators_health", "get"): Row(OPERATORS, arena=""),
    ("operators_settings", "get"): Row(OPERATORS, arena=""),
    ("operators_settings", "post"): Row(OPERATORS_DO, {"mail_port": "none"}, arena=""),
    ("operators_mail", "post"): Row(OPERATORS_DO, {"to": "nobody"}, arena=""),
    ("operators_models", "get"): Row(OPERATORS, arena=""),
    ("operators_models", "post"): Row(OPERATORS_DO, {"base_url": "nowhere"}, arena=""),
    ("operators_endpoint", "get"): Row(OPERATORS, arena=""),
    ("operators_endpoint", "post"): Row(OPERATORS_DO, {"action": "save"}, arena=""),
    ("operators_endpoint_model", "post"): Row(OPERATORS_DO, {"action": "add"}, arena=""),
    ("healthz", "get"): Row(ALL, arena=""),
    ("readyz", "get"): Row(ALL, arena=""),
    ("metrics", "get"): Row("403 403 403 403 403 200", arena=""),
    ("api_docs", "get"): Row(ALL, arena=""),
    ("api_root", "get"): Row(LED_ON, arena=""),
}

# Callers:      nob str vie mem own ope | rea sub jud all another
ANYBODY_READS = "200 200 200 200 200 200   200 403 403 200 200"
TEAM_READS = "401 403 200 200 200 200   200 403 403 200 403"
NAMED_READ = "401 200 200 200 200 200   200 403 403 200 200"
MEMBERS_WRITE = "401 403 403 200 200 200   403 200 403 200 403"
MEMBERS_ENTER = "401 403 403 201 201 201   403 201 403 201 403"
MEMBERS_IN_VAIN = "401 403 403 422 422 422   403 422 403 422 403"
OWNERS_ALONE = "401 403 403 403 200 200   403 403 403 403 403"
TEAM_JUDGES = "401 403 403 200 200 200   403 403 200 200 403"
OWNERS_IN_VAIN = OWNERS_ALONE.replace("200", "422")
JUDGES_IN_VAIN = "401 403 403 422 422 422   403 403 422 422 403"
READERS_IN_VAIN = "401 403 403 422 422 422   403 403 403 422 403"
EXPERIMENTERS_IN_VAIN = "401 404 403 422 422 422   403 403 403 422 404"
TOKENS_RATER = "401 404 404 404 404 404   403 200 403 200 404"
PROMPT, ANSWER = {"text": "New?"}, {"prompt_id": "p0", "text": "A"}

API: dict[tuple[str, str], Row] = {
    ("api_me", "get"): Row(NAMED_READ, arena=""),
    ("api_teams", "get"): Row(NAMED_READ, arena=""),
    ("api_team", "get"): Row("401 404 200 200 200 200   200 403 403 200 404", arena=""),
    ("api_team", "delete"): Row("401 404 403 403 422 422   403 403 403 403 404", arena=""),
    ("api_rubrics", "get"): Row("401 404 200 200 200 200   200 403 403 200 404", arena=""),
    ("api_rubric_versions", "get"): Row("401 404 200 200 200 200   200 403 403 200 404", arena=""),
    ("api_arenas", "get"): Row(ANYBODY_READS, arena=""),
    ("api_arenas", "post"): Row(
        "401 422 403 201 201 201   403 201 403 201 422",
        {"name": "New", "team": "the-team"},
        arena="",
    ),
    ("api_arena", "get"): Row(ANYBODY_READS),
    ("api_arena", "patch"): Row(OWNERS_ALONE, {"description": "New"}),
    # Not without the slug again.
    ("api_arena", "delete"): Row(OWNERS_IN_VAIN),
    ("api_prompts", "get"): Row(ANYBODY_READS),
    ("api_prompts", "post"): Row(MEMBERS_WRITE, {"prompts": [PROMPT]}),
    ("api_checks", "get"): Row(TEAM_READS),
    ("api_checks", "post"): Row(MEMBERS_ENTER, {"kind": "length", "expected": "at most 9"}),
    ("api_check", "get"): Row(TEAM_READS),
    ("api_check", "delete"): Row("401 403 403 204 204 204   403 204 403 204 403"),
    ("api_imports", "post"): Row(
        MEMBERS_WRITE, {"file_name": "a.csv", "content": "prompt,response\nA?,B.\n"}
    ),
    ("api_prompt", "get"): Row(ANYBODY_READS),
    ("api_prompt", "patch"): Row(MEMBERS_WRITE, {"retired": True}),
    ("api_prompt", "delete"): Row(OWNERS_IN_VAIN),
    ("api_candidates", "get"): Row(ANYBODY_READS),
    ("api_candidates", "post"): Row(MEMBERS_ENTER, {"name": "new"}),
    ("api_archive_candidates", "post"): Row(MEMBERS_IN_VAIN, {"ids": [2**31]}),
    ("api_candidate", "get"): Row(ANYBODY_READS),
    ("api_candidate", "delete"): Row(OWNERS_IN_VAIN),
    ("api_versions", "get"): Row(ANYBODY_READS),
    ("api_versions", "post"): Row(MEMBERS_ENTER, {"notes": "new"}),
    ("api_retire_candidate", "post"): Row(MEMBERS_WRITE),
    ("api_responses", "get"): Row(TEAM_READS),
    ("api_responses", "post"): Row(MEMBERS_WRITE, {"responses": [ANSWER]}),
    ("api_answers", "get"): Row(TEAM_READS),
    ("api_answers", "post"): Row(MEMBERS_IN_VAIN),
    ("api_answer_run", "get"): Row(TEAM_READS, arena="listed"),
    ("api_pause_answer_run", "post"): Row(MEMBERS_IN_VAIN, arena="listed"),
    ("api_resume_answer_run", "post"): Row(MEMBERS_IN_VAIN, arena="listed"),
    ("api_cancel_answer_run", "post"): Row(MEMBERS_IN_VAIN, arena="listed"),
    ("api_retry_answer_run", "post"): Row(MEMBERS_IN_VAIN, arena="listed"),
    # A person rates for themselves; of tokens only those of the arena's team name a rater.
    ("api_comparisons", "post"): Row(
        "401 422 422 422 422 422   403 200 403 200 403", {"rater": "anna"}
    ),
    ("api_comparison", "get"): Row(TOKENS_RATER),
    ("api_vote", "post"): Row(TOKENS_RATER, {"outcome": "left"}),
    ("api_vote", "delete"): Row("401 404 404 404 404 404   403 409 403 409 404"),
    ("api_skip", "post"): Row(TOKENS_RATER),
    # Boards and votes
    ("api_boards", "get"): Row(ANYBODY_READS),
    ("api_battles", "get"): Row(ANYBODY_READS),
    ("api_reasons", "get"): Row(ANYBODY_READS),
    ("api_export_battles_csv", "get"): Row(ANYBODY_READS),
    ("api_export_battles_jsonl", "get"): Row(ANYBODY_READS),
    ("api_export_log", "get"): Row(ANYBODY_READS),
    ("api_export_leaderboard", "get"): Row(ANYBODY_READS),
    ("api_export_dpo", "get"): Row(ANYBODY_READS),
    ("api_export_file", "get"): Row(ANYBODY_READS),
    ("api_export_arena", "get"): Row(OWNERS_ALONE),
    ("api_exported_file", "get"): Row(ANYBODY_READS),
    ("api_board_of_arena", "get"): Row(ANYBODY_READS),
    ("api_board", "get"): Row(ANYBODY_READS, arena="listed"),
    ("api_snapshots_of_arena", "get"): Row(ANYBODY_READS),
    ("api_snapshots", "get"): Row(ANYBODY_READS, arena="listed"),
    ("api_snapshot_of_arena", "get"): Row(ANYBODY_READS),
    ("api_snapshot", "get"): Row(ANYBODY_READS, arena="listed"),
    # Judges
    ("api_judges", "get"): Row(TEAM_JUDGES),
    ("api_export_judgements", "get"): Row(TEAM_READS),
    ("api_export_prompts", "get"): Row(TEAM_READS),
    ("api_judge_runs", "get"): Row(ANYBODY_READS),
    ("api_judge_runs", "post"): Row(
        TEAM_JUDGES, {"judges": ["scripted:scripted-1"], "dry_run": True}
    ),
    ("api_judge_run_of_arena", "get"): Row(ANYBODY_READS),
    ("api_judge_run", "get"): Row(ANYBODY_READS, arena="listed"),
    ("api_pause_judge_run", "post"): Row(JUDGES_IN_VAIN, arena="listed"),
    ("api_resume_judge_run", "post"): Row(JUDGES_IN_VAIN, arena="listed"),
    ("api_cancel_judge_run", "post"): Row(JUDGES_IN_VAIN, arena="listed"),
    ("api_retry_judge_run", "post"): Row(JUDGES_IN_VAIN, arena="listed"),
    # A token's own team is the one that asks; nobody is asked for a name once the arena is found.
    ("api_decision", "get"): Row(
        "401 403 200 200 200 200   200 403 403 200 200", is_looked_for_first=True
    ),
    # Experiments are in private arenas of their own.
    ("api_experiments", "get"): Row(TEAM_READS),
    ("api_experiments", "post"): Row(READERS_IN_VAIN, {"drafts": [{}]}),
    ("api_experiment", "get"): Row("401 404 200 200 200 200   200 403 403 200 404"),
    ("api_quote_experiment", "post"): Row(
        "401 404 403 422 422 422   403 422 403 422 404", {"people": 5}
    ),
    ("api_run_experiment", "post"): Row(EXPERIMENTERS_IN_VAIN, {"people": 5}),
    ("api_try_experiment", "post"): Row(EXPERIMENTERS_IN_VAIN),
    ("api_stop_experiment", "post"): Row(EXPERIMENTERS_IN_VAIN),
    ("api_test_baseline", "post"): Row(EXPERIMENTERS_IN_VAIN),
    ("api_promote_draft", "post"): Row(EXPERIMENTERS_IN_VAIN),
    ("api_enter_draft", "post"): Row("401 404 403 201 201 201   403 201 403 201 404"),
    # What there is to be asked
    ("api_schema", "get"): Row(ANYBODY_READS, arena=""),
    ("api_plan", "get"): Row(ANYBODY_READS, arena=""),
}
ROWS = PAGES | API
# The same addresses, sent something that more is needed for.
ALSO = [
    (("api_arena", "patch"), Row(OWNERS_ALONE, {"voters": "members"})),
    (("api_arena", "patch"), Row(MEMBERS_WRITE, {"criteria": "Short answers are better."})),
    (("api_vote", "post"), Row(TOKENS_RATER.replace("200", "400"), {"outcome": "draw"})),
]
