"""Notices on their way: claimed, sent with no transaction open, tried again, given up.

A receiver may get the same delivery twice, where a worker was killed right after it had sent it;
its id is then the same.
"""

import json
from datetime import datetime, timedelta
from smtplib import SMTPException

from django.conf import settings
from django.core.mail import send_mail
from django.db import transaction
from django.db.models import F
from django.template.loader import render_to_string
from django.urls import reverse

from arena.access import Actor
from arena.models import Delivery, Notice, Webhook
from arena.services.audit import record
from arena.services.webhooks import place_of, secret_of, where_allowed
from arena.webhooks import DeliveryFailed, ReceiverGone, TargetRefused, send, sign

LEASE = timedelta(minutes=2)  # longer than a webhook's or a mail server's timeouts together
RING_AGAIN = timedelta(seconds=30)
PAUSES = tuple(
    timedelta(**pause)
    for pause in ({"seconds": 30}, {"minutes": 2}, {"minutes": 10}, {"hours": 1}, {"hours": 6})
)
MOST_TRIES = len(PAUSES) + 1
MOST_AT_ONCE = 100
LONGEST_SUBJECT = 150
LONGEST_ERROR = 300
INTERRUPTED = "It was interrupted each time it was sent."
RECEIVER = Actor(known_as="its receiver")
State = Delivery.State


def deliveries_to_ring(*, now: datetime) -> list[int]:
    """Return the ids of what may be sent now, the oldest first, and note that it was rung for.

    What nobody answered is rung for again after a while: its message may be lost. A worker that is
    killed leaves one delivery behind, so those are rung for until somebody takes them.
    """
    due = Delivery.objects.unrung(now).order_by("due_at", "pk")
    ids = list(due.values_list("pk", flat=True)[:MOST_AT_ONCE])
    waiting = Delivery.objects.filter(pk__in=ids, state=State.WAITING)
    waiting.update(lease_expires_at=now + RING_AGAIN)
    return ids


def deliver(*, delivery_id: int, now: datetime) -> None:
    """Send one delivery, if it is due and nobody else is sending it."""
    delivery = _claim(delivery_id, now)
    if delivery is None:
        return
    if why := _why_unwanted(delivery):
        _give_up(delivery, why, now)
        return
    try:
        _send(delivery, now)
    except ReceiverGone as gone:
        _remove(delivery, gone.reason, now)
    except TargetRefused as refused:
        _give_up(delivery, str(refused), now)
    except DeliveryFailed as failed:
        settle = _try_again if failed.retryable else _give_up
        settle(delivery, failed.reason, now)
    except (SMTPException, OSError):
        # What a mail server says may name accounts; it is in its own log.
        _try_again(delivery, "The mail server did not take it.", now)
    else:
        _settle(delivery, state=State.DELIVERED, delivered_at=now, error="")


# -- Claiming and settling -------------------------------------------------------------------------


@transaction.atomic
def _claim(delivery_id: int, now: datetime) -> Delivery | None:
    """Take the delivery until the lease ends; None where it is not to be sent, or not any more."""
    due = Delivery.objects.due(now).filter(pk=delivery_id)
    taken = due.filter(attempts__lt=MOST_TRIES).update(
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
    """Note what came of it, unless another worker has taken over; say whether it was noted."""
    mine = Delivery.objects.filter(pk=delivery.pk, state=State.RUNNING, attempts=delivery.attempts)
    return bool(mine.update(lease_expires_at=None, **fields))


def _give_up(delivery: Delivery, why: str, now: datetime) -> None:
    _settle(delivery, state=State.FAILED, due_at=now, error=why[:LONGEST_ERROR])


def _try_again(delivery: Delivery, why: str, now: datetime) -> None:
    """Wait longer after each try; the last one was the last."""
    if delivery.attempts >= MOST_TRIES:
        _give_up(delivery, why, now)
        return
    due_at = now + PAUSES[delivery.attempts - 1]
    _settle(delivery, state=State.WAITING, due_at=due_at, error=why[:LONGEST_ERROR])


@transaction.atomic
def _remove(delivery: Delivery, why: str, now: datetime) -> None:
    """The receiver wants nothing more: the webhook goes."""
    assert delivery.webhook is not None, "only webhooks say so"
    _give_up(delivery, f"{why} The webhook was removed.", now)
    webhook = delivery.webhook
    if Webhook.objects.live().filter(pk=webhook.pk).update(removed_at=now):
        place = place_of(webhook)
        record(team=delivery.notice.team, by=RECEIVER, action="removed a webhook", subject=place)


def _why_unwanted(delivery: Delivery) -> str:
    """Why nobody wants it any more; '' where somebody does."""
    if delivery.webhook is not None:
        return "The webhook was removed." if delivery.webhook.removed_at else ""
    member = delivery.membership
    assert member is not None, "a delivery has a webhook or a member"
    wants = member.notices_by_email and member.user.is_active and member.user.email
    return "" if wants else "E-mail was switched off before it was sent."


# -- Sending ---------------------------------------------------------------------------------------


def _send(delivery: Delivery, now: datetime) -> None:
    if delivery.webhook is not None:
        _post(delivery, delivery.webhook, now)
    else:
        _mail(delivery)


def _post(delivery: Delivery, webhook: Webhook, now: datetime) -> None:
    body = body_of(delivery.notice)
    signed = sign(
        secret_of(webhook),
        body=body,
        timestamp=int(now.timestamp()),
        delivery_id=f"delivery-{delivery.pk}",
    )
    headers = {"content-type": "application/json", "user-agent": "Ringside", **signed}
    send(webhook.url, body=body, headers=headers, **where_allowed())


def body_of(notice: Notice) -> bytes:
    """What a webhook receives: JSON with `id`, `type`, `created_at`, `team`, `arena`, `sentence`
    and `url`, and what its kind adds (`candidate`, `baseline`, `numbers`)."""
    common = {
        "id": f"notice-{notice.pk}",
        "type": notice.kind,
        "created_at": notice.created_at.isoformat(),
        "team": notice.team.slug,
        "arena": notice.arena.slug if notice.arena else None,
        "sentence": notice.sentence,
        "url": absolute(notice.path or reverse("team_notices", args=[notice.team.slug])),
    }
    return json.dumps(notice.details | common, ensure_ascii=False, allow_nan=False).encode()


def _mail(delivery: Delivery) -> None:
    notice, member = delivery.notice, delivery.membership
    assert member is not None, "a delivery has a webhook or a member"
    where = notice.arena.name if notice.arena else notice.team.name
    context = {
        "notice": notice,
        "url": absolute(notice.path or reverse("team_notices", args=[notice.team.slug])),
        "stop_url": absolute(reverse("team_notices", args=[notice.team.slug])),
    }
    send_mail(
        subject=" ".join(f"{where}: {notice.sentence}".split())[:LONGEST_SUBJECT],
        message=render_to_string("teams/email/notice.txt", context),
        from_email=None,
        recipient_list=[member.user.email],
    )


def absolute(path: str) -> str:
    """A page of this site as mails and programs need it."""
    return f"{settings.SITE_URL}{path}"
