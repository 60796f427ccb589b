"""The admin: every table is there, and votes are voided, not edited."""

import pytest
from django.contrib import admin
from django.contrib.admin.checks import check_admin_app
from django.contrib.auth import get_user_model
from django.urls import reverse
from django.utils import timezone

import arena.urls  # noqa: F401  (discovers the admin's pages)
from arena.actors import Actor
from arena.admin import ReadOnly
from arena.models import IdempotentRequest, Invitation, NetworkKey, Rater, Vote, Webhook
from arena.services import invitations, tokens, voting
from arena.services.voting import undo_vote
from tests.factories import make_arena, make_person, make_team, make_user, make_vote

pytestmark = pytest.mark.django_db
OURS = ("arena", "ranking", "judges")
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

    ours = {m for app in OURS for m in apps.get_app_config(app).get_models()}
    assert ours <= set(MODELS)


def test_its_pages_pass_the_checks():
    assert check_admin_app(None) == []


def test_votes_are_voided_with_the_operators_name_and_stay(admin_client, voted):
    chosen = {"action": "void", "_selected_action": [voted.pk]}
    admin_client.post(reverse(names(Vote, "changelist")), chosen)
    voted.refresh_from_db()
    assert voted.void_reason == "voided by admin"


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


def test_the_only_administrator_and_only_owners_are_kept(admin_client, admin_user):
    owner = make_user("ann")
    make_team(owner, name="Ours")
    reasons = {admin_user: "user admin is the only administrator", owner: "user ann is the only o"}
    for user, why in reasons.items():
        url = reverse("admin:auth_user_delete", args=[user.pk])
        for page in (admin_client.get(url), admin_client.post(url, follow=True)):
            assert why in page.text
        assert get_user_model().objects.filter(pk=user.pk).exists()


def test_votes_are_voided_in_one_audit_entry(admin_client, monkeypatch):
    """Also if they are voided in several steps; an arena without a team has no audit log."""
    monkeypatch.setattr(voting, "VOIDED_AT_ONCE", 2)
    rater, arena, nobodys = make_person(), make_arena(2, team=make_team()), make_arena(2)
    for one in (arena, arena, nobodys, arena):
        make_vote(one, *one.candidates.order_by("pk"), "left", rater=rater)
    ids = list(rater.votes.values_list("pk", flat=True))
    chosen = {"action": "void", "_selected_action": ids}
    page = admin_client.post(reverse(names(Vote, "changelist")), chosen, follow=True)
    assert "4 votes voided" in page.text
    entry = arena.team.audit_entries.get(action="voided votes")
    assert (entry.by, entry.subject) == ("admin", arena.name)
    assert entry.details == {
        "arena": arena.slug,
        "votes": 3,
        "reason": "voided by admin",
    }


def test_undoing_a_vote_is_not_in_the_audit_log():
    arena, rater = make_arena(2, team=make_team()), make_person()
    vote = make_vote(arena, *arena.candidates.order_by("pk"), "left", rater=rater)
    before = arena.team.audit_entries.count()
    undo_vote(comparison=vote.comparison, rater=rater, now=timezone.now())
    vote.refresh_from_db()
    assert vote.voided_at
    assert arena.team.audit_entries.count() == before


def test_the_admin_has_the_icon_of_the_site(admin_client):
    page = admin_client.get("/admin/").text
    assert 'rel="icon"' in page
    assert "favicon.svg" in page


def test_only_what_needs_a_decision_is_made_by_hand():
    by_hand = {
        model._meta.object_name
        for model, page in admin.site._registry.items()
        if type(page) is not ReadOnly and type(page).__module__.split(".")[0] in OURS
    }
    assert by_hand == {"Board", "Candidate", "Hold", "Review", "Run", "User", "Vote"}


@pytest.mark.parametrize(
    "model",
    [model for model in MODELS if type(admin.site._registry[model]) is ReadOnly],
    ids=lambda model: model._meta.label,
)
def test_a_table_of_the_product_is_changed_only_by_hand(model, rf, admin_user):
    page = admin.site._registry[model]
    request = rf.get("/")
    request.user = admin_user
    assert page.get_model_perms(request) == {
        "add": False,
        "change": False,
        "delete": False,
        "view": True,
    }


def test_no_secret_is_shown(admin_client):
    team = make_team()
    by = Actor(user=make_user("ann"))
    token, _ = tokens.create_token(team=team, name="CI", scopes=["read"], by=by)
    _, secret = invitations.create_invitation(
        team=team, role="viewer", note="", by=by, now=timezone.now()
    )
    invitation = Invitation.objects.get()
    webhook = Webhook.objects.create(team=team, url="https://hooks.example/", salt="s4lt-of-it")
    network = NetworkKey.objects.create(period=7, key="k3y-of-it")
    request = IdempotentRequest.objects.create(
        owner="o", key="k", body=b"b0dy-of-it", headers={"X": "h3ader-of-it"}, status=201
    )
    hidden = (token.digest, invitation.digest, secret, "s4lt-of", "k3y-of", "b0dy-of", "h3ader-of")
    for row in (token, invitation, webhook, network, request):
        for name, args in (("changelist", []), ("change", [row.pk])):
            page = admin_client.get(reverse(names(type(row), name), args=args))
            assert page.status_code == 200
            assert not [text for text in hidden if text in page.text], row
