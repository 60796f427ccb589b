"""How a run of answers stands, in one look: what its page and the command show."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Avg, Count, Min, Q, QuerySet, Sum

from arena.answers.keeping import without_answer
from arena.calls.models import Call
from arena.models import Prompt, Response, Run

State = Call.State
ENDINGS = {
    State.DONE: "Answered",
    State.REFUSED: "Refused",
    State.TOO_LONG: "Too long",
    State.UNREADABLE: "Unreadable",
    State.FAILED: "Failed",
}


@dataclass(frozen=True)
class AnswerReport:
    """A run's calls by state, and its money (nano-dollars); seconds are those of one answer."""

    run: Run
    states: dict[str, int]
    requests: int
    under_way: int
    tokens_in: int
    tokens_out: int
    seconds: float | None
    next_due_at: datetime | None

    @property
    def total(self) -> int:
        return sum(self.states.values())

    @property
    def settled(self) -> int:
        return self.total - sum(self.states[state] for state in Call.GOING_ON)

    @property
    def state_rows(self) -> list[tuple[str, str, int]]:
        """(state, its label, count) of what has ended."""
        return [(state.value, label, self.states[state]) for state, label in ENDINGS.items()]

    @property
    def failures(self) -> int:
        return self.states[State.FAILED]

    @property
    def spent(self) -> int:
        """What servers billed, and what requests that were cut off may have cost at most."""
        return self.run.settled + self.run.uncertain

    @property
    def is_over(self) -> bool:
        return self.run.state in (Run.State.DONE, Run.State.CANCELLED)

    @property
    def goes_on(self) -> bool:
        """May more come without anybody's doing?"""
        return self.run.state in (Run.State.ORDERED, Run.State.OPEN)

    def per_minute(self, now: datetime) -> float | None:
        """Answers per minute since the run was ordered, while it goes on or until it closed."""
        spent = ((self.run.closed_at or now) - self.run.created_at).total_seconds()
        return 60 * self.settled / spent if spent > 0 and self.settled else None

    def seconds_left(self, now: datetime) -> float | None:
        rate = self.per_minute(now)
        return 60 * (self.total - self.settled) / rate if self.goes_on and rate else None


def report_on(run_id: int, now: datetime) -> AnswerReport:
    """Count a run in three queries."""
    run = Run.objects.select_related("arena", "candidate__team", "team").get(pk=run_id)
    rows = Call.objects.filter(run=run).order_by().values_list("state").annotate(Count("pk"))
    return AnswerReport(run, dict.fromkeys(State.values, 0) | dict(rows), **_sums(run, now))


def _sums(run: Run, now: datetime) -> dict[str, Any]:
    held = Q(state=State.RUNNING, lease_expires_at__gt=now)
    return Call.objects.filter(run=run).aggregate(
        requests=Sum("requests", default=0),
        under_way=Count("pk", filter=held),
        tokens_in=Sum("tokens_in", default=0),
        tokens_out=Sum("tokens_out", default=0),
        seconds=Avg("seconds", filter=Q(state=State.DONE)),
        next_due_at=Min("due_at", filter=Q(state=State.WAITING)),
    )


# -- What came of it -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Failure:
    """A prompt that was not answered, and why."""

    prompt: Prompt | None
    label: str
    reason: str


def failures_of(run: Run) -> "QuerySet[Call]":
    """Calls that ended without an answer, those that failed first; each has its `prompt_id`.

    Where somebody has uploaded an answer since, there is one.
    """
    ended = run.calls.exclude(state__in=[*Call.GOING_ON, State.DONE])
    return without_answer(ended).order_by("state", "pk")


def with_prompts(calls: list[Any]) -> list[Failure]:
    """Look up what some failures were about, in one query."""
    prompts = Prompt.objects.in_bulk([call.prompt_id for call in calls])
    return [
        Failure(prompts.get(call.prompt_id), ENDINGS[State(call.state)], call.error)
        for call in calls
    ]


def answers_of(run: Run) -> "QuerySet[Response]":
    """The answers that a run has brought, the newest first."""
    return Response.objects.filter(call__run=run).select_related("prompt", "call").order_by("-pk")
