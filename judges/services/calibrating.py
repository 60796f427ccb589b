"""A judge measured beside people: what was found is stored, and never edited.

A report is what `judges.core.calibration` finds, as plain numbers, and beside it

    trust         whether this measurement passes the rule, and why
    money         what the verdicts cost, and how long they took
    beside        the same model on the same items under another rubric: this judge minus that one
    transitivity  of its verdicts in the arena: A over B over C over A is none (arenas only)
    not_asked     pairs that people voted on and the judge has not settled (arenas only)
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Count, F, Q, QuerySet, Sum

from arena.calls.models import Call
from arena.models import Arena, Vote
from judges.core.calibration import (
    PairItem,
    calibrate_pairs,
    calibrate_scores,
    is_trusted,
    paired_difference,
)
from judges.core.rubric import RubricError, load_rubric
from judges.models import Calibration, Epoch, Judge, Judgement, LabelSet
from judges.services.readings import (
    CANARY_SAMPLES,
    arena_items,
    pair_items,
    score_items,
    voted_on,
)
from judges.services.registering import JudgeRefused
from judges.services.trusting import settle_trust
from ranking.stats import transitivity

NOTHING = "There is nothing to measure: the judge has not settled any item that people labelled."
MOST_BESIDE = 5


def measure_labels(*, epoch: Epoch, labels_in: LabelSet, now: datetime) -> Calibration:
    """Measure a judge on the items of a set that it was asked about, and store what was found.

    Raises JudgeRefused where it has settled none of them.
    """
    judgements = epoch.judgements.filter(item__labels_in=labels_in, sample__lt=CANARY_SAMPLES)
    if labels_in.kind == LabelSet.Kind.SCORES:
        found = calibrate_scores(_some(score_items(epoch, labels_in)))
        report = _report(found, judgements)
    else:
        items = _some(pair_items(epoch, labels_in))
        beside = _beside(epoch, items, Q(item__labels_in=labels_in), labels_in)
        report = _report(calibrate_pairs(items), judgements) | {"beside": beside}
    return _store(epoch, labels_in.kind, report, now, label_set=labels_in)


def measure_arena(*, epoch: Epoch, arena: Arena, now: datetime) -> Calibration:
    """Measure a judge on the pairs of an arena that people voted on, and store what was found.

    A jury is measured by its own verdicts, and costs what its members' verdicts do. Raises
    JudgeRefused where it has settled none of them.
    """
    items = _some(arena_items(epoch, arena))
    verdicts = _verdicts_in(epoch, arena)
    report = _report(calibrate_pairs(items), _judgements_in(epoch, arena)) | {
        "beside": _beside(epoch, items, Q(comparison__arena=arena), arena),
        "transitivity": _transitivity(verdicts),
        "not_asked": len(voted_on(arena)) - len(items),
    }
    return _store(epoch, LabelSet.Kind.PAIRS, report, now, arena=arena)


def _some(items: Sequence[Any]) -> Sequence[Any]:
    if not items:
        raise JudgeRefused(NOTHING)
    return items


def _report(found: Any, judgements: QuerySet[Judgement]) -> dict[str, Any]:
    trust = is_trusted(found)
    whole: dict[str, Any] = found.to_json()
    return whole | {"trust": trust.to_json(), "money": money_of(judgements)}


@transaction.atomic
def _store(
    epoch: Epoch, kind: str, report: dict[str, Any], now: datetime, **against: Any
) -> Calibration:
    calibration = Calibration.objects.create(
        epoch=epoch,
        kind=kind,
        report=report,
        trusted=report["trust"]["trusted"],
        made_at=now,
        **against,
    )
    settle_trust(epoch=epoch, now=now)
    return calibration


# -- Money and time --------------------------------------------------------------------------------


def money_of(judgements: QuerySet[Judgement]) -> dict[str, Any]:
    """Say what some judgements cost, their grading notes too, and how long their calls took.

    In nano-dollars and seconds; per verdict is over those that have one, None without any. A call
    that several judgements share counts once.
    """
    by_call = Q(forward_of__in=judgements) | Q(reverse_of__in=judgements)
    direct = Call.objects.filter(by_call).values("pk")
    needed = Call.objects.filter(by_call, needs__isnull=False).values("needs")
    calls = Call.objects.filter(Q(pk__in=direct) | Q(pk__in=needed))
    sums = calls.aggregate(
        cost=Sum(F("cost") + F("uncertain"), default=0),
        seconds=Sum("seconds", default=0.0),
        calls=Count("pk"),
    )
    verdicts = judgements.filter(state=Judgement.State.VOTED).count()
    return sums | {
        "verdicts": verdicts,
        "cost_per_verdict": round(sums["cost"] / verdicts) if verdicts else None,
        "seconds_per_verdict": sums["seconds"] / verdicts if verdicts else None,
    }


# -- Contradictions --------------------------------------------------------------------------------


def _verdicts_in(epoch: Epoch, arena: Arena) -> list[tuple[int, int, str]]:
    """A rater's votes in an arena: two candidates and the outcome."""
    votes = Vote.objects.live().filter(arena=arena, rater=epoch.rater_id)
    rows = votes.values_list("comparison__left", "comparison__right", "outcome")
    return list(rows.order_by("pk"))


def _judgements_in(epoch: Epoch, arena: Arena) -> QuerySet[Judgement]:
    """What a judge was asked in an arena; of a jury, what its members were."""
    asked = Judgement.objects.filter(comparison__arena=arena, sample=0)
    if epoch.judge.is_jury:
        return asked.filter(pk__in=asked.filter(jury_verdicts__epoch=epoch).values("pk"))
    return asked.filter(epoch=epoch)


def _transitivity(verdicts: Sequence[tuple[int, int, str]]) -> dict[str, Any]:
    """Count the triads of candidates in which the majorities of the judge's verdicts agree."""
    places = {pk: i for i, pk in enumerate(sorted({pk for row in verdicts for pk in row[:2]}))}
    wins = [[0.0] * len(places) for _ in places]
    for left, right, outcome in verdicts:
        points = {"left": 1.0, "right": 0.0}.get(outcome, 0.5)
        wins[places[left]][places[right]] += points
        wins[places[right]][places[left]] += 1 - points
    found = transitivity(wins) if wins else None
    triads = found.triads if found else 0
    transitive = found.transitive if found else 0
    return {
        "triads": triads,
        "transitive": transitive,
        "share": transitive / triads if triads else None,
    }


# -- The same model under another rubric -----------------------------------------------------------


def _beside(
    epoch: Epoch, items: Sequence[PairItem], there: Q, against: LabelSet | Arena
) -> list[dict[str, Any]]:
    """Compare with other judges of the same model on the items that both have settled."""
    found = []
    for other in _same_model(epoch, there):
        theirs = (
            pair_items(other, against)
            if isinstance(against, LabelSet)
            else arena_items(other, against)
        )
        difference = paired_difference(items, theirs)
        if difference.n_items:
            found.append(
                {
                    "judge": other.judge.name,
                    "epoch": other.pk,
                    "what": _what_differs(epoch.judge, other.judge),
                    "difference": difference.to_json(),
                }
            )
    return found


def _same_model(epoch: Epoch, there: Q) -> Iterable[Epoch]:
    """The newest judges of this endpoint and model, in their open epochs, that settled anything
    there."""
    judge = epoch.judge
    if judge.is_jury:
        return []
    settled = Judgement.objects.filter(there, sample=0).exclude(state=Judgement.State.WAITING)
    return (
        Epoch.objects.open()
        .filter(judge__endpoint=judge.endpoint, judge__model=judge.model)
        .exclude(judge=judge)
        .filter(pk__in=settled.values("epoch"))
        .select_related("judge")
        .order_by("-pk")[:MOST_BESIDE]
    )


def _what_differs(judge: Judge, other: Judge) -> str:
    """Name what sets two judges of one model apart, the first of these that does."""
    if judge.protocol != other.protocol:
        return f"{judge.get_protocol_display()} minus {other.get_protocol_display().lower()}"
    if _reference(judge) != _reference(other):
        return f"{_reference(judge)} minus {_reference(other)}"
    if judge.rubric != other.rubric:
        return f"Rubric {judge.rubric} minus {other.rubric}"
    return "Other switches"


def _reference(judge: Judge) -> str:
    try:
        needed = load_rubric(judge.rubric).reference == "required"
    except RubricError:
        return "with an unknown rubric"
    return "with reference" if needed else "without reference"
