"""Invitations: links for one person, valid for a week, that can be revoked."""

from datetime import timedelta
from functools import partial

import pytest
from django.db import connection
from django.utils import timezone

from arena.actors import Actor
from arena.models import Invitation, Membership
from arena.services import invitations
from tests.deadlocks import at_once
from tests.factories import make_member, make_team, make_user

pytestmark = pytest.mark.django_db
NOW = timezone.now()
WEEK = timedelta(days=7)
SECOND = timedelta(seconds=1)


def owner_of(team):
    return team.memberships.filter(role="owner").earliest("pk").user


def invite(team=None, role="member", note="", by=None):
    team = team or make_team()
    by = Actor(user=by or owner_of(team))
    return invitations.create_invitation(team=team, role=role, note=note, by=by, now=NOW)


def accept(invitation, user=None, now=NOW):
    return invitations.accept_invitation(
        invitation=invitation, by=Actor(user=user or make_user()), now=now
    )


@pytest.mark.parametrize("role", ["owner", "member", "viewer"])
def test_an_invitation_link_grants_the_invited_role(role):
    _, secret = invite(role=role)
    found = invitations.find_invitation(secret)
    eve = make_user("eve")
    membership = accept(found, eve)
    assert (membership.user, membership.role, membership.team) == (eve, role, found.team)
    found.refresh_from_db()
    assert (found.accepted_by, found.accepted_at) == (eve, NOW)
    entry = found.team.audit_entries.latest("pk")
    assert (entry.by, entry.action, entry.details) == ("eve", "joined the team", {"role": role})


def test_no_other_text_is_an_invitation():
    invitation, secret = invite()
    for text in (secret[:-1], secret.swapcase(), invitation.digest, "", "\ud800"):
        assert invitations.find_invitation(text) is None


def test_only_the_digest_of_the_secret_is_kept():
    invitation, secret = invite()
    assert len(secret) >= 43
    assert secret not in str(Invitation.objects.values().get(pk=invitation.pk))


def test_a_link_works_once():
    invitation, _ = invite()
    accept(invitation)
    with pytest.raises(invitations.InvitationError, match="already been used"):
        accept(invitation)
    assert invitation.team.memberships.count() == 2


def test_a_link_works_for_a_week():
    invitation, _ = invite()
    with pytest.raises(invitations.InvitationError, match="has expired"):
        accept(invitation, now=NOW + WEEK)
    accept(invitation, now=NOW + WEEK - SECOND)


def test_a_withdrawn_link_does_not_work():
    invitation, _ = invite()
    by = Actor(user=make_user())
    assert invitations.revoke_invitation(invitation=invitation, by=by, now=NOW)
    assert not invitations.revoke_invitation(invitation=invitation, by=by, now=NOW)
    with pytest.raises(invitations.InvitationError, match="was revoked"):
        accept(invitation)
    assert invitation.team.memberships.count() == 1
    assert invitation.team.audit_entries.filter(action="revoked an invitation").count() == 1


def closed_account(user):
    user.is_active = False
    user.save()


def deleted_account(user):
    user.delete()


def no_operator(user):
    user.is_staff = False
    user.save()


@pytest.mark.parametrize("gone", [closed_account, deleted_account])
def test_a_link_of_someone_without_an_account_any_more_does_not_work(gone):
    team = make_team()
    former = make_member(team, "owner").user
    invitation, secret = invite(team, "owner", by=former)
    gone(former)
    assert not team.invitations.open(NOW).exists()
    why = invitations.closed_reason(invitations.find_invitation(secret), NOW)
    assert why.startswith("The person who sent this invitation can no longer invite people.")
    assert why.endswith(f"Ask an owner of {team} for a new one.")
    with pytest.raises(invitations.InvitationError, match="can no longer invite"):
        accept(invitation)
    assert team.memberships.filter(role="owner").count() == (1 if gone is deleted_account else 2)


def test_a_former_owners_link_does_not_work():
    team = make_team()
    former = make_member(team, "owner")
    invitation, _ = invite(team, by=former.user)
    team.memberships.filter(pk=former.pk).update(role="member")
    with pytest.raises(invitations.InvitationError, match="can no longer invite"):
        accept(invitation)


@pytest.mark.parametrize("gone", [closed_account, no_operator])
def test_an_operators_link_works_while_they_are_one(gone):
    operator = make_user(is_staff=True)
    team = make_team()
    first, _ = invite(team, by=operator)
    second, _ = invite(team, by=operator)
    accept(first)
    gone(operator)
    with pytest.raises(invitations.InvitationError, match="can no longer invite"):
        accept(second)


def test_owning_another_team_gives_no_right_to_invite():
    team = make_team()
    invitation, _ = invite(team, by=owner_of(make_team()))
    with pytest.raises(invitations.InvitationError, match="can no longer invite"):
        accept(invitation)


def test_a_used_link_cannot_be_withdrawn():
    invitation, _ = invite()
    accept(invitation)
    by = Actor(user=make_user())
    assert not invitations.revoke_invitation(invitation=invitation, by=by, now=NOW)


def test_a_member_keeps_their_role_and_the_link_stays_open():
    team = make_team()
    invitation, _ = invite(team, "viewer")
    owner = team.memberships.get()
    with pytest.raises(invitations.InvitationError, match=r"already in .*, as owner"):
        accept(invitation, owner.user)
    owner.refresh_from_db()
    assert owner.role == "owner"
    accept(invitation)


@pytest.mark.parametrize(
    ("fields", "says"),
    [({"role": "king"}, "owner, member or viewer"), ({"note": "x" * 201}, "at most 200")],
)
def test_what_cannot_be_is_refused_with_a_reason(fields, says):
    with pytest.raises(invitations.InvitationError, match=says):
        invite(**fields)
    assert not Invitation.objects.exists()


def test_a_team_has_a_limited_number_of_open_links(monkeypatch):
    monkeypatch.setattr(invitations, "MOST_OPEN", 1)
    team = make_team()
    first, _ = invite(team)
    with pytest.raises(invitations.InvitationError, match="can have 1 open invitations"):
        invite(team)
    accept(first)
    invite(team)


@pytest.mark.django_db(transaction=True)
def test_only_one_of_many_concurrent_visitors_joins_by_a_link():
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time.")
    invitation, _ = invite()
    people = [make_user() for _ in range(8)]
    works = [partial(accept, invitation, user) for user in people]
    became = at_once(*works, expecting=(invitations.InvitationError,))
    assert sum(isinstance(one, invitations.InvitationError) for one in became) == 7
    assert Membership.objects.count() == 2
