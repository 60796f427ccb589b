"""Invitations to a team."""

from datetime import datetime

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from arena.models.constraints import check
from arena.models.teams import ROLES, Membership, Role, Team


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
