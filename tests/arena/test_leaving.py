"""Closing accounts, exporting data and deleting; boards and the vote log stay intact."""

import io
import json
import re
import time
from zipfile import ZipFile

import pytest
from allauth.account.authentication import AUTHENTICATION_METHODS_SESSION_KEY
from allauth.account.models import EmailAddress
from django.contrib.admin.models import LogEntry
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command
from django.urls import reverse
from django.utils import timezone

from arena.actors import Actor
from arena.models import Arena, AuditEntry, Candidate, Hold, Membership, Prompt, Rater, Team, Vote
from arena.services.candidate_checks import CandidateError
from arena.services.candidates import delete_candidate
from arena.services.privacy import AccountError, close_account, personal_data
from arena.services.prompts import PromptError, delete_prompt
from arena.services.reasons import give_reasons
from arena.services.teams import TeamError, create_team, delete_team
from arena.services.webhooks import add_webhook, send_test
from ranking.models import Standing
from tests.arena.rest import member_of, token_of
from tests.factories import (
    PASSWORD,
    make_arena,
    make_candidate,
    make_member,
    make_person,
    make_run,
    make_team,
    make_user,
    make_vote,
    void_vote,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def voter(arena_with_votes):
    user = make_user("mary")
    rater = Rater.objects.create(kind="person", user=user)
    a, b, _ = arena_with_votes.candidates.order_by("pk")
    prompt = arena_with_votes.prompts.order_by("pk")[0]
    vote = make_vote(arena_with_votes, a, b, "left", prompt, rater)
    give_reasons(
        comparison=vote.comparison, rater=rater, tags={"left": ["clear"]}, comment="I am Mary."
    )
    return user


@pytest.fixture
def arena_with_votes():
    arena = make_arena(slug="voted")
    a, b, c = arena.candidates.order_by("pk")
    for number, prompt in enumerate(arena.prompts.order_by("pk")):
        for left, right, outcome in ((a, b, "left"), (b, c, "right"), (c, a, "left")):
            make_vote(arena, left, right, outcome, prompt, make_person(name=f"r{number}"))
    return arena


def scores(arena):
    call_command("refresh_boards", arena.slug)
    rows = Standing.objects.filter(snapshot__board__arena=arena, snapshot__is_current=True)
    return sorted(rows.values_list("snapshot__board__raters", "candidate__name", "score"))


def everything(arena=None):
    """Every text of every table, as a dump would show it."""
    out = io.StringIO()
    call_command("dumpdata", "--exclude=contenttypes", "--exclude=auth.permission", stdout=out)
    return out.getvalue()


def test_a_closed_account_leaves_its_votes_and_nothing_else(client, voter, arena_with_votes):
    boards = scores(arena_with_votes)
    team = make_team(name="Ours")
    make_member(team, "member", voter)
    AuditEntry.objects.create(team=team, user=voter, by="mary", action="added prompts")
    AuditEntry.objects.create(team=team, by="ann", action="changed a role", subject="mary")
    client.force_login(voter)
    page = client.get(reverse("close_account")).content.decode()
    assert "Your votes stay under a pseudonym" in page

    wrong = client.post(reverse("close_account"), {"password": "wrong"})
    assert "Wrong password" in wrong.content.decode()
    client.post(reverse("close_account"), {"password": PASSWORD})

    text = everything()
    assert not re.search(r"mary", text, re.IGNORECASE)
    assert "former user" in text
    rater = Vote.objects.get(reasons__tag="clear").rater
    assert (rater.user, str(rater)) == (None, f"rater {rater.pk}")
    assert scores(arena_with_votes) == boards
    call_command("verify_log", arena_with_votes.slug)
    assert client.get(reverse("teams")).status_code == 302


def test_an_administrator_who_leaves_is_no_longer_named(client, voter, arena_with_votes):
    root = make_user("root", is_staff=True, is_superuser=True)
    voter.is_staff = voter.is_superuser = True
    voter.save()
    votes = arena_with_votes.votes.order_by("pk")
    for vote, reason in zip(votes, ("voided by mary", "rater voided by mary"), strict=False):
        void_vote(vote, by=Actor(user=voter), reason=reason)
    webhook = add_webhook(
        team=make_team(name="Ours"), url="https://hooks.example.org/", by=Actor(user=root)
    )
    send_test(webhook=webhook, by=Actor(user=voter), now=timezone.now())
    address = EmailAddress.objects.create(user=voter, email=voter.email, primary=True)
    client.force_login(root)
    for row, url in ((voter, "auth_user"), (address, "account_emailaddress")):
        page = client.get(reverse(f"admin:{url}_change", args=[row.pk]))
        form = page.context["adminform"].form
        client.post(
            reverse(f"admin:{url}_change", args=[row.pk]),
            {name: value for name, value in form.initial.items() if value}
            | {"date_joined_0": "2026-11-25", "date_joined_1": "12:00:00", "first_name": "M."},
        )
    assert LogEntry.objects.count() == 2

    client.post(reverse("admin:auth_user_delete", args=[voter.pk]))
    assert not re.search(r"mary", everything(), re.IGNORECASE)
    assert f"rater voided by former user {voter.pk}" in everything()


def test_the_only_owner_of_a_team_and_the_only_administrator_must_stay(voter):
    team = create_team(name="Ours", by=Actor(user=voter))
    with pytest.raises(AccountError, match="only owner of Ours"):
        close_account(user=voter, now=timezone.now())
    delete_team(team=team, by=Actor(user=voter))
    voter.is_superuser = True
    voter.save()
    with pytest.raises(AccountError, match="only administrator"):
        close_account(user=voter, now=timezone.now())
    voter.refresh_from_db()


def sign_in_elsewhere(client, user, *, minutes_ago):
    """Sign in as by single sign-on, which leaves a record of when that was."""
    user.set_unusable_password()
    user.save()
    client.force_login(user)
    session = client.session
    at = time.time() - 60 * minutes_ago
    session[AUTHENTICATION_METHODS_SESSION_KEY] = [{"method": "socialaccount", "at": at}]
    session[f"{AUTHENTICATION_METHODS_SESSION_KEY}_user"] = str(user.pk)
    session.save()


@pytest.mark.parametrize("page", ["close_account", "change_email"])
def test_an_old_session_alone_neither_closes_an_account_nor_changes_its_address(
    client, voter, page
):
    sent = {"user_name": "mary", "email": "thief@example.org"}
    sign_in_elsewhere(client, voter, minutes_ago=6)
    assert "within five minutes of signing in" in client.get(reverse(page)).text
    assert "Sign out and back in" in client.post(reverse(page), sent).text
    voter.set_password(PASSWORD)
    voter.save()
    client.force_login(voter)
    assert "Wrong password." in client.post(reverse(page), sent | {"password": "guess"}).text
    client.post(reverse(page), sent)
    voter.refresh_from_db()
    assert voter.email == "mary@example.org"


def test_after_single_sign_on_the_address_is_changed_without_a_password(client, voter):
    sign_in_elsewhere(client, voter, minutes_ago=1)
    client.post(reverse("change_email"), {"email": "new@example.org"})
    voter.refresh_from_db()
    assert voter.email == "new@example.org"


def test_without_a_password_the_user_name_confirms(client, voter):
    sign_in_elsewhere(client, voter, minutes_ago=1)
    page = client.post(reverse("close_account"), {"user_name": "joe"}).content.decode()
    assert "not your user name" in page
    client.post(reverse("close_account"), {"user_name": "mary"})
    assert not Membership.objects.filter(user__username="mary").exists()
    assert Vote.objects.filter(reasons__tag="clear").exists()


def test_people_take_their_data_out(client, voter, arena_with_votes):
    make_member(make_team(name="Ours"), "member", voter)
    client.force_login(voter)
    response = client.get(reverse("download_data"))
    assert "attachment" in response["Content-Disposition"]
    data = response.json()
    assert data["account"]["email"] == "mary@example.org"
    assert data["teams"][0]["name"] == "Ours"
    [vote] = data["votes"]
    assert (vote["arena"], vote["outcome"], vote["left"]) == ("voted", "left", "candidate-0")
    assert {reason["comment"] for reason in vote["reasons"]} == {"", "I am Mary."}
    # An arena that became private is not described to whoever once voted there.
    arena_with_votes.team = make_team(name="Theirs")
    arena_with_votes.visibility = "private"
    arena_with_votes.save()
    assert "voted" not in json.dumps(personal_data(user=voter)["votes"])


def test_forget_removes_what_identifies_a_rater(voter, arena_with_votes):
    boards = scores(arena_with_votes)
    a, b, _ = arena_with_votes.candidates.order_by("pk")
    named = make_person(arena=arena_with_votes, name="Joseph Doe")
    make_vote(arena_with_votes, a, b, "left", None, named, details={"mail": "joseph.doe"})
    Hold.objects.create(
        arena=arena_with_votes,
        rater=named,
        test="pairs",
        evidence={},
        last_vote_id=0,
        held_at=timezone.now(),
        objection="Joseph here",
    )
    boards = scores(arena_with_votes)
    out = io.StringIO()
    call_command("forget", named.pk, "--yes", stdout=out)
    call_command("forget", voter.rater.pk, "--yes", stdout=out)
    assert "One vote stays" in out.getvalue()
    assert not re.search(r"joseph|mary", everything(), re.IGNORECASE)
    assert scores(arena_with_votes) == boards
    call_command("verify_log", arena_with_votes.slug)


def test_only_people_are_forgotten():
    judge = Rater.objects.create(kind="judge", name="J")
    with pytest.raises(CommandError, match="is a judge, not a person"):
        call_command("forget", judge.pk, "--yes")
    with pytest.raises(CommandError, match="no rater 0"):
        call_command("forget", 0, "--yes")


@pytest.mark.parametrize("command", ["delete_arena", "forget"])
@pytest.mark.parametrize(
    ("typed", "sentence"),
    [("", "Add --yes to skip it"), ("something else\n", "Nothing was changed")],
)
def test_without_the_right_answer_nothing_is_deleted(
    command, typed, sentence, voter, arena_with_votes, monkeypatch
):
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    name = arena_with_votes.slug if command == "delete_arena" else str(voter.rater.pk)
    with pytest.raises(CommandError, match=sentence):
        call_command(command, name)
    voter.refresh_from_db()
    assert voter.username == "mary"
    assert arena_with_votes.votes.exists()


def test_without_mail_a_new_address_holds_at_once(client, voter):
    EmailAddress.objects.create(user=voter, email=voter.email, primary=True)
    client.force_login(voter)
    new = {"email": "new@example.org", "password": PASSWORD}
    response = client.post(reverse("change_email"), new, follow=True)
    assert "is now new@example.org" in response.content.decode()
    voter.refresh_from_db()
    assert voter.email == "new@example.org"
    assert [row.email for row in EmailAddress.objects.filter(user=voter)] == ["new@example.org"]


def test_with_mail_a_new_address_holds_once_it_is_confirmed(client, voter, settings, mailoutbox):
    settings.ACCOUNT_EMAIL_VERIFICATION = "mandatory"
    settings.ACCOUNT_PREVENT_ENUMERATION = True
    EmailAddress.objects.create(user=voter, email=voter.email, primary=True, verified=True)
    client.force_login(voter)
    client.post(reverse("change_email"), {"email": "new@example.org", "password": PASSWORD})
    voter.refresh_from_db()
    assert voter.email == "mary@example.org"
    [mail] = mailoutbox
    assert mail.to == ["new@example.org"]
    link = re.search(r"https?://[^/]+(/\S+)", mail.body)[1]
    client.post(link)
    voter.refresh_from_db()
    assert voter.email == "new@example.org"
    assert EmailAddress.objects.get(user=voter).verified


def test_prompts_and_candidates_without_votes_are_deleted(arena_with_votes):
    arena = arena_with_votes
    arena.team = make_team(name="Ours")
    arena.save()
    boards = scores(arena)
    prompt = Prompt.objects.create(arena=arena, external_id="new", text="New?")
    candidate = make_candidate(arena, "new", team=arena.team)
    delete_prompt(prompt=prompt, by=Actor())
    delete_candidate(candidate=candidate, by=Actor())
    assert not Prompt.objects.filter(pk=prompt.pk).exists()
    assert not Candidate.objects.filter(pk=candidate.pk).exists()
    actions = set(arena.team.audit_entries.values_list("action", "subject"))
    assert {("deleted a prompt", "new"), ("deleted a candidate", "new")} <= actions
    assert scores(arena) == boards
    # Running twice does no harm.
    delete_prompt(prompt=prompt, by=Actor())
    delete_candidate(candidate=candidate, by=Actor())


def test_what_somebody_voted_on_stays_even_if_the_votes_are_voided(arena_with_votes):
    Vote.objects.update(voided_at=timezone.now(), void_reason="x")
    prompt, candidate = arena_with_votes.prompts.first(), arena_with_votes.candidates.first()
    with pytest.raises(PromptError, match="This prompt has 3 votes, which"):
        delete_prompt(prompt=prompt, by=Actor())
    with pytest.raises(CandidateError, match="This candidate has 8 votes, which"):
        delete_candidate(candidate=candidate, by=Actor())
    assert Vote.objects.count() == 12


def test_an_unfinished_run_keeps_prompts_and_candidates():
    run = make_run(slug="running")
    arena = run.arena
    candidate = make_candidate(arena, "new")
    with pytest.raises(CandidateError, match=f"Run {run.pk} is unfinished"):
        delete_candidate(candidate=candidate, by=Actor())


def test_a_team_with_arenas_or_candidates_elsewhere_stays():
    team, host = make_team(name="Ours"), make_team(name="Theirs")
    arena = make_arena(0, 0, slug="ours", team=team)
    make_candidate(make_arena(0, 0, slug="theirs", name="Their arena", team=host), "x", team=team)
    by = Actor()
    with pytest.raises(TeamError, match="still has arenas"):
        delete_team(team=team, by=by)
    arena.delete()
    with pytest.raises(TeamError, match="arenas of other teams: Their arena"):
        delete_team(team=team, by=by)
    Candidate.objects.filter(team=team).delete()
    delete_team(team=team, by=by)
    assert not Team.objects.filter(pk=team.pk).exists()


def test_arenas_and_teams_are_deleted_by_typing_their_address(client):
    owner = make_user("ann")
    team = make_team(owner, name="Ours")
    arena = make_arena(2, 1, slug="mine", team=team)
    client.force_login(owner)
    page = client.post(reverse("delete_arena", args=["mine"]), {"slug": "other"}, follow=True)
    assert "Nothing was deleted. Type mine" in page.content.decode()
    assert "Delete this arena" in page.content.decode()
    client.post(reverse("delete_arena", args=["mine"]), {"slug": "mine"})
    assert not Arena.objects.filter(pk=arena.pk).exists()
    client.post(reverse("delete_team", args=[team.slug]), {"slug": "x"})
    assert Team.objects.filter(pk=team.pk).exists()
    client.post(reverse("delete_team", args=[team.slug]), {"slug": team.slug})
    assert not Team.objects.filter(pk=team.pk).exists()


def test_owners_delete_by_the_api_what_nobody_voted_on(arena_with_votes):
    team = make_team(name="Ours")
    arena = arena_with_votes
    arena.team = team
    arena.save()
    owner, voted = member_of(team, "owner"), arena.prompts.get(external_id="p0")
    Prompt.objects.create(arena=arena, external_id="new", text="New?")
    candidate = make_candidate(arena, "new", team=team)
    base = f"arenas/{arena.slug}/"

    for path in (f"prompts/{voted.external_id}/", f"candidates/{arena.candidates.first().pk}/"):
        refused = owner.delete(base + path)
        assert refused.status_code == 422
        assert re.search(r"has \d votes, which .* instead\.", refused.json()["detail"])
    for path in ("prompts/new/", f"candidates/{candidate.pk}/"):
        assert token_of(team).delete(base + path).status_code == 403
        assert owner.delete(base + path).status_code == 204
        assert owner.delete(base + path).status_code == 404


def test_the_api_says_what_is_lost_before_it_deletes_an_arena_or_a_team(arena_with_votes):
    team = make_team(name="Ours")
    arena_with_votes.team = team
    arena_with_votes.save()
    owner = member_of(team, "owner")

    kept = owner.delete(f"teams/{team.slug}/?confirm={team.slug}").json()["detail"]
    lost = owner.delete("arenas/voted/").json()["detail"]
    assert "still has arenas" in kept
    assert "4 prompts, 3 candidates" in lost
    assert "12 votes. Export it first." in lost
    assert "?confirm=voted" in lost
    assert owner.delete("arenas/voted/?confirm=other").status_code == 422
    assert owner.delete("arenas/voted/?confirm=voted").status_code == 204
    assert not Vote.objects.exists()
    assert "its memberships, API tokens" in owner.delete(f"teams/{team.slug}/").json()["detail"]
    assert owner.delete(f"teams/{team.slug}/?confirm={team.slug}").status_code == 204
    assert not Team.objects.filter(pk=team.pk).exists()


def test_owners_export_an_arena_and_import_it_again(client):
    owner = make_user("ann")
    team = make_team(owner, name="Ours")
    arena = make_arena(2, 2, slug="mine", name="Mine", team=team, question="Which is kinder?")
    a, b = arena.candidates.order_by("pk")
    make_vote(arena, a, b, "left", arena.prompts.first(), make_person())
    client.force_login(owner)
    assert (
        reverse("download_arena", args=["mine"])
        in client.get(reverse("team", args=[team.slug])).content.decode()
    )
    response = client.get(reverse("download_arena", args=["mine"]), follow=True)
    data = response.getvalue()
    assert "arena.json" in ZipFile(io.BytesIO(data)).namelist()
    assert client.get("/api/v1/arenas/mine/exports/arena.zip").getvalue() == data

    file = SimpleUploadedFile("mine.zip", data)
    response = client.post(reverse("import_arena", args=[team.slug]), {"file": file}, follow=True)
    assert "It is private until you change its settings" in response.content.decode()
    copy = Arena.objects.exclude(pk=arena.pk).get()
    assert (copy.name, copy.team, copy.visibility) == ("Mine", team, "private")
    assert (copy.question, copy.votes.count()) == ("Which is kinder?", 1)
    assert re.fullmatch(r"mine-[a-z0-9]{8}", copy.slug)


@pytest.mark.parametrize("content", [b"no zip", b""])
def test_a_bad_archive_is_an_error_in_the_form(client, content):
    owner = make_user("ann")
    team = make_team(owner, name="Ours")
    client.force_login(owner)
    file = SimpleUploadedFile("mine.zip", content)
    response = client.post(reverse("import_arena", args=[team.slug]), {"file": file})
    text = response.content.decode()
    assert "This is not an exported arena" in text or "The file is empty" in text
    assert "/tmp" not in text
    assert not Arena.objects.exists()


def test_administrators_set_a_budget_on_the_teams_page(client):
    team = make_team(name="Ours")
    admin = make_user("root", is_staff=True, is_superuser=True)
    client.force_login(admin)
    response = client.post(
        reverse("change_budget", args=[team.slug]), {"budget": "12.5"}, follow=True
    )
    assert "Ours may spend $12.50" in response.content.decode()
    team.refresh_from_db()
    assert team.budget == 12_500_000_000
    response = client.post(
        reverse("change_budget", args=[team.slug]), {"budget": "-1"}, follow=True
    )
    assert "greater than or equal to 0" in response.content.decode()
    assert Team.objects.get(pk=team.pk).budget == 12_500_000_000
