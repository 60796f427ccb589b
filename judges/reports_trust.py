"""The judges' leaderboard, and all that was ever measured of one judge."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Avg, Count, F, Max, Q, QuerySet, Sum

from arena.access import NOBODY, Actor
from arena.calls.models import Call
from arena.models import Arena, Run
from judges.models import Calibration, Canary, CanaryCheck, Epoch, Judge, Judgement, LabelSet
from judges.services.marking import MarkShare, mark_counts, shares_of
from judges.services.trusting import trust_problems

HONEYPOTS = LabelSet.Kind.HONEYPOTS
NOTHING: Mapping[str, Any] = {}
Figure = dict[str, Any]


@dataclass(frozen=True)
class BoardRow:
    """One judge in its open epoch. Money in nano-dollars.

    `calibration` is the newest against people, `traps` the newest on traps; figures are as
    `ranking.stats.Estimate` has them (value, low, high, n, reason), None where nobody has measured.
    `n_flipped` of `both`: the verdicts that changed with the order, over all that the epoch was
    asked; `first` of `decisive`: readings that went to the answer shown first.
    """

    epoch: Epoch
    calibration: Calibration | None
    traps: Calibration | None
    verdicts: int
    judgements: int
    n_flipped: int
    both: int
    first: int
    decisive: int
    cost: int
    seconds_per_call: float | None
    marks: list[MarkShare]

    @property
    def judge(self) -> Judge:
        return self.epoch.judge

    @property
    def is_trusted(self) -> bool:
        return self.epoch.rater.trusted_at is not None

    @property
    def agreement(self) -> Figure | None:
        """Decisive agreement with people, or Pearson's correlation for a judge of scores."""
        if self.calibration is None:
            return None
        against: Figure = self.calibration.report["against_all"]
        found: Figure = against["decisive" if self.calibration.kind == "pairs" else "pearson"]
        return found

    @property
    def lift(self) -> Figure | None:
        """How far that is above what length alone reaches."""
        if self.calibration is None:
            return None
        report = self.calibration.report
        found: Figure = (
            report["longer"]["lift_decisive"]
            if self.calibration.kind == "pairs"
            else report["length"]["lift"]
        )
        return found

    @property
    def false_wins(self) -> Figure | None:
        return None if self.traps is None else self.traps.report["false_wins"]

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
class EpochPart:
    """One epoch of a judge: what was measured in it, newest first, and its canary's checks."""

    epoch: Epoch
    calibrations: list[Calibration]
    checks: list[CanaryCheck]
    problems: list[str]

    @property
    def is_trusted(self) -> bool:
        return self.epoch.rater.trusted_at is not None


@dataclass(frozen=True)
class JudgePage:
    """All that a judge's page shows; `row` is its row on the leaderboard, None for a jury."""

    judge: Judge
    row: BoardRow | None
    epochs: list[EpochPart]
    canary: Canary | None
    marks: list[MarkShare]


def judge_board(actor: Actor = NOBODY) -> list[BoardRow]:
    """Return the judges' leaderboard in six queries: trusted ones first, by the lower bound of
    their agreement, then by name. Juries are not measured themselves, and stand elsewhere.

    Nothing on it comes from an arena that is not listed for `actor`.
    """
    listed = Judge.objects.listed_for(actor).exclude(protocol=Judge.Protocol.JURY)
    epochs = Epoch.objects.open().filter(judge__in=listed)
    return sorted(_rows(epochs, actor), key=_place)


def judge_page(judge: Judge, actor: Actor = NOBODY) -> JudgePage:
    """Return all of a judge's calibrations, epochs and canary checks, newest first; of the arenas
    those alone that are listed for `actor`."""
    epochs = judge.epochs.select_related("rater", "judge").order_by("-number")
    calibrations = list(
        Calibration.objects.listed_for(actor)
        .filter(epoch__judge=judge)
        .select_related("label_set", "arena", "epoch")
        .order_by("-made_at", "-pk")
    )
    checks = list(
        CanaryCheck.objects.filter(epoch__judge=judge)
        .select_related("run", "canary__label_set")
        .order_by("-begun_at", "-pk")
    )
    parts = [
        EpochPart(
            epoch,
            [one for one in calibrations if one.epoch_id == epoch.pk],
            [one for one in checks if one.epoch_id == epoch.pk],
            _problems(epoch, actor),
        )
        for epoch in epochs
    ]
    rows = _rows(Epoch.objects.open().filter(judge=judge), actor) if not judge.is_jury else []
    canary = Canary.objects.filter(judge=judge).select_related("label_set").first()
    marks = shares_of(mark_counts([judge.pk], _listed_runs(actor)).get(judge.pk, {}))
    return JudgePage(judge, rows[0] if rows else None, parts, canary, marks)


def _problems(epoch: Epoch, actor: Actor) -> list[str]:
    """What keeps it from being trusted, as far as `actor` may know: it may be trusted for what was
    found where they do not look."""
    if epoch.rater.trusted_at and not epoch.ended_at:
        return []
    return trust_problems(epoch, Calibration.objects.listed_for(actor))


def _place(row: BoardRow) -> tuple[bool, float, str]:
    low = (row.agreement or NOTHING).get("low")
    return not row.is_trusted, -(low if low is not None else -2.0), row.judge.name


# -- Rows ------------------------------------------------------------------------------------------


def _listed_runs(actor: Actor) -> QuerySet[Run]:
    """Trials, and the runs of arenas that are listed for `actor`."""
    if actor.is_operator:
        return Run.objects.all()
    return Run.objects.filter(Q(arena=None) | Q(arena__in=Arena.objects.listed_for(actor)))


def _rows(chosen: QuerySet[Epoch], actor: Actor) -> list[BoardRow]:
    epochs = list(chosen.select_related("judge", "rater").order_by("pk"))
    ids = [epoch.pk for epoch in epochs]
    runs = _listed_runs(actor)
    newest = _newest(ids, actor)
    said, asked = _judged(ids, runs), _asked([epoch.asker for epoch in epochs], runs)
    marks = mark_counts([epoch.judge_id for epoch in epochs], runs)
    return [
        BoardRow(
            epoch=epoch,
            calibration=newest.get((epoch.pk, False)),
            traps=newest.get((epoch.pk, True)),
            **(said.get(epoch.pk) or dict.fromkeys(SAID, 0)),
            **(asked.get(epoch.asker) or NOT_ASKED),
            marks=shares_of(marks.get(epoch.judge_id, {})),
        )
        for epoch in epochs
    ]


def _newest(epochs: Iterable[int], actor: Actor) -> dict[tuple[int, bool], Calibration]:
    """Map (epoch, on traps?) to the newest calibration; only these are read."""
    kinds = Calibration.objects.listed_for(actor).filter(epoch__in=epochs).order_by()
    last = kinds.values("epoch", "kind").annotate(last=Max("pk")).values("last")
    found = Calibration.objects.filter(pk__in=last).select_related("label_set", "arena")
    return {(one.epoch_id, one.kind == HONEYPOTS): one for one in found.order_by("made_at", "pk")}


SAID = ("judgements", "verdicts", "n_flipped", "both")
NOT_ASKED = {"first": 0, "decisive": 0, "cost": 0, "seconds_per_call": None}


def _judged(epochs: Iterable[int], runs: QuerySet[Run]) -> dict[int, dict[str, int]]:
    rows = (
        Judgement.objects.filter(epoch__in=epochs, run__in=runs)
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


def _asked(askers: Iterable[str], runs: QuerySet[Run]) -> dict[str, dict[str, Any]]:
    first = Q(verdict__outcome="left")
    rows = (
        Call.objects.filter(asker__in=askers, run__in=runs)
        .values("asker")
        .annotate(
            first=Count("pk", filter=first),
            decisive=Count("pk", filter=first | Q(verdict__outcome="right")),
            cost=Sum(F("cost") + F("uncertain"), default=0),
            seconds_per_call=Avg("seconds"),
        )
        .order_by()
    )
    return {row["asker"]: _without(row, "asker") for row in rows}


def _without(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != name}
