"""The figures of judge runs, for pages, API and commands."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Avg, Case, Count, F, Min, Q, Sum, When

from arena.calls.models import Call, RunRequester
from arena.calls.scheduling import calls_under_way
from arena.models import Candidate, Outcome, Run
from arena.models.runs import RunErrors, RunProgress, count_errors
from judges.models import Epoch, Judge, Judgement, JuryVerdict
from judges.services.juries import orient_outcome
from ranking.board_data import LONG_TEXTS
from ranking.stats.agreement import fleiss_kappa

State = Judgement.State
Estimate = dict[str, Any]  # as `ranking.stats.Estimate`: value, low, high, n, reason
COUNTS = ("calls", "calls_ended", "requests", "tokens_in", "tokens_out", "cost")
NO_CALLS: dict[str, Any] = {
    **dict.fromkeys((*COUNTS, "decisive", "first_picked"), 0),
    "seconds": None,
    "next_due_at": None,
}


@dataclass(frozen=True)
class JudgeReport:
    """One judge's part of a run. Money in nano-dollars, seconds per call.

    `flipped` of `both`: judgements whose verdict changed with the order, of those with two
    verdicts. `first_picked` of `decisive`: calls that preferred the answer shown first.
    """

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
        return self.total - sum(self.states[state] for state in Judgement.UNSETTLED)

    @property
    def without_verdict(self) -> int:
        """Comparisons on which no reply of the judge was a verdict."""
        states = (State.UNREADABLE, State.REFUSED, State.TOO_LONG)
        return sum(self.states[state] for state in states)

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
        """(state, its label, count), in the order in which a judgement passes through them."""
        return [(state.value, state.label, self.states[state]) for state in State]


@dataclass(frozen=True)
class RunReport(RunProgress):
    """A run's judges, its jury if it has one, and its money.

    `waiting_for` counts the calls, of any run, that its endpoints are answering, by name.
    """

    run: Run
    judges: list[JudgeReport]
    jury: Epoch | None
    jury_states: dict[str, int]
    kappa: float | None
    waiting_for: dict[str, int]
    errors: RunErrors

    @property
    def states(self) -> dict[str, int]:
        return {state: sum(judge.states[state] for judge in self.judges) for state in State.values}

    @property
    def state_rows(self) -> list[tuple[str, str, int]]:
        return [(state.value, state.label, self.states[state]) for state in State]

    @property
    def jury_rows(self) -> list[tuple[str, str, int]]:
        states = self.jury_states
        return [(state.value, state.label, states[state]) for state in JuryVerdict.State]

    @property
    def total(self) -> int:
        return sum(judge.total for judge in self.judges)

    @property
    def settled(self) -> int:
        return sum(judge.settled for judge in self.judges)

    @property
    def calls(self) -> int:
        return sum(judge.calls for judge in self.judges)

    @property
    def calls_ended(self) -> int:
        return sum(judge.calls_ended for judge in self.judges)

    @property
    def requests(self) -> int:
        return sum(judge.requests for judge in self.judges)

    @property
    def next_due_at(self) -> datetime | None:
        due = (judge.next_due_at for judge in self.judges if judge.next_due_at)
        return min(due, default=None)

    @property
    def is_scripted(self) -> bool:
        return any(part.judge.is_scripted for part in self.judges)

    @property
    def results(self) -> int:
        return self.states[State.VOTED] + self.states[State.ABSTAINED]

    @property
    def failures(self) -> int:
        return self.states[State.FAILED]

    @property
    def undecided(self) -> int:
        """Comparisons without a verdict in this run."""
        return sum(self.states[state] for state in Judgement.UNDECIDED)

    @property
    def flip_rate(self) -> float | None:
        both = sum(judge.both for judge in self.judges)
        return sum(judge.flipped for judge in self.judges) / both if both else None

    @property
    def first_position_rate(self) -> float | None:
        decisive = sum(judge.decisive for judge in self.judges)
        first_picked = sum(judge.first_picked for judge in self.judges)
        return first_picked / decisive if decisive else None


def errors_in(run_ids: Collection[int]) -> dict[int, RunErrors]:
    """Return why judgements failed, by run, in one query."""
    failed = Judgement.objects.filter(run__in=run_ids, state=State.FAILED).order_by()
    # Either call may have failed; the first that did says why.
    first = Case(
        When(forward__state=Call.State.FAILED, then="forward__error"), default="reverse__error"
    )
    return count_errors(failed.values_list("run", first).annotate(Count("pk")))


@dataclass(frozen=True)
class CandidateCount:
    """The verdicts about one candidate in a run: won, lost, tied, and none.

    The last are comparisons that ended without a verdict, for whatever reason.
    """

    candidate: Candidate
    won: int = 0
    lost: int = 0
    tied: int = 0
    no_verdict: int = 0


OUTCOMES_OF_SIDE = {
    "left": {Outcome.LEFT: "won", Outcome.RIGHT: "lost", Outcome.TIE: "tied"},
    "right": {Outcome.LEFT: "lost", Outcome.RIGHT: "won", Outcome.TIE: "tied"},
}


def count_by_candidate(run: Run) -> list[CandidateCount]:
    """Count the verdicts about each candidate that a run compares, the most wins first.

    Takes two queries. A run on labelled items compares no candidates.
    """
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    rows = Judgement.objects.filter(run=run, comparison__isnull=False).order_by()
    sides = rows.values_list("comparison__left", "comparison__right", "state", "outcome")
    for left, right, state, outcome, n in sides.annotate(Count("pk")):
        for pk, names in zip((left, right), OUTCOMES_OF_SIDE.values(), strict=True):
            if state == State.VOTED:
                counts[pk][names[outcome]] += n
            else:
                counts[pk]["no_verdict"] += n if state in Judgement.UNDECIDED else 0
    found = Candidate.objects.defer(*LONG_TEXTS).in_bulk(counts)
    by_wins = sorted(counts, key=lambda pk: (-counts[pk]["won"], counts[pk]["lost"], pk))
    return [CandidateCount(found[pk], **counts[pk]) for pk in by_wins]


def report_on(run_id: int, now: datetime) -> RunReport:
    """Count a run in at most nine queries, however many judges it has."""
    run = Run.objects.select_related("arena").get(pk=run_id)
    members = list(run.run_judges.select_related("epoch__judge", "epoch__rater").order_by("pk"))
    states = _count_judgements(run)
    calls = _sum_up_calls(run)
    pauses = {pause.requester: pause for pause in RunRequester.objects.filter(run=run)}
    jury = next((member.epoch for member in members if member.epoch.judge.is_jury), None)
    judges = []
    for member in members:
        epoch = member.epoch
        if epoch.judge.is_jury:
            continue
        pause = pauses.get(epoch.requester)
        judges.append(
            JudgeReport(
                epoch=epoch,
                own_family=member.own_family,
                **(states.get(epoch.pk) or _no_states()),
                **(calls.get(epoch.requester) or NO_CALLS),
                paused_at=pause.paused_at if pause else None,
                pause_reason=pause.pause_reason if pause else "",
            )
        )
    has_failed = any(judge.states[State.FAILED] for judge in judges)
    return RunReport(
        run,
        judges,
        jury,
        _count_jury_verdicts(run, jury),
        jury_kappa(run) if jury else None,
        waiting_for=calls_under_way(run=run, now=now),
        errors=errors_in([run.pk]).get(run.pk, RunErrors()) if has_failed else RunErrors(),
    )


def jury_kappa(run: Run) -> float | None:
    """Return Fleiss' kappa over the pairs on which two members or more have a verdict.

    None if there is no such pair, or all verdicts are the same.
    """
    through = JuryVerdict.judgements.through
    voted = through.objects.filter(
        juryverdict__run=run, judgement__state=Judgement.State.VOTED
    ).values_list(
        "juryverdict",
        "juryverdict__comparison__left_response",
        "judgement__outcome",
        "judgement__comparison__left_response",
    )
    votes: dict[int, Counter[str]] = {}
    for verdict, left, outcome, members_left in voted:
        votes.setdefault(verdict, Counter())[orient_outcome(left, outcome, members_left)] += 1
    if not votes:
        return None
    outcomes = (Outcome.LEFT, Outcome.RIGHT, Outcome.TIE)
    table = [[counts[outcome] for outcome in outcomes] for counts in votes.values()]
    # Both ways round, because either answer could stand left.
    kappa = fleiss_kappa(table + [[right, left, tie] for left, right, tie in table])
    return None if math.isnan(kappa) else kappa


def _count_judgements(run: Run) -> dict[int, dict[str, Any]]:
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
    by_epoch: dict[int, dict[str, Any]] = {}
    for epoch, state, count, flipped, both in rows:
        facts = by_epoch.setdefault(epoch, _no_states())
        facts["states"][state] = count
        facts["flipped"] += flipped
        facts["both"] += both
    return by_epoch


def _no_states() -> dict[str, Any]:
    return {"states": dict.fromkeys(State.values, 0), "flipped": 0, "both": 0}


def _sum_up_calls(run: Run) -> dict[str, dict[str, Any]]:
    waiting, running = Q(state=Call.State.WAITING), Q(state=Call.State.RUNNING)
    decisive = Q(verdict__outcome="left") | Q(verdict__outcome="right")
    rows = (
        Call.objects.filter(run=run)
        .values("requester")
        .annotate(
            calls=Count("pk"),
            calls_ended=Count("pk", filter=~waiting & ~running),
            requests=Sum("requests", default=0),
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
    return {row["requester"]: without_key(row, "requester") for row in rows}


def _count_jury_verdicts(run: Run, jury: Epoch | None) -> dict[str, int]:
    states = dict.fromkeys(JuryVerdict.State.values, 0)
    if jury is None:
        return states
    rows = JuryVerdict.objects.filter(run=run).values_list("state").annotate(Count("pk"))
    return states | dict(rows.order_by())


def without_key(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != name}
