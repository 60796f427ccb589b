"""Data kept by refreshes: counted styles, running tallies, leases, checkpoints, stored pages."""

import secrets
import time
import uuid
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, ClassVar

from django.db import connection, models
from django.db.models import Count, Exists, F, Max, OuterRef, Q, Subquery, Sum, Value
from django.db.models.functions import Coalesce

from arena.models import Arena, ArenaTrust, Import, Prompt, Rater, Response, Vote
from arena.models.teams import check, index, unique
from ranking.models.boards import Board, Counted, Raters


class ResponseStyle(models.Model):
    """How an answer is written. Counted once, since the text of an answer does not change."""

    response = models.OneToOneField(Response, models.CASCADE, related_name="style")
    words = models.PositiveIntegerField()
    headings = models.PositiveIntegerField()
    list_items = models.PositiveIntegerField()
    bold = models.PositiveIntegerField()

    def __str__(self) -> str:
        return f"{self.words} words"


# -- Running tallies -------------------------------------------------------------------------------

# They add up the votes of an arena, so that a refresh need not read every vote. A vote is in all of
# its tallies or in none (`Vote.tallied`, `Import.tallied_row`): one transaction changes both. See
# `ranking.services.fold`.


class Tallied(models.TextChoices):
    """Whose votes a tally counts: those of all raters of a kind, or of some of them."""

    PEOPLE = Raters.PEOPLE.value, Raters.PEOPLE.label
    VERIFIED = Counted.VERIFIED.value, Counted.VERIFIED.label
    JUDGES = Raters.JUDGES.value, Raters.JUDGES.label
    JURIES = Raters.JURIES.value, Raters.JURIES.label
    TRUSTED_JUDGES = "trusted_judges", "Trusted judges"
    TRUSTED_JURIES = "trusted_juries", "Trusted juries"


def first_version() -> int:
    """A version that no earlier tally of the same question had, not even a deleted one."""
    return time.time_ns() // 1000


class Tally(models.Model):
    """The votes of one question (raters, category) per pair of candidates: what scores need.

    `cells` holds packed `ranking.tallies.VoteCounts`, here and in the other tallies.
    """

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="tallies")
    raters = models.CharField(max_length=20, choices=Tallied)
    category = models.CharField(max_length=100, blank=True)
    version = models.BigIntegerField(
        default=first_version, help_text="Changes whenever the votes do, and never repeats."
    )
    cells = models.BinaryField()
    n_raters = models.PositiveIntegerField(default=0)
    n_prompts = models.PositiveIntegerField(default=0)
    last_vote_id = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            unique("tally_once_per_question", "arena", "raters", "category"),
        ]
        verbose_name_plural = "tallies"

    def __str__(self) -> str:
        return f"{self.arena_id}: {self.raters}, {self.category or 'all categories'}"


def _is_trusted(arena: str) -> Q:
    """Whether a row's rater is trusted in its `arena`: as measured there, or else in general."""
    measured = ArenaTrust.objects.filter(arena=OuterRef(arena), rater=OuterRef("rater"))
    as_a_whole = Q(rater__trusted_at__isnull=False) & ~Q(Exists(measured))
    return Q(Exists(measured.filter(trusted=True))) | as_a_whole


class TallyMemberQuerySet(models.QuerySet["TallyMember"]):
    def trusted(self) -> "TallyMemberQuerySet":
        """Judges and juries that have voted in an arena and are trusted there."""
        of_all = {"tally__raters__in": [Tallied.JUDGES, Tallied.JURIES], "tally__category": ""}
        return self.filter(_is_trusted("tally__arena"), **of_all)

    def newly_trusted(self) -> "TallyMemberQuerySet":
        """Trusted judges and juries whose votes the trusted tallies do not count yet."""
        known = TalliedTrust.objects.filter(arena=OuterRef("tally__arena"), rater=OuterRef("rater"))
        return self.trusted().filter(~Exists(known))


class TallyMember(models.Model):
    """How many votes of a question one rater cast or one prompt got; used to count both kinds."""

    tally = models.ForeignKey(Tally, models.CASCADE, related_name="members")
    rater = models.ForeignKey(Rater, models.CASCADE, null=True, related_name="+")
    prompt = models.ForeignKey(Prompt, models.CASCADE, null=True, related_name="+")
    n_votes = models.IntegerField()

    objects = TallyMemberQuerySet.as_manager()

    class Meta:
        constraints = [
            unique("tally_member_rater_once", "tally", "rater"),
            unique("tally_member_prompt_once", "tally", "prompt"),
            check("tally_member_rater_or_prompt", Q(rater__isnull=True) ^ Q(prompt__isnull=True)),
            check("tally_member_votes_not_negative", Q(n_votes__gte=0)),
        ]

    def __str__(self) -> str:
        return f"{self.n_votes} votes"


class TalliedTrustQuerySet(models.QuerySet["TalliedTrust"]):
    def withdrawn(self) -> "TalliedTrustQuerySet":
        """Records of raters that are no longer trusted."""
        return self.filter(~_is_trusted("arena"))


class TalliedTrust(models.Model):
    """A record that the trusted tallies count all tallied votes of a judge or jury.

    `ArenaTrust` and `Rater.trusted_at` say whose votes should count, this record whose votes do. It
    changes only together with those tallies, under the arena's lease: `ranking.services.fold`.
    """

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="tallied_trust")
    rater = models.ForeignKey(Rater, models.CASCADE, related_name="+")

    objects = TalliedTrustQuerySet.as_manager()

    class Meta:
        constraints = [
            unique("tallied_trust_once", "arena", "rater"),
        ]
        verbose_name_plural = "tallied trust"

    def __str__(self) -> str:
        return f"{self.arena_id}: {self.rater}"


class ClusterTally(models.Model):
    """The votes on one prompt per pair (of one rater, if the prompt is unknown).

    Clustered intervals need it. It lags behind the tallies by the votes in `TallyDelta`.
    """

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="cluster_tallies")
    raters = models.CharField(max_length=20, choices=Tallied)
    prompt = models.ForeignKey(Prompt, models.CASCADE, null=True, related_name="+")
    rater = models.ForeignKey(Rater, models.CASCADE, null=True, related_name="+")
    cells = models.BinaryField()

    class Meta:
        constraints = [
            unique("cluster_tally_prompt_once", "arena", "raters", "prompt"),
            unique("cluster_tally_rater_once", "arena", "raters", "rater"),
            check("cluster_tally_prompt_or_rater", Q(rater__isnull=True) ^ Q(prompt__isnull=True)),
        ]
        verbose_name_plural = "cluster tallies"

    def __str__(self) -> str:
        return f"{self.arena_id}: {self.raters}, {self.prompt_id or self.rater_id}"


class RaterTally(models.Model):
    """Human votes of one category per pair, of one rater or of a group of raters.

    Raters are a sample, just as prompts are. The first `RATERS` raters of an arena have rows of
    their own; later ones share rows. Lags behind like `ClusterTally`, and is recounted if it does
    not add up.
    """

    RATERS: ClassVar = 2048

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="rater_tallies")
    raters = models.CharField(max_length=20, choices=Tallied, default=Tallied.PEOPLE)
    category = models.CharField(max_length=100, blank=True)
    member = models.BigIntegerField(help_text="The rater's id or, below 0, a group's number.")
    cells = models.BinaryField()

    class Meta:
        constraints = [
            unique("rater_tally_member_once", "arena", "raters", "category", "member"),
        ]
        verbose_name_plural = "rater tallies"

    def __str__(self) -> str:
        return f"{self.arena_id}: {self.member}"


class TallyDelta(models.Model):
    """Votes that the tallies per pair count already and the tallies per cluster do not yet.

    Rewriting the row of every prompt on each refresh would cost more as an arena grows, so a
    refresh adds a row here, and rows are merged before intervals are computed.
    """

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="tally_deltas")
    raters = models.CharField(max_length=20, choices=Tallied)
    n_cells = models.PositiveIntegerField()
    cells = models.BinaryField()

    class Meta:
        indexes = [index("tally_delta_of_arena", "arena", "raters")]

    def __str__(self) -> str:
        return f"{self.arena_id}: {self.raters}, {self.n_cells} cells"


class EloCheckpoint(models.Model):
    """A board's Elo ratings after all votes up to some vote, so that a void replays only the
    tail."""

    board = models.ForeignKey(Board, models.CASCADE, related_name="elo_checkpoints")
    vote_id = models.BigIntegerField()
    n_votes = models.PositiveIntegerField()
    settings = models.CharField(max_length=100)
    candidates = models.BinaryField(help_text="int64: the ids of the candidates met so far.")
    ratings = models.BinaryField(help_text="float64: their ratings, in the same order.")

    class Meta:
        constraints = [
            unique("elo_checkpoint_once", "board", "vote_id"),
        ]

    def __str__(self) -> str:
        return f"board {self.board_id} after vote {self.vote_id}"


LONGEST_LEASE = timedelta(minutes=10)  # of a step over ten million votes, with room
LONGEST_PAUSE = timedelta(minutes=1)  # between two refreshes, with room


def _stored(moment: datetime) -> Any:
    return connection.ops.adapt_datetimefield_value(moment)


@cache
def _compose_due() -> tuple[str, list[Any]]:
    """Return the SQL of `due` and its values; those that depend on the time are relative to it."""
    some_time = datetime(2000, 1, 1, tzinfo=UTC)
    arenas = ArenaRefresh.objects.free(some_time).behind(some_time).values_list("arena_id")
    sql, values = arenas.query.sql_with_params()
    later = {_stored(some_time + by): by for by in (timedelta(0), LONGEST_LEASE, LONGEST_PAUSE)}
    return sql, [later.get(value, value) for value in values]


class ArenaRefreshQuerySet(models.QuerySet["ArenaRefresh"]):
    def free(self, now: datetime) -> "ArenaRefreshQuerySet":
        """Arenas that may be refreshed now: nobody holds the lease, and the pause is over.

        Times later than any lease or pause were written while the clock was ahead.
        """
        unclaimed = ~Q(leased_until__range=(now, now + LONGEST_LEASE))
        rested = Q(not_before=None) | Q(not_before__lte=now) | Q(not_before__gt=now + LONGEST_PAUSE)
        return self.filter(unclaimed, rested)

    def behind(self, now: datetime) -> "ArenaRefreshQuerySet":
        """Arenas marked stale, or with votes, voids, imports or trust not yet in the tallies.

        Hidden votes do not count until they are revealed. A remaining token was left by a refresh
        that was killed (or one is running: then the arena is not free).
        """
        of_arena = {"arena": OuterRef("arena")}
        return self.filter(arena__in=Arena.objects.revealed()).filter(
            Q(is_stale=True)
            | Q(token__isnull=False)
            | Q(recheck_at__lte=now)
            | Q(recheck_at__gt=now, finished_at__gt=now + LONGEST_PAUSE)
            | Exists(Vote.objects.to_add().filter(**of_arena))
            | Exists(Vote.objects.to_take_out().filter(**of_arena))
            | Exists(Import.objects.to_tally().filter(**of_arena))
            | Exists(TalliedTrust.objects.withdrawn().filter(**of_arena))
            | Exists(TallyMember.objects.newly_trusted().filter(tally__arena=OuterRef("arena")))
        )

    def due(self, now: datetime) -> list[int]:
        """The arenas that are both `free` and `behind`.

        This is asked every few seconds. Composing the SQL takes 50 times as long as running it, so
        it is composed once, with times that are replaced by the real ones.
        """
        sql, values = _compose_due()
        with connection.cursor() as cursor:
            cursor.execute(
                sql, [_stored(now + v) if isinstance(v, timedelta) else v for v in values]
            )
            return [arena_id for (arena_id,) in cursor.fetchall()]

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
    page_epoch = models.PositiveIntegerField(default=0, editable=False)

    objects = ArenaRefreshQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "arena refreshes"

    def __str__(self) -> str:
        return f"refresh of arena {self.arena_id}"


class BoardPageQuerySet(models.QuerySet["BoardPage"]):
    def fresh(self, slug: str, key: str) -> "BoardPageQuerySet":
        """The stored page of a public or unlisted arena, unless the arena has changed since."""
        private = Q(arena__visibility=Arena.Visibility.PRIVATE)
        return self._current().filter(~private, arena__slug=slug, key=key)

    def fresh_of_board(self, board: int, key: str) -> "BoardPageQuerySet":
        """The stored page of the public arena that a board belongs to.

        A board's id can be guessed, so it must not lead to a page of an unlisted arena.
        """
        public = Q(arena__visibility=Arena.Visibility.PUBLIC)
        return self._current().filter(public, arena__boards=board, key=key)

    def of_arena(self, arena: Arena, key: str) -> "BoardPageQuerySet":
        """The stored page of any arena; the caller has checked access to the arena."""
        return self._current().filter(arena=arena, key=key)

    def _current(self) -> "BoardPageQuerySet":
        return self.filter(epoch=F("arena__refresh__page_epoch"))


class BoardPage(models.Model):
    """A page of a board as it is served: gzip bytes and their ETag.

    It is served only while its epoch is the arena's. Publishing advances the epoch, so a page with
    older numbers is never served, even if it is stored late.
    """

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="board_pages")
    key = models.CharField(max_length=200)
    epoch = models.PositiveIntegerField()
    etag = models.CharField(max_length=70)
    body = models.BinaryField()

    objects = BoardPageQuerySet.as_manager()

    class Meta:
        constraints = [
            unique("board_page_once", "arena", "key"),
        ]

    def __str__(self) -> str:
        return f"{self.arena_id}: {self.key}"


class HomePageQuerySet(models.QuerySet["HomePage"]):
    def state(self) -> dict[str, int]:
        """What changes whenever an arena, or a page of one, does."""
        newest = Arena.objects.aggregate(
            n_arenas=Count("pk"),
            newest=Coalesce(Max("pk"), 0),
            epochs=Coalesce(Sum("refresh__page_epoch"), 0),
        )
        return {name: int(value) for name, value in newest.items()}

    def fresh(self, language: str) -> "HomePageQuerySet":
        """The stored page in a language, unless an arena has changed since."""
        arenas = Arena.objects.order_by().values(all=Value(1))
        return self.filter(
            language=language,
            n_arenas=Subquery(arenas.annotate(n=Count("pk")).values("n")),
            newest=Subquery(arenas.annotate(n=Max("pk")).values("n")),
            epochs=Subquery(arenas.annotate(n=Coalesce(Sum("refresh__page_epoch"), 0)).values("n")),
        )


class HomePage(models.Model):
    """The home page for people who are not signed in, one row per language: gzip bytes and their
    ETag.

    It is served only while the arenas are in the state that was read before it was made.
    """

    language = models.CharField(max_length=10, primary_key=True)
    n_arenas = models.PositiveIntegerField()
    newest = models.BigIntegerField()
    epochs = models.BigIntegerField()
    etag = models.CharField(max_length=70)
    body = models.BinaryField()

    objects = HomePageQuerySet.as_manager()

    def __str__(self) -> str:
        return f"home page of {self.n_arenas} arenas ({self.language})"


class Backup(models.Model):
    """A backup of the whole database, recorded so that its age can be monitored."""

    made_at = models.DateTimeField()
    size = models.PositiveBigIntegerField(help_text="Bytes of the file.")
    is_encrypted = models.BooleanField()

    def __str__(self) -> str:
        return f"{self.made_at:%Y-%m-%d %H:%M}"


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
    counts_verified = models.BooleanField(
        default=False,
        help_text="Whether the tallies of verified people include the votes counted before these "
        "tallies existed.",
    )

    def __str__(self) -> str:
        return f"log of arena {self.arena_id}"


class LogLinkQuerySet(models.QuerySet["LogLink"]):
    def heads(self) -> "LogLinkQuerySet":
        """Links without their rows, which are large."""
        return self.defer("rows")


class LogLink(models.Model):
    """One entry of an arena's log: a batch of votes that were counted, or no longer count.

    `rows` holds the compressed input of `digest_of_rows`. See `ranking.vote_log`.
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
