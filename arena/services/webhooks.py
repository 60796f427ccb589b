"""A team's webhooks: where its notices are sent, and the secrets that sign them."""

import base64
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils.crypto import get_random_string, salted_hmac

from arena.actors import Actor
from arena.errors import ServiceError
from arena.models import Delivery, Notice, Team, Webhook
from arena.services import rate_limits
from arena.services.audit import record
from arena.webhooks.targets import TargetError, check_target

MAX_WEBHOOKS = 10
SALT_LENGTH = 32
MAX_TESTS = 10
TESTS_WINDOW = timedelta(hours=1)
TEST = "webhook.test"


class WebhookError(ServiceError):
    """A webhook that cannot be added or tested."""


@transaction.atomic
def add_webhook(
    *, team: Team, url: str, by: Actor, format: str = Webhook.Format.RINGSIDE
) -> Webhook:
    """Send the team's notices to `url` from now on. Raises WebhookError."""
    url = url.strip()
    try:
        check_target(url, **target_rules())
    except TargetError as error:
        raise WebhookError(str(error), field="url") from None
    Team.objects.select_for_update(no_key=True).get(pk=team.pk)
    if team.webhooks.live().count() >= MAX_WEBHOOKS:
        raise WebhookError(f"A team can have {MAX_WEBHOOKS} webhooks. Remove one first.")
    try:
        with transaction.atomic():
            webhook = Webhook.objects.create(
                team=team, url=url, format=format, salt=get_random_string(SALT_LENGTH)
            )
    except IntegrityError:
        raise WebhookError("This webhook already exists.", field="url") from None
    record(team=team, by=by, action="added a webhook", subject=webhook_origin(webhook))
    return webhook


@transaction.atomic
def remove_webhook(*, webhook: Webhook, by: Actor, now: datetime) -> bool:
    """Remove `webhook`; return whether this call removed it."""
    removed = Webhook.objects.live().filter(pk=webhook.pk).update(removed_at=now)
    if removed:
        record(
            team=webhook.team, by=by, action="removed a webhook", subject=webhook_origin(webhook)
        )
    return bool(removed)


def send_test(*, webhook: Webhook, by: Actor, now: datetime) -> Notice:
    """Queue a test notice for this webhook only. Raises WebhookError for too many tests."""
    key = f"webhook-test:{webhook.team_id}"
    if not rate_limits.allow(key=key, limit=MAX_TESTS, window=TESTS_WINDOW, now=now):
        raise WebhookError(f"A team can send {MAX_TESTS} tests an hour. Try again later.")
    return _queue_test(webhook, by, now)


def requested_test(name: str) -> str:
    return f"Webhook test, requested by {name}."


@transaction.atomic
def _queue_test(webhook: Webhook, by: Actor, now: datetime) -> Notice:
    notice = Notice.objects.create(
        team=webhook.team,
        key=f"webhook-test:{webhook.pk}:{now.isoformat()}",
        kind=TEST,
        sentence=requested_test(by.name),
        created_at=now,
    )
    Delivery.objects.create(notice=notice, webhook=webhook, due_at=now)
    record(team=webhook.team, by=by, action="tested a webhook", subject=webhook_origin(webhook))
    return notice


def signing_secret(webhook: Webhook) -> str:
    """Return the secret that signs deliveries to `webhook`, derived from the site's secret key."""
    key = salted_hmac("arena.webhooks", webhook.salt, algorithm="sha256").digest()
    return f"whsec_{base64.b64encode(key).decode()}"


def webhook_origin(webhook: Webhook) -> str:
    """Return the address without its path, which is often a secret, for the audit log."""
    parts = urlsplit(webhook.url)
    return f"{parts.scheme}://{parts.netloc}"


def target_rules() -> dict[str, Any]:
    """Return the allowed targets: public https, and a local port if a developer opened one."""
    port = settings.WEBHOOKS_LOOPBACK_PORT
    return {"allow_http": bool(port), "allow_loopback_port": port or None}
