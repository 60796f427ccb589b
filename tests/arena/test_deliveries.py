"""Delivering a notice: sent once, signed, retried, given up."""

import json
import smtplib
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core import mail
from django.utils import timezone

from arena.models import AuditEntry, Delivery, Membership, Notice, Team, Webhook
from arena.services import deliveries
from arena.services.deliveries import (
    ENQUEUE_AGAIN,
    LEASE,
    MAX_ATTEMPTS,
    PAUSES,
    deliver,
    take_due_deliveries,
)
from arena.services.webhooks import signing_secret
from arena.webhooks.signatures import sign
from tests.arena.webhook_receiver import Receiver, says
from tests.factories import make_member, make_user

pytestmark = pytest.mark.django_db

NOW = timezone.now()


@pytest.fixture
def notice(empty_team: Team) -> Notice:
    return Notice.objects.create(
        team=empty_team,
        key="k",
        kind="decision.known",
        sentence="B beats A.",
        path="/teams/help/arenas/x/",
        details={"numbers": {"wins": 0.58}, "team": "forged"},
    )


def to_webhook(notice: Notice, url: str) -> Delivery:
    webhook = Webhook.objects.create(team=notice.team, url=url, salt="salt")
    return Delivery.objects.create(notice=notice, webhook=webhook, due_at=NOW)


def to_receiver(notice: Notice, receiver: Receiver, settings: Any) -> Delivery:
    settings.WEBHOOKS_LOOPBACK_PORT = receiver.port
    return to_webhook(notice, f"http://127.0.0.1:{receiver.port}/hook")


def to_member(notice: Notice) -> Delivery:
    member = make_member(notice.team, user=make_user("ann"))
    return Delivery.objects.create(notice=notice, membership=member, due_at=NOW)


def send(delivery: Delivery, now: datetime = NOW) -> Delivery:
    deliver(delivery_id=delivery.pk, now=now)
    delivery.refresh_from_db()
    return delivery


def test_a_webhook_receives_signed_json_once(notice: Notice, settings: Any) -> None:
    settings.SITE_URL = "https://ringside.example.org"
    with Receiver(says(204)) as receiver:
        delivery = send(to_receiver(notice, receiver, settings))
        send(delivery)
    assert (delivery.state, delivery.attempts, delivery.delivered_at) == ("delivered", 1, NOW)
    assert len(receiver.requests) == 1
    head, _, body = receiver.requests[0].partition(b"\r\n\r\n")
    lines = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    headers = {name.lower(): value for name, value in lines.items()}
    assert delivery.webhook is not None
    secret = signing_secret(delivery.webhook)
    at = int(NOW.timestamp())
    signed = sign(secret, body=body, timestamp=at, delivery_id=f"delivery-{delivery.pk}")
    assert signed.items() <= headers.items()
    assert json.loads(body) == {
        "id": f"notice-{notice.pk}",
        "type": "decision.known",
        "created_at": notice.created_at.isoformat(),
        "team": "help",
        "arena": None,
        "sentence": "B beats A.",
        "numbers": {"wins": 0.58},
        "url": "https://ringside.example.org/teams/help/arenas/x/",
    }


def test_slack_receives_a_message_that_links_the_details(notice: Notice, settings: Any) -> None:
    settings.SITE_URL = "https://ringside.example.org"
    Notice.objects.update(sentence="<!channel> B & C\nbeat A.", path="/arenas/x/?a=1&b=2")
    with Receiver(says(200, text="ok")) as receiver:
        delivery = to_receiver(notice, receiver, settings)
        Webhook.objects.update(format="slack")
        send(delivery)
    assert delivery.state == "delivered"
    head, _, body = receiver.requests[0].partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head.lower()
    assert json.loads(body) == {
        "text": f"{notice.team.name}: &lt;!channel&gt; B &amp; C beat A. "
        "<https://ringside.example.org/arenas/x/?a=1&amp;b=2|See details>"
    }


def test_failures_are_tried_again_after_longer_and_longer_pauses(
    notice: Notice, settings: Any
) -> None:
    now = NOW
    with Receiver(says(503)) as receiver:
        delivery = to_receiver(notice, receiver, settings)
        for attempt, pause in enumerate(PAUSES, 1):
            send(delivery, now)
            assert (delivery.state, delivery.attempts) == ("waiting", attempt)
            assert delivery.due_at == now + pause
            send(delivery, now + pause - timedelta(seconds=1))
            assert delivery.attempts == attempt
            now += pause
        send(delivery, now)
        assert (delivery.state, delivery.attempts) == ("failed", MAX_ATTEMPTS)
        assert delivery.error == "The receiver answered with status 503."
        send(delivery, now + timedelta(days=1))
    assert len(receiver.requests) == MAX_ATTEMPTS


def test_a_receiver_that_is_gone_is_removed(notice: Notice, settings: Any) -> None:
    with Receiver(says(410)) as receiver:
        delivery = send(to_receiver(notice, receiver, settings))
    assert delivery.webhook is not None
    delivery.webhook.refresh_from_db()
    assert delivery.webhook.removed_at == NOW
    assert delivery.state == "failed"
    assert "The webhook was removed." in delivery.error
    entry = AuditEntry.objects.get()
    assert (entry.by, entry.action) == ("its receiver", "removed a webhook")


def test_redirects_and_forbidden_targets_are_given_up_at_once(
    notice: Notice, settings: Any
) -> None:
    with Receiver(says(302, headers="Location: /\r\n")) as receiver:
        moved = send(to_receiver(notice, receiver, settings))
    settings.WEBHOOKS_LOOPBACK_PORT = 0
    private = send(to_webhook(notice, "https://127.0.0.1/"))
    assert (moved.state, private.state) == ("failed", "failed")
    assert "Redirects are not followed" in moved.error
    assert "private or special network" in private.error


def test_a_member_gets_a_mail_with_links(notice: Notice, settings: Any) -> None:
    settings.SITE_URL = "https://ringside.example.org"
    Notice.objects.update(sentence="B <b> beats A & C.")
    delivery = send(to_member(notice))
    assert delivery.state == "delivered"
    sent = mail.outbox[0]
    assert sent.to == ["ann@example.org"]
    assert sent.subject == "Help centre: B <b> beats A & C."
    assert "B <b> beats A & C." in sent.body
    assert "https://ringside.example.org/teams/help/arenas/x/" in sent.body
    assert "Turn off email notifications" in sent.body


def test_a_line_break_in_a_name_forges_no_header(notice: Notice) -> None:
    Team.objects.update(name="Help\r\nBcc: all@example.com")
    send(to_member(notice))
    assert mail.outbox[0].subject.startswith("Help Bcc: all@example.com: ")
    assert mail.outbox[0].recipients() == ["ann@example.org"]


def test_a_mail_server_that_is_down_is_tried_again(
    notice: Notice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: Any) -> None:
        raise smtplib.SMTPServerDisconnected("a secret of the server")

    monkeypatch.setattr(deliveries, "send_mail", refuse)
    delivery = send(to_member(notice))
    assert (delivery.state, delivery.error) == (
        "waiting",
        "The mail server did not accept the message.",
    )


def test_stopped_mails_and_removed_webhooks_get_nothing(notice: Notice) -> None:
    by_mail, by_webhook = to_member(notice), to_webhook(notice, "https://hooks.example.com/")
    Membership.objects.update(notices_by_email=False)
    Webhook.objects.update(removed_at=NOW)
    assert send(by_mail).error == "Email was switched off before it was sent."
    assert send(by_webhook).error == "The webhook was removed."
    assert (by_mail.state, by_webhook.state) == ("failed", "failed")
    assert mail.outbox == []


def test_a_killed_workers_delivery_is_sent_after_its_lease(notice: Notice) -> None:
    delivery = to_member(notice)
    Delivery.objects.update(state="running", attempts=1, lease_expires_at=NOW + LEASE)
    assert send(delivery).attempts == 1
    assert take_due_deliveries(now=NOW) == []
    later = NOW + LEASE
    assert take_due_deliveries(now=later) == [delivery.pk]
    assert send(delivery, later).state == "delivered"
    Delivery.objects.update(state="running", attempts=MAX_ATTEMPTS, lease_expires_at=NOW)
    assert send(delivery, later).state == "failed"
    assert len(mail.outbox) == 1


def test_a_worker_that_lost_its_lease_changes_nothing(
    notice: Notice, monkeypatch: pytest.MonkeyPatch
) -> None:
    delivery = to_member(notice)

    def taken_over(**_: Any) -> None:
        Delivery.objects.update(attempts=2)

    monkeypatch.setattr(deliveries, "send_mail", taken_over)
    send(delivery)
    assert (delivery.state, delivery.attempts, delivery.delivered_at) == ("running", 2, None)


def test_a_delivery_is_queued_again_once_it_may_be_lost(notice: Notice) -> None:
    delivery = to_member(notice)
    assert take_due_deliveries(now=NOW) == [delivery.pk]
    assert take_due_deliveries(now=NOW + ENQUEUE_AGAIN - timedelta(seconds=1)) == []
    assert take_due_deliveries(now=NOW + ENQUEUE_AGAIN) == [delivery.pk]
    assert send(delivery, NOW + ENQUEUE_AGAIN).state == "delivered"


def test_a_retry_is_enqueued_when_it_is_due(
    notice: Notice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: Any) -> None:
        raise smtplib.SMTPServerDisconnected

    delivery = to_member(notice)
    take_due_deliveries(now=NOW)
    monkeypatch.setattr(deliveries, "send_mail", refuse)
    assert send(delivery).state == "waiting"
    assert take_due_deliveries(now=NOW + PAUSES[0]) == [delivery.pk]


def test_the_sweep_rings_for_each_that_is_due(
    notice: Notice, monkeypatch: pytest.MonkeyPatch
) -> None:
    from arena import tasks

    rung: list[int] = []
    monkeypatch.setattr(tasks.send_delivery, "delay", rung.append)
    due = to_member(notice)
    later = to_webhook(notice, "https://hooks.example.com/")
    Delivery.objects.filter(pk=later.pk).update(due_at=timezone.now() + timedelta(hours=1))
    tasks.send_deliveries()
    assert rung == [due.pk]
