"""Calibrations: a judge's agreement with people, measured and stored; and the trust it earns.

A report holds the figures of `judges.core.calibration` as plain numbers, and besides

    trust         whether this measurement passes the rule, and why
    money         what the verdicts cost, and how long they took
    beside        this judge minus other judges of the same model, on the same items
    transitivity  of its verdicts in the arena: A over B over C over A is none (arenas only)
    not_asked     pairs that people voted on and the judge has not settled (arenas only)

The newest calibration of the open epoch against people decides trust, by the rule in
`judges.core.calibration.trust`. Honeypots never make a judge trusted, but they can keep it from
being trusted: when, at the newest measurement, it preferred the fake answer in more than 20 % of at
least 10 verdicts, over all honeypots or over one kind. A jury is calibrated with its members as
they are: when the epoch of one ends, so does its trust.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, Q, QuerySet, Sum

from arena.calls.models import Call
from arena.models import Arena, Vote
from arena.outcomes import PREFERENCES
from arena.services.voting import set_trust
from judges.core.calibration.items import PairItem
from judges.core.calibration.pairs import PairReport, calibrate_pairs, paired_difference
from judges.core.calibration.scores import ScoreReport, calibrate_scores
from judges.core.calibration.trust import TrustLimits, assess_trust
from judges.core.rubric import RubricError, load_rubric
from judges.models import Calibration, Epoch, Judge, Judgement, LabelSet
from judges.services.calibration_data import (
    DRIFT_CHECK_SAMPLES,
    arena_items,
    pair_items,
    score_items,
    voted_on,
)
from judges.services.registry import JudgeError, jury_digest
from ranking.stats.connectivity import transitivity

# -- Trust -----------------------------------------------------------------------------------------

MOST_FALSE_WINS = 0.20
FEWEST_VERDICTS = 10
HONEYPOTS = LabelSet.Kind.HONEYPOTS
MEMBERS_CHANGED = (
    "A member has changed since this jury was formed. Start a run with the same judges, and "
    "calibrate the new jury."
)
NEVER_MEASURED = "It has not been calibrated against people in this epoch."


@transaction.atomic
def settle_trust(*, epoch: Epoch, now: datetime) -> bool:
    """Mark an epoch's rater as trusted or not, by its newest calibrations; return which."""
    trusted = not trust_problems(epoch)
    set_trust(rater_id=epoch.rater_id, trusted=trusted, now=now)
    return trusted


def settle_juries_with(*, judge: Judge, now: datetime) -> None:
    """Settle the trust of all juries with this judge as a member."""
    for jury in Epoch.objects.open().filter(judge__members=judge).select_related("judge"):
        settle_trust(epoch=jury, now=now)


def trust_problems(epoch: Epoch, seen: QuerySet[Calibration] | None = None) -> list[str]:
    """Return the reasons why a judge is not trusted, in sentences; none where it is.

    Every calibration counts; a page passes only those that its reader may see as `seen`.
    """
    calibrations = (Calibration.objects.all() if seen is None else seen).filter(epoch=epoch)
    if epoch.ended_at is not None:
        return [f"This epoch has ended. {epoch.reason}".strip()]
    if epoch.judge.is_jury and not _has_current_members(epoch.judge):
        return [MEMBERS_CHANGED]
    newest_first = calibrations.order_by("-made_at", "-pk")
    against_people = newest_first.exclude(kind=HONEYPOTS).first()
    if against_people is None:
        return [NEVER_MEASURED]
    problems = [] if against_people.trusted else list(against_people.report["trust"]["reasons"])
    on_honeypots = newest_first.filter(kind=HONEYPOTS).first()
    return problems + (honeypot_problems(on_honeypots.report) if on_honeypots else [])


def _has_current_members(jury: Judge) -> bool:
    """Would its members, in their open epochs, be registered as this very jury?"""
    assert jury.quorum is not None, "a jury has a quorum"
    members = Epoch.objects.open().filter(judge__juries=jury)
    return jury_digest(members.values_list("asker", flat=True), jury.quorum) == jury.digest


def honeypot_problems(report: dict[str, Any]) -> list[str]:
    """Return a sentence for each kind of honeypot that fooled the judge too often."""
    named = [("all honeypots", report["false_wins"])]
    named += [(f"{kind['trap']!r} honeypots", kind["false_wins"]) for kind in report["traps"]]
    return [
        f"It preferred the fake answer in {wins['value']:.0%} of {wins['n']} verdicts on {name}; "
        f"more than {MOST_FALSE_WINS:.0%} is too easily fooled."
        for name, wins in named
        if wins["n"] >= FEWEST_VERDICTS and (wins["value"] or 0) > MOST_FALSE_WINS
    ]


# -- Measuring -------------------------------------------------------------------------------------

NOTHING_SETTLED = (
    "There is nothing to measure: the judge has no result on any item that people labelled."
)
MOST_COMPARED = 5


def measure_labels(*, epoch: Epoch, labels_in: LabelSet, now: datetime) -> Calibration:
    """Measure a judge on the settled items of a label set, and store the report.

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
    return _store(epoch, labels_in.kind, report, now, label_set=labels_in)


def measure_arena(*, epoch: Epoch, arena: Arena, now: datetime) -> Calibration:
    """Measure a judge on the pairs of an arena that people voted on, and store the report.

    A jury is measured by its own verdicts, and costs what its members' verdicts cost. Raises
    JudgeError where it has settled none of them.
    """
    items = arena_items(epoch, arena)
    report = _report(calibrate_pairs, items, _judgements_in(epoch, arena)) | {
        "beside": _compare_same_model(epoch, items, Q(comparison__arena=arena), arena),
        "transitivity": _transitivity(epoch, arena),
        "not_asked": len(voted_on(arena)) - len(items),
    }
    return _store(epoch, LabelSet.Kind.PAIRS, report, now, arena=arena)


def _report(
    calibrate: Callable[..., PairReport | ScoreReport],
    items: Sequence[object],
    judgements: QuerySet[Judgement],
) -> dict[str, Any]:
    if not items:
        raise JudgeError(NOTHING_SETTLED)
    report = calibrate(items)
    return report.to_json() | {
        "trust": assess_trust(report, TrustLimits(**settings.TRUST_LIMITS)).to_json(),
        "money": summarise_costs(judgements),
    }


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
    """Count the triads of candidates on which the majorities of the judge's votes agree."""
    votes = Vote.objects.live().filter(arena=arena, rater=epoch.rater_id).order_by("pk")
    rows = list(votes.values_list("comparison__left", "comparison__right", "outcome"))
    candidates = sorted({candidate for left, right, _ in rows for candidate in (left, right)})
    index = {candidate: number for number, candidate in enumerate(candidates)}
    wins = [[0.0] * len(index) for _ in index]
    for left, right, outcome in rows:
        points = PREFERENCES.get(outcome, 0.5)
        wins[index[left]][index[right]] += points
        wins[index[right]][index[left]] += 1 - points
    if not wins:
        return {"triads": 0, "transitive": 0, "share": None}
    counts = transitivity(wins)
    return {
        "triads": counts.triads,
        "transitive": counts.transitive,
        "share": counts.transitive / counts.triads if counts.triads else None,
    }


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
        difference = paired_difference(items, other_items)
        if difference.n_items:
            comparisons.append(
                {
                    "judge": other.judge.name,
                    "epoch": other.pk,
                    "what": _what_differs(judge, other.judge),
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
