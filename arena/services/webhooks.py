"""Webhooks of teams: added, tried, removed. Their secrets are derived and kept nowhere."""

import base64
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils.crypto import get_random_string, salted_hmac

from arena.access import Actor
from arena.models import Delivery, Notice, Team, Webhook
from arena.services import limits
from arena.services.audit import record
from arena.services.refusals import Refused
from arena.webhooks import TargetRefused, check_target

MOST_WEBHOOKS = 10
SALT_LENGTH = 32
TESTS, TESTS_WINDOW = 10, timedelta(hours=1)
TEST = "webhook.test"


class WebhookRefused(Refused):
    """The webhook cannot be added or tried; the message is a sentence for people."""


@transaction.atomic
def add_webhook(*, team: Team, url: str, by: Actor) -> Webhook:
    """Send the team's notices to `url` from now on. Raises WebhookRefused."""
    url = _checked(url.strip())
    Team.objects.select_for_update(no_key=True).get(pk=team.pk)
    if team.webhooks.live().count() >= MOST_WEBHOOKS:
        raise WebhookRefused(f"A team has at most {MOST_WEBHOOKS} webhooks. Remove one first.")
    try:
        with transaction.atomic():
            webhook = Webhook.objects.create(
                team=team, url=url, salt=get_random_string(SALT_LENGTH)
            )
    except IntegrityError:
        raise WebhookRefused("Notices go to this address already.", field="url") from None
    record(team=team, by=by, action="added a webhook", subject=place_of(webhook))
    return webhook


@transaction.atomic
def remove_webhook(*, webhook: Webhook, by: Actor, now: datetime) -> bool:
    """Send nothing to `webhook` any more; say whether that is news."""
    removed = Webhook.objects.live().filter(pk=webhook.pk).update(removed_at=now)
    if removed:
        record(team=webhook.team, by=by, action="removed a webhook", subject=place_of(webhook))
    return bool(removed)


def send_test(*, webhook: Webhook, by: Actor, now: datetime) -> Notice:
    """Queue a notice that is for this webhook alone. Raises WebhookRefused for too many."""
    key = f"webhook-test:{webhook.team_id}"
    if not limits.allow(key=key, limit=TESTS, window=TESTS_WINDOW, now=now):
        raise WebhookRefused(f"A team may send {TESTS} tests an hour. Try it again later.")
    return _queue_test(webhook, by, now)


@transaction.atomic
def _queue_test(webhook: Webhook, by: Actor, now: datetime) -> Notice:
    notice = Notice.objects.create(
        team=webhook.team,
        key=f"webhook-test:{webhook.pk}:{now.isoformat()}",
        kind=TEST,
        sentence=f"A test of a webhook, asked for by {by.name}.",
        created_at=now,
    )
    Delivery.objects.create(notice=notice, webhook=webhook, due_at=now)
    record(team=webhook.team, by=by, action="tested a webhook", subject=place_of(webhook))
    return notice


def secret_of(webhook: Webhook) -> str:
    """Return what signs the deliveries to `webhook`: the same as long as the site's key is."""
    key = salted_hmac("arena.webhooks", webhook.salt, algorithm="sha256").digest()
    return f"whsec_{base64.b64encode(key).decode()}"


def place_of(webhook: Webhook) -> str:
    """Return where `webhook` leads, for all to read who read the audit trail: its path may be a
    secret, as it is with most chats."""
    parts = urlsplit(webhook.url)
    return f"{parts.scheme}://{parts.netloc}"


def where_allowed() -> dict[str, Any]:
    """Where webhooks may go: https on the public internet alone, unless a developer opened a port
    of this machine."""
    port = settings.WEBHOOKS_LOOPBACK_PORT
    return {"allow_http": bool(port), "allow_loopback_port": port or None}


def _checked(url: str) -> str:
    try:
        check_target(url, **where_allowed())
    except TargetRefused as refused:
        raise WebhookRefused(str(refused), field="url") from None
    return url
