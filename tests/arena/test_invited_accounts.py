"""If sign-up is by invitation only, each link creates exactly one account."""

from functools import partial

import pytest
from allauth.account.models import EmailAddress, EmailConfirmationHMAC
from django.contrib.auth import get_user_model
from django.core import mail
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.actors import Actor
from arena.models import Invitation, Membership
from arena.services.invitations import create_invitation, revoke_invitation
from tests.arena import test_openid_connect as openid_connect
from tests.arena.oidc_server import serving
from tests.arena.teams import is_signed_in, link_in
from tests.deadlocks import at_once
from tests.factories import make_team, make_user

pytestmark = pytest.mark.django_db
User = get_user_model()
CLOSED = "Sign-up is closed"


@pytest.fixture(autouse=True)
def by_invitation(settings):
    settings.SIGN_UP = "invited"


@pytest.fixture
def owner():
    return make_user("owner")


@pytest.fixture
def link(owner):
    _, secret = create_invitation(
        team=make_team(owner), role="viewer", note="", by=Actor(user=owner), now=timezone.now()
    )
    return reverse("invitation", args=[secret])


def opened(link):
    """A browser in which the link was opened."""
    client = Client()
    client.get(link)
    return client


def sign_up(client, name, password="correct horse battery"):
    return client.post("/sign-up/", {"email": f"{name}@example.org", "password1": password})


def names():
    return list(User.objects.exclude(username="owner").order_by("pk").values_list("username"))


def test_a_link_makes_one_account_which_may_still_come_in(link):
    ada, eve = opened(link), opened(link)
    assert sign_up(ada, "ada").url == "/invitations/"
    for late in (eve, opened(link)):
        assert CLOSED in late.get("/sign-up/").text
        assert CLOSED in sign_up(late, "eve").text
    assert names() == [("ada",)]
    assert ada.post("/invitations/").status_code == 302
    assert Membership.objects.get(user__username="ada").role == "viewer"


def test_a_second_account_can_use_an_invitation_link(link):
    sign_up(opened(link), "mistaken")
    right = opened(link)
    right.force_login(make_user("right"))
    assert right.post("/invitations/").status_code == 302
    assert Membership.objects.get(user__username="right").role == "viewer"


def test_a_try_that_failed_uses_no_link_up(link):
    eve, ada = opened(link), opened(link)
    assert "too short" in sign_up(eve, "eve", "short").text
    assert sign_up(ada, "ada").url == "/invitations/"


def test_an_unproven_account_makes_room_for_the_next(link, delivering):
    eve, ada = opened(link), opened(link)
    assert sign_up(eve, "eve").url == "/sign-up/sent/"
    assert sign_up(ada, "ada").url == "/sign-up/sent/"
    assert names() == [("ada",)]
    of_eve, of_ada = mail.outbox
    assert eve.post(link_in(of_eve)).status_code == 404
    assert not is_signed_in(eve)
    assert ada.post(link_in(of_ada)).url == "/invitations/"
    assert is_signed_in(ada)
    assert CLOSED in sign_up(opened(link), "late").text
    assert names() == [("ada",)]


@pytest.mark.parametrize("kept", ["staff", "member"])
def test_an_account_that_was_given_something_makes_no_room(link, delivering, kept):
    sign_up(opened(link), "ada")
    ada = User.objects.get(username="ada")
    if kept == "staff":
        User.objects.filter(pk=ada.pk).update(is_staff=True)
    else:
        Membership.objects.create(team=make_team(), user=ada, role="viewer")
    assert CLOSED in sign_up(opened(link), "eve").text
    assert (User.objects.filter(username__in=["ada", "eve"])).get() == ada


def test_only_one_of_two_concurrent_sign_ups_succeeds(link, monkeypatch):
    """The second form was checked before the first was saved."""
    from arena.accounts import Accounts

    sign_up(opened(link), "ada")
    late = opened(link)
    monkeypatch.setattr(Accounts, "is_open_for_signup", lambda *args: True)
    answer = sign_up(late, "eve")
    assert CLOSED in answer.text
    assert names() == [("ada",)]
    assert not is_signed_in(late)


def test_a_link_that_was_withdrawn_makes_no_account(link, owner):
    client = opened(link)
    revoke_invitation(invitation=Invitation.objects.get(), by=Actor(user=owner), now=timezone.now())
    assert CLOSED in sign_up(client, "ada").text
    assert names() == []


def test_where_everybody_signs_up_links_are_not_used_up_by_it(link, settings):
    settings.SIGN_UP = "open"
    for name in ("ada", "eve"):
        assert sign_up(opened(link), name).url == "/invitations/"
    assert Invitation.objects.get().made_account is None


@pytest.mark.urls("tests.arena.oidc_urls")
def test_a_link_makes_one_account_of_the_sign_in_server_too(link, settings):
    at_server = dict(openid_connect.PERSON)
    with serving(at_server) as base:
        openid_connect.connect(settings, base)
        assert openid_connect.go_there_and_back(opened(link)).url == "/invitations/"
        at_server |= {"sub": "8", "email": "eve@corp.example", "preferred_username": "eve"}
        assert CLOSED in openid_connect.go_there_and_back(opened(link)).text
    assert names() == [("ada",)]


@pytest.mark.django_db(transaction=True)
def test_only_one_of_many_concurrent_sign_ups_succeeds(link, monkeypatch):
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time.")
    from arena.accounts import Accounts

    monkeypatch.setattr(Accounts, "is_open_for_signup", lambda *args: True)
    browsers = [opened(link) for _ in range(6)]
    works = [partial(sign_up, browser, f"person-{i}") for i, browser in enumerate(browsers)]
    assert sum(CLOSED not in answer.text for answer in at_once(*works)) == 1
    assert len(names()) == 1


@pytest.mark.django_db(transaction=True)
def test_a_mailbox_whose_links_are_used_at_once_proves_one_account():
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time.")
    users = [make_user(f"eve-{number}") for number in range(6)]
    addresses = [
        EmailAddress.objects.create(user=user, email=f"eve+{user.pk}@example.org", primary=True)
        for user in users
    ]
    links = [f"/sign-up/address/{EmailConfirmationHMAC(each).key}/" for each in addresses]
    at_once(*[partial(Client().post, link) for link in links])
    assert EmailAddress.objects.filter(verified=True).count() == 1
