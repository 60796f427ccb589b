"""Raters, and the trust in judges."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from arena.models.arenas import Arena
from arena.models.constraints import check, unique


class Rater(models.Model):
    """A voter: a person (signed in, anonymous or named by a file or program), judge or jury."""

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
        help_text="Set for raters from a file: their names are unique only there.",
    )
    created_at = models.DateTimeField(db_default=Now())
    blocked_at = models.DateTimeField(null=True, blank=True)
    trusted_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="When this judge or jury became trusted to narrow the intervals of human votes "
        "in arenas where it was not measured.",
    )

    class Meta:
        constraints = [
            unique(
                "rater_name_once_per_arena", "arena", "kind", "name", where=Q(arena__isnull=False)
            ),
            check("rater_kind_known", Q(kind__in=["person", "judge", "jury"])),
        ]

    def __str__(self) -> str:
        return self.name or f"rater {self.pk}"


class ArenaTrust(models.Model):
    """Whether a judge or jury that was measured in an arena is trusted there.

    In that arena it takes precedence over `Rater.trusted_at`.
    """

    rater = models.ForeignKey(Rater, models.CASCADE, related_name="trust")
    arena = models.ForeignKey(Arena, models.CASCADE, related_name="+")
    trusted = models.BooleanField()
    decided_at = models.DateTimeField()

    class Meta:
        constraints = [
            unique("arena_trust_once", "arena", "rater"),
        ]
        verbose_name_plural = "trust in arenas"

    def __str__(self) -> str:
        return f"{self.rater} in {self.arena_id}: {'trusted' if self.trusted else 'not trusted'}"
