"""What the pages and the API say about judges: their leaderboard, and all figures of one."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Avg, Count, F, Max, Q, QuerySet, Sum

from arena.actors import ANONYMOUS, Actor
from arena.calls.models import Call
from arena.models import Run
from arena.permissions import listed_arenas
from judges.core.calibration.trust import RULE
from judges.core.parsing import final_text, last_named_winner
from judges.models import Calibration, DriftCheck, DriftCheckSet, Epoch, Judge, Judgement, LabelSet
from judges.permissions import listed_calibrations, listed_judges, listed_runs
from judges.run_reports import Estimate, without_key
from judges.services.feedback import FeedbackShare, count_feedback, feedback_shares
from judges.services.trust import TrustPlace, problems_of, trust_profile

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
    def problems(self) -> list[str]:
        """Why it is trusted nowhere, from what was read already: no query for each judge."""
        newest = [each for each in (self.calibration, self.honeypots) if each is not None]
        return problems_of(trust_profile(self.epoch, newest))

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
    def against_length(self) -> Estimate | None:
        """How often it agrees with people who disagree with length; older reports lack it."""
        return self.calibration.report.get("against_length") if self.calibration else None

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

    judges = listed_judges(actor).exclude(protocol=Judge.Protocol.JURY)
    epochs = Epoch.objects.open().filter(judge__in=judges)
    return sorted(_read_standings(epochs, actor), key=place)


def report_on_judge(judge: Judge, actor: Actor = ANONYMOUS) -> FullJudgeReport:
    """Return all of a judge's calibrations, epochs and drift checks, newest first; only from arenas
    that are listed for `actor`."""
    epochs = judge.epochs.select_related("rater", "judge").order_by("-number")
    calibrations = list(
        listed_calibrations(actor)
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
    marks = feedback_shares(count_feedback([judge.pk], listed_runs(actor)).get(judge.pk, {}))
    return FullJudgeReport(judge, standings[0] if standings else None, reports, drift_checks, marks)


def _read_standings(chosen: QuerySet[Epoch], actor: Actor) -> list[JudgeStanding]:
    trust = Q(rater__trust__trusted=True)
    if not actor.is_operator:
        trust &= Q(rater__trust__arena__in=listed_arenas(actor))
    counted = chosen.annotate(n_trusted=Count("rater__trust", filter=trust))
    epochs = list(counted.select_related("judge", "rater").order_by("pk"))
    ids = [epoch.pk for epoch in epochs]
    runs = listed_runs(actor)
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
    kinds = listed_calibrations(actor).filter(epoch__in=epochs).order_by()
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
    return {row["epoch"]: without_key(row, "epoch") for row in rows}


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
    return {row["requester"]: without_key(row, "requester") for row in rows}


READABLE = (Call.State.DONE, Call.State.REFUSED)
MOST_READ = 300


@dataclass(frozen=True)
class ReplyFigures:
    """How a judge's replies could be read, over its own requests for a verdict.

    at_first, repaired: how many of `answered` gave a verdict at first, and once asked again.
    against: of the newest pairwise verdicts, `named` of which name a better answer in their
    reasons, how many give another one: what no reader finds.
    """

    answered: int
    at_first: int
    repaired: int
    named: int
    against: int

    @property
    def share_at_first(self) -> float | None:
        return self.at_first / self.answered if self.answered else None

    @property
    def share_in_the_end(self) -> float | None:
        return (self.at_first + self.repaired) / self.answered if self.answered else None

    @property
    def share_against(self) -> float | None:
        return self.against / self.named if self.named else None


def count_replies(epoch: Epoch, actor: Actor = ANONYMOUS) -> ReplyFigures:
    """Return how an epoch's replies could be read, in the runs that are listed for `actor`."""
    calls = Call.objects.filter(
        requester=epoch.requester, run__in=listed_runs(actor), copied=False
    ).exclude(Q(subject__startswith="note:") | Q(subject__endswith=":note"))
    done = Q(state=Call.State.DONE)
    counts = calls.filter(state__in=(*READABLE, Call.State.UNREADABLE)).aggregate(
        answered=Count("pk"),
        at_first=Count("pk", filter=done & Q(turn=0)),
        repaired=Count("pk", filter=done & Q(turn__gt=0)),
    )
    newest = calls.filter(done, verdict__outcome__isnull=False).order_by("-pk")
    verdicts = newest.values_list("reply", "verdict")[:MOST_READ]
    named = [
        winner == (verdict or {}).get("outcome")
        for reply, verdict in verdicts
        if (winner := last_named_winner(final_text(reply))) is not None
    ]
    return ReplyFigures(**counts, named=len(named), against=named.count(False))
