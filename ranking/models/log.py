"""The signed log of an arena's votes."""

import secrets
from typing import ClassVar

from django.db import models
from django.db.models import Q

from arena.models import Arena
from arena.models.constraints import check, unique


def new_salt() -> bytes:
    return secrets.token_bytes(16)


class VoteLog(models.Model):
    """One row per arena: its log.

    `salt` turns the ids of raters into numbers that have a meaning in this log only.
    """

    arena = models.OneToOneField(Arena, models.CASCADE, related_name="log")
    salt = models.BinaryField(default=new_salt)
    is_begun = models.BooleanField(
        default=False,
        help_text="Whether the log includes the votes counted before the log existed.",
    )

    def __str__(self) -> str:
        return f"log of arena {self.arena_id}"


class LogLinkQuerySet(models.QuerySet["LogLink"]):
    def without_rows(self) -> "LogLinkQuerySet":
        """Links without their rows, which are large."""
        return self.defer("rows")


class LogLink(models.Model):
    """One entry of an arena's log: a batch of votes that were counted, or no longer count.

    `rows` holds the compressed input of `digest_of_rows`. See `ranking.log.chain`.
    """

    class Kind(models.TextChoices):
        """What happened to the votes. The first group adds votes, the second one removes them."""

        START = "start", "counted before the log began"
        CAST = "cast", "cast here"
        IMPORT = "import", "rows of a file"
        RELEASED = "released", "released"
        REPAIR = "repair", "repaired"
        VOIDED = "voided", "voided"
        HELD = "held", "held"
        GONE = "gone", "deleted and acknowledged"
        IMPORTED = "imported", "file complete"

    ADDS: ClassVar = (Kind.START, Kind.CAST, Kind.IMPORT, Kind.RELEASED, Kind.REPAIR)
    REMOVES: ClassVar = (Kind.VOIDED, Kind.HELD, Kind.GONE)

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="log_links")
    number = models.PositiveIntegerField()
    kind = models.CharField(max_length=10, choices=Kind)
    n_rows = models.PositiveIntegerField()
    first_id = models.BigIntegerField(null=True)
    last_id = models.BigIntegerField(null=True)
    digest_of_rows = models.CharField(max_length=64)
    details = models.JSONField(default=dict)
    made_at = models.DateTimeField()
    digest = models.CharField(max_length=64)
    key = models.CharField(max_length=64, help_text="The public key that verifies the signature.")
    signature = models.CharField(max_length=128)
    rows = models.BinaryField()

    objects = LogLinkQuerySet.as_manager()

    class Meta:
        constraints = [
            unique("log_link_number_once", "arena", "number"),
            check("log_link_number_from_one", Q(number__gte=1)),
            check(
                "log_link_range_of_its_rows",
                Q(first_id__isnull=True, n_rows=0)
                | Q(first_id__isnull=False, last_id__gte=models.F("first_id"), n_rows__gte=1),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.arena_id}: link {self.number}, {self.kind}"
