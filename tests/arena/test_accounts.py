"""Signing in and out, forgotten passwords, and what accounts must not give away."""

import re

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core import mail
from django.urls import reverse
from django.utils import timezone

from arena.middleware import believe_trusted_proxies
from arena.models import Rater
from arena.services.rate_limits import client_address, network_of
from tests.arena.teams import is_signed_in
from tests.described import undescribed
from tests.factories import known, make_arena

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]
SECRET = "s3cret-words"
User = get_user_model()


@pytest.fixture
def ada():
    return User.objects.create_user("ada", email="ada@example.org", password=SECRET)


def sign_in(client, login="ada", password=SECRET, **more):
    return client.post("/sign-in/", {"login": login, "password": password} | more)


@pytest.mark.parametrize("login", ["ada", " ada ", "ada@example.org", "Ada@Example.org"])
def test_a_name_or_an_address_signs_in(client, ada, login):
    assert sign_in(client, login).url == "/"
    assert is_signed_in(client)


def test_signing_in_leads_to_the_requested_page(client, ada):
    assert client.get("/teams/").url == "/sign-in/?next=/teams/"
    assert 'name="next" value="/teams/"' in client.get("/sign-in/?next=/teams/").text
    assert sign_in(client, next="/teams/").url == "/teams/"


@pytest.mark.parametrize("elsewhere", ["https://evil.example/", "//evil.example", "javascript:1"])
def test_one_is_never_led_to_another_host(client, ada, elsewhere):
    assert elsewhere not in client.get("/sign-in/", {"next": elsewhere}).text
    assert sign_in(client, next=elsewhere).url == "/"


def test_an_allowed_host_is_not_this_host(client, ada, settings):
    settings.ALLOWED_HOSTS = ["testserver", "other.example"]
    assert sign_in(client, next="http://other.example/").url == "/"


def test_the_session_has_another_name_after_signing_in(client, ada):
    client.get("/invitations/anything/")
    before = client.session.session_key
    sign_in(client)
    assert before
    assert client.session.session_key != before


def test_wrong_names_and_wrong_passwords_look_alike(client, ada):
    pages = [
        sign_in(client, "ada", "wrong"),
        sign_in(client, "eve", "wrong"),
        sign_in(client, "ada@example.org", "wrong"),
        sign_in(client, "eve@example.org", "wrong"),
    ]
    shown = {re.sub(r'value="[^"]*"', "", page.text) for page in pages}
    assert len(shown) == 1
    assert "Wrong user name or password" in shown.pop()


def test_an_empty_field_is_reported_at_it(client):
    page = sign_in(client, "", "").text
    assert page.count("This field is required.") == 2
    assert not undescribed(page)


def test_unknown_names_take_as_many_hashes_as_known_ones(client, ada, monkeypatch):
    from django.contrib.auth.hashers import MD5PasswordHasher

    counts = []
    real = MD5PasswordHasher.encode
    monkeypatch.setattr(MD5PasswordHasher, "encode", lambda *args: counts.append(1) or real(*args))
    taken = []
    for login in ("ada", "eve", "ada@example.org", "eve@example.org"):
        counts.clear()
        sign_in(client, login, "wrong")
        taken.append(len(counts))
    assert len(set(taken)) == 1, taken


def test_a_closed_account_does_not_sign_in(client, ada):
    User.objects.update(is_active=False)
    assert sign_in(client).url == "/sign-in/inactive/"
    assert "Account closed" in client.get("/sign-in/inactive/").text
    assert not is_signed_in(client)


def guess(client, login, host):
    return client.post("/sign-in/", {"login": login, "password": "no"}, REMOTE_ADDR=host)


@pytest.mark.parametrize("other", ["ada", "ada@example.org"])
def test_one_address_takes_a_limited_number_of_tries_with_one_account(client, ada, other):
    codes = [guess(client, login, "10.0.0.1").status_code for login in ["ADA", other] * 5]
    assert codes == [200] * 10
    page = guess(client, other, "10.0.0.1")
    assert page.status_code == 429
    assert "with this user name or email address from your network address. Wait five" in page.text
    assert guess(client, "somebody-else", "10.0.0.1").status_code == 200


def test_failed_attempts_do_not_block_sign_in_from_elsewhere(client, ada):
    for _ in range(25):
        last = guess(client, "ada", "10.0.0.1")
    assert last.status_code == 429
    assert "Too many attempts from your network address. Wait five minutes" in last.text
    sign_in(client)
    assert is_signed_in(client)


@pytest.mark.parametrize("name", ["Ada", "nobody", "Straße", "a\0b"])
def test_one_account_takes_a_limited_number_of_tries_from_everywhere(
    client, ada, name, monkeypatch
):
    from arena import attempts

    monkeypatch.setitem(attempts.LIMITS, "sign-in", attempts.Limit(20, 10, 12, attempts.MINUTES))
    codes = [guess(client, name, f"10.0.0.{host}").status_code for host in range(12)]
    assert codes == [200] * 12
    page = guess(client, name.upper(), "10.0.0.99")
    assert page.status_code == 429
    assert "or email address, including from other networks. Wait five" in page.text


@pytest.mark.parametrize(
    ("action", "address", "field"),
    [
        ("sign-in", "/sign-in/", "login"),
        ("sign-up", "/sign-up/", "email"),
        ("forgotten-password", "/password/forgotten/", "email"),
    ],
)
def test_a_name_that_no_account_can_have_is_looked_up_nowhere(
    client, ada, action, address, field, monkeypatch
):
    """A database may refuse to compare it at all, as SQLite does."""
    from arena import attempts

    monkeypatch.setitem(attempts.LIMITS, action, attempts.Limit(2, 2, 2, attempts.MINUTES))
    sent = {field: "a" * 60_000, "password": "no", "password1": "xkjhkjh87987"}
    for _ in range(2):
        page = client.post(address, sent)
        assert page.status_code == 200
        assert "at most 254 characters" in page.text
    assert client.post(address, sent).status_code == 429


def test_long_names_that_begin_alike_are_counted_apart(client, monkeypatch):
    from arena import attempts

    monkeypatch.setitem(attempts.LIMITS, "sign-in", attempts.Limit(20, 1, 1, attempts.MINUTES))
    codes = [guess(client, "a" * 300 + end, "10.0.0.1").status_code for end in "bcb"]
    assert codes == [200, 200, 429]


def test_a_forged_address_does_not_make_more_tries(client):
    codes = [
        client.post(
            "/sign-in/",
            {"login": f"n{host}", "password": "no"},
            headers={"X-Forwarded-For": f"10.0.0.{host}"},
        ).status_code
        for host in range(21)
    ]
    assert codes[-1] == 429


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2::7", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("203.0.113.9:51234", "203.0.113.9"),
        ("[2001:db8:1:2::7]:51234", "2001:db8:1:2::/64"),
        ("[2001:db8:1:2::7]", "2001:db8:1:2::/64"),
        ("", "0.0.0.0"),
        ("unknown", "0.0.0.0"),
        ("unix:", "0.0.0.0"),
    ],
)
def test_a_network_of_addresses_is_one_address_to_limits(rf, settings, address, counted):
    assert client_address(rf.get("/", REMOTE_ADDR=address)) == counted
    settings.TRUSTED_PROXIES = 1
    forwarded = rf.get("/", REMOTE_ADDR="", headers={"X-Forwarded-For": f"x, {address}"})
    assert client_address(forwarded) == counted
    assert network_of(forwarded, now=timezone.now())  # every vote has one


@pytest.mark.parametrize(
    ("proxies", "hops", "counted"),
    [
        (0, "6.6.6.6", "203.0.113.9"),
        (1, "6.6.6.6, 198.51.100.7", "198.51.100.7"),
        (2, "6.6.6.6, 198.51.100.7, 10.0.0.1", "198.51.100.7"),
        (2, "6.6.6.6", "203.0.113.9"),
        (1, "6.6.6.6, unknown", "203.0.113.9"),
        (1, "", "203.0.113.9"),
    ],
)
def test_only_trusted_proxies_say_who_asks(rf, settings, proxies, hops, counted):
    settings.TRUSTED_PROXIES = proxies
    request = rf.get("/", REMOTE_ADDR="203.0.113.9", headers={"X-Forwarded-For": hops})
    assert client_address(request) == counted


@pytest.mark.parametrize(
    ("proxies", "hops", "is_secure"),
    [
        (0, "https", False),
        (1, "https", True),
        (1, "https, http", False),
        (1, "http, https", True),
        (2, "http, https, http", True),
        (2, "https, http, https", False),
        (2, "https", True),
    ],
)
def test_only_trusted_proxies_say_whether_it_is_https(rf, settings, proxies, hops, is_secure):
    settings.TRUSTED_PROXIES = proxies
    if proxies:
        settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    request = rf.get("/", headers={"X-Forwarded-Proto": hops})
    secure = []
    believe_trusted_proxies(lambda request: secure.append(request.is_secure()))(request)
    assert secure == [is_secure]


def test_the_admins_own_sign_in_leads_to_ours(client):
    answer = client.get("/admin/", follow=True)
    assert answer.redirect_chain[-1][0] == "/sign-in/?next=%2Fadmin%2F"
    assert client.post("/admin/login/", {"username": "a", "password": "b"}).status_code == 302


def test_pages_of_accounts_are_kept_by_no_cache(client):
    for page in ("/sign-in/", "/sign-up/"):
        assert "no-store" in client.get(page).headers["Cache-Control"]


def test_anyone_who_signs_in_leaves_their_anonymous_rater_as_it_was(client, ada):
    arena = make_arena()
    vote = reverse("vote", args=[arena.slug])
    known(client).get(vote)
    anonymous = Rater.objects.get()
    sign_in(client)
    client.get(vote)
    anonymous.refresh_from_db()
    assert anonymous.user is None
    assert Rater.objects.get(user=ada) != anonymous
    client.post("/sign-out/")
    client.get(vote)
    assert Rater.objects.count() == 2


# -- Forgotten passwords --


def ask(client, address="ada@example.org", **more):
    return client.post("/password/forgotten/", {"email": address}, **more)


def reset_link():
    return re.search(rf"{settings.SITE_URL}(/password/new/\S+)", mail.outbox[-1].body)[1]


def test_a_forgotten_password_is_reset_by_a_link(client, ada):
    assert ask(client).url == "/password/forgotten/sent/"
    assert "If an account uses that address" in client.get("/password/forgotten/sent/").text
    assert "the password of ada\nat 127.0.0.1:8000" in mail.outbox[0].body
    form = client.get(reset_link())
    assert form.url.endswith("-set-password/")
    page = client.get(form.url)
    assert "Choose a new password" in page.text
    done = client.post(form.url, {"password1": "another good one"})
    assert "Password changed" in client.get(done.url).text
    assert not is_signed_in(client)
    sign_in(client, password="another good one")
    assert is_signed_in(client)


def test_a_link_for_a_new_password_works_once(client, ada):
    ask(client)
    link = reset_link()
    client.post(client.get(link).url, {"password1": "another good one"})
    page = client.get(link)
    assert "This link has expired" in page.text


def test_a_bad_new_password_is_reported_at_the_field(client, ada):
    ask(client)
    page = client.post(client.get(reset_link()).url, {"password1": "12345678"})
    assert "This password is too common." in page.text
    sign_in(client)
    assert is_signed_in(client)


def test_asking_for_a_password_does_not_reveal_who_has_an_account(client, ada):
    known, unknown = ask(client), ask(client, "eve@example.org")
    assert (known.status_code, known.url) == (unknown.status_code, unknown.url)
    assert [message.to for message in mail.outbox] == [["ada@example.org"], ["eve@example.org"]]
    assert "there is no account with this email address" in mail.outbox[1].body


def test_mails_name_the_site_whatever_the_host_header_says(client, ada):
    for address in ("ada@example.org", "eve@example.org"):
        ask(client, address, headers={"Host": "localhost:6666"})
    assert len(mail.outbox) == 2
    for message in mail.outbox:
        assert "localhost" not in message.subject + message.body
    assert "http://127.0.0.1:8000/password/new/" in mail.outbox[0].body


def test_one_address_is_sent_a_limited_number_of_links(client, ada):
    codes = [ask(client, REMOTE_ADDR=f"10.0.0.{host}").status_code for host in range(11)]
    assert codes == [302] * 10 + [429]
    assert len(mail.outbox) == 10


def test_a_signed_in_person_changes_their_password(client, ada):
    client.force_login(ada)
    new = {"new_password1": "another good one", "new_password2": "another good one"}
    page = client.post("/password/", {"old_password": "wrong"} | new)
    assert "Wrong password." in page.text
    assert client.post("/password/", {"old_password": SECRET} | new).url == "/sign-in/"
    assert is_signed_in(client)
    ada.refresh_from_db()
    assert ada.check_password("another good one")


def test_changing_a_password_requires_sign_in(client):
    assert client.get("/password/").url == "/sign-in/?next=/password/"
