"""The delivery of notices to webhooks and by email.

A delivery is claimed and sent without an open transaction; after a failure it is tried again later,
and finally given up. A receiver may get a notice twice, with the same id, if a worker was killed
right after sending it.
"""

import json
from datetime import datetime, timedelta
from smtplib import SMTPException

from django.core.mail import send_mail
from django.db import transaction
from django.db.models import F
from django.template.loader import render_to_string
from django.urls import reverse

from arena.actors import Actor
from arena.models import Delivery, Notice, Webhook
from arena.services.audit import record
from arena.services.webhooks import signing_secret, target_rules, webhook_origin
from arena.site import absolute_url
from arena.webhooks.client import DeliveryError, ReceiverGoneError, send
from arena.webhooks.signatures import sign
from arena.webhooks.targets import TargetError

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
    delivery = _claim_delivery(delivery_id, now)
    if delivery is None:
        return
    if reason := _unwanted_reason(delivery):
        _give_up(delivery, reason, now)
        return
    try:
        if delivery.webhook is not None:
            _send_to_webhook(delivery, delivery.webhook, now)
        else:
            _send_by_email(delivery)
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
        _record_result(delivery, state=State.DELIVERED, delivered_at=now, error="")


@transaction.atomic
def _claim_delivery(delivery_id: int, now: datetime) -> Delivery | None:
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


def _record_result(delivery: Delivery, **fields: object) -> bool:
    """Record the result unless another worker has taken over; return whether it was recorded."""
    claimed = Delivery.objects.filter(
        pk=delivery.pk, state=State.RUNNING, attempts=delivery.attempts
    )
    return bool(claimed.update(lease_expires_at=None, **fields))


def _give_up(delivery: Delivery, reason: str, now: datetime) -> None:
    _record_result(delivery, state=State.FAILED, due_at=now, error=reason[:MAX_ERROR_LENGTH])


def _try_again(delivery: Delivery, reason: str, now: datetime) -> None:
    """Schedule the next attempt after a longer pause; give up after the last attempt."""
    if delivery.attempts >= MAX_ATTEMPTS:
        _give_up(delivery, reason, now)
        return
    due_at = now + PAUSES[delivery.attempts - 1]
    _record_result(delivery, state=State.WAITING, due_at=due_at, error=reason[:MAX_ERROR_LENGTH])


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


def _send_to_webhook(delivery: Delivery, webhook: Webhook, now: datetime) -> None:
    is_for_slack = webhook.format == Webhook.Format.SLACK
    body = (slack_body if is_for_slack else delivery_body)(delivery.notice)
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
        "url": _details_url(notice),
    }
    return json.dumps(notice.details | common, ensure_ascii=False, allow_nan=False).encode()


def slack_body(notice: Notice) -> bytes:
    """Return the JSON that a Slack incoming webhook accepts: a message that links the details."""
    says = " ".join(_headline(notice).split())
    url = _details_url(notice).replace("|", "%7C")
    message = f"{_escape_for_slack(says)} <{_escape_for_slack(url)}|See details>"
    return json.dumps({"text": message}, ensure_ascii=False).encode()


def _escape_for_slack(text: str) -> str:
    """Escape the three characters that Slack reads as links and mentions.

    https://docs.slack.dev/messaging/formatting-message-text
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _headline(notice: Notice) -> str:
    name = notice.arena.name if notice.arena else notice.team.name
    return f"{name}: {notice.sentence}"


def _details_url(notice: Notice) -> str:
    return absolute_url(notice.path or reverse("team_notices", args=[notice.team.slug]))


def _send_by_email(delivery: Delivery) -> None:
    notice, member = delivery.notice, delivery.membership
    assert member is not None, "a delivery has a webhook or a member"
    context = {
        "notice": notice,
        "url": _details_url(notice),
        "stop_url": absolute_url(reverse("team_notices", args=[notice.team.slug])),
    }
    send_mail(
        subject=" ".join(_headline(notice).split())[:MAX_SUBJECT_LENGTH],
        message=render_to_string("teams/email/notice.txt", context),
        from_email=None,
        recipient_list=[member.user.email],
    )
