"""Notices to teams, their webhooks, and the delivery of notices to webhooks and by email.

A delivery is claimed and sent without an open transaction; after a failure it is tried again later,
and finally given up. A receiver may get a notice twice, with the same id, if a worker was killed
right after sending it.
"""

import base64
import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from smtplib import SMTPException
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import send_mail
from django.db import IntegrityError, transaction
from django.db.models import F
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.crypto import get_random_string, salted_hmac

from arena.actors import Actor
from arena.errors import ServiceError
from arena.models import Arena, Delivery, Membership, Notice, Team, Webhook
from arena.services import rate_limits
from arena.services.audit import record
from arena.webhooks import DeliveryError, ReceiverGoneError, TargetError, check_target, send, sign

MAX_SENTENCE_LENGTH = 500


@transaction.atomic
def notify(
    *,
    team: Team,
    key: str,
    kind: str,
    sentence: str,
    path: str,
    arena: Arena | None = None,
    details: Mapping[str, Any] | None = None,
    by_email: bool = True,
    now: datetime,
) -> Notice | None:
    """Write a notice to `team` and queue it for its webhooks and for members who want email.

    `key` names the cause: if the team already has a notice with it, nothing is written and None is
    returned. `path` is the page with more; `details` are sent to webhooks.
    Without `by_email`, nobody is sent an email.
    """
    fields = {
        "kind": kind,
        "sentence": clip_sentence(sentence),
        "path": path,
        "arena": arena,
        "details": dict(details or {}),
        "created_at": now,
    }
    notice, is_new = Notice.objects.get_or_create(team=team, key=key, defaults=fields)
    if not is_new:
        return None
    webhooks = team.webhooks.live().order_by("pk")
    members = team.memberships.filter(notices_by_email=True, user__is_active=True)
    members = members.exclude(user__email="").order_by("pk") if by_email else members.none()
    Delivery.objects.bulk_create(
        [
            *(Delivery(notice=notice, webhook=webhook, due_at=now) for webhook in webhooks),
            *(Delivery(notice=notice, membership=member, due_at=now) for member in members),
        ]
    )
    return notice


def clip_sentence(sentence: str) -> str:
    """Return the sentence on one line, cut to the maximum length."""
    line = " ".join(sentence.split())
    return line if len(line) <= MAX_SENTENCE_LENGTH else f"{line[: MAX_SENTENCE_LENGTH - 1]}…"


@transaction.atomic
def set_notices_by_email(*, membership: Membership, wanted: bool, by: Actor) -> Membership:
    """Turn email for the team's notices on or off for this member."""
    changed = Membership.objects.filter(pk=membership.pk).exclude(notices_by_email=wanted)
    if changed.update(notices_by_email=wanted):
        action = "switched notices by e-mail on" if wanted else "switched notices by e-mail off"
        record(team=membership.team, by=by, action=action, subject=membership.user)
    membership.notices_by_email = wanted
    return membership


# -- Webhooks and deliveries -----------------------------------------------------------------------

MAX_WEBHOOKS = 10
SALT_LENGTH = 32
MAX_TESTS, TESTS_WINDOW = 10, timedelta(hours=1)
TEST = "webhook.test"
LEASE = timedelta(minutes=2)  # longer than the timeouts of a webhook or a mail server together
ENQUEUE_AGAIN = timedelta(seconds=30)
PAUSES = tuple(
    timedelta(**pause)
    for pause in ({"seconds": 30}, {"minutes": 2}, {"minutes": 10}, {"hours": 1}, {"hours": 6})
)
MAX_ATTEMPTS = len(PAUSES) + 1
MAX_ENQUEUED = 100
MAX_SUBJECT_LENGTH = 150
MAX_ERROR_LENGTH = 300
INTERRUPTED = "Each attempt was interrupted."
RECEIVER = Actor(display_name="its receiver")
State = Delivery.State


class WebhookError(ServiceError):
    """A webhook that cannot be added or tested."""


# -- A team's webhooks -----------------------------------------------------------------------------


@transaction.atomic
def add_webhook(*, team: Team, url: str, by: Actor) -> Webhook:
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
                team=team, url=url, salt=get_random_string(SALT_LENGTH)
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


# -- Delivery --------------------------------------------------------------------------------------


def take_due_deliveries(*, now: datetime) -> list[int]:
    """Return the ids of the deliveries to enqueue now, oldest first, and mark them as enqueued.

    A delivery that no worker has claimed after a while is returned again, because its message may
    be lost. A delivery whose worker was killed is returned until another worker claims it.
    """
    due = Delivery.objects.not_enqueued(now).order_by("due_at", "pk")
    ids = list(due.values_list("pk", flat=True)[:MAX_ENQUEUED])
    waiting = Delivery.objects.filter(pk__in=ids, state=State.WAITING)
    waiting.update(lease_expires_at=now + ENQUEUE_AGAIN)
    return ids


def deliver(*, delivery_id: int, now: datetime) -> None:
    """Send one delivery, if it is due and nobody else is sending it."""
    delivery = _claim(delivery_id, now)
    if delivery is None:
        return
    if reason := _unwanted_reason(delivery):
        _give_up(delivery, reason, now)
        return
    try:
        _send(delivery, now)
    except ReceiverGoneError as error:
        _remove_webhook(delivery, error.reason, now)
    except TargetError as error:
        _give_up(delivery, str(error), now)
    except DeliveryError as error:
        settle = _try_again if error.retryable else _give_up
        settle(delivery, error.reason, now)
    except (SMTPException, OSError):
        # A mail server's reply may name accounts, so it is not stored; it is in the server's log.
        _try_again(delivery, "The mail server did not accept the message.", now)
    else:
        _settle(delivery, state=State.DELIVERED, delivered_at=now, error="")


@transaction.atomic
def _claim(delivery_id: int, now: datetime) -> Delivery | None:
    """Claim the delivery until its lease ends; None if it is not due, or was given up."""
    due = Delivery.objects.due(now).filter(pk=delivery_id)
    taken = due.filter(attempts__lt=MAX_ATTEMPTS).update(
        state=State.RUNNING, attempts=F("attempts") + 1, lease_expires_at=now + LEASE
    )
    if not taken:
        due.update(state=State.FAILED, lease_expires_at=None, error=INTERRUPTED)
        return None
    with_all = Delivery.objects.select_related(
        "notice__team", "notice__arena", "webhook", "membership__user", "membership__team"
    )
    return with_all.get(pk=delivery_id)


def _settle(delivery: Delivery, **fields: object) -> bool:
    """Record the result unless another worker has taken over; return whether it was recorded."""
    claimed = Delivery.objects.filter(
        pk=delivery.pk, state=State.RUNNING, attempts=delivery.attempts
    )
    return bool(claimed.update(lease_expires_at=None, **fields))


def _give_up(delivery: Delivery, reason: str, now: datetime) -> None:
    _settle(delivery, state=State.FAILED, due_at=now, error=reason[:MAX_ERROR_LENGTH])


def _try_again(delivery: Delivery, reason: str, now: datetime) -> None:
    """Schedule the next attempt after a longer pause; give up after the last attempt."""
    if delivery.attempts >= MAX_ATTEMPTS:
        _give_up(delivery, reason, now)
        return
    due_at = now + PAUSES[delivery.attempts - 1]
    _settle(delivery, state=State.WAITING, due_at=due_at, error=reason[:MAX_ERROR_LENGTH])


@transaction.atomic
def _remove_webhook(delivery: Delivery, reason: str, now: datetime) -> None:
    """Remove the webhook at its receiver's request."""
    assert delivery.webhook is not None, "only a webhook's receiver can be gone"
    _give_up(delivery, f"{reason} The webhook was removed.", now)
    webhook = delivery.webhook
    if Webhook.objects.live().filter(pk=webhook.pk).update(removed_at=now):
        origin = webhook_origin(webhook)
        record(team=delivery.notice.team, by=RECEIVER, action="removed a webhook", subject=origin)


def _unwanted_reason(delivery: Delivery) -> str:
    """Return why the delivery is no longer wanted; '' if it is."""
    if delivery.webhook is not None:
        return "The webhook was removed." if delivery.webhook.removed_at else ""
    member = delivery.membership
    assert member is not None, "a delivery has a webhook or a member"
    wanted = member.notices_by_email and member.user.is_active and member.user.email
    return "" if wanted else "Email was switched off before it was sent."


def _send(delivery: Delivery, now: datetime) -> None:
    if delivery.webhook is not None:
        _post(delivery, delivery.webhook, now)
    else:
        _mail(delivery)


def _post(delivery: Delivery, webhook: Webhook, now: datetime) -> None:
    body = delivery_body(delivery.notice)
    signed = sign(
        signing_secret(webhook),
        body=body,
        timestamp=int(now.timestamp()),
        delivery_id=f"delivery-{delivery.pk}",
    )
    headers = {"content-type": "application/json", "user-agent": "Ringside", **signed}
    send(webhook.url, body=body, headers=headers, **target_rules())


def delivery_body(notice: Notice) -> bytes:
    """Return the JSON that a webhook receives.

    It always has `id`, `type`, `created_at`, `team`, `arena`, `sentence` and `url`; depending on
    the kind of notice, also `candidate`, `baseline` and `numbers`, or `head`.
    """
    common = {
        "id": f"notice-{notice.pk}",
        "type": notice.kind,
        "created_at": notice.created_at.isoformat(),
        "team": notice.team.slug,
        "arena": notice.arena.slug if notice.arena else None,
        "sentence": notice.sentence,
        "url": absolute_url(notice.path or reverse("team_notices", args=[notice.team.slug])),
    }
    return json.dumps(notice.details | common, ensure_ascii=False, allow_nan=False).encode()


def _mail(delivery: Delivery) -> None:
    notice, member = delivery.notice, delivery.membership
    assert member is not None, "a delivery has a webhook or a member"
    name = notice.arena.name if notice.arena else notice.team.name
    context = {
        "notice": notice,
        "url": absolute_url(notice.path or reverse("team_notices", args=[notice.team.slug])),
        "stop_url": absolute_url(reverse("team_notices", args=[notice.team.slug])),
    }
    send_mail(
        subject=" ".join(f"{name}: {notice.sentence}".split())[:MAX_SUBJECT_LENGTH],
        message=render_to_string("teams/email/notice.txt", context),
        from_email=None,
        recipient_list=[member.user.email],
    )


def absolute_url(path: str) -> str:
    """Return the full address of a page of this site."""
    return f"{settings.SITE_URL}{path}"
