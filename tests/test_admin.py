"""The admin: every table is there, and votes are voided, not edited."""

import pytest
from django.contrib import admin
from django.contrib.admin.checks import check_admin_app
from django.contrib.auth import get_user_model
from django.urls import reverse
from django.utils import timezone

import arena.urls  # noqa: F401  (discovers the admin's pages)
from arena.actors import CLI
from arena.models import Arena, Candidate, Rater, Run, Vote
from arena.services import voting
from arena.services.candidate_checks import DEFAULTS
from arena.services.orders import order_people_run
from arena.services.prompts import PromptError
from arena.services.voting import undo_vote
from tests.factories import (
    make_arena,
    make_candidate,
    make_person,
    make_team,
    make_user,
    make_vote,
)

pytestmark = pytest.mark.django_db
MODELS = sorted(admin.site._registry, key=lambda model: model._meta.label)


@pytest.fixture
def voted():
    arena = make_arena()
    left, right, _ = arena.candidates.order_by("pk")
    return make_vote(arena, left, right, "left", prompt=arena.prompts.first())


def names(model, what):
    return f"admin:{model._meta.app_label}_{model._meta.model_name}_{what}"


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label)
def test_every_table_can_be_listed_and_its_rows_looked_at(model, admin_client, voted):
    page = admin_client.get(reverse(names(model, "changelist")), {"q": "a"})
    assert page.status_code == 200
    row = model._default_manager.first()
    if row is not None:
        page = admin_client.get(reverse(names(model, "change"), args=[row.pk]))
        assert page.status_code == 200


def test_tables_have_names_that_people_write(admin_client):
    index = admin_client.get(reverse("admin:index")).text
    assert "API tokens" in index
    assert "Arena refreshes" in index


def test_every_model_of_the_three_apps_is_there():
    from django.apps import apps

    ours = {
        m for app in ("arena", "ranking", "judges") for m in apps.get_app_config(app).get_models()
    }
    assert ours <= set(MODELS)


def test_its_pages_pass_the_checks():
    assert check_admin_app(None) == []


def test_votes_are_voided_with_the_operators_name_and_stay(admin_client, voted):
    chosen = {"action": "void", "_selected_action": [voted.pk]}
    admin_client.post(reverse(names(Vote, "changelist")), chosen)
    voted.refresh_from_db()
    assert voted.void_reason == "voided by admin"


def test_all_votes_of_a_rater_are_voided_and_no_more_are_taken(admin_client, voted):
    chosen = {"action": "void_votes", "_selected_action": [voted.rater_id]}
    admin_client.post(reverse(names(Rater, "changelist")), chosen)
    voted.refresh_from_db()
    assert voted.void_reason == "rater voided by admin"
    assert voted.rater.blocked_at


def test_an_account_that_is_deleted_leaves_its_votes(admin_client, voted):
    user = get_user_model().objects.create_user("mary", password="s3cret-words")
    Rater.objects.filter(pk=voted.rater_id).update(user=user)
    admin_client.post(reverse("admin:auth_user_delete", args=[user.pk]), {"post": "yes"})
    assert not get_user_model().objects.filter(pk=user.pk).exists()
    voted.refresh_from_db()
    assert voted.rater.user is None


@pytest.mark.parametrize("what", ["change", "delete"])
def test_a_vote_cannot_be_edited_or_deleted(admin_client, voted, what):
    url = reverse(names(Vote, what), args=[voted.pk])
    assert admin_client.post(url, {"post": "yes", "outcome": "right"}).status_code == 403
    assert Vote.objects.get().outcome == "left"


def test_what_has_votes_is_kept_and_the_admin_says_why(admin_client, voted):
    candidate, prompt = voted.comparison.left, voted.comparison.prompt
    for row in (candidate, prompt):
        url = reverse(names(type(row), "delete"), args=[row.pk])
        for page in (admin_client.get(url), admin_client.post(url, follow=True)):
            assert "has 1 vote, which leaderboards" in page.text
        assert type(row).objects.filter(pk=row.pk).exists()


def test_the_admin_says_what_would_be_lost_and_then_deletes(admin_client, voted):
    team = make_team(name="Ours")
    arena = Arena.objects.get()
    arena.team = team
    arena.save()
    unused = make_candidate(arena, "unused")
    lost = {
        unused: "Deleting unused also permanently deletes 0 answers and 0 runs that generated",
        arena: "4 prompts, 3 candidates, their answers, the leaderboards, the vote log and 1",
        team: "its memberships, API tokens, webhooks and audit log.",
    }
    url = reverse("admin:arena_team_delete", args=[team.pk])
    assert "still has arenas" in admin_client.get(url).text
    for row, sentence in lost.items():
        url = reverse(names(type(row), "delete"), args=[row.pk])
        assert sentence in admin_client.get(url).text
        admin_client.post(url)
        assert not type(row).objects.filter(pk=row.pk).exists()


def test_the_only_administrator_and_only_owners_are_kept(admin_client, admin_user):
    owner = make_user("ann")
    make_team(owner, name="Ours")
    reasons = {admin_user: "user admin is the only administrator", owner: "user ann is the only o"}
    for user, why in reasons.items():
        url = reverse("admin:auth_user_delete", args=[user.pk])
        for page in (admin_client.get(url), admin_client.post(url, follow=True)):
            assert why in page.text
        assert get_user_model().objects.filter(pk=user.pk).exists()


def test_staff_without_the_right_delete_nothing(client, voted):
    client.force_login(make_user("helper", is_staff=True))
    for row in (voted.comparison.left, voted.comparison.prompt, voted.arena):
        url = reverse(names(type(row), "delete"), args=[row.pk])
        assert client.post(url).status_code == 403


def test_a_candidate_with_votes_keeps_its_name(admin_client, voted):
    candidate = voted.comparison.left
    url = reverse("admin:arena_candidate_change", args=[candidate.pk])
    assert 'name="name"' not in admin_client.get(url).text


def test_a_candidate_with_answers_is_immutable(admin_client):
    candidate = make_arena(1).candidates.get()
    page = admin_client.get(reverse("admin:arena_candidate_change", args=[candidate.pk])).text
    for name in ("arena", "team", "name", "version", "created_by", *DEFAULTS):
        assert f'name="{name}"' not in page


def test_a_candidate_nothing_was_made_with_may_be_changed(admin_client):
    candidate = make_arena(1, n_prompts=0).candidates.get()
    page = reverse("admin:arena_candidate_change", args=[candidate.pk])
    assert 'name="system_prompt"' in admin_client.get(page).text


def test_a_prompt_with_answers_keeps_all_that_it_says(admin_client):
    prompt = make_arena(1, n_prompts=1).prompts.get()
    page = admin_client.get(reverse("admin:arena_prompt_change", args=[prompt.pk])).text
    for name in ("text", "reference", "rubric", "variables", "category", "external_id"):
        assert f'name="{name}"' not in page


def test_what_an_arenas_settings_check_is_not_changed_past_them(admin_client):
    arena = make_arena(team=make_team(), visibility="private")
    page = reverse("admin:arena_arena_change", args=[arena.pk])
    told = {"name": "New name", "slug": arena.slug, "description": ""}
    opened = {"visibility": "public", "voters": "members", "open_to_teams": "on", "team": ""}
    admin_client.post(page, {**told, **opened, "question": "Another?", "criteria": "Rude."})
    found = Arena.objects.get(pk=arena.pk)
    assert found.name == "New name"
    assert (found.team, found.visibility, found.voters) == (arena.team, "private", "anyone")
    assert (found.question, found.criteria, found.open_to_teams) == (arena.question, "", False)


def test_an_unowned_arena_is_given_to_a_team_once(admin_client):
    arena, team = make_arena(), make_team()
    page = reverse("admin:arena_arena_change", args=[arena.pk])
    told = {"name": arena.name, "slug": arena.slug, "description": "", "team": team.pk}
    assert admin_client.post(page, told).status_code == 302
    arena.refresh_from_db()
    assert arena.team == team
    entry = team.audit_entries.latest("pk")
    assert (entry.by, entry.action) == ("admin", "gave the team an arena")
    assert 'name="team"' not in admin_client.get(page).text


def test_what_pages_promise_of_a_candidate_cannot_be_rewritten(admin_client, voted):
    candidate = voted.comparison.left
    url = reverse("admin:arena_candidate_change", args=[candidate.pk])
    for page in (admin_client.get(url), admin_client.get(reverse("admin:arena_candidate_add"))):
        for name in ("private_until", "disclosed_at", "created_at", "retired_at"):
            assert f'name="{name}' not in page.text


def test_candidates_are_retired_by_an_action(admin_client, voted):
    candidate = voted.comparison.left
    chosen = {"action": "retire", "_selected_action": [candidate.pk]}
    admin_client.post(reverse("admin:arena_candidate_changelist"), chosen)
    candidate.refresh_from_db()
    assert candidate.retired_at


def test_an_order_of_votes_and_its_cancelling(admin_client, voted):
    chosen = {"action": "order_votes", "_selected_action": [voted.arena_id]}
    admin_client.post(reverse("admin:arena_arena_changelist"), chosen)
    run = Run.objects.get()
    assert run.votes_wanted == 3
    chosen = {"action": "cancel", "_selected_action": [run.pk]}
    admin_client.post(reverse("admin:arena_run_changelist"), chosen)
    run.refresh_from_db()
    assert run.state == Run.State.CANCELLED


def test_an_impossible_order_is_reported(admin_client):
    arena = make_arena(1)
    chosen = {"action": "order_votes", "_selected_action": [arena.pk]}
    page = admin_client.post(reverse("admin:arena_arena_changelist"), chosen, follow=True)
    assert "No two candidates" in page.text


def test_votes_are_voided_in_one_audit_entry(admin_client, monkeypatch):
    """Also if they are voided in several steps; an arena without a team has no audit log."""
    monkeypatch.setattr(voting, "VOIDED_AT_ONCE", 2)
    rater, arena, nobodys = make_person(), make_arena(2, team=make_team()), make_arena(2)
    for one in (arena, arena, nobodys, arena):
        make_vote(one, *one.candidates.order_by("pk"), "left", rater=rater)
    chosen = {"action": "void_votes", "_selected_action": [rater.pk]}
    page = admin_client.post(reverse(names(Rater, "changelist")), chosen, follow=True)
    assert "4 votes voided" in page.text
    entry = arena.team.audit_entries.get(action="voided votes")
    assert (entry.by, entry.subject) == ("admin", arena.name)
    assert entry.details == {
        "arena": arena.slug,
        "votes": 3,
        "reason": "rater voided by admin",
    }


def test_undoing_a_vote_is_not_in_the_audit_log():
    arena, rater = make_arena(2, team=make_team()), make_person()
    vote = make_vote(arena, *arena.candidates.order_by("pk"), "left", rater=rater)
    before = arena.team.audit_entries.count()
    undo_vote(comparison=vote.comparison, rater=rater, now=timezone.now())
    vote.refresh_from_db()
    assert vote.voided_at
    assert arena.team.audit_entries.count() == before


def test_a_run_that_is_over_is_not_cancelled_and_that_is_reported(admin_client, voted):
    run = order_people_run(arena=voted.arena, per_pair=1, by=CLI)
    Run.objects.update(state=Run.State.DONE)
    chosen = {"action": "cancel", "_selected_action": [run.pk]}
    page = admin_client.post(reverse(names(Run, "changelist")), chosen, follow=True)
    assert "it cannot be cancelled" in page.text


@pytest.fixture
def fresh():
    """A team's candidate that is not in use yet."""
    team = make_team()
    arena = make_arena(0, 1, team=team)
    return make_candidate(arena, "fresh", team=team, notes="Old.")


def candidate_page(admin_client, fresh, **changes):
    sent = dict.fromkeys(DEFAULTS, "") | {"parameters": "{}"} | changes
    return admin_client.post(reverse("admin:arena_candidate_change", args=[fresh.pk]), sent)


def test_a_changed_candidate_is_checked_and_audited(admin_client, fresh):
    assert candidate_page(admin_client, fresh, notes="New.", name="other").status_code == 302
    fresh.refresh_from_db()
    assert (fresh.notes, fresh.name) == ("New.", "fresh")
    entry = fresh.team.audit_entries.latest("pk")
    assert (entry.by, entry.action) == ("admin", "changed a candidate")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"user_template": "{{ nope }}"}, "nope"),
        ({"endpoint": "scripted"}, "Enter the model"),
        ({"endpoint": "elsewhere", "model": "m"}, "no endpoint with this name"),
    ],
)
def test_an_invalid_candidate_is_refused_at_its_field(admin_client, fresh, changes, words):
    answer = candidate_page(admin_client, fresh, **changes)
    assert answer.status_code == 200
    assert words in str(answer.context["errors"])
    assert fresh.team.audit_entries.filter(action="changed a candidate").count() == 0


def test_a_candidate_entered_by_an_operator_is_audited(admin_client, fresh):
    sent = dict.fromkeys(DEFAULTS, "") | {"parameters": "{}", "name": "second"}
    given = {"arena": fresh.arena_id, "team": fresh.team_id}
    page = reverse("admin:arena_candidate_add")
    assert (
        "You already have a candidate named fresh"
        in admin_client.post(page, sent | given | {"name": "fresh"}).text
    )
    assert admin_client.post(page, sent | given).status_code == 302
    found = Candidate.objects.get(name="second")
    assert (found.version, found.created_by.username) == (1, "admin")
    entry = fresh.team.audit_entries.latest("pk")
    assert (entry.by, entry.action) == ("admin", "registered a candidate")


def test_a_changed_prompt_is_checked_and_audited(admin_client, fresh):
    prompt = fresh.arena.prompts.get()
    page = reverse("admin:arena_prompt_change", args=[prompt.pk])
    sent = {"text": "New?", "variables": "{}", "external_id": "x", "retired_at_0": "2026-11-22"}
    assert admin_client.post(page, sent | {"text": "x" * 1_000_001}).status_code == 200
    assert admin_client.post(page, sent).status_code == 302
    prompt.refresh_from_db()
    assert (prompt.text, prompt.external_id, prompt.retired_at) == ("New?", "p0", None)
    entry = fresh.team.audit_entries.latest("pk")
    assert (entry.by, entry.action) == ("admin", "changed a prompt")


def test_a_lost_race_is_reported_above_the_form(admin_client, monkeypatch):
    def refuse(**_):
        raise PromptError("Somebody was quicker.")

    monkeypatch.setattr("arena.admin.catalog.revise_prompt", refuse)
    prompt = make_arena(0, 1).prompts.get()
    page = reverse("admin:arena_prompt_change", args=[prompt.pk])
    sent = {"text": "New?", "variables": "{}"}
    assert "Somebody was quicker." in admin_client.post(page, sent, follow=True).text


def test_prompts_are_retired_and_restored_by_actions(admin_client):
    prompt = make_arena(0, 1).prompts.get()
    for action, retired in (("retire", True), ("bring_back", False)):
        chosen = {"action": action, "_selected_action": [prompt.pk]}
        admin_client.post(reverse("admin:arena_prompt_changelist"), chosen)
        prompt.refresh_from_db()
        assert bool(prompt.retired_at) is retired


def test_a_renamed_arena_is_audited_and_keeps_its_address(admin_client):
    arena = make_arena(team=make_team())
    page = reverse("admin:arena_arena_change", args=[arena.pk])
    admin_client.post(page, {"name": "New name", "slug": "new", "description": ""})
    found = Arena.objects.get(pk=arena.pk)
    assert (found.name, found.slug) == ("New name", arena.slug)
    entry = arena.team.audit_entries.latest("pk")
    assert (entry.by, entry.action) == ("admin", "changed an arena")


def test_the_admin_has_the_icon_of_the_site(admin_client):
    page = admin_client.get("/admin/").text
    assert 'rel="icon"' in page
    assert "favicon.svg" in page
