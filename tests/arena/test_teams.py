"""Teams: created, renamed, their members, and that one owner always stays."""

import re
from contextlib import suppress
from functools import partial

import pytest
from django.db import connection
from django.utils import timezone

from arena.actors import Actor
from arena.models import AuditEntry, Invitation, Membership, Role, Team
from arena.services import budgets, teams
from arena.services.invitations import closed_reason, create_invitation, find_invitation
from tests.deadlocks import at_once
from tests.factories import make_empty_team, make_member, make_team, make_user

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def roles(team):
    return sorted(team.memberships.values_list("role", flat=True))


def trail(team):
    return list(team.audit_entries.order_by("pk").values_list("by", "action", "subject"))


def test_whoever_makes_a_team_owns_it():
    ada = make_user("ada")
    team = teams.create_team(name="  Help   Centre ", by=Actor(user=ada))
    assert (team.name, team.slug) == ("Help Centre", "help-centre")
    assert team.memberships.get().user == ada
    assert roles(team) == ["owner"]
    assert trail(team) == [("ada", "made the team", "Help Centre")]


def test_a_person_creates_a_limited_number_of_teams_within_an_hour(monkeypatch):
    monkeypatch.setattr(teams, "MOST_NEW_TEAMS", 2)
    ada = Actor(user=make_user())
    for name in ("Team A", "team a", "New", "Team B"):
        with suppress(teams.TeamError):
            teams.create_team(name=name, by=ada)
    with pytest.raises(teams.TeamError) as refused:
        teams.create_team(name="Team C", by=ada)
    assert "You can create 2 teams an hour" in refused.value.message
    assert list(Team.objects.order_by("pk").values_list("name", flat=True)) == ["Team A", "Team B"]
    teams.create_team(name="Team D", by=Actor(user=make_user()))


def test_an_operator_makes_as_many_teams_as_they_like(monkeypatch):
    monkeypatch.setattr(teams, "MOST_NEW_TEAMS", 1)
    operator = Actor(user=make_user(is_staff=True))
    for number in range(3):
        teams.create_team(name=f"Team {number} of theirs", by=operator)


@pytest.mark.parametrize("name", ["help-centre", "Hélp, centre"])
def test_a_taken_address_is_refused_and_nothing_is_written(name):
    make_team(name="Help Centre")
    with pytest.raises(teams.TeamError, match="/teams/help-centre/ is already taken"):
        teams.create_team(name=name, by=Actor(user=make_user()))
    assert Team.objects.count() == Membership.objects.count() == AuditEntry.objects.count() == 1


@pytest.mark.parametrize(
    ("name", "says"), [("", "a name"), (" ", "a name"), ("x" * 121, "120"), ("New", "reserved")]
)
def test_a_name_that_cannot_be_is_refused(name, says):
    with pytest.raises(teams.TeamError, match=says):
        teams.create_team(name=name, by=Actor(user=make_user()))


def test_no_name_contains_invisible_characters():
    with pytest.raises(teams.TeamError, match="contains an invisible character"):
        teams.create_team(name="abc\u202edef", by=Actor(user=make_user()))


def test_a_name_without_latin_letters_has_an_address_too():
    first, second = make_team(name="日本"), make_team(name="日本語")
    assert first.slug.startswith("team-")
    assert first.slug != second.slug


def test_a_long_name_has_an_address_that_fits():
    assert len(make_team(name="word " * 24).slug) <= 60


def test_a_renamed_team_keeps_its_address():
    team = make_team(name="Old")
    teams.rename_team(team=team, name="New words", by=Actor(user=make_user("eve")))
    team.refresh_from_db()
    assert (team.name, team.slug) == ("New words", "old")
    assert trail(team)[-1] == ("eve", "renamed the team", "New words")
    teams.rename_team(team=team, name="New words", by=Actor(user=make_user()))
    assert len(trail(team)) == 2


# Small and wide letters, one that capitals and small letters write apart, composed and not.
READ_ALIKE = [
    ("Team A", "Team A"),
    ("Team A", " team  a "),
    ("Team A", "ＴＥＡＭ　Ａ"),
    ("Straße", "STRASSE"),
    ("Café", "Cafe\u0301"),
    ("می‌روم", "میروم"),
]


@pytest.mark.parametrize(("name", "alike"), READ_ALIKE)
def test_no_team_takes_the_name_of_another(name, alike):
    first, second = make_team(name=name), make_team(name="Zenith")
    before = list(Team.objects.order_by("pk").values())
    says = f"A team named {name} already exists. Choose another name."
    with pytest.raises(teams.TeamError, match=re.escape(says)) as made:
        teams.create_team(name=alike, by=Actor(user=make_user()))
    with pytest.raises(teams.TeamError, match=re.escape(says)) as renamed:
        teams.rename_team(team=second, name=alike, by=Actor(user=make_user()))
    assert made.value.field == renamed.value.field == "name"
    assert (list(Team.objects.order_by("pk").values()), second.name) == (before, "Zenith")
    teams.rename_team(team=first, name=alike, by=Actor(user=make_user()))


def test_a_name_that_a_team_gave_up_is_free():
    first = make_team(name="Team A")
    teams.rename_team(team=first, name="Zenith", by=Actor(user=make_user()))
    second = make_team(name="Orion")
    teams.rename_team(team=second, name="TEAM A", by=Actor(user=make_user()))
    assert second.name == "TEAM A"


def test_a_name_that_is_taken_at_the_same_moment_is_refused_too(monkeypatch):
    first = make_team(name="Orion")
    teams.rename_team(team=first, name="Team A", by=Actor(user=make_user()))
    second = make_team(name="Zenith")
    monkeypatch.setattr(teams, "check_team_name_is_free", lambda *args, **kwargs: None)
    with pytest.raises(teams.TeamError, match="already exists"):
        teams.rename_team(team=second, name="team a", by=Actor(user=make_user()))
    with pytest.raises(teams.TeamError, match="already exists"):
        teams.create_team(name="team a", by=Actor(user=make_user()))
    assert list(Team.objects.order_by("pk").values_list("name", flat=True)) == ["Team A", "Zenith"]


@pytest.mark.parametrize("vacated", [False, True])
def test_old_teams_of_one_name_stay_and_no_third_joins(vacated):
    """As the migration leaves them."""
    first = make_team(name="Team A")
    double = make_empty_team(slug="double", name="team a")
    if vacated:
        teams.rename_team(team=first, name="Orion", by=Actor(user=make_user()))
    third = make_team(name="Zenith")
    with pytest.raises(teams.TeamError, match="A team named"):
        teams.rename_team(team=third, name="TEAM A", by=Actor(user=make_user()))
    double.refresh_from_db()
    assert double.name == "team a"


def test_roles_change_and_the_audit_log_says_from_what_to_what():
    team = make_team()
    member = make_member(team, Role.VIEWER)
    teams.change_role(membership=member, role="member", by=Actor(user=make_user("boss")), now=NOW)
    member.refresh_from_db()
    assert member.role == "member"
    entry = team.audit_entries.latest("pk")
    assert (entry.action, entry.subject) == ("changed a role", str(member.user))
    assert entry.details == {"role": "member", "before": "viewer"}
    teams.change_role(membership=member, role="member", by=Actor(user=make_user()), now=NOW)
    assert team.audit_entries.count() == 2


def test_an_unknown_role_is_refused():
    with pytest.raises(teams.TeamError, match="owner, member or viewer"):
        teams.change_role(
            membership=make_member(make_team()), role="king", by=Actor(user=make_user()), now=NOW
        )


def test_members_are_removed_and_leave():
    team = make_team()
    boss = Actor(user=make_user("boss"))
    removed, leaving = make_member(team), make_member(team, Role.OWNER)
    teams.remove_member(membership=removed, by=boss, now=NOW)
    teams.remove_member(membership=leaving, by=Actor(user=leaving.user), now=NOW)
    assert roles(team) == ["owner"]
    assert [action for _, action, _ in trail(team)][1:] == ["removed a member", "left the team"]


@pytest.mark.parametrize("role", ["member", None])
def test_links_of_a_former_owner_do_not_work(role):
    team = make_team()
    boss, former = Actor(user=make_member(team, Role.OWNER).user), make_member(team, Role.OWNER)
    _, secret = create_invitation(
        team=team, role="owner", note="me", by=Actor(user=former.user), now=NOW
    )
    other, _ = create_invitation(team=team, role="member", note="", by=boss, now=NOW)
    elsewhere, _ = create_invitation(
        team=make_team(former.user), role="member", note="", by=Actor(user=former.user), now=NOW
    )
    if role is None:
        teams.remove_member(membership=former, by=boss, now=NOW)
    else:
        teams.change_role(membership=former, role=role, by=boss, now=NOW)
    open_ones = Invitation.objects.open(NOW)
    assert set(open_ones) == {other, elsewhere}
    assert closed_reason(find_invitation(secret), NOW).startswith("This invitation was revoked.")
    assert team.audit_entries.latest("pk").details["invitations_revoked"] == 1


def test_the_last_owner_stays_an_owner():
    team = make_team(name="Help")
    make_member(team)
    owner = team.memberships.get(role="owner")
    by = Actor(user=owner.user)
    with pytest.raises(teams.LastOwnerError, match="Help needs at least one owner"):
        teams.change_role(membership=owner, role="member", by=by, now=NOW)
    with pytest.raises(teams.LastOwnerError):
        teams.remove_member(membership=owner, by=by, now=NOW)
    assert roles(team) == ["member", "owner"]
    assert team.audit_entries.count() == 1


def test_owners_of_other_teams_do_not_count():
    make_team()
    team = make_team()
    with pytest.raises(teams.LastOwnerError):
        teams.remove_member(membership=team.memberships.get(), by=Actor(user=make_user()), now=NOW)


def test_one_of_two_owners_may_go():
    team = make_team()
    make_member(team, Role.OWNER)
    teams.change_role(
        membership=team.memberships.first(), role="viewer", by=Actor(user=make_user()), now=NOW
    )
    assert roles(team) == ["owner", "viewer"]


def test_anyone_who_is_gone_cannot_be_changed():
    member = make_member(make_team())
    Membership.objects.filter(pk=member.pk).delete()
    with pytest.raises(teams.TeamError, match="no longer in the team"):
        teams.change_role(membership=member, role="owner", by=Actor(user=make_user()), now=NOW)


@pytest.mark.parametrize("budget", [-1, budgets.MOST_BUDGET + 1])
def test_a_budget_beyond_reason_is_refused(budget):
    team = make_team()
    with pytest.raises(teams.TeamError, match=r"between \$0 and \$1,000,000"):
        budgets.set_budget(team=team, budget=budget, by=Actor())
    team.refresh_from_db()
    assert team.budget == 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("role", ["member", None])
def test_two_owners_who_end_each_other_at_once_leave_one(role):
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time.")

    def end(member, by):
        if role is None:
            teams.remove_member(membership=member, by=Actor(user=by), now=NOW)
        else:
            teams.change_role(membership=member, role=role, by=Actor(user=by), now=NOW)

    for _ in range(10):
        team = make_team()
        ada, bob = team.memberships.get(), make_member(team, Role.OWNER)
        works = partial(end, ada, bob.user), partial(end, bob, ada.user)
        became = at_once(*works, expecting=(teams.TeamError,))
        assert sorted(isinstance(one, teams.LastOwnerError) for one in became) == [False, True]
        assert roles(team).count("owner") == 1


@pytest.mark.django_db(transaction=True)
def test_only_one_of_several_concurrent_teams_gets_a_name():
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time.")
    by = [Actor(user=make_user()) for _ in range(5)]
    works = [partial(teams.create_team, name="Same", by=who) for who in by]
    became = at_once(*works, expecting=(teams.TeamError,))
    assert sum(isinstance(one, teams.TeamError) for one in became) == 4
    assert Membership.objects.count() == Team.objects.count() == 1
