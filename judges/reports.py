"""How a run stands, in one look: what the page and the command show."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Min, Q, QuerySet, Sum

from arena.calls.models import Call
from arena.models import Run
from judges.models import Judge, Judgement


@dataclass(frozen=True)
class RunReport:
    """Counts of a run's judgements by state, and of its calls."""

    run: Run
    judge: Judge
    states: dict[str, int]
    calls: int
    calls_ended: int
    requests: int
    under_way: int
    tokens_in: int
    tokens_out: int
    decisive: int
    first_picked: int
    next_due_at: datetime | None

    @property
    def total(self) -> int:
        return sum(self.states.values())

    @property
    def settled(self) -> int:
        return self.total - self.states[Judgement.State.WAITING]

    @property
    def votes(self) -> int:
        return self.states[Judgement.State.VOTED]

    @property
    def is_over(self) -> bool:
        return self.run.state in (Run.State.DONE, Run.State.CANCELLED)

    @property
    def goes_on(self) -> bool:
        """May more come without anybody's doing?"""
        return self.run.state in (Run.State.ORDERED, Run.State.OPEN)

    @property
    def flip_rate(self) -> float | None:
        """Share of the comparisons with two verdicts in which swapping the order changed it."""
        abstained = self.states[Judgement.State.ABSTAINED]
        both = abstained + self.votes
        return abstained / both if both else None

    @property
    def first_position_rate(self) -> float | None:
        """Share of the decisive verdicts that went to the answer shown first; fair is one half."""
        return self.first_picked / self.decisive if self.decisive else None

    @property
    def state_rows(self) -> list[tuple[str, str, int]]:
        """(state, its label, count) in the order of the journey, for tables."""
        return [(state.value, state.label, self.states[state]) for state in Judgement.State]


def report_on(run_id: int, now: datetime) -> RunReport:
    """Count a run in four queries."""
    run = Run.objects.select_related("arena").get(pk=run_id)
    calls = _counted(Call.objects.filter(run=run), now)
    rows = Judgement.objects.filter(run=run).values_list("state").annotate(Count("pk")).order_by()
    return RunReport(
        run=run,
        judge=Judge.objects.get(run_judges__run=run),
        states=dict.fromkeys(Judgement.State.values, 0) | dict(rows),
        **calls,
    )


def _counted(calls: QuerySet[Call], now: datetime) -> dict[str, Any]:
    waiting, running = Q(state=Call.State.WAITING), Q(state=Call.State.RUNNING)
    decisive = Q(verdict__outcome="left") | Q(verdict__outcome="right")
    return calls.aggregate(
        calls=Count("pk"),
        calls_ended=Count("pk", filter=~waiting & ~running),
        requests=Sum("requests", default=0),
        under_way=Count("pk", filter=running & Q(lease_expires_at__gt=now)),
        tokens_in=Sum("tokens_in", default=0),
        tokens_out=Sum("tokens_out", default=0),
        decisive=Count("pk", filter=decisive),
        first_picked=Count("pk", filter=Q(verdict__outcome="left")),
        next_due_at=Min("due_at", filter=waiting),
    )
