"""The refreshes of an arena's leaderboards: which are due, who holds the lease, how they went."""

import uuid
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Exists, F, OuterRef, Q

from arena.models import Arena, Import, Vote
from arena.models.votes import TO_LOG, VoteQuerySet

LONGEST_LEASE = timedelta(minutes=10)  # of a step over ten million votes, with room
LONGEST_PAUSE = timedelta(minutes=10)  # between two refreshes; a longer one is of a wrong clock


def new_votes(*, with_log: bool) -> VoteQuerySet:
    """Votes that no leaderboard includes yet: those cast here that the log lacks or, without a log,
    those with a higher id than any that was read."""
    if with_log:
        return Vote.objects.to_log()
    return Vote.objects.live().listed().filter(pk__gt=F("arena__refresh__newest_vote_id"))


def _is_behind(now: datetime, with_log: bool) -> Q:
    """Whether something has changed that the arena's leaderboards do not show.

    Without a log, only marks tell of changes to older votes.
    """
    changes: list[Any] = [new_votes(with_log=with_log)]
    if with_log:
        # By file, so that the many votes of a running import are not looked at.
        returned = Vote.objects.filter(TO_LOG, source__isnull=False, source=OuterRef("pk"))
        files = Import.objects.filter(Exists(returned), logged_at__isnull=False)
        changes += [Vote.objects.to_unlog(), Import.objects.to_log(), files]
    changed = Q()
    for rows in changes:
        changed |= Q(Exists(rows.filter(arena=OuterRef("arena"))))
    return Q(arena__in=Arena.objects.revealed()) & (
        Q(is_stale=True)
        | Q(token__isnull=False)
        | Q(recheck_at__lte=now)
        | Q(recheck_at__gt=now, finished_at__gt=now + LONGEST_PAUSE)
        | changed
    )


class ArenaRefreshQuerySet(models.QuerySet["ArenaRefresh"]):
    def free(self, now: datetime) -> "ArenaRefreshQuerySet":
        """Arenas that may be refreshed now: nobody holds the lease, and the pause is over.

        Times later than any lease or pause were written while the clock was ahead.
        """
        unclaimed = ~Q(leased_until__range=(now, now + LONGEST_LEASE))
        rested = Q(not_before=None) | Q(not_before__lte=now) | Q(not_before__gt=now + LONGEST_PAUSE)
        return self.filter(unclaimed, rested)

    def behind(self, now: datetime) -> "ArenaRefreshQuerySet":
        """Arenas marked stale, or with votes, voids or imports that their leaderboards lack.

        Hidden votes do not count until they are revealed. A remaining token was left by a refresh
        that was killed (or one is running: then the arena is not free).
        """
        return self.filter(_is_behind(now, settings.VOTE_LOG))

    def due(self, now: datetime) -> list[int]:
        """The arenas that are both `free` and `behind`."""
        return list(self.free(now).behind(now).values_list("arena_id", flat=True))

    def claim(self, arena_id: int, now: datetime, lease: timedelta) -> uuid.UUID | None:
        """Lease the arena for one refresh; None if it is taken or the pause is not over.

        `is_stale` is cleared now, because clearing it at the end would lose a request made during
        the refresh.
        """
        token = uuid.uuid4()
        free = self.free(now).filter(arena=arena_id)
        claimed = free.update(token=token, leased_until=now + lease, is_stale=False)
        return token if claimed else None


class ArenaRefresh(models.Model):
    """One row per arena: the lease of its refresh, and how the last one went."""

    arena = models.OneToOneField(Arena, models.CASCADE, related_name="refresh")
    token = models.UUIDField(null=True, editable=False)
    leased_until = models.DateTimeField(null=True, blank=True)
    not_before = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    is_stale = models.BooleanField(
        default=True, help_text="Something besides votes has changed since the last refresh began."
    )
    finished_at = models.DateTimeField(null=True, blank=True)
    recheck_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="When to compute the intervals that the last refresh postponed.",
    )
    seconds = models.FloatField(default=0)
    problem = models.TextField(blank=True, help_text="The error that ended the last refresh.")
    newest_vote_id = models.BigIntegerField(
        default=0, editable=False, help_text="The newest vote that the last refresh read."
    )
    examined_vote_id = models.BigIntegerField(
        default=0, editable=False, help_text="The newest vote that was tested for rigging."
    )
    page_epoch = models.PositiveIntegerField(default=0, editable=False)
    export_epoch = models.PositiveIntegerField(
        default=0,
        editable=False,
        help_text="Advanced by all that may hide something; exports of an earlier one are deleted.",
    )

    objects = ArenaRefreshQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "arena refreshes"

    def __str__(self) -> str:
        return f"refresh of arena {self.arena_id}"
