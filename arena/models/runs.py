"""Runs: batches of votes or answers, and what they cost."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from arena.models.arenas import Arena
from arena.models.candidates import Candidate
from arena.models.constraints import check
from arena.models.teams import Team


class RunQuerySet(models.QuerySet["Run"]):
    def to_count(self) -> "RunQuerySet":
        """Judge runs whose votes are all cast, but may be on no leaderboard yet."""
        return self.filter(kind="judge", state="done", counted_at=None)

    def of_people(self) -> "RunQuerySet":
        return self.filter(kind=Run.Kind.PERSON)

    def of_calls(self) -> "RunQuerySet":
        """Runs whose calls workers make."""
        return self.filter(kind__in=[Run.Kind.JUDGE, Run.Kind.ANSWERS])

    def of_answers(self) -> "RunQuerySet":
        return self.filter(kind=Run.Kind.ANSWERS)

    def unfinished(self) -> "RunQuerySet":
        return self.filter(state__in=[Run.State.ORDERED, Run.State.OPEN])

    def not_over(self) -> "RunQuerySet":
        """Unfinished runs whose caps are still reserved; paused ones may be resumed."""
        return self.exclude(state__in=[Run.State.DONE, Run.State.CANCELLED])

    def hiding_names(self) -> "RunQuerySet":
        """Runs whose raters may not see names yet, because some of them have not voted yet."""
        return self.not_over().filter(hides_names=True)


class Run(models.Model):
    """A batch of votes, `per_pair` for each pair, or of one candidate's answers.

    A run without an arena tests judges on labelled items. The budget of `team` pays. Money is in
    nano-dollars: `settled` is what servers billed, `reserved` is held for requests under way, and
    `uncertain` is the most that interrupted requests may have cost. Their sum never exceeds `cap`
    (null: no money is spent).
    """

    class Kind(models.TextChoices):
        PERSON = "person", "People"
        JUDGE = "judge", "Judges"
        ANSWERS = "answers", "Answers"
        LIVE = "live", "Live questions"

    class State(models.TextChoices):
        ORDERED = "ordered", "Ordered"
        OPEN = "open", "Open"
        PAUSED = "paused", "Paused"
        DONE = "done", "Done"
        CANCELLED = "cancelled", "Cancelled"

    arena = models.ForeignKey(Arena, models.CASCADE, null=True, blank=True, related_name="runs")
    kind = models.CharField(max_length=10, choices=Kind)
    candidate = models.ForeignKey(
        Candidate, models.CASCADE, null=True, blank=True, related_name="runs"
    )
    hides_names = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Whether names are hidden from its raters until all of them have voted.",
    )
    repeats = models.PositiveSmallIntegerField(
        default=0, db_default=0, help_text="How many pairs each named rater is asked about twice."
    )
    team = models.ForeignKey(Team, models.SET_NULL, null=True, blank=True, related_name="runs")
    per_pair = models.PositiveIntegerField(default=1)
    max_calls = models.PositiveIntegerField(null=True, blank=True)
    state = models.CharField(max_length=10, choices=State, default=State.ORDERED)
    pause_reason = models.CharField(max_length=300, blank=True)
    cap = models.PositiveBigIntegerField(null=True, blank=True)
    settled = models.PositiveBigIntegerField(default=0)
    reserved = models.PositiveBigIntegerField(default=0)
    uncertain = models.PositiveBigIntegerField(default=0)
    expected_cost = models.PositiveBigIntegerField(null=True, blank=True)
    worst_cost = models.PositiveBigIntegerField(null=True, blank=True)
    votes_wanted = models.PositiveIntegerField(default=0)
    votes_done = models.PositiveIntegerField(default=0)
    criteria = models.TextField(
        blank=True, help_text="The arena's criteria, as given to judges in this run."
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(db_default=Now())
    closed_at = models.DateTimeField(null=True, blank=True)
    counted_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text="When leaderboards with all its votes were published.",
    )

    objects = RunQuerySet.as_manager()

    class Meta:
        constraints = [
            check(
                "run_state_known", Q(state__in=["ordered", "open", "paused", "done", "cancelled"])
            ),
            check("run_wants_votes", Q(per_pair__gt=0)),
            check("run_of_people_in_an_arena", Q(arena__isnull=False) | Q(kind="judge")),
            check("run_kind_known", Q(kind__in=["person", "judge", "answers", "live"])),
            check(
                "run_of_answers_has_a_candidate",
                Q(kind="answers", candidate__isnull=False)
                | ~Q(kind="answers") & Q(candidate__isnull=True),
            ),
            check("run_hides_names_of_people", Q(kind="person") | Q(hides_names=False)),
            # Nobody who has seen the names could judge the same pair blind again.
            check("run_repeats_without_names", Q(hides_names=True) | Q(repeats=0)),
        ]

    def __str__(self) -> str:
        return f"run {self.pk} ({self.get_kind_display().lower()})"

    @property
    def in_arena(self) -> Arena:
        """The run's arena; raises ValueError for a trial on labelled items, which has none."""
        if self.arena is None:
            raise ValueError(f"{self} has no arena.")
        return self.arena

    @property
    def is_over(self) -> bool:
        return self.state in (self.State.DONE, self.State.CANCELLED)

    @property
    def goes_on(self) -> bool:
        """Whether more results may arrive without further action."""
        return self.state in (self.State.ORDERED, self.State.OPEN)

    @property
    def can_be_paused(self) -> bool:
        return self.state == self.State.OPEN

    @property
    def can_be_resumed(self) -> bool:
        """An ordered run whose ordering was interrupted continues with what was written."""
        return self.state in (self.State.PAUSED, self.State.ORDERED)

    @property
    def can_be_cancelled(self) -> bool:
        return self.state in (self.State.ORDERED, self.State.OPEN, self.State.PAUSED)


MOST_ERRORS = 5


@dataclass(frozen=True)
class RunErrors:
    """How many of a run's results failed, and the most frequent reasons with their counts."""

    failed: int = 0
    reasons: Sequence[tuple[str, int]] = ()


def count_errors(rows: Iterable[tuple[int, str, int]]) -> dict[int, RunErrors]:
    """Return the errors of each run, from rows of a run's id, a reason and a count."""
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for run_id, reason, count in rows:
        counts[run_id][reason] += count
    return {
        run_id: RunErrors(reasons.total(), reasons.most_common(MOST_ERRORS))
        for run_id, reasons in counts.items()
    }


class RunProgress:
    """What reports on all kinds of runs have in common: `settled` of `total` results are in.

    Of these, `results` are what the run was for; `errors` says why others failed.
    """

    run: Run
    errors: RunErrors

    @property
    def settled(self) -> int:
        raise NotImplementedError

    @property
    def total(self) -> int:
        raise NotImplementedError

    @property
    def results(self) -> int:
        raise NotImplementedError

    @property
    def failures(self) -> int:
        raise NotImplementedError

    @property
    def is_over(self) -> bool:
        return self.run.is_over

    @property
    def goes_on(self) -> bool:
        return self.run.goes_on

    @property
    def can_retry(self) -> bool:
        return self.run.state == Run.State.DONE and self.failures > 0

    def per_minute(self, now: datetime) -> float | None:
        """Results per minute from the order until now, or until the run closed."""
        elapsed = ((self.run.closed_at or now) - self.run.created_at).total_seconds()
        return 60 * self.settled / elapsed if elapsed > 0 and self.settled else None

    def seconds_left(self, now: datetime) -> float | None:
        rate = self.per_minute(now)
        return 60 * (self.total - self.settled) / rate if self.goes_on and rate else None
