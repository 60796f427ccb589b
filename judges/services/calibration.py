"""Calibrations: a judge's agreement with people, measured and stored.

A report holds the figures of `judges.core.calibration` as plain numbers, and besides

    trust         whether this measurement passes the rule, over all and by category, and why
    money         what the verdicts cost, and how long they took
    beside        this judge minus other judges of the same model, on the same items; where one of
                  the two scores single answers, it comes first, whichever of them is measured
    transitivity  of its verdicts in the arena: A over B over C over A is none (arenas only); of the
                  majorities over all prompts, and `transitivity_per_prompt`
    ranking       how its votes order the candidates beside people's (arenas only)
    not_asked     pairs that people voted on and the judge has not settled (arenas only)
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, Q, QuerySet, Sum

from arena.calls.models import Call
from arena.models import Arena, Vote
from arena.outcomes import PREFERENCES
from judges.core.calibration.items import PairItem
from judges.core.calibration.pairs import PairReport, calibrate_pairs, paired_difference
from judges.core.calibration.scores import ScoreReport, calibrate_scores
from judges.core.calibration.trust import TrustLimits, assess_categories, assess_trust
from judges.core.rubric import RubricError, load_rubric
from judges.models import Calibration, Epoch, Judge, Judgement, LabelSet
from judges.services.calibration_data import (
    DRIFT_CHECK_SAMPLES,
    arena_items,
    pair_items,
    score_items,
    voted_on,
)
from judges.services.registry import JudgeError
from judges.services.trust import settle_trust
from ranking.rank_agreement import compare_orders
from ranking.stats.bradley_terry import NotConvergedError
from ranking.stats.connectivity import transitivity

# -- Measuring -------------------------------------------------------------------------------------

NOTHING_SETTLED = (
    "There is nothing to measure: the judge has no result on any item that people labelled."
)
MOST_COMPARED = 5
DIRECT = Judge.Protocol.DIRECT


def measure_labels(
    *, epoch: Epoch, labels_in: LabelSet, now: datetime, everywhere: bool = False
) -> Calibration:
    """Measure a judge on the settled items of a label set, and store the report.

    `everywhere`: an administrator lets it decide on trust wherever the judge is not measured.
    Raises JudgeError where it has settled none of them.
    """
    judgements = epoch.judgements.filter(item__labels_in=labels_in, sample__lt=DRIFT_CHECK_SAMPLES)
    if labels_in.kind == LabelSet.Kind.SCORES:
        report = _report(calibrate_scores, score_items(epoch, labels_in), judgements)
    else:
        items = pair_items(epoch, labels_in)
        report = _report(calibrate_pairs, items, judgements)
        report["beside"] = _compare_same_model(
            epoch, items, Q(item__labels_in=labels_in), labels_in
        )
    return _store(epoch, labels_in.kind, report, now, label_set=labels_in, everywhere=everywhere)


def measure_arena(*, epoch: Epoch, arena: Arena, now: datetime) -> Calibration:
    """Measure a judge on the pairs of an arena that people voted on, and store the report.

    A jury is measured by its own verdicts, and costs what its members' verdicts cost. Raises
    JudgeError where it has settled none of them.
    """
    items = arena_items(epoch, arena)
    report = _report(calibrate_pairs, items, _judgements_in(epoch, arena)) | {
        "beside": _compare_same_model(epoch, items, Q(comparison__arena=arena), arena),
        **_transitivity(epoch, arena),
        "ranking": _ranking(epoch, arena),
        "not_asked": len(voted_on(arena)) - len(items),
    }
    return _store(epoch, LabelSet.Kind.PAIRS, report, now, arena=arena)


def _report(
    calibrate: Callable[..., PairReport | ScoreReport],
    items: Sequence[Any],
    judgements: QuerySet[Judgement],
) -> dict[str, Any]:
    if not items:
        raise JudgeError(NOTHING_SETTLED)
    report, limits = calibrate(items), TrustLimits(**settings.TRUST_LIMITS)
    categories = assess_categories(items, calibrate, limits)
    return report.to_json() | {
        "trust": assess_trust(report, limits).to_json()
        | {"categories": [category.to_json() for category in categories]},
        "money": summarise_costs(judgements),
    }


@transaction.atomic
def _store(
    epoch: Epoch, kind: str, report: dict[str, Any], now: datetime, **facts: Any
) -> Calibration:
    calibration = Calibration.objects.create(
        epoch=epoch,
        kind=kind,
        report=report,
        trusted=report["trust"]["trusted"],
        made_at=now,
        **facts,
    )
    settle_trust(epoch=epoch, now=now)
    return calibration


# -- Costs -----------------------------------------------------------------------------------------


def summarise_costs(judgements: QuerySet[Judgement]) -> dict[str, Any]:
    """Return what judgements cost, grading notes included, and how long their calls took.

    In nano-dollars and seconds; the figures per verdict are None without any verdict. A call that
    several judgements share counts once.
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


def _judgements_in(epoch: Epoch, arena: Arena) -> QuerySet[Judgement]:
    """Return a judge's judgements in an arena; for a jury, those of its members."""
    asked = Judgement.objects.filter(comparison__arena=arena, sample=0)
    if epoch.judge.is_jury:
        of_jury = asked.filter(jury_verdicts__epoch=epoch, jury_verdicts__casts_vote=True)
        return asked.filter(pk__in=of_jury.values("pk"))
    return asked.counted().filter(epoch=epoch)


def _transitivity(epoch: Epoch, arena: Arena) -> dict[str, Any]:
    """Count the transitive triads of candidates: by the majorities of the judge's votes, and on
    each prompt (Kim et al. 2024, Prometheus 2, section 5.3)."""
    votes = Vote.objects.live().filter(arena=arena, rater=epoch.rater_id).order_by("pk")
    columns = ("comparison__prompt", "comparison__left", "comparison__right", "outcome")
    by_prompt: dict[int | None, list[Duel]] = {}
    for prompt, *duel in votes.values_list(*columns):
        by_prompt.setdefault(prompt, []).append((duel[0], duel[1], duel[2]))
    over_all = _count_triads([[duel for duels in by_prompt.values() for duel in duels]])
    per_prompt = _count_triads(duels for prompt, duels in by_prompt.items() if prompt)
    return {"transitivity": over_all, "transitivity_per_prompt": per_prompt}


Duel = tuple[int, int, str]  # the candidates on the left and on the right, and the outcome


def _count_triads(groups: Iterable[Sequence[Duel]]) -> dict[str, Any]:
    """Add up the triads of each group of votes, and those of them that are transitive."""
    counts = [transitivity(_points(duels)) for duels in groups if duels]
    triads = sum(one.triads for one in counts)
    transitive = sum(one.transitive for one in counts)
    share = transitive / triads if triads else None
    return {"triads": triads, "transitive": transitive, "share": share}


def _points(duels: Sequence[Duel]) -> list[list[float]]:
    """Return the points of each candidate (row) against each other one."""
    candidates = sorted({candidate for left, right, _ in duels for candidate in (left, right)})
    index = {candidate: number for number, candidate in enumerate(candidates)}
    wins = [[0.0] * len(index) for _ in index]
    for left, right, outcome in duels:
        points = PREFERENCES.get(outcome, 0.5)
        wins[index[left]][index[right]] += points
        wins[index[right]][index[left]] += 1 - points
    return wins


def _ranking(epoch: Epoch, arena: Arena) -> dict[str, Any] | None:
    """Compare the order of the candidates by this judge with that by people."""
    votes = arena.votes.live()
    try:
        found = compare_orders(votes.filter(rater=epoch.rater_id), votes.of_people())
    except NotConvergedError:
        return None
    return asdict(found)


# -- Judges of the same model ----------------------------------------------------------------------


def _compare_same_model(
    epoch: Epoch, items: Sequence[PairItem], measured: Q, against: LabelSet | Arena
) -> list[dict[str, Any]]:
    """Compare with other judges of the same model on the items that both have settled.

    `measured` selects the judgements on `against`. The newest judges, in their open epochs.
    """
    judge = epoch.judge
    if judge.is_jury:
        return []
    settled = Judgement.objects.settled().filter(measured, sample=0)
    others = (
        Epoch.objects.open()
        .filter(judge__endpoint=judge.endpoint, judge__model=judge.model)
        .exclude(judge=judge)
        .filter(pk__in=settled.values("epoch"))
        .select_related("judge")
        .order_by("-pk")[:MOST_COMPARED]
    )
    comparisons = []
    for other in others:
        if isinstance(against, LabelSet):
            other_items = pair_items(other, against)
        else:
            other_items = arena_items(other, against)
        first, second = (judge, items), (other.judge, other_items)
        if judge.protocol != DIRECT and other.judge.protocol == DIRECT:  # as Direct2Pair has it
            first, second = second, first
        difference = paired_difference(first[1], second[1])
        if difference.n_items:
            comparisons.append(
                {
                    "judge": other.judge.name,
                    "epoch": other.pk,
                    "what": _what_differs(first[0], second[0]),
                    "difference": difference.to_json(),
                }
            )
    return comparisons


def _what_differs(judge: Judge, other: Judge) -> str:
    """Name the first difference between two judges of one model."""
    if judge.protocol != other.protocol:
        return f"{judge.get_protocol_display()} minus {other.get_protocol_display().lower()}"
    if _reference(judge) != _reference(other):
        return f"{_reference(judge)} minus {_reference(other)}"
    if judge.rubric != other.rubric:
        return f"Rubric {judge.rubric} minus {other.rubric}"
    return "Other options"


def _reference(judge: Judge) -> str:
    try:
        needed = load_rubric(judge.rubric).reference == "required"
    except RubricError:
        return "with an unknown rubric"
    return "with reference" if needed else "without reference"
