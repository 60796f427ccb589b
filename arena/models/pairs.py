"""The pairs to show next: their weights, and the runs that demand them."""

from django.db import models
from django.db.models import F, Q

from arena.models.arenas import Arena
from arena.models.candidates import Candidate
from arena.models.comparisons import Comparison
from arena.models.constraints import check, index, unique
from arena.models.prompts import Prompt
from arena.models.raters import Rater
from arena.models.runs import Run


class Pair(models.Model):
    """Two candidates of an arena, lower id first, with their weight in draws.

    `first`, `order` and `newcomers` are the parts of the weight that ask who is first, what the
    order of other candidates is, and how good newcomers are; the rest is everybody's even share.
    `low_left` and `high_left` count the comparisons issued with each candidate on the left; they
    never differ by more than `sql.MOST_UNEVEN`. `low_went_left`: the sides of the latest one.
    """

    arena = models.ForeignKey(Arena, models.CASCADE, related_name="pairs")
    low = models.ForeignKey(Candidate, models.CASCADE, related_name="+", db_index=False)
    high = models.ForeignKey(Candidate, models.CASCADE, related_name="+")
    shared_prompts = models.PositiveIntegerField(default=0)
    weight = models.FloatField(default=1.0)
    first = models.FloatField(default=0.0)
    order = models.FloatField(default=0.0)
    newcomers = models.FloatField(default=0.0)
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
