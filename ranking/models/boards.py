"""Boards, each with its raters and category, and snapshots, their published results."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import numpy as np
from django.db import models
from django.db.models import Exists, F, OuterRef, Q

from arena.models import Arena, Candidate
from arena.models.constraints import check, index, unique
from ranking.anchor import MEAN, Anchor
from ranking.votes import Floats, Ints, PairCounts

MOST_RESAMPLES = 20_000
QUICK_SECONDS = 2.0  # intervals that take less are computed on every refresh
REST_FACTOR = 10  # the others wait this many times as long as they took


class Raters(models.TextChoices):
    PEOPLE = "people", "People"
    JUDGES = "judges", "Judges"
    JURIES = "juries", "Juries"


class Counted(models.TextChoices):
    """Whose votes a board counts.

    Verified people are a subset of people: members of the team, and those with a confirmed email
    address or single sign-on when they voted. A jury casts votes of its own, which count on the
    juries' board; its members' votes count on the judges' board. Human and LLM votes are never
    pooled: on the combined board people decide the scores, and trusted juries, or else trusted
    judges, only narrow the intervals.
    """

    PEOPLE = "people", "People"
    VERIFIED = "verified", "Verified people"
    JUDGES = "judges", "Judges"
    JURIES = "juries", "Juries"
    COMBINED = "combined", "Combined"


class BothBad(models.TextChoices):
    """How a board counts a "both bad" vote."""

    SEPARATE = "separate", "A separate rate that does not affect scores"
    TIE = "tie", "A tie"


class Board(models.Model):
    """One ranking of an arena: which raters count, which category, which settings."""

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="boards")
    raters = models.CharField(max_length=10, choices=Counted, default=Counted.PEOPLE)
    category = models.CharField(max_length=100, blank=True, help_text="Empty: all categories.")
    both_bad = models.CharField(max_length=10, choices=BothBad, default=BothBad.SEPARATE)
    n_resamples = models.PositiveIntegerField(
        default=1000, help_text="Bootstrap replicates behind each interval."
    )
    seed = models.PositiveIntegerField(default=0)
    follows_claims = models.BooleanField(
        default=True,
        editable=False,
        help_text="Whether its decisions are Claims already; not before they are first looked at"
        " after an upgrade from an earlier rule.",
    )
    problem = models.TextField(
        blank=True,
        editable=False,
        help_text="Why the newest votes are not on this board; empty if they are.",
    )

    class Meta:
        constraints = [
            unique("board_once_per_question", "arena", "raters", "category"),
            check(
                "board_raters_known",
                Q(raters__in=["people", "verified", "judges", "juries", "combined"]),
            ),
            check("board_both_bad_known", Q(both_bad__in=["separate", "tie"])),
            check(
                "board_resamples_two_to_20000",
                Q(n_resamples__gte=2, n_resamples__lte=MOST_RESAMPLES),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.arena_id}: {self.raters}, {self.category or 'all categories'}"


# Longer than the Elo intervals of ten million votes take; a later time was written while the clock
# was ahead.
LONGEST_CLAIM = timedelta(hours=1)


class SnapshotQuerySet(models.QuerySet["Snapshot"]):
    def current(self) -> "SnapshotQuerySet":
        """The snapshots that boards show now."""
        return self.filter(is_current=True)

    def kept(self) -> "SnapshotQuerySet":
        """Current snapshots and the history."""
        return self.filter(Q(is_current=True) | Q(is_history=True))

    def of_arena(self, arena: Arena) -> "SnapshotQuerySet":
        return self.filter(board__arena=arena).select_related("board").order_by("board__category")

    def without_elo_intervals(self, now: datetime) -> "SnapshotQuerySet":
        """Snapshots with Elo ratings but no intervals, in arenas where no worker computes any."""
        rated = Standing.objects.filter(snapshot=OuterRef("pk"), elo__isnull=False)
        claimed = Snapshot.objects.filter(~_unclaimed(now), board__arena=OuterRef("board__arena"))
        # Its own claim as well: only that is looked at again where two workers claim at once.
        return self.filter(_unclaimed(now), Exists(rated), ~Exists(claimed), elo_intervals_at=None)

    def superseded(self, now: datetime) -> "SnapshotQuerySet":
        """Snapshots that nothing needs: not current, not history, no Elo intervals in progress."""
        return self.filter(_unclaimed(now), is_current=False, is_history=False)


def _unclaimed(now: datetime) -> Q:
    return ~Q(elo_claimed_until__range=(now, now + LONGEST_CLAIM))


class Snapshot(models.Model):
    """One published result of a board, from the votes at that time."""

    board = models.ForeignKey(Board, models.CASCADE, related_name="snapshots")
    is_current = models.BooleanField(default=True)
    is_history = models.BooleanField(
        default=False,
        help_text="One is kept every ten minutes, even after newer ones.",
    )
    published_at = models.DateTimeField()  # when its votes were read: it counts all cast before
    digest = models.CharField(max_length=64, help_text="Digest of votes, candidates and settings.")
    n_votes = models.PositiveIntegerField(help_text="Votes that the scores are based on.")
    n_both_bad = models.PositiveIntegerField(default=0)
    n_raters = models.PositiveIntegerField(default=0)
    n_prompts = models.PositiveIntegerField(default=0)
    last_vote_id = models.BigIntegerField(default=0)
    settings = models.JSONField(default=dict)
    choix_difference = models.FloatField(
        null=True, help_text="Largest difference in Elo from choix, the second opinion."
    )
    interval_reason = models.TextField(blank=True, help_text="Why there are no intervals.")
    seconds = models.FloatField(default=0)
    measured_digest = models.CharField(
        max_length=64, blank=True, help_text="The digest of what the intervals are based on."
    )
    measured_at = models.DateTimeField(null=True, blank=True)
    measured_seconds = models.FloatField(
        default=0, help_text="How long it took to compute the intervals."
    )
    measured_votes = models.PositiveIntegerField(
        default=0, help_text="Votes that the intervals are based on."
    )
    findings = models.JSONField(
        default=dict, help_text="What else was computed with the intervals."
    )
    elo_claimed_until = models.DateTimeField(null=True, blank=True)
    elo_interval_votes = models.PositiveIntegerField(
        default=0, help_text="Votes that the Elo intervals are based on."
    )
    elo_intervals_at = models.DateTimeField(null=True, blank=True)

    objects = SnapshotQuerySet.as_manager()

    class Meta:
        constraints = [
            unique("snapshot_one_current", "board", where=Q(is_current=True)),
        ]
        indexes = [
            index("snapshot_newest_of_board", "board", "-published_at"),
        ]

    def __str__(self) -> str:
        return f"board {self.board_id} at {self.published_at:%Y-%m-%d %H:%M:%S}"

    @property
    def intervals_due_at(self) -> datetime:
        """When newer intervals are due."""
        assert self.measured_at is not None
        if self.measured_seconds < QUICK_SECONDS:
            return self.measured_at
        return self.measured_at + timedelta(seconds=REST_FACTOR * self.measured_seconds)

    @property
    def center(self) -> float:
        """The mean of its scores: what an anchor has moved them by is the difference from 1000."""
        return float(self.settings.get("center", MEAN))

    @property
    def anchor(self) -> Anchor | None:
        """The candidate that should fix its scale, whether or not it does."""
        stored = self.settings.get("anchor")
        return Anchor(stored["candidate"], stored["score"]) if stored else None

    def moves(self, past: Sequence[int]) -> dict[int, float]:
        """By how much the scores of `past` snapshots of its board (ids, oldest first) are moved
        where they are shown beside its own.

        Where the anchor had no score yet, the scale is that of the next snapshot in which it has.
        """
        centers = dict(Snapshot.objects.filter(pk__in=past).values_list("pk", "settings__center"))
        anchor, scores = self.anchor, dict[int, float]()
        if anchor and not self.settings["anchor"]["reason"]:
            rows = Standing.objects.filter(candidate=anchor.candidate, snapshot__in=past)
            known = rows.values_list("snapshot", "score")
            scores = {pk: score for pk, score in known if score is not None}
        center, found = self.center, {}
        for pk in reversed(past):
            own = MEAN if centers.get(pk) is None else centers[pk]
            if anchor and pk in scores:
                center = own + anchor.score - scores[pk]
            found[pk] = center - own
        return found

    @property
    def lacks_votes(self) -> bool:
        """Whether there are too few votes or prompts for a ranking. A clear leader is enough."""
        is_enough = self.settings.get("evidence", {}).get("enough", True)
        return not is_enough and (self.findings or {}).get("leader") is None


class SnapshotMatrices(models.Model):
    """The input for comparing two candidates: votes per pair, and the scores' covariance."""

    snapshot = models.OneToOneField(Snapshot, models.CASCADE, related_name="matrices")
    cells = models.BinaryField(help_text="The votes per pair that the scores are based on.")
    candidates = models.BinaryField(
        help_text="int64: (R,) the ids of the candidates in the covariance."
    )
    covariance = models.BinaryField(help_text="float32: (R, R) of the scores, in Elo squared.")

    class Meta:
        verbose_name_plural = "snapshot matrices"

    def __str__(self) -> str:
        return f"of snapshot {self.snapshot_id}"

    @classmethod
    def of(cls, pairs: PairCounts, candidates: Ints, covariance: Floats) -> "SnapshotMatrices":
        """Not saved yet. `candidates`: (R,) ids, ascending; `covariance`: (R, R)."""
        return cls(
            cells=pairs.pack(),
            candidates=candidates.astype("<i8").tobytes(),
            covariance=covariance.astype("<f4").tobytes(),
        )

    @property
    def pairs(self) -> PairCounts:
        """The votes per pair."""
        return PairCounts.of_bytes(bytes(self.cells))

    @property
    def ids(self) -> Ints:
        """(R,) the ids of the candidates ranked when the intervals were made, ascending."""
        return np.frombuffer(bytes(self.candidates), "<i8").astype(np.int64)

    @property
    def scores_covariance(self) -> Floats:
        """(R, R) in Elo squared."""
        size = len(self.ids)
        stored = np.frombuffer(bytes(self.covariance), "<f4").astype(np.float64)
        return stored.reshape(size, size)

    def covariance_among(self, candidates: Ints) -> Floats:
        """(K, K) in Elo squared for K candidates, ids ascending; NaN where it is unknown."""
        ids = self.ids
        # Candidates may have left the board since the intervals were made.
        shared = np.isin(ids, candidates)
        at = np.searchsorted(candidates, ids[shared])
        wide = np.full((len(candidates),) * 2, np.nan)
        wide[np.ix_(at, at)] = self.scores_covariance[np.ix_(shared, shared)]
        return wide


class Standing(models.Model):
    """One candidate's row in a snapshot.

    `score` is NULL if no finite one describes the candidate, and `rank` is NULL while it has no
    place.
    """

    snapshot = models.ForeignKey(Snapshot, models.CASCADE, related_name="standings")
    candidate = models.ForeignKey(Candidate, models.CASCADE, related_name="standings")
    rank = models.PositiveIntegerField(null=True)
    rank_low = models.PositiveIntegerField(null=True)
    rank_high = models.PositiveIntegerField(null=True)
    sure_rank_low = models.PositiveIntegerField(
        null=True, help_text="The best possible rank, simultaneously for all candidates."
    )
    sure_rank_high = models.PositiveIntegerField(null=True)
    score = models.FloatField(null=True)
    low = models.FloatField(null=True)
    high = models.FloatField(null=True)
    standard_error = models.FloatField(null=True)
    shrunk = models.FloatField(
        null=True, help_text="Shrunk towards the average; nothing else is based on it."
    )
    shrunk_low = models.FloatField(null=True)
    shrunk_high = models.FloatField(null=True)
    elo = models.FloatField(null=True)
    votes = models.PositiveIntegerField(default=0)
    wins = models.PositiveIntegerField(default=0)
    losses = models.PositiveIntegerField(default=0)
    ties = models.PositiveIntegerField(default=0)
    win_rate = models.FloatField(null=True)
    both_bad_rate = models.FloatField(null=True)
    status = models.CharField(max_length=20)
    reason = models.CharField(max_length=300, blank=True)

    class Meta:
        constraints = [
            unique("standing_once_per_candidate", "snapshot", "candidate"),
            check("standing_with_a_score_is_ranked", Q(score__isnull=True) | Q(rank__isnull=False)),
            check(
                "standing_shrunk_inside_its_interval",
                Q(shrunk=None, shrunk_low=None, shrunk_high=None)
                | Q(shrunk_low__lte=F("shrunk"), shrunk_high__gte=F("shrunk")),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.candidate_id} in {self.snapshot_id}"


class EloInterval(models.Model):
    """The 95 % interval of a standing's Elo rating, computed after publishing because it takes
    long."""

    standing = models.OneToOneField(Standing, models.CASCADE, related_name="elo_interval")
    low = models.FloatField()
    high = models.FloatField()

    def __str__(self) -> str:
        return f"{self.low:.0f} to {self.high:.0f}"
