"""The figures of judge runs and of judges, for pages, API and commands."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Avg, Count, Exists, F, Max, Min, OuterRef, Q, QuerySet, Sum

from arena.actors import ANONYMOUS, Actor
from arena.calls.models import Call, RunRequester
from arena.calls.scheduling import calls_under_way
from arena.models import Outcome, Run
from arena.models.runs import RunProgress
from arena.permissions import listed_arenas
from judges.core.calibration.trust import RULE
from judges.models import (
    Calibration,
    DriftCheck,
    DriftCheckSet,
    Epoch,
    Judge,
    Judgement,
    JuryVerdict,
    LabelSet,
    RunJudge,
)
from judges.services.labels import FeedbackShare, count_feedback, feedback_shares
from judges.services.trust import TrustPlace, problems_of, trust_profile
from judges.services.verdicts import orient_outcome
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


def report_on(run_id: int, now: datetime) -> RunReport:
    """Count a run in at most eight queries, however many judges it has."""
    run = Run.objects.select_related("arena").get(pk=run_id)
    members = list(run.run_judges.select_related("epoch__judge", "epoch__rater").order_by("pk"))
    states = _states(run)
    calls = _calls(run)
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
    return RunReport(
        run,
        judges,
        jury,
        _jury_states(run, jury),
        jury_kappa(run) if jury else None,
        waiting_for=calls_under_way(run=run, now=now),
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
    by_epoch: dict[int, dict[str, Any]] = {}
    for epoch, state, count, flipped, both in rows:
        facts = by_epoch.setdefault(epoch, _no_states())
        facts["states"][state] = count
        facts["flipped"] += flipped
        facts["both"] += both
    return by_epoch


def _no_states() -> dict[str, Any]:
    return {"states": dict.fromkeys(State.values, 0), "flipped": 0, "both": 0}


def _calls(run: Run) -> dict[str, dict[str, Any]]:
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
    return {row["requester"]: _without(row, "requester") for row in rows}


def _jury_states(run: Run, jury: Epoch | None) -> dict[str, int]:
    states = dict.fromkeys(JuryVerdict.State.values, 0)
    if jury is None:
        return states
    rows = JuryVerdict.objects.filter(run=run).values_list("state").annotate(Count("pk"))
    return states | dict(rows.order_by())


NO_JUDGEMENTS = dict.fromkeys(("judgements", "verdicts", "n_flipped", "both"), 0)
NOT_ASKED = {"first": 0, "decisive": 0, "cost": 0, "seconds_per_call": None}


@dataclass(frozen=True)
class JudgeStanding:
    """A judge in its open epoch, as the judges' leaderboard shows it. Money in nano-dollars.

    `trusted_arenas`: how many of the arenas that the reader may see trust it as measured there.
    `calibration` is the newest against people, `honeypots` the newest on honeypots; None if there
    is none. `n_flipped` of `both`: judgements whose verdict changed with the order, of all with two
    verdicts. `first` of `decisive`: calls that preferred the answer shown first.
    """

    epoch: Epoch
    trusted_arenas: int
    calibration: Calibration | None
    honeypots: Calibration | None
    verdicts: int
    judgements: int
    n_flipped: int
    both: int
    first: int
    decisive: int
    cost: int
    seconds_per_call: float | None
    marks: list[FeedbackShare]

    @property
    def judge(self) -> Judge:
        return self.epoch.judge

    @property
    def is_trusted(self) -> bool:
        return self.is_trusted_everywhere or bool(self.trusted_arenas)

    @property
    def is_trusted_everywhere(self) -> bool:
        return self.epoch.rater.trusted_at is not None

    @property
    def is_under_earlier_rule(self) -> bool:
        """Whether it is trusted by a rule that no longer applies."""
        trust = self.calibration.report["trust"] if self.calibration else {}
        return self.is_trusted and trust.get("rule", 1) < RULE

    @property
    def agreement(self) -> Estimate | None:
        """Agreement on all items, or Pearson's correlation for a judge of scores.

        Older reports have only the agreement on decided pairs.
        """
        if self.calibration is None:
            return None
        report = self.calibration.report
        is_pairs = self.calibration.kind == LabelSet.Kind.PAIRS
        decided: Estimate = report["against_all"]["decisive" if is_pairs else "pearson"]
        estimate: Estimate = report.get("on_all", decided)
        return estimate

    @property
    def coverage(self) -> float | None:
        """The share of items on which it has a verdict."""
        coverage = self.calibration.report.get("coverage") if self.calibration else None
        return coverage["value"] if coverage else None

    @property
    def lift(self) -> Estimate | None:
        """How much that exceeds the rule that the longer answer wins.

        Older reports have only the lift on decided pairs.
        """
        if self.calibration is None:
            return None
        report = self.calibration.report
        if self.calibration.kind != LabelSet.Kind.PAIRS:
            lift: Estimate = report["length"]["lift"]
        else:
            lift = report["longer"].get("lift_on_all", report["longer"]["lift_decisive"])
        return lift

    @property
    def false_wins(self) -> Estimate | None:
        return None if self.honeypots is None else self.honeypots.report["false_wins"]

    @property
    def flip_rate(self) -> float | None:
        return self.n_flipped / self.both if self.both else None

    @property
    def first_position_rate(self) -> float | None:
        return self.first / self.decisive if self.decisive else None

    @property
    def cost_per_verdict(self) -> int | None:
        return round(self.cost / self.verdicts) if self.verdicts else None


@dataclass(frozen=True)
class EpochReport:
    """One epoch of a judge: its calibrations and drift checks, newest first.

    `places` says where it is trusted, by the calibrations that the reader may see.
    """

    epoch: Epoch
    calibrations: list[Calibration]
    checks: list[DriftCheck]
    places: list[TrustPlace]

    @property
    def problems(self) -> list[str]:
        return problems_of(self.places)

    @property
    def places_by_weight(self) -> list[TrustPlace]:
        """The arenas first, then everywhere else."""
        return [*self.places[1:], self.places[0]]

    @property
    def is_trusted_by_earlier_rule(self) -> bool:
        """Whether it is trusted everywhere although its labels no longer suffice for that."""
        is_open = self.epoch.ended_at is None
        return is_open and bool(self.epoch.rater.trusted_at) and not self.places[0].is_trusted


@dataclass(frozen=True)
class FullJudgeReport:
    """Everything that a judge's page shows. `standing` is None for a jury."""

    judge: Judge
    standing: JudgeStanding | None
    epochs: list[EpochReport]
    drift_checks: DriftCheckSet | None
    marks: list[FeedbackShare]


def list_standings(actor: Actor = ANONYMOUS) -> list[JudgeStanding]:
    """Return the judges' leaderboard in six queries: trusted ones first, by the lower bound of
    their agreement, then by name. Juries are not measured themselves, so they are not on it.

    It includes nothing from arenas that are not listed for `actor`.
    """

    def place(standing: JudgeStanding) -> tuple[bool, float, str]:
        low = (standing.agreement or {}).get("low")
        lowest = -2.0  # below any correlation
        return not standing.is_trusted, -(lowest if low is None else low), standing.judge.name

    judges = Judge.objects.listed_for(actor).exclude(protocol=Judge.Protocol.JURY)
    epochs = Epoch.objects.open().filter(judge__in=judges)
    return sorted(_read_standings(epochs, actor), key=place)


def report_on_judge(judge: Judge, actor: Actor = ANONYMOUS) -> FullJudgeReport:
    """Return all of a judge's calibrations, epochs and drift checks, newest first; only from arenas
    that are listed for `actor`."""
    epochs = judge.epochs.select_related("rater", "judge").order_by("-number")
    calibrations = list(
        Calibration.objects.listed_for(actor)
        .filter(epoch__judge=judge)
        .select_related("label_set", "arena", "epoch")
        .order_by("-made_at", "-pk")
    )
    checks = list(
        DriftCheck.objects.filter(epoch__judge=judge)
        .select_related("run", "canary__label_set")
        .order_by("-begun_at", "-pk")
    )
    reports = []
    for epoch in epochs:
        own = [calibration for calibration in calibrations if calibration.epoch_id == epoch.pk]
        own_checks = [check for check in checks if check.epoch_id == epoch.pk]
        reports.append(EpochReport(epoch, own, own_checks, trust_profile(epoch, own)))
    open_epoch = Epoch.objects.open().filter(judge=judge)
    standings = [] if judge.is_jury else _read_standings(open_epoch, actor)
    drift_checks = DriftCheckSet.objects.filter(judge=judge).select_related("label_set").first()
    marks = feedback_shares(count_feedback([judge.pk], _listed_runs(actor)).get(judge.pk, {}))
    return FullJudgeReport(judge, standings[0] if standings else None, reports, drift_checks, marks)


def _listed_runs(actor: Actor) -> QuerySet[Run]:
    """Runs on labels, and in arenas, that are listed for `actor`."""
    if actor.is_operator:
        return Run.objects.all()
    hidden = RunJudge.objects.filter(run=OuterRef("pk"), labels_in__isnull=False).exclude(
        labels_in__in=LabelSet.objects.listed_for(actor)
    )
    listed = Q(arena__in=listed_arenas(actor))
    return Run.objects.filter(listed | Q(arena=None) & ~Exists(hidden))


def _read_standings(chosen: QuerySet[Epoch], actor: Actor) -> list[JudgeStanding]:
    trust = Q(rater__trust__trusted=True)
    if not actor.is_operator:
        trust &= Q(rater__trust__arena__in=listed_arenas(actor))
    counted = chosen.annotate(n_trusted=Count("rater__trust", filter=trust))
    epochs = list(counted.select_related("judge", "rater").order_by("pk"))
    ids = [epoch.pk for epoch in epochs]
    runs = _listed_runs(actor)
    newest = _newest_calibrations(ids, actor)
    judgements = _count_judgements(ids, runs)
    calls = _count_calls([epoch.requester for epoch in epochs], runs)
    marks = count_feedback([epoch.judge_id for epoch in epochs], runs)
    return [
        JudgeStanding(
            epoch=epoch,
            trusted_arenas=epoch.n_trusted,
            calibration=newest.get((epoch.pk, False)),
            honeypots=newest.get((epoch.pk, True)),
            **(judgements.get(epoch.pk) or NO_JUDGEMENTS),
            **(calls.get(epoch.requester) or NOT_ASKED),
            marks=feedback_shares(marks.get(epoch.judge_id, {})),
        )
        for epoch in epochs
    ]


def _newest_calibrations(
    epochs: Iterable[int], actor: Actor
) -> dict[tuple[int, bool], Calibration]:
    """Map (epoch, on honeypots?) to the newest calibration; only these are read."""
    kinds = Calibration.objects.listed_for(actor).filter(epoch__in=epochs).order_by()
    newest = kinds.values("epoch", "kind").annotate(newest=Max("pk")).values("newest")
    calibrations = Calibration.objects.filter(pk__in=newest).select_related("label_set", "arena")
    return {
        (calibration.epoch_id, calibration.kind == LabelSet.Kind.HONEYPOTS): calibration
        for calibration in calibrations.order_by("made_at", "pk")
    }


def _count_judgements(epochs: Iterable[int], runs: QuerySet[Run]) -> dict[int, dict[str, int]]:
    rows = (
        Judgement.objects.counted()
        .filter(epoch__in=epochs, run__in=runs)
        .values("epoch")
        .annotate(
            judgements=Count("pk"),
            verdicts=Count("pk", filter=Q(state=Judgement.State.VOTED)),
            n_flipped=Count("pk", filter=Q(flipped=True)),
            both=Count("pk", filter=Q(flipped__isnull=False)),
        )
        .order_by()
    )
    return {row["epoch"]: _without(row, "epoch") for row in rows}


def _count_calls(requesters: Iterable[str], runs: QuerySet[Run]) -> dict[str, dict[str, Any]]:
    first = Q(verdict__outcome="left")
    rows = (
        Call.objects.filter(requester__in=requesters, run__in=runs, copied=False)
        .values("requester")
        .annotate(
            first=Count("pk", filter=first),
            decisive=Count("pk", filter=first | Q(verdict__outcome="right")),
            cost=Sum(F("cost") + F("uncertain"), default=0),
            seconds_per_call=Avg("seconds"),
        )
        .order_by()
    )
    return {row["requester"]: _without(row, "requester") for row in rows}


def _without(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != name}
