"""A webhook leads to the public internet or nowhere, from the form to the worker that sends it."""

import socket
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena import tasks
from arena.models import Delivery, Team, Webhook
from tests.arena.teams import signed_in
from tests.arena.webhook_receiver import Receiver, says
from tests.factories import make_team

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]
URL = "https://hooks.example.com/notices"
PRIVATE = [
    "https://127.0.0.1/",
    "https://localhost/",
    "https://10.0.0.1/",
    "https://192.168.1.1/",
    "https://172.16.0.1/",
    "https://169.254.169.254/latest/meta-data/",
    "https://[::1]/",
    "https://[fd00::1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://2130706433/",
    "https://0x7f.1/",
    "https://metadata.google.internal/",
    "https://user:password@hooks.example.com/",
    "http://hooks.example.com/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_FLUSHALL",
]


@pytest.fixture
def team() -> Team:
    return make_team()


@pytest.fixture
def owner(team: Team) -> Client:
    return signed_in(team.memberships.get().user)


@pytest.mark.parametrize("url", PRIVATE)
def test_a_private_address_is_refused_at_its_field(owner: Client, team: Team, url: str) -> None:
    page = owner.post(reverse("team_webhooks", args=[team.slug]), {"url": url})
    assert page.status_code == 200
    assert page.context["form"].errors["url"]
    assert not Webhook.objects.exists()


def test_an_address_that_has_become_private_is_not_asked(
    owner: Client, team: Team, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    """Public when it was entered, private when the notice is sent: no connection is made."""
    dialled: list[Any] = []
    monkeypatch.setattr(socket, "create_connection", lambda *a, **k: dialled.append(a))
    leads_to(monkeypatch, "93.184.216.34")
    owner.post(reverse("team_webhooks", args=[team.slug]), {"url": URL})
    leads_to(monkeypatch, "169.254.169.254")
    delivery = tried(owner, team)
    assert delivery.state == "failed"
    assert "private or special" in delivery.error
    assert dialled == []
    told = owner.get(reverse("team_webhooks", args=[team.slug])).text
    assert "private or special" in told
    assert "169.254" not in told


def test_a_receiver_that_redirects_home_is_not_followed(
    owner: Client, team: Team, settings: Any
) -> None:
    with Receiver(says(200)) as inside:
        home = f"Location: http://127.0.0.1:{inside.port}/\r\n"
        with Receiver(says(302, headers=home)) as outside:
            settings.WEBHOOKS_LOOPBACK_PORT = outside.port
            url = f"http://127.0.0.1:{outside.port}/"
            owner.post(reverse("team_webhooks", args=[team.slug]), {"url": url})
            delivery = tried(owner, team)
            assert len(outside.requests) == 1
        assert inside.requests == []
    assert delivery.state == "failed"
    assert "redirect" in delivery.error


def leads_to(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """Have the system's resolver name `address` for every host."""
    answer = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: answer)


def tried(owner: Client, team: Team) -> Delivery:
    """The delivery of a test that was requested on the page, after its worker is done."""
    webhook = Webhook.objects.get()
    owner.post(reverse("test_webhook", args=[team.slug, webhook.pk]))
    delivery = Delivery.objects.get(webhook=webhook)
    Delivery.objects.update(due_at=timezone.now())
    tasks.send_delivery(delivery.pk)
    delivery.refresh_from_db()
    return delivery
