"""Imports: what came from a file, hidden until one update reveals all of it."""

from django.db import models

DELETED = "deleted"  # the format of the import that hides an arena while it is deleted


class ImportQuerySet(models.QuerySet["Import"]):
    def hidden(self) -> "ImportQuerySet":
        """Imports that are still running, or were abandoned: their rows are nobody's to read."""
        return self.filter(revealed_at=None)

    def to_tally(self) -> "ImportQuerySet":
        """Revealed imports whose votes are not all in the tallies yet."""
        return self.filter(revealed_at__isnull=False, tallied_at=None)


class Import(models.Model):
    """One file taken into one arena. A row's identity is (import, row number)."""

    arena = models.ForeignKey("arena.Arena", models.CASCADE, related_name="imports")
    file_name = models.CharField(max_length=255)
    sha256 = models.CharField(max_length=64)
    format = models.CharField(max_length=20)
    started_at = models.DateTimeField()
    revealed_at = models.DateTimeField(null=True, blank=True)
    rows_added = models.PositiveIntegerField(default=0)
    rows_rejected = models.PositiveIntegerField(default=0)
    tallied_row = models.PositiveIntegerField(
        default=0, help_text="Votes up to this row are in the running tallies."
    )
    tallied_at = models.DateTimeField(null=True, blank=True)

    objects = ImportQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["arena", "sha256"], name="import_once_per_file"),
        ]

    def __str__(self) -> str:
        return f"{self.file_name} into {self.arena_id}"


class Sourced(models.Model):
    """A row that may have come from a file; `source` is NULL for rows made in the product."""

    source = models.ForeignKey(  # the unique constraint below is its index
        Import, models.PROTECT, null=True, blank=True, related_name="+", db_index=False
    )
    source_row = models.PositiveIntegerField(null=True, blank=True)

    class Meta:
        abstract = True
        constraints = [
            models.UniqueConstraint(
                fields=["source", "source_row"], name="%(class)s_once_per_source_row"
            ),
        ]
