"""The settings of accounts: read, checked, and never repeating a password."""

import pytest
from django.conf import settings
from django.contrib import admin
from environs import Env

from arena.conf import read_accounts, stop_on_bad_value

OIDC = {
    "OIDC_SERVER_URL": "https://id.example/realm/",
    "OIDC_CLIENT_ID": "ringside",
    "OIDC_CLIENT_SECRET": "canary",
}


@pytest.fixture
def read(monkeypatch):
    def read_with(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        with stop_on_bad_value():
            return read_accounts(Env())

    return read_with


def test_without_settings_mail_is_printed(read):
    found = read()
    assert found["EMAIL_BACKEND"] == "arena.mail.StoredServer"
    assert found["ACCOUNT_EMAIL_VERIFICATION"] == "none"
    assert found["SIGN_UP"] == "open"
    assert found["OIDC_NAME"] == ""


@pytest.mark.parametrize(
    ("url", "tls", "port"),
    [
        ("smtp://u:p%40ss@mail.example:25", False, 25),
        ("submission://u:p%40ss@mail.example", True, 587),
    ],
)
def test_a_mail_server_has_addresses_proven(read, url, tls, port):
    found = read(EMAIL_URL=url, DEFAULT_FROM_EMAIL="Arena <arena@mail.example>")
    assert found["EMAIL_HOST"] == "mail.example"
    assert (found["EMAIL_HOST_USER"], found["EMAIL_HOST_PASSWORD"]) == ("u", "p@ss")
    assert (found["EMAIL_USE_TLS"], found["EMAIL_PORT"]) == (tls, port)
    assert found["EMAIL_TIMEOUT"] == 10
    assert found["DEFAULT_FROM_EMAIL"] == "Arena <arena@mail.example>"
    assert found["ACCOUNT_EMAIL_VERIFICATION"] == "mandatory"


def test_a_server_to_sign_in_with_is_named_in_the_policy(read):
    found = read(**OIDC, OIDC_NAME="Corp")
    app = found["SOCIALACCOUNT_PROVIDERS"]["openid_connect"]["APPS"][0]
    assert found["OIDC_NAME"] == app["name"] == "Corp"
    assert found["OIDC_ORIGIN"] == "https://id.example"
    assert (app["client_id"], app["secret"]) == ("ringside", "canary")
    assert app["settings"]["server_url"] == "https://id.example/realm"


def test_its_secret_may_stand_in_a_file(read, tmp_path):
    file = tmp_path / "secret"
    file.write_text("from-a-file\n")
    found = read(**OIDC | {"OIDC_CLIENT_SECRET": "", "OIDC_CLIENT_SECRET_FILE": str(file)})
    app = found["SOCIALACCOUNT_PROVIDERS"]["openid_connect"]["APPS"][0]
    assert app["secret"] == "from-a-file"


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"SIGN_UP": "maybe"}, "SIGN_UP"),
        ({"EMAIL_URL": "http://canary@x"}, "EMAIL_URL must begin with"),
        ({"EMAIL_URL": "smtp://u:can/ary@mail.example"}, "EMAIL_URL must look like"),
        ({"OIDC_SERVER_URL": "https://id.example"}, "needs OIDC_CLIENT_ID"),
        (OIDC | {"OIDC_CLIENT_SECRET": ""}, "needs OIDC_CLIENT_ID"),
        (OIDC | {"OIDC_SERVER_URL": "ftp://canary"}, "OIDC_SERVER_URL must be"),
        (OIDC | {"OIDC_SERVER_URL": "https://u:canary@id.example"}, "OIDC_SERVER_URL must be"),
        (OIDC | {"OIDC_SERVER_URL": "https://id.example:canary"}, "OIDC_SERVER_URL must be"),
        (OIDC | {"OIDC_CLIENT_SECRET": "", "OIDC_CLIENT_SECRET_FILE": "/no/file"}, "No such file"),
    ],
)
def test_what_cannot_be_stops_the_start_with_a_sentence(read, variables, says):
    with pytest.raises(SystemExit) as stopped:
        read(**variables)
    assert says in str(stopped.value)
    for secret in ("canary", "can/ary", "ary@"):
        assert secret not in str(stopped.value)


def test_forms_lead_to_this_site_alone_without_other_servers():
    assert settings.CONTENT_SECURITY_POLICY["DIRECTIVES"]["form-action"] == ["'self'"]


def test_the_admin_has_no_table_for_secrets_of_other_servers():
    from allauth.socialaccount.models import SocialApp, SocialToken

    import arena.urls  # noqa: F401  (discovers the admin's pages)

    assert not {SocialApp, SocialToken} & set(admin.site._registry)
