"""Raters, the comparisons issued to them, their votes, and the pairs to show next."""

import uuid
from datetime import datetime

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.urls import reverse

from arena import outcomes
from arena.models.arenas import Arena
from arena.models.candidates import Candidate
from arena.models.imports import REVEALED, Sourced
from arena.models.prompts import Prompt
from arena.models.responses import Response
from arena.models.runs import Run
from arena.models.teams import check, index, unique
from arena.validation import TAG_LIMIT


class Rater(models.Model):
    """A voter: a person (signed in, anonymous or named by a file or program), judge or jury."""

    class Kind(models.TextChoices):
        PERSON = "person", "Person"
        JUDGE = "judge", "Judge"
        JURY = "jury", "Jury"

    kind = models.CharField(max_length=10, choices=Kind)
    name = models.CharField(max_length=200, blank=True)
    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="rater"
    )
    arena = models.ForeignKey(
        Arena,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        help_text="Set for raters from a file: their names are unique only there.",
    )
    created_at = models.DateTimeField(db_default=Now())
    blocked_at = models.DateTimeField(null=True, blank=True)
    trusted_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="When this judge or jury became trusted to narrow the intervals of human votes "
        "in arenas where it was not measured.",
    )

    class Meta:
        constraints = [
            unique(
                "rater_name_once_per_arena", "arena", "kind", "name", where=Q(arena__isnull=False)
            ),
            check("rater_kind_known", Q(kind__in=["person", "judge", "jury"])),
        ]

    def __str__(self) -> str:
        return self.name or f"rater {self.pk}"


class ArenaTrust(models.Model):
    """Whether a judge or jury that was measured in an arena is trusted there.

    In that arena it takes precedence over `Rater.trusted_at`.
    """

    rater = models.ForeignKey(Rater, models.CASCADE, related_name="trust")
    arena = models.ForeignKey(Arena, models.CASCADE, related_name="+")
    trusted = models.BooleanField()
    decided_at = models.DateTimeField()

    class Meta:
        constraints = [
            unique("arena_trust_once", "arena", "rater"),
        ]
        verbose_name_plural = "trust in arenas"

    def __str__(self) -> str:
        return f"{self.rater} in {self.arena_id}: {'trusted' if self.trusted else 'not trusted'}"


# -- Comparisons and votes -------------------------------------------------------------------------


class VoteChannel(models.TextChoices):
    """How a vote came in. Votes of judges and juries have none."""

    BROWSER = "browser", "Anonymous browser"
    SIGNED_IN = "signed_in", "Signed-in person"
    INVITED = "invited", "Member of the team"
    TOKEN = "token", "Team's token"
    FILE = "file", "File"


class Uncounted(models.TextChoices):
    """Why a vote that is not voided does not count."""

    RUSHED = "rushed", "Cast faster than anyone can read"
    CHANNEL = "channel", "Cast with a team's token"
    NAMED = "named", "An answer reveals its author"
    TIER = "tier", "Its rater’s votes do not count here"
    HELD = "held", "Held for review"
    REPEAT = "repeat", "Asked twice"
    CHOSEN = "chosen", "Its rater chose the pair"


class Outcome(models.TextChoices):
    LEFT = outcomes.LEFT, outcomes.LABELS[outcomes.LEFT]
    RIGHT = outcomes.RIGHT, outcomes.LABELS[outcomes.RIGHT]
    TIE = outcomes.TIE, outcomes.LABELS[outcomes.TIE]
    BOTH_BAD = outcomes.BOTH_BAD, outcomes.LABELS[outcomes.BOTH_BAD]


class ComparisonQuerySet(models.QuerySet["Comparison"]):
    def open(self, now: datetime) -> "ComparisonQuerySet":
        """Comparisons still waiting for their rater: not skipped, not expired, never voted on."""
        return self.filter(Q(expires_at__gt=now), skipped_at=None, votes__isnull=True)

    def with_texts(self) -> "ComparisonQuerySet":
        """Load everything that a page shows about a comparison in one query."""
        return self.select_related(
            "arena", "prompt", "left", "right", "left_response", "right_response"
        )


class Comparison(Sourced):
    """One prompt and two candidates' responses, sides fixed, issued to one rater.

    The candidates are stored next to the responses because every fit reads them, and because an
    arena without texts has no responses. Pages identify a comparison by `key` alone: its id would
    reveal the order in which comparisons were made.
    """

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    arena = models.ForeignKey(Arena, models.CASCADE, related_name="comparisons")
    rater = models.ForeignKey(Rater, models.CASCADE, related_name="comparisons")
    prompt = models.ForeignKey(Prompt, models.CASCADE, null=True, blank=True, related_name="+")
    left = models.ForeignKey(Candidate, models.CASCADE, related_name="+")
    right = models.ForeignKey(Candidate, models.CASCADE, related_name="+")
    left_response = models.ForeignKey(
        Response, models.CASCADE, null=True, blank=True, related_name="+"
    )
    right_response = models.ForeignKey(
        Response, models.CASCADE, null=True, blank=True, related_name="+"
    )
    run = models.ForeignKey(Run, models.SET_NULL, null=True, blank=True, related_name="comparisons")
    draw_probability = models.FloatField(null=True, blank=True)
    names_itself = models.BooleanField(default=False)
    # Rare, so the constraint's partial index is better than one of all comparisons.
    repeats = models.ForeignKey(
        "self",
        models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        db_index=False,
        help_text="The comparison that its rater is asked about again; this vote never counts.",
    )
    issued_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    skipped_at = models.DateTimeField(null=True, blank=True)

    objects = ComparisonQuerySet.as_manager()

    class Meta(Sourced.Meta):
        constraints = [
            *Sourced.Meta.constraints,
            check("comparison_of_two_candidates", ~Q(left=F("right"))),
            check(
                "comparison_of_two_responses_or_none",
                Q(left_response__isnull=True, right_response__isnull=True)
                | Q(left_response__isnull=False, right_response__isnull=False)
                & ~Q(left_response=F("right_response")),
            ),
            check(
                "comparison_draw_probability_in_range",
                Q(draw_probability__isnull=True)
                | Q(draw_probability__gt=0, draw_probability__lte=1),
            ),
            unique("comparison_repeated_once", "repeats", where=Q(repeats__isnull=False)),
        ]

    def __str__(self) -> str:
        return str(self.key)

    def get_absolute_url(self) -> str:
        return reverse("comparison", args=[self.arena.slug, self.key])

    @property
    def hides_names(self) -> bool:
        """Whether its rater may not see the names yet, because others have not voted yet."""
        return self.run is not None and self.run.hides_names and not self.run.is_over


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
    # NULL, because SQLite uses a partial index only for a condition without parameters.
    uncounted = models.CharField(max_length=8, choices=Uncounted, null=True, blank=True)
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
                Q(uncounted__isnull=True) | Q(uncounted__in=Uncounted.values),
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


class HoldQuerySet(models.QuerySet["Hold"]):
    def open(self) -> "HoldQuerySet":
        """Holds that are still undecided."""
        return self.filter(state=Hold.State.HELD)


class Hold(models.Model):
    """Votes of one rater or one network that are set aside until an operator has reviewed them.

    The evidence stays as it was found. The votes stay too; they count nowhere until they are
    released, and then exactly as before.
    """

    class State(models.TextChoices):
        HELD = "held", "Held"
        RELEASED = "released", "Released"
        VOIDED = "voided", "Voided"

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="holds")
    rater = models.ForeignKey(Rater, models.CASCADE, null=True, blank=True, related_name="holds")
    network = models.CharField(max_length=16, blank=True)
    state = models.CharField(max_length=8, choices=State, default=State.HELD)
    test = models.CharField(max_length=12, help_text="The test that found it.")
    evidence = models.JSONField(help_text="What the test found; the page explains it.")
    last_vote_id = models.BigIntegerField(help_text="The newest vote that the test examined.")
    held_at = models.DateTimeField()
    objection = models.TextField(blank=True)
    objected_at = models.DateTimeField(null=True, blank=True)
    decided_at = models.DateTimeField(null=True, blank=True)
    decided_by = models.CharField(max_length=200, blank=True)
    reason = models.CharField(max_length=200, blank=True)
    n_votes = models.PositiveIntegerField(default=0, help_text="Votes held so far.")

    objects = HoldQuerySet.as_manager()

    class Meta:
        constraints = [
            check("hold_of_rater_or_network", Q(rater__isnull=True) ^ Q(network="")),
            check(
                "hold_decided_with_a_reason",
                Q(state="held", decided_at__isnull=True)
                | Q(state__in=["released", "voided"], decided_at__isnull=False) & ~Q(reason=""),
            ),
            unique(
                "hold_one_open_per_rater",
                "arena",
                "rater",
                where=Q(state="held", rater__isnull=False),
            ),
            unique(
                "hold_one_open_per_network",
                "arena",
                "network",
                where=Q(state="held") & ~Q(network=""),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.rater or 'network ' + self.network[:6]}: {self.test}"


class NetworkKey(models.Model):
    """The key of the hashes of networks, for 30 days; then it is replaced and deleted."""

    period = models.PositiveIntegerField(
        primary_key=True, help_text="Number of the 30-day period since 1970."
    )
    key = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"period {self.period}"


# -- Pairs and demands -----------------------------------------------------------------------------


class Pair(models.Model):
    """Two candidates of an arena, lower id first, with their weight in draws.

    `low_left` and `high_left` count the comparisons issued with each candidate on the left; they
    never differ by more than `sql.MOST_UNEVEN`. `low_went_left`: the sides of the latest one.
    """

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="pairs")
    low = models.ForeignKey(Candidate, models.CASCADE, related_name="+", db_index=False)
    high = models.ForeignKey(Candidate, models.CASCADE, related_name="+")
    shared_prompts = models.PositiveIntegerField(default=0)
    weight = models.FloatField(default=1.0)
    low_left = models.PositiveIntegerField(default=0)
    high_left = models.PositiveIntegerField(default=0)
    low_went_left = models.BooleanField(default=False)

    class Meta:
        constraints = [
            unique("pair_once", "low", "high"),
            check("pair_lower_id_first", Q(low__lt=F("high"))),
            check("pair_weight_not_negative", Q(weight__gte=0)),
        ]

    def __str__(self) -> str:
        return f"{self.low_id} and {self.high_id}"


class RunRater(models.Model):
    """A person named in a run of human votes, with their progress as of its last reconciliation.

    Only the named raters get the run's pairs, and each of them gets all. `repeats_same` counts the
    pairs asked twice (`repeats_done`) on which both votes were the same.
    """

    run = models.ForeignKey(Run, models.CASCADE, related_name="raters")
    rater = models.ForeignKey(Rater, models.CASCADE, related_name="+")
    votes_wanted = models.PositiveIntegerField(default=0)
    votes_done = models.PositiveIntegerField(default=0)
    repeats_done = models.PositiveIntegerField(default=0)
    repeats_same = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            unique("rater_named_once_per_run", "run", "rater"),
            check("run_rater_agrees_on_repeats_alone", Q(repeats_same__lte=F("repeats_done"))),
        ]

    def __str__(self) -> str:
        return f"{self.rater} in run {self.run_id}"


class PairDemandQuerySet(models.QuerySet["PairDemand"]):
    def open(self, arena: Arena, rater: Rater) -> "PairDemandQuerySet":
        """What is demanded of `rater`: by name, or of anybody."""
        return self.filter(Q(rater=None) | Q(rater=rater), arena=arena, remaining__gt=0)


class PairDemand(models.Model):
    """A pair to show `remaining` more times: for a run, or because a vote was undone.

    With `rater`, only to them; with `repeats`, the answers of that comparison once more.
    """

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="demands")
    pair = models.ForeignKey(Pair, models.CASCADE, related_name="demands")
    run = models.ForeignKey(Run, models.CASCADE, null=True, blank=True, related_name="demands")
    rater = models.ForeignKey(Rater, models.CASCADE, null=True, blank=True, related_name="+")
    prompt = models.ForeignKey(Prompt, models.CASCADE, null=True, blank=True, related_name="+")
    repeats = models.OneToOneField(
        Comparison, models.CASCADE, null=True, blank=True, related_name="+"
    )
    draw_probability = models.FloatField(null=True, blank=True)
    remaining = models.PositiveIntegerField()

    objects = PairDemandQuerySet.as_manager()

    class Meta:
        constraints = [
            unique("demand_once_per_run_and_pair", "run", "pair", where=Q(rater__isnull=True)),
            unique(
                "demand_once_per_run_pair_and_rater",
                "run",
                "pair",
                "rater",
                where=Q(rater__isnull=False, repeats__isnull=True),
            ),
        ]
        indexes = [
            index("demand_still_open", "arena", where=Q(remaining__gt=0)),
        ]

    def __str__(self) -> str:
        return f"{self.pair_id} x {self.remaining}"
