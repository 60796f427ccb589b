"""Notices to a team, its webhooks, and their deliveries."""

from datetime import datetime

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from arena.models.constraints import check, index, unique
from arena.models.teams import Membership, Team


class Notice(models.Model):
    """A notice to a team; `key` identifies its cause, so that the team gets it only once."""

    team = models.ForeignKey(Team, models.CASCADE, related_name="notices")
    arena = models.ForeignKey("Arena", models.CASCADE, null=True, blank=True, related_name="+")
    key = models.CharField(max_length=100)
    kind = models.CharField(max_length=40, help_text="As in 'decision.known'.")
    sentence = models.CharField(max_length=500)
    path = models.CharField(max_length=300, blank=True, help_text="The page with the details.")
    details = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            unique("notice_once_per_key", "team", "key"),
        ]

    def __str__(self) -> str:
        return self.sentence


class WebhookQuerySet(models.QuerySet["Webhook"]):
    def live(self) -> "WebhookQuerySet":
        return self.filter(removed_at=None)


class Webhook(models.Model):
    """An address to which a team's notices are sent.

    The secret that signs them is derived from the site's key and `salt`, and never stored.
    """

    class Format(models.TextChoices):
        RINGSIDE = "ringside", "Signed JSON with all details"
        SLACK = "slack", "A message for Slack"

    team = models.ForeignKey(Team, models.CASCADE, related_name="webhooks")
    url = models.URLField(max_length=500)
    format = models.CharField(
        max_length=10, choices=Format, default=Format.RINGSIDE, db_default=Format.RINGSIDE
    )
    salt = models.CharField(max_length=32)
    created_at = models.DateTimeField(db_default=Now())
    removed_at = models.DateTimeField(null=True, blank=True)

    objects = WebhookQuerySet.as_manager()

    class Meta:
        constraints = [
            unique("webhook_once_per_address", "team", "url", where=Q(removed_at__isnull=True)),
            check("webhook_format_known", Q(format__in=["ringside", "slack"])),
        ]

    def __str__(self) -> str:
        return self.url


class DeliveryQuerySet(models.QuerySet["Delivery"]):
    def due(self, now: datetime) -> "DeliveryQuerySet":
        """Deliveries to send now: waiting ones that are due, and those whose lease has ended."""
        waiting = Q(state=Delivery.State.WAITING, due_at__lte=now)
        return self.filter(waiting | Q(state=Delivery.State.RUNNING, lease_expires_at__lte=now))

    def not_enqueued(self, now: datetime) -> "DeliveryQuerySet":
        """Due deliveries, except those enqueued recently: a queue's message may be lost."""
        enqueued = Q(state=Delivery.State.WAITING, lease_expires_at__gt=now)
        return self.due(now).exclude(enqueued)


class Delivery(models.Model):
    """A notice on its way to one webhook or one member's email address.

    `attempts` fences late writers: a worker that has lost its lease finds another number there.
    While the delivery waits, `lease_expires_at` is when it is enqueued again unless a worker claims
    it.
    """

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting"
        RUNNING = "running", "Under way"
        DELIVERED = "delivered", "Delivered"
        FAILED = "failed", "Failed"

    notice = models.ForeignKey(Notice, models.CASCADE, related_name="deliveries")
    webhook = models.ForeignKey(
        Webhook, models.CASCADE, null=True, blank=True, related_name="deliveries"
    )
    membership = models.ForeignKey(
        Membership, models.CASCADE, null=True, blank=True, related_name="deliveries"
    )
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    attempts = models.PositiveSmallIntegerField(default=0)
    due_at = models.DateTimeField(db_default=Now())
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    delivered_at = models.DateTimeField(null=True, blank=True)
    error = models.CharField(max_length=300, blank=True)

    objects = DeliveryQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "deliveries"
        constraints = [
            unique("delivery_once_per_webhook", "notice", "webhook"),
            unique("delivery_once_per_member", "notice", "membership"),
            check(
                "delivery_to_a_webhook_or_a_member",
                Q(webhook__isnull=True) ^ Q(membership__isnull=True),
            ),
            check(
                "delivery_state_known", Q(state__in=["waiting", "running", "delivered", "failed"])
            ),
        ]
        indexes = [
            index("delivery_still_to_make", "due_at", where=Q(state__in=["waiting", "running"])),
        ]

    def __str__(self) -> str:
        return f"{self.notice_id}: {self.state}"
