"""Running tallies: what the votes of an arena add up to, so that a refresh need not read them.

A vote is in all of them or in none (`Vote.tallied`, `Import.tallied_row`): one transaction moves
both. See `ranking.services.tallying`.
"""

import time

from django.db import models
from django.db.models import Exists, OuterRef, Q

from arena.models import Arena, Prompt, Rater
from ranking.models.boards import Board, Raters


class Tallied(models.TextChoices):
    """Whose votes a tally adds up: of all that vote, and of those among them that are trusted."""

    PEOPLE = Raters.PEOPLE.value, Raters.PEOPLE.label
    JUDGES = Raters.JUDGES.value, Raters.JUDGES.label
    JURIES = Raters.JURIES.value, Raters.JURIES.label
    TRUSTED_JUDGES = "trusted_judges", "Trusted judges"
    TRUSTED_JURIES = "trusted_juries", "Trusted juries"


def first_version() -> int:
    """A number that no tally of the same question had before, should one have been deleted."""
    return time.time_ns() // 1000


class Tally(models.Model):
    """The votes of one question (raters, category) per pair of candidates: what scores need."""

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="tallies")
    raters = models.CharField(max_length=20, choices=Tallied)
    category = models.CharField(max_length=100, blank=True)
    version = models.BigIntegerField(
        default=first_version, help_text="Moves whenever the votes do, and is never had twice."
    )
    cells = models.BinaryField()
    n_raters = models.PositiveIntegerField(default=0)
    n_prompts = models.PositiveIntegerField(default=0)
    last_vote_id = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["arena", "raters", "category"], name="tally_once_per_question"
            ),
        ]
        verbose_name_plural = "tallies"

    def __str__(self) -> str:
        return f"{self.arena_id}: {self.raters}, {self.category or 'all categories'}"


class TallyMemberQuerySet(models.QuerySet["TallyMember"]):
    def trusted(self) -> "TallyMemberQuerySet":
        """Judges and juries that have voted in an arena and are trusted."""
        of_all = {"tally__raters__in": [Tallied.JUDGES, Tallied.JURIES], "tally__category": ""}
        return self.filter(**of_all, rater__trusted_at__isnull=False)

    def newly_trusted(self) -> "TallyMemberQuerySet":
        """Those whose votes the tallies of the trusted do not count yet."""
        known = TalliedTrust.objects.filter(arena=OuterRef("tally__arena"), rater=OuterRef("rater"))
        return self.trusted().filter(~Exists(known))


class TallyMember(models.Model):
    """How many votes of a question one rater cast, or one prompt got: to count who took part."""

    tally = models.ForeignKey(Tally, models.CASCADE, related_name="members")
    rater = models.ForeignKey(Rater, models.CASCADE, null=True, related_name="+")
    prompt = models.ForeignKey(Prompt, models.CASCADE, null=True, related_name="+")
    n_votes = models.IntegerField()

    objects = TallyMemberQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["tally", "rater"], name="tally_member_rater_once"),
            models.UniqueConstraint(fields=["tally", "prompt"], name="tally_member_prompt_once"),
            models.CheckConstraint(
                condition=Q(rater__isnull=True) ^ Q(prompt__isnull=True),
                name="tally_member_rater_or_prompt",
            ),
            models.CheckConstraint(
                condition=Q(n_votes__gte=0), name="tally_member_votes_not_negative"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.n_votes} votes"


class TalliedTrustQuerySet(models.QuerySet["TalliedTrust"]):
    def withdrawn(self) -> "TalliedTrustQuerySet":
        """Those that are trusted no more."""
        return self.filter(rater__trusted_at=None)


class TalliedTrust(models.Model):
    """A judge or jury whose votes the tallies of the trusted count, all that are tallied.

    Only whoever folds changes it, together with those tallies: `Rater.trusted_at` says what should
    be, this what is. See `ranking.services.trusting`.
    """

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="tallied_trust")
    rater = models.ForeignKey(Rater, models.CASCADE, related_name="+")

    objects = TalliedTrustQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["arena", "rater"], name="tallied_trust_once"),
        ]
        verbose_name_plural = "tallied trust"

    def __str__(self) -> str:
        return f"{self.arena_id}: {self.rater}"


class ClusterTally(models.Model):
    """The votes on one prompt (of one rater, where the prompt is not known), per pair: what
    clustered intervals need. Behind the tallies by what `TallyDelta` still holds."""

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="cluster_tallies")
    raters = models.CharField(max_length=20, choices=Tallied)
    prompt = models.ForeignKey(Prompt, models.CASCADE, null=True, related_name="+")
    rater = models.ForeignKey(Rater, models.CASCADE, null=True, related_name="+")
    cells = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["arena", "raters", "prompt"], name="cluster_tally_prompt_once"
            ),
            models.UniqueConstraint(
                fields=["arena", "raters", "rater"], name="cluster_tally_rater_once"
            ),
            models.CheckConstraint(
                condition=Q(rater__isnull=True) ^ Q(prompt__isnull=True),
                name="cluster_tally_prompt_or_rater",
            ),
        ]
        verbose_name_plural = "cluster tallies"

    def __str__(self) -> str:
        return f"{self.arena_id}: {self.raters}, {self.prompt_id or self.rater_id}"


class TallyDelta(models.Model):
    """Votes that the tallies per pair count already and the tallies per cluster not yet.

    Rewriting the row of every prompt for each refresh would cost more the larger an arena grows;
    so refreshes add rows here, and whoever wants intervals merges them first.
    """

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="tally_deltas")
    raters = models.CharField(max_length=20, choices=Tallied)
    n_cells = models.PositiveIntegerField()
    cells = models.BinaryField()

    class Meta:
        indexes = [models.Index(fields=["arena", "raters"], name="tally_delta_of_arena")]

    def __str__(self) -> str:
        return f"{self.arena_id}: {self.raters}, {self.n_cells} cells"


class EloCheckpoint(models.Model):
    """The Elo ratings of a board after all its votes up to one: a voided vote replays the tail."""

    board = models.ForeignKey(Board, models.CASCADE, related_name="elo_checkpoints")
    vote_id = models.BigIntegerField()
    n_votes = models.PositiveIntegerField()
    settings = models.CharField(max_length=100)
    candidates = models.BinaryField(help_text="int64: the ids of the candidates met so far.")
    ratings = models.BinaryField(help_text="float64: their ratings, in the same order.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["board", "vote_id"], name="elo_checkpoint_once"),
        ]

    def __str__(self) -> str:
        return f"board {self.board_id} after vote {self.vote_id}"
