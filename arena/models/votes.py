"""Votes, and the reasons for them."""

from uuid import UUID

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.crypto import salted_hmac

from arena import outcomes
from arena.models.arenas import Arena
from arena.models.comparisons import Comparison
from arena.models.constraints import check, index, unique
from arena.models.imports import REVEALED, Sourced
from arena.models.raters import Rater
from arena.models.runs import Run
from arena.outcomes import UNCOUNTED_LABELS, Uncounted
from arena.validation import TAG_LIMIT


class VoteChannel(models.TextChoices):
    """How a vote came in. Votes of judges and juries have none."""

    BROWSER = "browser", "Anonymous browser"
    SIGNED_IN = "signed_in", "Signed-in person"
    INVITED = "invited", "Member of the team"
    TOKEN = "token", "Team's token"
    FILE = "file", "File"


class Outcome(models.TextChoices):
    LEFT = outcomes.LEFT, outcomes.LABELS[outcomes.LEFT]
    RIGHT = outcomes.RIGHT, outcomes.LABELS[outcomes.RIGHT]
    TIE = outcomes.TIE, outcomes.LABELS[outcomes.TIE]
    BOTH_BAD = outcomes.BOTH_BAD, outcomes.LABELS[outcomes.BOTH_BAD]


# Exactly the conditions of the partial indexes, so that finding such votes among millions is cheap.
TO_LOG = Q(logged=False, voided_at__isnull=True, uncounted__isnull=True)
TO_UNLOG = Q(logged=True) & (Q(voided_at__isnull=False) | Q(uncounted__isnull=False))
HELD = Q(hold__isnull=False)
# Anonymous votes, and those of accounts that have proven nothing: anybody can create another of
# either.
OF_NETWORKS = Q(channel__in=[VoteChannel.BROWSER, VoteChannel.SIGNED_IN], verified=False) & ~Q(
    network=""
)


class VoteQuerySet(models.QuerySet["Vote"]):
    def cast(self) -> "VoteQuerySet":
        """All votes, whether or not they count, except those of an import that is still hidden."""
        return self.filter(REVEALED)

    def revealed(self) -> "VoteQuerySet":
        """Votes that are not voided, and not from an import that is still hidden."""
        return self.cast().filter(voided_at=None)

    def live(self) -> "VoteQuerySet":
        """Votes that count: neither voided nor left out, and not from a hidden import."""
        return self.revealed().filter(uncounted=None)

    def listed(self) -> "VoteQuerySet":
        """Votes that may be listed with names: while an order hides names, not its own."""
        return self.exclude(comparison__run__in=Run.objects.hiding_names())

    def known_to_rater(self) -> "VoteQuerySet":
        """Votes that may be listed to their own rater with names."""
        return self.listed().filter(names_withheld=False)

    def of_networks(self) -> "VoteQuerySet":
        """Votes whose weight a network's cap limits."""
        return self.filter(OF_NETWORKS)

    def to_log(self) -> "VoteQuerySet":
        """Votes cast here that count although the log does not say so.

        Those of an order that hides names wait until it ends: raters would find their own vote in
        the log by its time, and with it the names.
        """
        return self.filter(TO_LOG, source__isnull=True).listed()

    def to_log_again(self) -> "VoteQuerySet":
        """Votes of a file that count again, since the log had all of the file."""
        return self.filter(TO_LOG, source__isnull=False, source__logged_at__isnull=False)

    def to_unlog(self) -> "VoteQuerySet":
        """Votes that were voided or left out although the log says that they count."""
        return self.filter(TO_UNLOG).filter(Q(source=None) | Q(source__logged_at__isnull=False))

    def of_people(self) -> "VoteQuerySet":
        return self.filter(rater__kind=Rater.Kind.PERSON)


class Vote(Sourced):
    """A rater's outcome for a comparison. Append-only: voided with a reason, never edited.

    `preference`, if given, is a soft verdict: the probability that the left answer is better. Then
    `preference` is the vote's score, and `outcome` is the side that it leans to.
    """

    # Indexes on these keys alone would slow votes down; the ones below begin with arena and rater.
    arena = models.ForeignKey(Arena, models.CASCADE, related_name="votes", db_index=False)
    comparison = models.ForeignKey(Comparison, models.CASCADE, related_name="votes")
    rater = models.ForeignKey(Rater, models.CASCADE, related_name="votes", db_index=False)
    outcome = models.CharField(max_length=8, choices=outcomes.choices)
    preference = models.FloatField(null=True, blank=True)
    cast_at = models.DateTimeField(db_default=Now())
    voided_at = models.DateTimeField(null=True, blank=True)
    void_reason = models.CharField(max_length=200, blank=True)
    channel = models.CharField(max_length=10, choices=VoteChannel, blank=True, db_default="")
    verified = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Had the rater confirmed an address, used single sign-on or been invited?",
    )
    seconds = models.FloatField(
        null=True,
        blank=True,
        help_text="How long the pair was open, at most the time since it was issued.",
    )
    rushed = models.BooleanField(default=False, db_default=False)
    network = models.CharField(
        max_length=16, blank=True, db_default="", help_text="A keyed hash of the rater's network."
    )
    names_withheld = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Was this one vote too many for its network to see who wrote the answers?",
    )
    # NULL, because SQLite uses a partial index only for a condition without parameters.
    uncounted = models.CharField(
        max_length=8,
        choices=[(reason.value, UNCOUNTED_LABELS[reason]) for reason in Uncounted],
        null=True,
        blank=True,
    )
    hold = models.ForeignKey(
        "Hold", models.PROTECT, null=True, blank=True, related_name="votes", db_index=False
    )
    details = models.JSONField(
        null=True,
        blank=True,
        help_text="Other fields from the vote's file, such as ids and cost.",
    )
    logged = models.BooleanField(
        default=False,
        db_default=False,
        editable=False,
        help_text="Whether the arena's log says that this vote counts.",
    )

    objects = VoteQuerySet.as_manager()

    class Meta(Sourced.Meta):
        constraints = [
            *Sourced.Meta.constraints,
            unique(
                "vote_one_live_per_rater_and_comparison",
                "comparison",
                "rater",
                where=Q(voided_at__isnull=True),
            ),
            check("vote_outcome_known", Q(outcome__in=list(outcomes.OUTCOMES))),
            check(
                "vote_preference_in_range",
                Q(preference__isnull=True) | Q(preference__gte=0, preference__lte=1),
            ),
            check("vote_voided_with_a_reason", Q(voided_at__isnull=True) | ~Q(void_reason="")),
            check("vote_channel_known", Q(channel__in=["", *VoteChannel.values])),
            check("vote_seconds_not_negative", Q(seconds__isnull=True) | Q(seconds__gte=0)),
            check(
                "vote_uncounted_known",
                Q(uncounted__isnull=True) | Q(uncounted__in=list(Uncounted)),
            ),
            check("vote_rushed_does_not_count", Q(rushed=False) | Q(uncounted__isnull=False)),
            check(
                "vote_held_by_a_hold",
                Q(hold__isnull=True, uncounted__isnull=True)
                | Q(hold__isnull=True) & ~Q(uncounted="held")
                | Q(hold__isnull=False, uncounted="held"),
            ),
        ]
        indexes = [
            index("vote_newest_of_arena", "arena", "id"),
            index("vote_of_rater", "rater", "arena"),
            index("vote_to_log", "arena", "id", where=TO_LOG & Q(source__isnull=True)),
            # Apart, because all votes of a running import are in it.
            index("vote_to_log_again", "source", where=TO_LOG & Q(source__isnull=False)),
            index("vote_to_take_off_log", "arena", "id", where=TO_UNLOG),
            index("vote_held", "hold", where=HELD),
            index(
                "vote_that_does_not_count", "arena", "uncounted", where=Q(uncounted__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.outcome} by {self.rater_id}"

    @property
    def state(self) -> str:
        """Whether the vote counts: `counted`, `voided`, or why it is left out."""
        return "voided" if self.voided_at else self.uncounted or "counted"

    @property
    def hides_names(self) -> bool:
        """Whether its rater may not see who wrote the answers, perhaps not yet."""
        return self.names_withheld or self.comparison.hides_names

    @property
    def public_key(self) -> str:
        """The key of its comparison in published lists. Where the names are withheld it is another
        one, because the rater knows the comparison's."""
        if not self.names_withheld:
            return str(self.comparison.key)
        digest = salted_hmac("arena.withheld", str(self.comparison.key), algorithm="sha256")
        return str(UUID(bytes=digest.digest()[:16], version=4))


class Reason(models.Model):
    """Why a rater voted this way: a tag about one of the answers, or a comment on both."""

    BOTH = "both"

    vote = models.ForeignKey(Vote, models.CASCADE, related_name="reasons")
    side = models.CharField(max_length=5)
    tag = models.CharField(max_length=TAG_LIMIT, blank=True)
    comment = models.TextField(blank=True)

    class Meta:
        constraints = [
            unique("reason_once_per_vote", "vote", "side", "tag"),
            check(
                "reason_is_a_tag_of_a_side_or_a_comment",
                Q(side__in=[outcomes.LEFT, outcomes.RIGHT], comment="") & ~Q(tag="")
                | Q(side="both", tag="") & ~Q(comment=""),
            ),
        ]

    def __str__(self) -> str:
        return self.tag or self.comment
