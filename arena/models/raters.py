"""Raters: whoever votes."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from arena.models.catalog import Arena


class Rater(models.Model):
    """Whoever votes: a person (signed in, anonymous, or a worker of a file), a judge or a jury."""

    class Kind(models.TextChoices):
        PERSON = "person", "Person"
        JUDGE = "judge", "Judge"
        JURY = "jury", "Jury"

    kind = models.CharField(max_length=10, choices=Kind)
    name = models.CharField(max_length=200, blank=True)
    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="rater"
    )
    arena = models.ForeignKey(
        Arena,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        help_text="Set for raters that a file brought: their names mean something there only.",
    )
    created_at = models.DateTimeField(db_default=Now())
    blocked_at = models.DateTimeField(null=True, blank=True)
    trusted_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Since when the votes of this judge or jury may narrow people's intervals.",
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["arena", "kind", "name"],
                condition=Q(arena__isnull=False),
                name="rater_name_once_per_arena",
            ),
            models.CheckConstraint(
                condition=Q(kind__in=["person", "judge", "jury"]), name="rater_kind_known"
            ),
        ]

    def __str__(self) -> str:
        return self.name or f"rater {self.pk}"
