"""Creating an account, and confirming its address."""

import re
from urllib.parse import quote

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import MD5PasswordHasher
from django.core import mail

from arena.models import RateLimit
from tests.arena.teams import is_signed_in, link_in

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]
ADA = {"email": "Ada@Example.org", "password1": "correct horse battery"}
User = get_user_model()


def test_an_address_and_a_password_are_enough(client):
    assert client.post("/sign-up/", ADA).url == "/teams/"
    ada = User.objects.get()
    assert (ada.username, ada.email) == ("ada", "ada@example.org")
    assert is_signed_in(client)
    assert not mail.outbox


def test_who_is_new_is_told_what_to_do_first_and_nobody_else_is(client):
    page = client.post("/sign-up/", ADA, follow=True)
    assert "compare your own prompts, create a team" in page.text
    assert "Your account has been created" not in client.get("/teams/").text
    client.post("/sign-out/")
    client.post("/sign-in/", {"login": "ada", "password": ADA["password1"]})
    assert "Your account has been created" not in client.get("/teams/").text


@pytest.mark.parametrize("door", ["/compare-prompts/", "/import/"])
def test_the_home_page_has_doors_that_open_after_signing_up(client, door):
    assert f'href="{door}"' in client.get("/").text
    sign_in = client.get(door, follow=True)
    sign_up = f"/sign-up/?next={quote(door, safe='')}"
    assert f'href="{sign_up}"' in sign_in.text
    assert client.post(sign_up, ADA | {"next": door}).url == door
    assert client.get(door).status_code == 200


def test_a_new_account_signs_in_by_name_and_by_address(client):
    client.post("/sign-up/", ADA)
    for name in ("ada", "ADA@example.org"):
        client.post("/sign-out/")
        client.post("/sign-in/", {"login": name, "password": ADA["password1"]})
        assert is_signed_in(client), name


def test_addresses_that_begin_alike_get_names_of_their_own(client):
    for host in ("a.org", "b.org"):
        client.post("/sign-up/", ADA | {"email": f"ada@{host}"})
        client.post("/sign-out/")
    names = list(User.objects.order_by("pk").values_list("username", flat=True))
    assert names[0] == "ada"
    assert re.fullmatch(r"ada\w", names[1])


def test_a_username_taken_meanwhile_is_replaced(client, monkeypatch):
    from arena.accounts import Accounts

    User.objects.create_user("ada")
    names = iter(["ada", "ada7"])
    monkeypatch.setattr(Accounts, "generate_unique_username", lambda *args: next(names))
    client.post("/sign-up/", ADA)
    assert is_signed_in(client)
    assert User.objects.get(email="ada@example.org").username == "ada7"


def test_nobody_becomes_admin_by_their_address(client):
    client.post("/sign-up/", ADA | {"email": "admin@evil.example"})
    assert User.objects.get().username != "admin"
    assert not User.objects.get().is_staff


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"password1": "short"}, "This password is too short."),
        ({"password1": "password123"}, "This password is too common."),
        ({"email": "nobody"}, "Enter a valid email address."),
        ({"email": ""}, "This field is required."),
        ({"email": "a" * 250 + "@example.org"}, "at most 254 characters"),
        ({"email": "a\0da@example.org"}, "Null characters are not allowed."),
        ({"email": '"ada"@example.org'}, "without quotes"),
        ({"email": '"a\\da"@example.org'}, "without quotes"),
        ({"email": "ada@[203.0.113.9]"}, "without quotes"),
        ({"email": "ada@exámple.org"}, "in their xn-- form"),
    ],
)
def test_what_cannot_be_is_reported_at_the_field(client, wrong, says):
    page = client.post("/sign-up/", ADA | wrong)
    assert says in page.text
    assert not User.objects.exists()


def test_the_address_that_was_typed_stays_in_the_form(client):
    page = client.post("/sign-up/", ADA | {"password1": "short"})
    assert 'value="Ada@Example.org"' in page.text
    assert "short" not in re.sub(r"too short", "", page.text)


def test_where_mail_arrives_the_account_is_ready_after_its_link(client, delivering):
    assert client.post("/sign-up/", ADA).url == "/sign-up/sent/"
    assert "Check your email" in client.get("/sign-up/sent/").text
    assert not is_signed_in(client)
    page = client.get(link_in(mail.outbox[0]))
    assert "ada@example.org" in page.text
    assert not is_signed_in(client)
    assert client.post(link_in(mail.outbox[0])).url == "/teams/"
    assert is_signed_in(client)


@pytest.mark.parametrize(
    ("first", "second", "is_taken"),
    [
        ("eve@example.org", "eve+2@example.org", True),
        ("eve+1@example.org", "Eve+2@Example.org", True),
        ("e.ve@gmail.com", "eve+x@googlemail.com", True),
        ("e.ve@example.org", "eve@example.org", False),
        ("eve@example.org", "steve+eve@example.org", False),
    ],
)
def test_one_mailbox_proves_one_account(client, delivering, first, second, is_taken):
    for address in (first, second):
        client.post("/sign-up/", ADA | {"email": address})
        client.cookies.clear()
    client.post(link_in(mail.outbox[0]))
    client.cookies.clear()
    page = client.post(link_in(mail.outbox[1]))
    assert ("Another account already uses this mailbox" in page.text) == is_taken
    assert EmailAddress.objects.filter(verified=True).count() == 2 - is_taken


def test_an_unproven_account_is_sent_the_link_again(client, delivering):
    client.post("/sign-up/", ADA)
    client.cookies.clear()
    answer = client.post("/sign-in/", {"login": "ada", "password": ADA["password1"]})
    assert answer.url == "/sign-up/sent/"
    assert not is_signed_in(client)
    assert len(mail.outbox) == 2


def test_an_operator_without_an_address_signs_in_despite_mail(client, delivering):
    User.objects.create_superuser("admin", password="s3cret-words")
    client.post("/sign-in/", {"login": "admin", "password": "s3cret-words"})
    assert is_signed_in(client)


def test_an_account_older_than_mail_signs_in_with_any_address(client, delivering):
    """`createsuperuser` asks for an address, and nobody reads what comes to root@localhost."""
    User.objects.create_superuser("admin", "root@localhost", "s3cret-words")
    client.post("/sign-in/", {"login": "admin", "password": "s3cret-words"})
    assert is_signed_in(client)
    assert not mail.outbox


def test_signing_up_does_not_reveal_who_has_an_account(client, delivering):
    User.objects.create_user("ada", email="ada@example.org", password="s3cret-words")
    known = client.post("/sign-up/", ADA)
    new = client.post("/sign-up/", ADA | {"email": "new@example.org"})
    assert (known.status_code, known.url) == (new.status_code, new.url)
    assert User.objects.filter(email="ada@example.org").count() == 1
    told, _ = mail.outbox
    assert told.to == ["ada@example.org"]
    assert "it already has one" in told.body
    assert "/sign-in/" in told.body


def test_signing_up_with_a_known_address_takes_as_long(client, delivering, monkeypatch):
    User.objects.create_user("ada", email="ada@example.org", password="s3cret-words")
    counts = []
    real = MD5PasswordHasher.encode
    monkeypatch.setattr(MD5PasswordHasher, "encode", lambda *args: counts.append(1) or real(*args))
    for address in ("ada@example.org", "new@example.org"):
        client.post("/sign-up/", ADA | {"email": address})
        counts.append(0)
    assert counts == [1, 0, 1, 0]


def test_mails_name_the_site_whatever_the_host_header_says(client, delivering):
    elsewhere = {"Host": "localhost:6666"}
    for _ in range(2):
        client.post("/sign-up/", ADA, headers=elsewhere)
        client.cookies.clear()
    new, known = mail.outbox
    assert "http://127.0.0.1:8000/sign-up/address/" in new.body
    assert "http://127.0.0.1:8000/password/forgotten/" in known.body
    for message in mail.outbox:
        assert "localhost" not in message.subject + message.body


def test_without_mail_signing_up_does_not_tell_that_an_address_is_known(client):
    User.objects.create_user("boss", email="ada@example.org", password="s3cret-words")
    new = client.post("/sign-up/", ADA | {"email": "new@example.org"})
    client.post("/sign-out/")
    known = client.post("/sign-up/", ADA)
    assert (known.status_code, known.url) == (new.status_code, new.url)
    assert is_signed_in(client)


def test_accounts_with_the_same_unproven_address_keep_their_own_passwords(client):
    boss = User.objects.create_user("boss", email="ada@example.org", password="s3cret-words")
    client.post("/sign-up/", ADA)
    other = User.objects.exclude(pk=boss.pk).get()
    for user, password in ((boss, "s3cret-words"), (other, ADA["password1"])):
        client.post("/sign-out/")
        client.post("/sign-in/", {"login": "ada@example.org", "password": password})
        assert client.session["_auth_user_id"] == str(user.pk)


def test_a_page_reports_that_the_mail_server_is_down(client, delivering, settings):
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 9
    page = client.post("/sign-up/", ADA)
    assert page.status_code == 503
    assert "Email not sent" in page.text
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    client.post("/sign-in/", {"login": "ada", "password": ADA["password1"]})
    assert len(mail.outbox) == 1


@pytest.mark.parametrize("rule", ["invited", "closed"])
def test_where_sign_up_is_not_open_there_is_no_form(client, settings, rule):
    settings.SIGN_UP = rule
    assert "Sign-up is closed" in client.get("/sign-up/").text
    assert "Sign-up is closed" in client.post("/sign-up/", ADA).text
    assert not User.objects.exists()
    assert "/sign-up/" not in client.get("/sign-in/").text


def test_one_address_creates_a_limited_number_of_accounts(client, monkeypatch):
    from arena import attempts

    few = attempts.Limit(2, 5, 5, attempts.HOUR)
    monkeypatch.setitem(attempts.LIMITS, "sign-up", few)
    for number in range(3):
        page = client.post("/sign-up/", ADA | {"email": f"a{number}@example.org"})
        client.post("/sign-out/")
    assert page.status_code == 429
    assert "Wait an hour" in page.text
    assert 'value="a2@example.org"' in page.text
    assert User.objects.count() == 2


@pytest.mark.parametrize("page", ["/sign-up/", "/password/forgotten/"])
@pytest.mark.parametrize("written", ["ada@example.org", "ad.a+{}@googlemail.com"])
def test_one_mailbox_is_not_flooded_from_everywhere(client, delivering, page, written):
    for host in range(12):
        sent = ADA | {"email": written.format(host)}
        client.post(page, sent, REMOTE_ADDR=f"10.0.0.{host}")
    assert len(mail.outbox) == 10


def test_the_table_of_limits_is_no_list_of_addresses(client):
    client.post("/sign-up/", ADA)
    keys = " ".join(RateLimit.objects.values_list("key", flat=True))
    assert "sign-up" in keys
    assert "ada" not in keys
