"""Secrets in settings and those created by teams: after every action they are nowhere.

Not in the database, not in logs at their most talkative, not in what is sent to the queue, not on
pages or in the API's answers (those that made a secret apart), not in exports or the description.
"""

import io
import logging
import re
import smtplib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from celery.signals import before_task_publish
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.db import connection
from django.urls import reverse
from django.utils import timezone

from arena.endpoints import Endpoint
from arena.models import Delivery, Membership, Webhook
from arena.services import tokens
from arena.services.deliveries import deliver
from arena.services.webhooks import signing_secret
from tests.arena import generation
from tests.arena.webhook_receiver import Receiver, says
from tests.factories import make_candidate
from tests.judges import helpers
from tests.judges.conftest import Free
from tests.judges.fake_server import MODEL, FakeServer, Sent, better_is, completion
from tests.security.requests import ask, path_of
from tests.security.table import ROWS
from tests.security.world import World, make_world

pytestmark = [pytest.mark.any_database, pytest.mark.slow, pytest.mark.django_db]
ENDPOINT_KEY = "sk-canary-of-the-endpoint-7f3a"
MAIL_PASSWORD = "canary-of-the-mail-server-91bc"
OIDC_SECRET = "canary-of-the-sign-in-server-44d0"
SITES_KEY = "canary-of-the-site-itself-" + "k" * 40
PLANTED = (ENDPOINT_KEY, MAIL_PASSWORD, OIDC_SECRET, SITES_KEY)
PASSWORD = "canary-of-a-person-5e21"


@dataclass
class Heard:
    """What went into the queue, and what was answered to whom."""

    published: list[str] = field(default_factory=list)
    answered: dict[str, str] = field(default_factory=dict)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        yield running


@pytest.fixture
def planted(server: FakeServer, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key of a model server, of the mail server, of the sign-in server, and of the site."""
    monkeypatch.setenv("CANARY_KEY", ENDPOINT_KEY)
    local = Endpoint("local", "openai", server.base_url, key_env="CANARY_KEY", prices=Free())
    settings.MODEL_ENDPOINTS = settings.MODEL_ENDPOINTS | {"local": replace(local, timeout=5.0)}
    settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "ringside", MAIL_PASSWORD
    app = {"provider_id": "oidc", "name": "Ours", "client_id": "ringside", "secret": OIDC_SECRET}
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": [app]}}
    settings.SECRET_KEY = SITES_KEY
    settings.DEBUG = False


@pytest.fixture
def heard() -> Iterator[Heard]:
    """Everything that is sent to the queue, as it is sent."""
    heard = Heard()

    def note(sender: str, body: Any, headers: Any, **rest: Any) -> None:
        heard.published.append(f"{sender} {body!r} {headers!r}")

    before_task_publish.connect(note, weak=False)
    yield heard
    before_task_publish.disconnect(note)


def test_no_secret_is_anywhere_after_everything_was_done(
    planted: None,
    heard: Heard,
    server: FakeServer,
    settings: Any,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    django_capture_on_commit_callbacks: Any,
) -> None:
    caplog.set_level(logging.DEBUG)
    with django_capture_on_commit_callbacks(execute=True):
        world = make_world("private")
    secrets = world.secrets | {"invitation": world.at["invitations secret"]}
    with django_capture_on_commit_callbacks(execute=True):
        secrets |= make_secrets(world, heard)
        sign_in_badly(world)
        ask_models(world, server)
        send_notices(world, settings, monkeypatch)
        break_pages(world, monkeypatch)
    ask_everything(world, heard)
    call_command("export_arena", world.arena.slug, str(tmp_path / "export"), stdout=io.StringIO())

    assert any(h.get("authorization") == f"Bearer {ENDPOINT_KEY}" for h in server.headers)
    assert heard.published, "the queue was heard"
    told = {
        "the database": database(),
        "the logs": caplog.text + "".join(str(record.__dict__) for record in caplog.records),
        "the queue": "".join(heard.published),
        "the export": "".join(
            file.read_text(errors="replace") for file in tmp_path.rglob("*") if file.is_file()
        ),
        **heard.answered,
    }
    found = [
        f"{secret[:25]}... in {place}"
        for secret in (*PLANTED, PASSWORD, *map(hidden_part, secrets.values()))
        for place, text in told.items()
        if secret in text
    ]
    assert not found, "\n".join(found)


def hidden_part(secret: str) -> str:
    """A token without the name that it is listed by, a webhook's secret without its kind."""
    return re.sub(r"^(rs_\w{8}_|whsec_)", "", secret)


def make_secrets(world: World, heard: Heard) -> dict[str, str]:
    """A token and an invitation by the pages that show them once, and what a webhook signs with."""
    owner, team = world.callers["owner"], world.team.slug
    page = owner.post(reverse("team_tokens", args=[team]), {"name": "CI", "scopes": ["read"]})
    token = re.search(r'value="(rs_[^"]+)"', page.text)
    page = owner.post(reverse("team_members", args=[team]), {"role": "member"})
    link = re.search(r'/invitations/([^"/]+)/"', page.text)
    assert token
    assert link
    stranger = world.callers["stranger"]
    stranger.get(reverse("invitation", args=[link[1]]), follow=True)
    heard.answered["the page after the link"] = stranger.get("/invitations/").text
    tokens.find_token(token[1] + "0", timezone.now())
    webhook = Webhook.objects.get(pk=world.at["webhooks"])
    return {"token": token[1], "link": link[1], "webhook": signing_secret(webhook)}


def sign_in_badly(world: World) -> None:
    """A password is typed where a name belongs, and the right one for another's name."""
    nobody = world.callers["nobody"]
    for data in ({"login": "owner", "password": PASSWORD}, {"login": "x", "password": PASSWORD}):
        nobody.post(reverse("sign_in"), data)
    nobody.post(reverse("sign_up"), {"email": "new@example.org", "password1": PASSWORD})


def ask_models(world: World, server: FakeServer) -> None:
    """Judgements and answers: first refused by a server that repeats the key, then given."""
    said = {"error": {"message": f"Incorrect API key provided: {ENDPOINT_KEY}", "code": "bad"}}
    for status in (400, 401, 429, 500):
        server.otherwise = lambda body, status=status: Sent(said, status=status)
        helpers.work_off(
            helpers.order(world.arena, f"local:judge-{status}-2024-07-01", per_pair=1), rounds=2
        )
    server.otherwise = better_is("A")
    helpers.work_off(helpers.order(world.arena, f"local:{MODEL}", per_pair=1))
    for text in (said, None):
        server.otherwise = lambda body, text=text: (
            Sent(text, status=401) if text else completion("An answer.")
        )
        variant = make_candidate(
            world.arena,
            f"generated-{bool(text)}",
            team=world.team,
            endpoint="local",
            model=MODEL,
            user_template="{{ prompt }}",
        )
        generation.work_off(generation.order(variant))


def send_notices(world: World, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A webhook is tried and answered with an error; a mail server repeats the password."""

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise smtplib.SMTPAuthenticationError(535, f"5.7.8 {MAIL_PASSWORD} is wrong".encode())

    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    monkeypatch.setattr(smtplib, "SMTP", refuse)
    owner, team = world.callers["owner"], world.team.slug
    with Receiver(says(500)) as receiver:
        settings.WEBHOOKS_LOOPBACK_PORT = receiver.port
        webhook = Webhook.objects.get(pk=world.at["webhooks"])
        webhook.url = f"http://127.0.0.1:{receiver.port}/hook"
        webhook.save()
        owner.post(reverse("test_webhook", args=[team, webhook.pk]))
        deliver_all()
        assert receiver.requests
    member = Membership.objects.get(team=world.team, role="member")
    member.user.email = "member@example.org"
    member.user.save()
    notice = Delivery.objects.latest("pk").notice
    Delivery.objects.create(notice=notice, membership=member, due_at=timezone.now())
    deliver_all()
    assert Delivery.objects.get(membership=member).error
    settings.WEBHOOKS_LOOPBACK_PORT = 0
    world.callers["nobody"].post(reverse("account_reset_password"), {"email": "member@example.org"})


def deliver_all() -> None:
    for delivery in Delivery.objects.filter(attempts=0):
        deliver(delivery_id=delivery.pk, now=timezone.now())


def break_pages(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An internal error in a page, and in the API, with secrets in scope."""

    def fail(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("A fault of ours.")

    owner, team = world.callers["owner"], world.team.slug
    owner.raise_request_exception = False
    with monkeypatch.context() as patched:
        patched.setattr("arena.services.tokens.record", fail)
        patched.setattr("arena.services.invitations.record", fail)
        made = owner.post(reverse("team_tokens", args=[team]), {"name": "B", "scopes": ["read"]})
        invited = owner.post(reverse("team_members", args=[team]), {"role": "member"})
        assert (made.status_code, invited.status_code) == (500, 500)
    with monkeypatch.context() as patched:
        patched.setattr("arena.api.teams.Me.get", fail)
        program = world.callers["all"]
        program.raise_request_exception = False
        assert program.get("/api/v1/me/").status_code == 500


def ask_everything(world: World, heard: Heard) -> None:
    """Every address, by those who may see the most; the owner's page of webhooks shows theirs."""
    for (name, method), row in ROWS.items():
        for caller in ("owner", "operator", "all"):
            answer = ask(world.callers[caller], method, path_of(name, world.at), row.body)
            if name != "team_webhooks":
                text = f"{answer.whole.decode(errors='replace')} {dict(answer.headers)}"
                heard.answered[f"{method} {name} for {caller}"] = text


def database() -> str:
    """Everything in every table, as it stands there and as sessions are read."""
    text = [str(session.get_decoded()) for session in Session.objects.all()]
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            text += [str(row) for row in cursor.fetchall()]
    return "".join(text)
