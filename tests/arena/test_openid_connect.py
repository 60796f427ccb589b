"""Signing in with the operator's OpenID Connect server."""

from urllib.parse import parse_qs, urlsplit

import pytest
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth import get_user_model

from tests.arena.oidc_server import serving

pytestmark = [
    pytest.mark.any_database,
    pytest.mark.django_db,
    pytest.mark.urls("tests.arena.oidc_urls"),
]
User = get_user_model()
PERSON = {"sub": "7", "email": "ada@corp.example", "preferred_username": "ada"}


@pytest.fixture
def person():
    return dict(PERSON)


@pytest.fixture
def server(settings, person):
    with serving(person) as base:
        connect(settings, base)
        yield base


def connect(settings, base):
    app = {
        "provider_id": "oidc",
        "name": "Corp",
        "client_id": "ringside",
        "secret": "oidc-canary",
        "settings": {"server_url": base, "oauth_pkce_enabled": True},
    }
    settings.OIDC_NAME = "Corp"
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": [app]}}


def go_there_and_back(client, **fields):
    """Follow the button to the server, and come back as it sends one back."""
    there = client.post("/sign-in/elsewhere/", fields)
    assert there.status_code == 302
    asked = parse_qs(urlsplit(there.url).query)
    back = {"code": "c", "state": asked["state"][0]}
    return client.get(urlsplit(asked["redirect_uri"][0]).path, back)


def name_of(client):
    user = User.objects.filter(pk=client.session.get("_auth_user_id")).first()
    return user.username if user else None


def test_a_person_of_the_server_has_an_account_at_once(client, server):
    assert "Sign in with Corp" in client.get("/sign-in/").text
    assert go_there_and_back(client).url == "/teams/"
    assert name_of(client) == "ada"
    client.post("/sign-out/")
    assert go_there_and_back(client).url == "/"
    assert User.objects.count() == 1


def test_the_request_names_the_client_and_hides_its_secret(client, server):
    there = client.post("/sign-in/elsewhere/")
    assert there.url.startswith(f"{server}/authorize?")
    assert "client_id=ringside" in there.url
    assert "code_challenge=" in there.url
    assert "oidc-canary" not in there.url


def test_redirects_stay_on_this_host(client, server):
    assert go_there_and_back(client, next="/teams/").url == "/teams/"
    client.post("/sign-out/")
    assert go_there_and_back(client, next="https://evil.example/").url == "/"


def test_an_account_with_the_address_is_not_taken_over(client, server):
    User.objects.create_user("boss", email="ADA@corp.example", password="s3cret-words")
    answer = go_there_and_back(client)
    assert answer.url == "/sign-in/"
    assert name_of(client) is None
    assert "An account with your email address already exists" in client.get("/sign-in/").text
    assert not SocialAccount.objects.exists()


def test_who_is_signed_in_connects_and_then_comes_in_either_way(client, server):
    boss = User.objects.create_user("boss", email="ada@corp.example", password="s3cret-words")
    client.force_login(boss)
    assert "Connect Corp" in client.get("/sign-in/").text
    assert go_there_and_back(client).url == "/sign-in/"
    page = client.get("/sign-in/").text
    assert "The third-party account has been connected." in page
    assert "You can sign in with Corp." in page
    client.post("/sign-out/")
    go_there_and_back(client)
    assert name_of(client) == "boss"


def test_who_has_just_come_in_by_the_server_may_close_the_account(client, server):
    go_there_and_back(client)
    client.post("/account/close/", {"user_name": "ada"})
    assert not User.objects.exists()


def test_a_person_without_an_address_sees_a_message(client, server, person):
    del person["email"]
    assert go_there_and_back(client).url == "/sign-in/"
    assert "did not share your email address" in client.get("/sign-in/").text
    assert not User.objects.exists()


def test_closed_sign_up_admits_no_new_accounts(client, server, settings):
    settings.SIGN_UP = "closed"
    assert "Sign-up is closed" in go_there_and_back(client).text
    assert not User.objects.exists()


def test_an_unsolicited_sign_in_reply_is_refused(client, server):
    page = client.get("/sign-in/oidc/callback/", {"code": "c", "state": "forged"})
    assert page.status_code == 401
    assert "Sign-in failed" in page.text
    assert not User.objects.exists()


def test_a_sign_in_server_that_is_down_is_reported(client, settings):
    connect(settings, "http://127.0.0.1:9")
    page = client.post("/sign-in/elsewhere/")
    assert page.status_code == 503
    assert "Sign-in failed" in page.text


def test_nothing_leads_there_by_a_mere_link(client, server):
    assert client.get("/sign-in/elsewhere/").status_code == 405
