"""How a run stands, in one look: what the page and the commands show."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Avg, Count, F, Min, Q, Sum

from arena.calls.models import Call, RunAsker
from arena.models import Run
from judges.agreement import jury_kappa
from judges.models import Epoch, Judge, Judgement, JuryVerdict

State = Judgement.State
COUNTS = ("calls", "calls_ended", "requests", "under_way", "tokens_in", "tokens_out", "cost")
NO_CALLS: dict[str, Any] = {
    **dict.fromkeys((*COUNTS, "decisive", "first_picked"), 0),
    "seconds": None,
    "next_due_at": None,
}


@dataclass(frozen=True)
class JudgeReport:
    """One judge's part of a run. Money in nano-dollars, seconds per call."""

    epoch: Epoch
    own_family: bool
    states: dict[str, int]
    flipped: int
    both: int
    decisive: int
    first_picked: int
    calls: int
    calls_ended: int
    requests: int
    under_way: int
    tokens_in: int
    tokens_out: int
    cost: int
    seconds: float | None
    next_due_at: datetime | None
    paused_at: datetime | None
    pause_reason: str

    @property
    def judge(self) -> Judge:
        return self.epoch.judge

    @property
    def total(self) -> int:
        return sum(self.states.values())

    @property
    def settled(self) -> int:
        return self.total - self.states[State.WAITING]

    @property
    def without_verdict(self) -> int:
        """Comparisons to which the judge had no answer that is a verdict."""
        return sum(self.states[one] for one in (State.UNREADABLE, State.REFUSED, State.TOO_LONG))

    @property
    def flip_rate(self) -> float | None:
        """Share of the comparisons with two verdicts in which swapping the order changed it."""
        return self.flipped / self.both if self.both else None

    @property
    def first_position_rate(self) -> float | None:
        """Share of the decisive verdicts that went to the answer shown first; fair is one half."""
        return self.first_picked / self.decisive if self.decisive else None

    @property
    def state_rows(self) -> list[tuple[str, str, int]]:
        """(state, its label, count) in the order of the journey, for tables."""
        return [(state.value, state.label, self.states[state]) for state in State]


@dataclass(frozen=True)
class RunReport:
    """A run's judges, its jury if it has one, and its money."""

    run: Run
    judges: list[JudgeReport]
    jury: Epoch | None
    jury_states: dict[str, int]
    kappa: float | None

    @property
    def states(self) -> dict[str, int]:
        return {state: sum(one.states[state] for one in self.judges) for state in State.values}

    @property
    def state_rows(self) -> list[tuple[str, str, int]]:
        return [(state.value, state.label, self.states[state]) for state in State]

    @property
    def jury_rows(self) -> list[tuple[str, str, int]]:
        return [(one.value, one.label, self.jury_states[one]) for one in JuryVerdict.State]

    @property
    def total(self) -> int:
        return sum(one.total for one in self.judges)

    @property
    def settled(self) -> int:
        return sum(one.settled for one in self.judges)

    @property
    def calls(self) -> int:
        return sum(one.calls for one in self.judges)

    @property
    def calls_ended(self) -> int:
        return sum(one.calls_ended for one in self.judges)

    @property
    def requests(self) -> int:
        return sum(one.requests for one in self.judges)

    @property
    def under_way(self) -> int:
        return sum(one.under_way for one in self.judges)

    @property
    def next_due_at(self) -> datetime | None:
        return min((one.next_due_at for one in self.judges if one.next_due_at), default=None)

    @property
    def spent(self) -> int:
        """What servers billed, and what requests that were cut off may have cost at most."""
        return self.run.settled + self.run.uncertain

    @property
    def is_scripted(self) -> bool:
        return any(one.judge.is_scripted for one in self.judges)

    @property
    def is_over(self) -> bool:
        return self.run.state in (Run.State.DONE, Run.State.CANCELLED)

    @property
    def goes_on(self) -> bool:
        """May more come without anybody's doing?"""
        return self.run.state in (Run.State.ORDERED, Run.State.OPEN)

    @property
    def failures(self) -> int:
        return self.states[State.FAILED]

    @property
    def flip_rate(self) -> float | None:
        both = sum(one.both for one in self.judges)
        return sum(one.flipped for one in self.judges) / both if both else None

    @property
    def first_position_rate(self) -> float | None:
        decisive = sum(one.decisive for one in self.judges)
        return sum(one.first_picked for one in self.judges) / decisive if decisive else None

    def per_minute(self, now: datetime) -> float | None:
        """Comparisons settled per minute since the run was ordered, while it goes on or until it
        was closed."""
        spent = ((self.run.closed_at or now) - self.run.created_at).total_seconds()
        return 60 * self.settled / spent if spent > 0 and self.settled else None


def report_on(run_id: int, now: datetime) -> RunReport:
    """Count a run in seven queries, however many judges it has."""
    run = Run.objects.select_related("arena").get(pk=run_id)
    part = run.run_judges.select_related("epoch__judge", "epoch__rater").order_by("pk")
    states = _states(run)
    calls = _calls(run, now)
    paused = {one.asker: one for one in RunAsker.objects.filter(run=run)}
    jury = next((one.epoch for one in part if one.epoch.judge.is_jury), None)
    judges = [
        JudgeReport(
            epoch=one.epoch,
            own_family=one.own_family,
            **(states.get(one.epoch_id) or _no_states()),
            **(calls.get(one.epoch.asker) or NO_CALLS),
            paused_at=paused[one.epoch.asker].paused_at if one.epoch.asker in paused else None,
            pause_reason=paused[one.epoch.asker].pause_reason if one.epoch.asker in paused else "",
        )
        for one in part
        if not one.epoch.judge.is_jury
    ]
    return RunReport(run, judges, jury, _jury_states(run, jury), jury_kappa(run) if jury else None)


def _states(run: Run) -> dict[int, dict[str, Any]]:
    """Count each judge's judgements by state, and in how many the order changed the verdict."""
    rows = (
        Judgement.objects.filter(run=run)
        .values("epoch", "state")
        .annotate(
            count=Count("pk"),
            changed=Count("pk", filter=Q(flipped=True)),
            both=Count("pk", filter=Q(flipped__isnull=False)),
        )
        .values_list("epoch", "state", "count", "changed", "both")
        .order_by()
    )
    found: dict[int, dict[str, Any]] = {}
    for epoch, state, count, flipped, both in rows:
        facts = found.setdefault(epoch, _no_states())
        facts["states"][state] = count
        facts["flipped"] += flipped
        facts["both"] += both
    return found


def _no_states() -> dict[str, Any]:
    return {"states": dict.fromkeys(State.values, 0), "flipped": 0, "both": 0}


def _calls(run: Run, now: datetime) -> dict[str, dict[str, Any]]:
    waiting, running = Q(state=Call.State.WAITING), Q(state=Call.State.RUNNING)
    decisive = Q(verdict__outcome="left") | Q(verdict__outcome="right")
    rows = (
        Call.objects.filter(run=run)
        .values("asker")
        .annotate(
            calls=Count("pk"),
            calls_ended=Count("pk", filter=~waiting & ~running),
            requests=Sum("requests", default=0),
            under_way=Count("pk", filter=running & Q(lease_expires_at__gt=now)),
            tokens_in=Sum("tokens_in", default=0),
            tokens_out=Sum("tokens_out", default=0),
            cost=Sum(F("cost"), default=0),
            seconds=Avg("seconds"),
            decisive=Count("pk", filter=decisive),
            first_picked=Count("pk", filter=Q(verdict__outcome="left")),
            next_due_at=Min("due_at", filter=waiting),
        )
        .order_by()
    )
    return {row["asker"]: {k: v for k, v in row.items() if k != "asker"} for row in rows}


def _jury_states(run: Run, jury: Epoch | None) -> dict[str, int]:
    states = dict.fromkeys(JuryVerdict.State.values, 0)
    if jury is None:
        return states
    rows = JuryVerdict.objects.filter(run=run).values_list("state").annotate(Count("pk"))
    return states | dict(rows.order_by())
