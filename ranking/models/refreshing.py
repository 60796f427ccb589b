"""Who is refreshing an arena's boards, what they have seen, and the pages made from them."""

import uuid
from datetime import datetime, timedelta

from django.db import models
from django.db.models import Exists, F, OuterRef, Q

from arena.models import Arena, Import, Vote

CLOCK_MARGIN = timedelta(seconds=5)


class ArenaRefreshQuerySet(models.QuerySet["ArenaRefresh"]):
    def free(self, now: datetime) -> "ArenaRefreshQuerySet":
        """Arenas that may be refreshed now: nobody is at it, and the pause is over."""
        unclaimed = Q(leased_until=None) | Q(leased_until__lt=now)
        return self.filter(unclaimed, Q(not_before=None) | Q(not_before__lte=now))

    def behind(self, now: datetime) -> "ArenaRefreshQuerySet":
        """Arenas with votes, voids or imports that their last refresh cannot have seen.

        A hidden vote is none of these before its reveal. A token that is still there was left by
        a refresh that was killed (or one is running: then the arena is not free).
        """
        of_arena = {"arena": OuterRef("arena")}
        votes = Vote.objects.filter(**of_arena)
        newer = votes.live().filter(pk__gt=OuterRef("seen_vote_id"))
        voided = votes.filter(voided_at__gte=OuterRef("sure_until"))
        revealed = Import.objects.filter(**of_arena, revealed_at__gte=OuterRef("sure_until"))
        return self.filter(
            Q(sure_until=None)
            | Q(token__isnull=False)
            | Q(recheck_at__lte=now)
            | Exists(newer)
            | Exists(voided)
            | Exists(revealed)
        )

    def claim(self, arena_id: int, now: datetime, lease: timedelta) -> uuid.UUID | None:
        """Take the arena for one refresh; None when somebody has it or it is too soon.

        What the refresh will have seen is noted now and not at its end, when it would cover up
        that somebody has asked meanwhile to look again.
        """
        token = uuid.uuid4()
        taken = self.free(now).filter(arena=arena_id)
        found = taken.update(token=token, leased_until=now + lease, sure_until=now - CLOCK_MARGIN)
        return token if found else None


class ArenaRefresh(models.Model):
    """One row per arena: the lease of its refresh, and what the last one had seen."""

    arena = models.OneToOneField(Arena, models.CASCADE, related_name="refresh")
    token = models.UUIDField(null=True, editable=False)
    leased_until = models.DateTimeField(null=True, blank=True)
    not_before = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    sure_until = models.DateTimeField(
        null=True,
        blank=True,
        help_text="Voids and reveals stamped before this had committed when the votes were read.",
    )
    finished_at = models.DateTimeField(null=True, blank=True)
    recheck_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="When to look once more for votes that committed late, with smaller ids.",
    )
    seconds = models.FloatField(default=0)
    seen_vote_id = models.BigIntegerField(default=0)
    problem = models.TextField(blank=True, help_text="What broke the last refresh.")
    page_epoch = models.PositiveIntegerField(default=0, editable=False)

    objects = ArenaRefreshQuerySet.as_manager()

    def __str__(self) -> str:
        return f"refresh of arena {self.arena_id}"


class BoardPageQuerySet(models.QuerySet["BoardPage"]):
    def fresh(self, slug: str, key: str) -> "BoardPageQuerySet":
        """The stored page, unless the arena has changed since it was made."""
        return self.filter(arena__slug=slug, key=key, epoch=F("arena__refresh__page_epoch"))


class BoardPage(models.Model):
    """A page of a board as it is served: gzip bytes and their ETag.

    A page counts only while its epoch is the arena's: whoever publishes moves the epoch, so a
    page made from older numbers can be stored late and is still never served.
    """

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="board_pages")
    key = models.CharField(max_length=200)
    epoch = models.PositiveIntegerField()
    etag = models.CharField(max_length=70)
    body = models.BinaryField()

    objects = BoardPageQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["arena", "key"], name="board_page_once"),
        ]

    def __str__(self) -> str:
        return f"{self.arena_id}: {self.key}"
