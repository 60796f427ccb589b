"""What operators set in the browser: the site's address, sign-up rule, budget and mail server."""

import smtplib
from typing import Any

import pytest
from allauth.account import app_settings as account_settings
from django.core import mail
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.models import SiteSettings, Team
from arena.site import (
    absolute_url,
    delivers_mail,
    prints_mail,
    sign_up_rule,
    stored_settings,
    team_budget,
)
from judges.first_day import first_day
from ranking.models import HomePage
from tests.factories import make_team

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]
PAGE = "/operators/settings/"
MAIL = "/operators/settings/mail/"
PASSWORD = "canary of the mail server 91bc"
MAILED = {
    "mail_host": "smtp.example.org",
    "mail_user": "ringside",
    "password": PASSWORD,
    "mail_from": "Arena <arena@example.org>",
}


@pytest.fixture(autouse=True)
def site(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["arena.example.org", "testserver"]
    settings.SITE_URL, settings.TEAM_BUDGET = "http://testserver", 0


@pytest.fixture
def sent(settings: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The site has no EMAIL_URL, and what a mail server would be told is noted."""
    settings.EMAIL_BACKEND = "arena.mail.StoredServer"
    told: list[Any] = []

    class Server:
        def __init__(self, host: str, port: int, **options: Any) -> None:
            told.append((host, port, options["timeout"]))

        def __getattr__(self, name: str) -> Any:
            return lambda *arguments, **named: told.append((name, *arguments))

        def sendmail(self, sender: str, to: list[str], text: bytes) -> None:
            told.append(("sendmail", sender, to))

    monkeypatch.setattr(smtplib, "SMTP", Server)
    monkeypatch.setattr(smtplib, "SMTP_SSL", Server)
    return told


def save(staff: Client, **fields: str) -> str:
    usual = {"sign_up": "open", "mail_port": "587", "mail_security": "starttls"}
    return staff.post(PAGE, usual | fields, follow=True).text


def test_the_settings_of_the_environment_are_the_usual_ones(staff: Client) -> None:
    assert 'value="http://testserver"' in staff.get(PAGE).text
    save(staff, site_url="http://testserver")
    assert SiteSettings.objects.get().site_url == ""
    assert absolute_url("/x/") == "http://testserver/x/"


def test_address_sign_up_and_budget_apply_at_once(staff: Client, client: Client) -> None:
    client.get(reverse("index"))
    assert HomePage.objects.exists()
    said = save(
        staff, site_url="https://arena.example.org/", sign_up="invited", team_budget="25.50"
    )
    assert "Saved." in said
    assert absolute_url("/x/") == "https://arena.example.org/x/"
    assert sign_up_rule() == "invited"
    assert team_budget() == 255 * 10**8
    assert Team.objects.get(pk=make_team(name="Fresh").pk).budget == 255 * 10**8
    assert not HomePage.objects.exists(), "a stored page holds the address"
    assert "https://arena.example.org/" in client.get("/robots.txt").text
    assert reverse("sign_up") not in client.get(reverse("sign_in")).text
    done = [step.title for step in first_day(timezone.now()).later if step.is_done]
    assert done == ["Address of the site", "HTTPS", "Budget of new teams"]


def test_other_processes_see_a_change_within_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 1000.0
    monkeypatch.setattr("arena.db.recent.time.monotonic", lambda: clock)
    stored_settings.forget()
    assert team_budget() == 0
    SiteSettings.objects.bulk_create([SiteSettings(team_budget=5)])  # without a signal
    clock += 10
    assert team_budget() == 5


def test_the_environment_goes_first_and_is_shown(staff: Client, settings: Any) -> None:
    save(staff, sign_up="closed", team_budget="1", site_url="https://arena.example.org", **MAILED)
    settings.SET_IN_ENVIRONMENT = {"SITE_URL", "SIGN_UP", "TEAM_BUDGET", "EMAIL_URL"}
    assert absolute_url("/") == "http://testserver/"
    assert (sign_up_rule(), team_budget()) == ("open", 0)
    page = staff.get(PAGE).text
    for name in settings.SET_IN_ENVIRONMENT:
        assert f"Set by {name} in the environment. A change there needs a restart." in page
    save(staff, sign_up="open", team_budget="99", mail_host="elsewhere.example")
    row = SiteSettings.objects.get()
    assert (row.sign_up, row.team_budget, row.mail_host) == ("closed", 10**9, "smtp.example.org")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"site_url": "arena"}, "Enter the address of this site"),
        ({"site_url": "https://other.example"}, "in the environment (under compose, in .env)"),
        ({"sign_up": "some"}, "Select a valid choice"),
        ({"team_budget": "-1"}, "greater than or equal to 0"),
        (MAILED | {"mail_host": "smtp://x"}, "Enter a host name"),
        (MAILED | {"mail_from": ""}, "Enter the address that mail comes from"),
        (MAILED | {"mail_port": "0"}, "greater than or equal to 1"),
    ],
)
def test_nonsense_is_sent_back_without_the_password(
    staff: Client, fields: dict[str, str], says: str
) -> None:
    page = save(staff, **fields)
    assert says in page
    assert PASSWORD not in page
    assert not SiteSettings.objects.exclude(site_url="", mail_host="").exists()


def test_mail_goes_by_the_stored_server(staff: Client, sent: list[Any]) -> None:
    assert prints_mail()
    assert account_settings.EMAIL_VERIFICATION == "none"
    save(staff, **MAILED)
    assert delivers_mail()
    assert account_settings.EMAIL_VERIFICATION == "mandatory"
    assert account_settings.PREVENT_ENUMERATION is True
    page = staff.post(MAIL, {"to": "ann@example.org"}, follow=True).text
    assert "The mail was sent to ann@example.org." in page
    assert sent[0] == ("smtp.example.org", 587, 10)
    assert ("login", "ringside", PASSWORD) in sent
    assert ("sendmail", "Arena <arena@example.org>", ["ann@example.org"]) in sent
    assert PASSWORD not in page
    assert PASSWORD not in str(SiteSettings.objects.values().get())


def test_without_a_server_mail_is_printed(staff: Client, sent: list[Any], capsys: Any) -> None:
    page = staff.post(MAIL, {"to": "ann@example.org"}, follow=True).text
    assert "The mail was printed in the server’s log." in page
    assert "Test from Ringside" in capsys.readouterr().out
    assert not sent


def test_a_password_is_kept_removed_and_sent_to_one_server_only(
    staff: Client, sent: list[Any]
) -> None:
    save(staff, **MAILED)
    stored = SiteSettings.objects.get().encrypted_mail_password
    kept = MAILED | {"password": ""}
    save(staff, **kept, team_budget="3")
    assert SiteSettings.objects.get().encrypted_mail_password == stored
    assert "Enter the password again" in save(staff, **kept | {"mail_host": "evil.example"})
    assert SiteSettings.objects.get().mail_host == "smtp.example.org"
    save(staff, **kept, no_password="on")
    assert SiteSettings.objects.get().encrypted_mail_password == ""


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (smtplib.SMTPAuthenticationError(535, b"no"), "refused the user name or password"),
        (ConnectionRefusedError("Connection refused"), "not sent. Connection refused"),
        (smtplib.SMTPException(f"{PASSWORD} is odd"), "not sent. [password] is odd"),
    ],
)
def test_mail_that_fails_says_why(
    staff: Client,
    sent: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    says: str,
) -> None:
    def fail(*arguments: Any, **named: Any) -> None:
        raise error

    save(staff, **MAILED)
    monkeypatch.setattr(smtplib, "SMTP", fail)
    page = staff.post(MAIL, {"to": "ann@example.org"}, follow=True).text
    assert says in page
    assert PASSWORD not in page


def test_another_secret_key_is_a_sentence(staff: Client, sent: list[Any], settings: Any) -> None:
    from tests.judges.helpers import signed_in

    save(staff, **MAILED)
    settings.SECRET_KEY = "another" * 10
    boss = signed_in("again", staff=True)
    page = boss.post(MAIL, {"to": "ann@example.org"}, follow=True).text
    assert "because SECRET_KEY has changed. Enter it again." in page


def test_test_mails_are_limited(staff: Client) -> None:
    for _ in range(6):
        page = staff.post(MAIL, {"to": "ann@example.org"}, follow=True).text
    assert "mails a minute" in page
    assert len(mail.outbox) == 5


def test_there_is_one_row() -> None:
    SiteSettings.objects.create()
    with pytest.raises(IntegrityError), transaction.atomic():
        SiteSettings.objects.create(id=2)


@pytest.mark.parametrize(
    "sender", ["not an address", "<script>alert(1)</script>", "A <a@b.example>\r\nBcc: c@d.example"]
)
def test_a_sender_that_no_mail_can_have_is_refused(staff: Client, sender: str) -> None:
    assert "Enter the address that mail comes from" in save(staff, **MAILED | {"mail_from": sender})
    assert not SiteSettings.objects.filter(mail_host="smtp.example.org").exists()


@pytest.mark.parametrize(
    "url", ["http://testserver/here", 'http://testserver/">', "http://testserver#x"]
)
def test_an_address_with_a_path_is_refused(staff: Client, url: str) -> None:
    assert "Enter the address of this site" in save(staff, site_url=url)


@pytest.mark.parametrize(
    "change", [{"mail_port": "25"}, {"mail_security": "none"}, {"mail_user": "somebody"}]
)
def test_a_password_is_entered_again_for_another_way_to_the_server(
    staff: Client, change: dict[str, str]
) -> None:
    save(staff, **MAILED)
    without = {name: value for name, value in MAILED.items() if name != "password"}
    assert "Enter the password again" in save(staff, **without | change)


def test_a_password_goes_with_its_server(staff: Client) -> None:
    save(staff, **MAILED)
    save(staff, mail_host="")
    assert SiteSettings.objects.get().encrypted_mail_password == ""
