"""Calibrations: a judge's agreement with people, measured and stored.

A report holds the figures of `judges.core.calibration` as plain numbers, and:

    trust         whether this measurement passes the rule, over all and by category, and why
    money         what the verdicts cost, and how long they took
    setups        this judge beside others of the same model, on the same items; if one of the two
                  scores single answers, it comes first, whichever of them is measured
    transitivity_per_prompt  of its verdicts on each prompt: A over B over C over A is none (arenas
                  only)
    panel         the weights of this judge and others in a jury of all: the ids of the `judges`,
                  `weights`, `n_items`, and the newest vote, `fitted_until` (arenas only; None if
                  there is too little)
    to_label      pairs of candidates, [id, id, n]: on n pairs of their answers that nobody voted on
                  the judge prefers the shorter one (arenas only)
    not_asked     pairs that people voted on and the judge has not settled (arenas only)
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, Max, Q, Sum
from django.db.models.functions import Length

from arena.calls.models import Call
from arena.models import Arena, Vote
from arena.outcomes import PREFERENCES
from judges.core.calibration import panels
from judges.core.calibration.items import SIDES, PairItem
from judges.core.calibration.pairs import PairReport, calibrate_pairs
from judges.core.calibration.scores import ScoreReport, calibrate_scores, rescale
from judges.core.calibration.trust import TrustLimits, assess_categories, assess_trust
from judges.models import Calibration, Epoch, Judgement, LabelSet
from judges.models.judgements import JudgementQuerySet
from judges.services.calibration_items import (
    DRIFT_CHECK_SAMPLES,
    arena_items,
    pair_items,
    score_items,
    voted_on,
)
from judges.services.registry import JudgeError
from judges.services.rubrics import rubric_of_judge
from judges.services.same_model import compare_setups
from judges.services.trust import settle_trust
from ranking.stats.connectivity import transitivity

NOTHING_SETTLED = (
    "There is nothing to measure: the judge has no result on any item that people labelled."
)
MOSTLY = 0.8
Duel = tuple[int, int, str]  # the candidates on the left and on the right, and the outcome
MOST_LOOKED_AT = 10
MOST_TO_LABEL = 5


def measure_labels(
    *,
    epoch: Epoch,
    labels_in: LabelSet,
    now: datetime,
    everywhere: bool = False,
    scale: tuple[float, float] | None = None,
) -> Calibration:
    """Measure a judge on the settled items of a label set, and store the report.

    `everywhere`: an administrator lets it decide on trust wherever the judge is not measured.
    `scale`: the lowest and highest of people's scores, to which the judge's are converted. Raises
    JudgeError where it has settled none of them.
    """
    judgements = epoch.judgements.filter(item__labels_in=labels_in, sample__lt=DRIFT_CHECK_SAMPLES)
    if labels_in.kind == LabelSet.Kind.SCORES:
        scores = score_items(epoch, labels_in)
        converted: dict[str, Any] = {}
        if scale and (own := rubric_of_judge(epoch.judge).scale):
            scores = rescale(scores, (own.low, own.high), scale)
            converted = {"scale": {"judge": [own.low, own.high], "people": list(scale)}}
        report = _measure_items(calibrate_scores, scores, judgements) | converted
    else:
        items = pair_items(epoch, labels_in)
        report = _measure_items(calibrate_pairs, items, judgements)
        report["setups"] = compare_setups(epoch, items, Q(item__labels_in=labels_in), labels_in)
    return _store_calibration(
        epoch, labels_in.kind, report, now, label_set=labels_in, everywhere=everywhere
    )


def measure_arena(*, epoch: Epoch, arena: Arena, now: datetime) -> Calibration:
    """Measure a judge on the pairs of an arena that people voted on, and store the report.

    A jury is measured by its own verdicts, and costs what its members' verdicts cost. Raises
    JudgeError where it has settled none of them.
    """
    items, voted = arena_items(epoch, arena), voted_on(arena)
    report = _measure_items(calibrate_pairs, items, _judgements_in(epoch, arena)) | {
        "setups": compare_setups(epoch, items, Q(comparison__arena=arena), arena),
        "transitivity_per_prompt": _measure_transitivity(epoch, arena),
        "panel": _measure_panel(epoch, items, arena),
        "to_label": _find_pairs_to_label(epoch, arena, voted),
        "not_asked": len(voted) - len(items),
    }
    return _store_calibration(epoch, LabelSet.Kind.PAIRS, report, now, arena=arena)


def _measure_items(
    calibrate: Callable[..., PairReport | ScoreReport],
    items: Sequence[Any],
    judgements: JudgementQuerySet,
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
def _store_calibration(
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


def summarise_costs(judgements: JudgementQuerySet) -> dict[str, Any]:
    """Return what judgements cost, grading notes included, and how long their calls took.

    In nano-dollars and seconds; None per verdict if there is no verdict. A shared call counts once.
    """
    by_call = Q(forward_of__in=judgements) | Q(reverse_of__in=judgements)
    direct = Call.objects.filter(by_call).values("pk")
    needed = Call.objects.filter(by_call, needs__isnull=False).values("needs")
    further = Q(pk__in=judgements.further_calls().values("pk"))
    sums = Call.objects.filter(Q(pk__in=direct) | Q(pk__in=needed) | further).aggregate(
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


def _judgements_in(epoch: Epoch, arena: Arena) -> JudgementQuerySet:
    """Return a judge's judgements in an arena; for a jury, those of its members."""
    asked = Judgement.objects.filter(comparison__arena=arena, sample=0)
    if epoch.judge.is_jury:
        of_jury = asked.filter(jury_verdicts__epoch=epoch, jury_verdicts__casts_vote=True)
        return asked.filter(pk__in=of_jury.values("pk"))
    return asked.counted().filter(epoch=epoch)


def _measure_transitivity(epoch: Epoch, arena: Arena) -> dict[str, Any]:
    """Count the transitive triads of candidates on each prompt (Kim et al. 2024, Prometheus 2,
    table 15)."""
    votes = Vote.objects.live().filter(
        arena=arena, rater=epoch.rater_id, comparison__prompt__isnull=False
    )
    columns = ("comparison__prompt", "comparison__left", "comparison__right", "outcome")
    by_prompt: dict[int, list[Duel]] = {}
    for prompt, left, right, outcome in votes.order_by("pk").values_list(*columns):
        by_prompt.setdefault(prompt, []).append((left, right, outcome))
    counts = [transitivity(_points_of_duels(duels)) for duels in by_prompt.values()]
    triads = sum(count.triads for count in counts)
    transitive = sum(count.transitive for count in counts)
    share = transitive / triads if triads else None
    return {"triads": triads, "transitive": transitive, "share": share}


def _points_of_duels(duels: Sequence[Duel]) -> list[list[float]]:
    """Return the points of each candidate (row) against each other one."""
    candidates = sorted({candidate for left, right, _ in duels for candidate in (left, right)})
    index = {candidate: number for number, candidate in enumerate(candidates)}
    wins = [[0.0] * len(index) for _ in index]
    for left, right, outcome in duels:
        points = PREFERENCES.get(outcome, 0.5)
        wins[index[left]][index[right]] += points
        wins[index[right]][index[left]] += 1 - points
    return wins


def _find_pairs_to_label(
    epoch: Epoch, arena: Arena, voted: Collection[str]
) -> list[tuple[int, int, int]]:
    """Find where people's votes would show best whether a judge goes by more than length."""
    decided = epoch.judgements.counted().filter(
        sample=0, comparison__arena=arena, state=Judgement.State.VOTED, outcome__in=SIDES
    )
    lengths = [Length(f"comparison__{side}_response__text") for side in SIDES]
    columns = ("responses", "outcome", "comparison__left", "comparison__right")
    counts = Counter[tuple[int, int]]()
    for responses, outcome, first, second, left, right in decided.values_list(*columns, *lengths):
        is_shorter = left < right if outcome == "left" else right < left
        if is_shorter and responses not in voted:
            counts[min(first, second), max(first, second)] += 1
    return [(*pair, n) for pair, n in counts.most_common(MOST_TO_LABEL)]


def _measure_panel(epoch: Epoch, items: Sequence[PairItem], arena: Arena) -> dict[str, Any] | None:
    """Weigh a judge together with others that have judged nearly all of the same pairs."""
    if epoch.judge.is_jury:
        return None
    fitted_until = arena.votes.aggregate(newest=Max("pk"))["newest"]
    settled = Judgement.objects.settled().filter(comparison__arena=arena, sample=0)
    others = Epoch.objects.open().filter(pk__in=settled.values("epoch")).exclude(pk=epoch.pk)
    judged, common = [(epoch, items)], {item.key for item in items}
    for other in others.select_related("judge").order_by("-pk")[:MOST_LOOKED_AT]:
        other_items = arena_items(other, arena)
        shared = common & {item.key for item in other_items}
        if len(shared) >= max(panels.FEWEST_ITEMS, MOSTLY * len(common)):
            judged.append((other, other_items))
            common = shared
    judged = judged[: panels.MOST_MEMBERS]
    shared_items = panels.panel_items([own for _, own in judged])
    if len(judged) < 2 or len(shared_items) < panels.FEWEST_ITEMS:
        return None
    return {
        "judges": [member.pk for member, _ in judged],
        "weights": panels.fit_weights(shared_items).to_json(),
        "n_items": len(shared_items),
        "fitted_until": fitted_until,
    }
