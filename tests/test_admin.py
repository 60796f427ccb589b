"""The operator's desk: every table is there, and votes are voided, not edited."""

import pytest
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.urls import reverse

from arena.models import Arena, Rater, Run, Vote
from arena.services.candidate_checks import DEFAULTS
from tests.arena.teams import make_team
from tests.factories import make_arena, make_vote

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


def test_every_model_of_the_three_apps_is_there():
    from django.apps import apps

    ours = {
        m for app in ("arena", "ranking", "judges") for m in apps.get_app_config(app).get_models()
    }
    assert ours <= set(MODELS)


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


def test_a_candidate_with_votes_keeps_its_name(admin_client, voted):
    candidate = voted.comparison.left
    url = reverse("admin:arena_candidate_change", args=[candidate.pk])
    assert 'name="name"' not in admin_client.get(url).text


def test_a_candidate_with_answers_is_as_immutable_as_one_with_votes(admin_client):
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


def test_an_arena_of_nobody_is_given_to_a_team_once_and_the_trail_says_so(admin_client):
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


def test_an_order_that_cannot_be_is_said_in_words(admin_client):
    arena = make_arena(1)
    chosen = {"action": "order_votes", "_selected_action": [arena.pk]}
    page = admin_client.post(reverse("admin:arena_arena_changelist"), chosen, follow=True)
    assert "no two candidates" in page.text
