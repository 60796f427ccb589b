"""Exports as files: what was built, for whom, and from which state of the arena."""

import uuid
from datetime import datetime

from django.db import models
from django.db.models import Exists, OuterRef, Q

from arena.models import Arena
from arena.models.constraints import check, unique

OF_SERVER = "The server"  # how problems begin that operators mend; others are the arena's


class Audience(models.TextChoices):
    """Who may read a file: each shows what the least privileged of these readers may see."""

    PUBLIC = "public", "Everybody who may see the arena"
    TEAM = "team", "The arena's team"
    OPERATORS = "operators", "The site's administrators"


class ExportFileQuerySet(models.QuerySet["ExportFile"]):
    def in_progress(self) -> "ExportFileQuerySet":
        return self.filter(state__in=[ExportFile.State.WAITING, ExportFile.State.BUILDING])

    def ready(self) -> "ExportFileQuerySet":
        return self.filter(state=ExportFile.State.READY)

    def abandoned(self, now: datetime) -> "ExportFileQuerySet":
        """Those whose worker has let its lease expire: it was killed."""
        return self.filter(state=ExportFile.State.BUILDING, leased_until__lt=now)

    def unserved(self, now: datetime) -> "ExportFileQuerySet":
        """Those that wait although no worker is building any."""
        at_work = self.filter(state=ExportFile.State.BUILDING, leased_until__gte=now)
        return self.none() if at_work.exists() else self.in_progress()

    def broken(self) -> "ExportFileQuerySet":
        """Those that failed because of the server, and that were not built since."""
        same = {"arena": OuterRef("arena"), "name": OuterRef("name")}
        since = self.model.objects.ready().filter(**same, built_at__gt=OuterRef("requested_at"))
        return self.filter(~Exists(since), state="failed", problem__startswith=OF_SERVER)


class ExportFile(models.Model):
    """One export of an arena, built once per state of the arena and audience.

    `version` names that state, so a newer one is another row. `hiding` is the part of it that
    decides what readers may not see: once the arena's differs, the file is not served any more.
    """

    class State(models.TextChoices):
        WAITING = "waiting", "Waiting"
        BUILDING = "building", "Building"
        READY = "ready", "Ready"
        FAILED = "failed", "Failed"

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    arena = models.ForeignKey(Arena, models.CASCADE, related_name="export_files")
    name = models.CharField(max_length=60, help_text="With its parameters: dpo-juries.jsonl.")
    audience = models.CharField(max_length=10, choices=Audience)
    version = models.CharField(max_length=200)
    hiding = models.CharField(max_length=100, blank=True)
    state = models.CharField(max_length=10, choices=State, default=State.WAITING)
    token = models.UUIDField(null=True, editable=False)
    leased_until = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveSmallIntegerField(default=0, help_text="How often it was begun.")
    rows_done = models.PositiveIntegerField(default=0)
    rows_total = models.PositiveIntegerField(default=0, help_text="0 if it is not known.")
    stored_as = models.CharField(max_length=100, blank=True, help_text="Its name in the storage.")
    size = models.PositiveBigIntegerField(default=0, help_text="Bytes.")
    digest = models.CharField(max_length=64, blank=True, help_text="SHA-256 of its bytes.")
    problem = models.TextField(blank=True, help_text="Why it could not be built.")
    requested_at = models.DateTimeField()
    built_at = models.DateTimeField(null=True, blank=True)

    objects = ExportFileQuerySet.as_manager()

    class Meta:
        constraints = [
            unique("export_file_once_per_version", "arena", "name", "audience", "version"),
            unique(
                "export_file_one_not_ready",
                "arena",
                "name",
                "audience",
                where=~Q(state="ready"),
            ),
            check("export_file_audience_known", Q(audience__in=["public", "team", "operators"])),
            check(
                "export_file_state_known",
                Q(state__in=["waiting", "building", "ready", "failed"]),
            ),
            check(
                "export_file_building_is_leased",
                Q(state="building", token__isnull=False, leased_until__isnull=False)
                | ~Q(state="building") & Q(token=None, leased_until=None),
            ),
            check(
                "export_file_ready_is_stored",
                ~Q(state="ready") | Q(built_at__isnull=False) & ~Q(digest="") & ~Q(stored_as=""),
            ),
            check("export_file_failed_says_why", ~Q(state="failed") | ~Q(problem="")),
        ]

    def __str__(self) -> str:
        return f"{self.arena_id}: {self.name} ({self.audience})"

    @property
    def is_ready(self) -> bool:
        return self.state == self.State.READY

    @property
    def is_in_progress(self) -> bool:
        return self.state in (self.State.WAITING, self.State.BUILDING)

    @property
    def etag(self) -> str:
        return f'"{self.digest[:32]}"'
