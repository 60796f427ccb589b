"""Teams: members, invitations, API tokens, the audit log; idempotency keys and rate limits."""

from datetime import datetime

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now
from django.urls import reverse


def check(name: str, condition: Q) -> models.CheckConstraint:
    return models.CheckConstraint(condition=condition, name=name)


def unique(name: str, *fields: str, where: Q | None = None) -> models.UniqueConstraint:
    return models.UniqueConstraint(fields=fields, name=name, condition=where)


def index(name: str, *fields: str, where: Q | None = None) -> models.Index:
    return models.Index(fields=fields, name=name, condition=where)


class Team(models.Model):
    """People who own arenas and candidates together.

    `budget` is what the operator lets the team spend on models, in nano-dollars: the caps of its
    unfinished runs plus the cost of its finished runs never exceed it. `name_key` is the same for
    all names that read alike; null if another team already had such a name when this check was
    introduced.
    """

    slug = models.SlugField(max_length=60, unique=True)
    name = models.CharField(max_length=120)
    name_key = models.CharField(max_length=64, null=True, editable=False)
    budget = models.PositiveBigIntegerField(default=0, help_text="Nano-dollars (10^-9 USD).")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [unique("team_name_once", "name_key")]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("team", args=[self.slug])


class Role(models.TextChoices):
    """A person's role in a team. Each role can do everything that the roles below it can."""

    OWNER = "owner", "Owner"
    MEMBER = "member", "Member"
    VIEWER = "viewer", "Viewer"


ROLES = [role.value for role in Role]


class Membership(models.Model):
    team = models.ForeignKey(Team, models.CASCADE, related_name="memberships")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="team_memberships"
    )
    role = models.CharField(max_length=10, choices=Role)
    notices_by_email = models.BooleanField(default=True)
    joined_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            unique("membership_once_per_team", "team", "user"),
            check("membership_role_known", Q(role__in=ROLES)),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.team}: {self.role}"


class InvitationQuerySet(models.QuerySet["Invitation"]):
    def unused(self, now: datetime) -> "InvitationQuerySet":
        """Links that are not used, revoked or expired."""
        return self.filter(expires_at__gt=now, accepted_at=None, revoked_at=None)

    def open(self, now: datetime) -> "InvitationQuerySet":
        """Links that work: their creator is still an owner of the team, or an operator.

        A link has no creator only if the creator's account was deleted; no command creates links.
        """
        owners = Membership.objects.filter(
            team=OuterRef("team"), user=OuterRef("created_by"), role=Role.OWNER
        )
        # No joins, so that an update checks these conditions again once the row is locked.
        creators = get_user_model().objects.filter(pk=OuterRef("created_by"), is_active=True)
        can_invite = Q(Exists(creators.filter(is_staff=True)))
        can_invite |= Q(Exists(creators), Exists(owners))
        return self.unused(now).filter(can_invite)


class Invitation(models.Model):
    """A link that makes one person a member. Only the digest of its secret is stored."""

    team = models.ForeignKey(Team, models.CASCADE, related_name="invitations")
    role = models.CharField(max_length=10, choices=Role)
    note = models.CharField(max_length=200, blank=True, help_text="Who the link is for.")
    digest = models.CharField(max_length=64, unique=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+"
    )
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, blank=True)
    accepted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+"
    )
    revoked_at = models.DateTimeField(null=True, blank=True)
    made_account = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        help_text="Who signed up with the link, if sign-up requires one.",
    )

    objects = InvitationQuerySet.as_manager()

    class Meta:
        constraints = [
            check("invitation_role_known", Q(role__in=ROLES)),
        ]

    def __str__(self) -> str:
        return f"{self.role} of {self.team}"


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    def live(self) -> "ApiTokenQuerySet":
        return self.filter(revoked_at=None)


class ApiToken(models.Model):
    """A secret that lets a program act for a team. Only its digest and prefix are stored.

    `scopes` are some of read, submit and judge.
    """

    team = models.ForeignKey(Team, models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12)
    digest = models.CharField(max_length=64, unique=True)
    can_read = models.BooleanField(default=True)
    can_submit = models.BooleanField(default=False)
    can_judge = models.BooleanField(default=False)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+"
    )
    created_at = models.DateTimeField(db_default=Now())
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        verbose_name = "API token"
        constraints = [
            check(
                "token_may_do_something", Q(can_read=True) | Q(can_submit=True) | Q(can_judge=True)
            ),
            unique("token_name_once_per_team", "team", "name", where=Q(revoked_at__isnull=True)),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}...)"

    @property
    def scopes(self) -> list[str]:
        allowed = {"read": self.can_read, "submit": self.can_submit, "judge": self.can_judge}
        return [scope for scope, may in allowed.items() if may]


class AuditEntry(models.Model):
    """Who did what for a team, and when. Append-only; names outlive their accounts."""

    team = models.ForeignKey(Team, models.CASCADE, related_name="audit_entries")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+"
    )
    token = models.ForeignKey(ApiToken, models.SET_NULL, null=True, blank=True, related_name="+")
    by = models.CharField(max_length=200, help_text="Their name at the time.")
    action = models.CharField(max_length=60, help_text="As in 'registered a candidate'.")
    subject = models.CharField(max_length=300, blank=True)
    details = models.JSONField(default=dict, blank=True)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name_plural = "audit entries"
        indexes = [index("audit_newest_of_team", "team", "-id")]

    def __str__(self) -> str:
        return f"{self.by} {self.action}: {self.subject}"


# -- Idempotency keys and rate limits --------------------------------------------------------------


class IdempotentRequest(models.Model):
    """A POST with an Idempotency-Key, and the reply that every repetition gets.

    `owner` is the caller (`token:5`, `user:7`); `fingerprint` holds two digests: of method, path
    and body, and of the caller's rights at the time. `status` is null only inside the transaction
    of the first request: the row is committed together with its reply.
    """

    owner = models.CharField(max_length=40)
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(null=True)
    headers = models.JSONField(default=dict)
    body = models.BinaryField(default=bytes)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            unique("idempotency_key_once_per_owner", "owner", "key"),
        ]
        indexes = [index("idempotent_request_by_age", "created_at")]

    def __str__(self) -> str:
        return f"{self.owner} {self.key}"


class RateLimit(models.Model):
    """The number of uses of `key` in the window that began at `window_started_at`."""

    key = models.CharField(max_length=120, primary_key=True)
    window_started_at = models.DateTimeField()
    hits = models.PositiveIntegerField()

    def __str__(self) -> str:
        return self.key


# -- Notices ---------------------------------------------------------------------------------------


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

    team = models.ForeignKey(Team, models.CASCADE, related_name="webhooks")
    url = models.URLField(max_length=500)
    salt = models.CharField(max_length=32)
    created_at = models.DateTimeField(db_default=Now())
    removed_at = models.DateTimeField(null=True, blank=True)

    objects = WebhookQuerySet.as_manager()

    class Meta:
        constraints = [
            unique("webhook_once_per_address", "team", "url", where=Q(removed_at__isnull=True)),
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
