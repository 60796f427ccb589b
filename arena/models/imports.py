"""Imported files, and what rows have in common that may come from one."""

from typing import Any

from django.db import models
from django.db.models import Q
from django.db.models.functions import Length
from django.db.models.lookups import LessThanOrEqual

from arena.models.constraints import check, index, unique

MOST_KEPT_BYTES = 32 * 1024 * 1024
DELETED = "deleted"  # the format of the import that hides an arena while it is deleted
REVEALED = Q(source=None) | Q(source__revealed_at__isnull=False)


class ImportQuerySet(models.QuerySet["Import"]):
    def hidden(self) -> "ImportQuerySet":
        """Imports that are running or abandoned, whose rows nobody can read."""
        return self.filter(revealed_at=None)

    def to_log(self) -> "ImportQuerySet":
        """Revealed imports that are not complete in the log yet."""
        return self.filter(revealed_at__isnull=False, logged_at=None)


class Import(models.Model):
    """One file imported into one arena. A row's identity is (import, row number).

    Everything from the files of one import command is hidden until one update sets `revealed_at`.
    """

    arena = models.ForeignKey("arena.Arena", models.CASCADE, related_name="imports")
    file_name = models.CharField(max_length=255)
    sha256 = models.CharField(max_length=64)
    format = models.CharField(max_length=20)
    started_at = models.DateTimeField()
    revealed_at = models.DateTimeField(null=True, blank=True)
    rows_added = models.PositiveIntegerField(default=0)
    rows_rejected = models.PositiveIntegerField(default=0)
    mapping = models.JSONField(
        default=dict, blank=True, help_text="Columns and values that somebody chose."
    )
    logged_at = models.DateTimeField(
        null=True, blank=True, help_text="When the log had all votes of the file."
    )

    objects = ImportQuerySet.as_manager()

    class Meta:
        constraints = [
            unique("import_once_per_file", "arena", "sha256"),
        ]

    def __str__(self) -> str:
        return f"{self.file_name} into {self.arena_id}"


class KeptUpload(models.Model):
    """A file between its preview and its confirmation, which any host may be asked for.

    `place` (`Arena 5`, `Team 7`) and `owner` (`user:7`) are where and for whom `key` is good.
    """

    key = models.CharField(max_length=43, primary_key=True)
    place = models.CharField(max_length=40)
    owner = models.CharField(max_length=40)
    name = models.CharField(max_length=255)
    data = models.BinaryField()
    expires_at = models.DateTimeField()

    class Meta:
        constraints = [
            check("kept_upload_is_bounded", LessThanOrEqual(Length("data"), MOST_KEPT_BYTES)),
        ]
        indexes = [index("kept_upload_by_expiry", "expires_at")]

    def __str__(self) -> str:
        return f"{self.name} of {self.owner}"


class Sourced(models.Model):
    """A row that may come from a file; `source` is NULL for rows created in the product."""

    source = models.ForeignKey(  # indexed by the unique constraint below
        Import, models.PROTECT, null=True, blank=True, related_name="+", db_index=False
    )
    source_row = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        abstract = True
        constraints = [
            unique("%(class)s_once_per_source_row", "source", "source_row"),
        ]


class CatalogQuerySet(models.QuerySet[Any]):
    def revealed(self) -> "CatalogQuerySet":
        """Rows that can be read: created here, or from an import that has finished."""
        return self.filter(REVEALED)

    def active(self) -> "CatalogQuerySet":
        """Rows that can still be shown to raters."""
        return self.revealed().filter(retired_at=None)
