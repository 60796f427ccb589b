"""Which backups were made."""

from django.db import models


class Backup(models.Model):
    """A backup of the whole database, recorded so that its age can be monitored."""

    made_at = models.DateTimeField()
    size = models.PositiveBigIntegerField(help_text="Bytes of the file.")
    is_encrypted = models.BooleanField()

    class Meta:
        # Backups name their tables: one from before this model left `ranking` must still restore.
        db_table = "ranking_backup"

    def __str__(self) -> str:
        return f"{self.made_at:%Y-%m-%d %H:%M}"
