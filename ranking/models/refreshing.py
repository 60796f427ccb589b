"""Who is refreshing an arena's boards, what they have seen, and the pages made from them."""

import uuid
from datetime import datetime, timedelta

from django.db import models
from django.db.models import Exists, F, OuterRef, Q

from arena.models import Arena, Import, Vote
from ranking.models.tallies import TalliedTrust, TallyMember


class ArenaRefreshQuerySet(models.QuerySet["ArenaRefresh"]):
    def free(self, now: datetime) -> "ArenaRefreshQuerySet":
        """Arenas that may be refreshed now: nobody is at it, and the pause is over."""
        unclaimed = Q(leased_until=None) | Q(leased_until__lt=now)
        return self.filter(unclaimed, Q(not_before=None) | Q(not_before__lte=now))

    def behind(self, now: datetime) -> "ArenaRefreshQuerySet":
        """Arenas with votes, voids, imports or trust that are not in the tallies, or told to look
        again.

        A hidden vote is none of these before its reveal. A token that is still there was left by
        a refresh that was killed (or one is running: then the arena is not free).
        """
        of_arena = {"arena": OuterRef("arena")}
        return self.filter(arena__in=Arena.objects.revealed()).filter(
            Q(look_again=True)
            | Q(token__isnull=False)
            | Q(recheck_at__lte=now)
            | Exists(Vote.objects.to_add().filter(**of_arena))
            | Exists(Vote.objects.to_take_out().filter(**of_arena))
            | Exists(Import.objects.to_tally().filter(**of_arena))
            | Exists(TalliedTrust.objects.withdrawn().filter(**of_arena))
            | Exists(TallyMember.objects.newly_trusted().filter(tally__arena=OuterRef("arena")))
        )

    def claim(self, arena_id: int, now: datetime, lease: timedelta) -> uuid.UUID | None:
        """Take the arena for one refresh; None when somebody has it or it is too soon.

        That somebody has asked to look again is forgotten now and not at its end, when it would
        cover up that somebody has asked meanwhile.
        """
        token = uuid.uuid4()
        taken = self.free(now).filter(arena=arena_id)
        found = taken.update(token=token, leased_until=now + lease, look_again=False)
        return token if found else None


class ArenaRefresh(models.Model):
    """One row per arena: the lease of its refresh, and what the last one had seen."""

    arena = models.OneToOneField(Arena, models.CASCADE, related_name="refresh")
    token = models.UUIDField(null=True, editable=False)
    leased_until = models.DateTimeField(null=True, blank=True)
    not_before = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    look_again = models.BooleanField(
        default=True, help_text="Something besides votes has changed since the last refresh began."
    )
    finished_at = models.DateTimeField(null=True, blank=True)
    recheck_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="When to make the intervals that the last refresh put off.",
    )
    seconds = models.FloatField(default=0)
    problem = models.TextField(blank=True, help_text="What broke the last refresh.")
    page_epoch = models.PositiveIntegerField(default=0, editable=False)

    objects = ArenaRefreshQuerySet.as_manager()

    def __str__(self) -> str:
        return f"refresh of arena {self.arena_id}"


class BoardPageQuerySet(models.QuerySet["BoardPage"]):
    def fresh(self, slug: str, key: str) -> "BoardPageQuerySet":
        """The stored page that anybody may have, unless the arena has changed since it was made.

        The pages of a private arena are not found by its slug.
        """
        private = Q(arena__visibility=Arena.Visibility.PRIVATE)
        return self._made_now().filter(~private, arena__slug=slug, key=key)

    def fresh_of_board(self, board: int, key: str) -> "BoardPageQuerySet":
        """The same of the public arena that a board belongs to.

        Its number can be guessed, so that it leads to no page of an unlisted one.
        """
        public = Q(arena__visibility=Arena.Visibility.PUBLIC)
        return self._made_now().filter(public, arena__boards=board, key=key)

    def of_arena(self, arena: Arena, key: str) -> "BoardPageQuerySet":
        """The page of an arena, for whoever has been let into the arena."""
        return self._made_now().filter(arena=arena, key=key)

    def _made_now(self) -> "BoardPageQuerySet":
        return self.filter(epoch=F("arena__refresh__page_epoch"))


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
