"""Calibrations: a judge's agreement with people, measured and stored.

A report holds the figures of `judges.core.calibration` as plain numbers, and:

    trust         whether this measurement passes the rule, over all and by category, and why
    money         what the verdicts cost, and how long they took
    beside        this judge minus other judges of the same model, on the same items; if one of the
                  two scores single answers, it comes first, whichever of them is measured
    transitivity  of its verdicts in the arena: A over B over C over A is none (arenas only); of the
                  majorities over all prompts, and `transitivity_per_prompt`
    ranking       how its votes order the candidates, compared with people's (arenas only)
    panel         how well this judge and others do together, on the pairs that all have judged: the
                  report of `judges.core.calibration.panels`, with the ids of the `judges` and the
                  newest vote, `fitted_until` (arenas only; None if there is too little)
    not_asked     pairs that people voted on and the judge has not settled (arenas only)

An arena's items are the pairs of responses that people voted on. There the response with the lower
id is left, whichever side people and the judge saw it on.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, Max, Q, Sum
from django.db.models.functions import Length

from arena.calls.models import Call
from arena.models import Arena, Comparison, Response, Vote
from arena.outcomes import PREFERENCES, mirror
from judges.core.calibration import panels
from judges.core.calibration.items import PairItem, ScoreItem, own_side
from judges.core.calibration.pairs import PairReport, calibrate_pairs, paired_difference
from judges.core.calibration.scores import ScoreReport, calibrate_scores, rescale
from judges.core.calibration.trust import TrustLimits, assess_categories, assess_trust
from judges.core.rubric import RubricError, load_rubric
from judges.core.spec import family_of
from judges.models import (
    Calibration,
    Epoch,
    Judge,
    Judgement,
    JuryVerdict,
    Label,
    LabelItem,
    LabelSet,
)
from judges.models.judgements import JudgementQuerySet
from judges.services.registry import JudgeError
from judges.services.subjects import (
    families_in,
    human_labels,
    ids_of,
    key_of_pair,
    read_subject,
)
from judges.services.trust import settle_trust
from judges.services.verdicts import Sides, call_outcome
from ranking.raters import compare_orders
from ranking.stats.bradley_terry import NotConvergedError
from ranking.stats.connectivity import transitivity


NOTHING_SETTLED = (
    "There is nothing to measure: the judge has no result on any item that people labelled."
)
MOST_COMPARED = 5
MOST_LOOKED_AT = 10
MOSTLY = 0.8
DIRECT = Judge.Protocol.DIRECT


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
        if scale and (own := load_rubric(epoch.judge.rubric).scale):
            scores = rescale(scores, (own.low, own.high), scale)
            converted = {"scale": {"judge": [own.low, own.high], "people": list(scale)}}
        report = _report(calibrate_scores, scores, judgements) | converted
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
        "panel": _panel(epoch, items, arena),
        "not_asked": len(voted_on(arena)) - len(items),
    }
    return _store(epoch, LabelSet.Kind.PAIRS, report, now, arena=arena)


def _report(
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
    triads = sum(count.triads for count in counts)
    transitive = sum(count.transitive for count in counts)
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
        return asdict(compare_orders(votes.filter(rater=epoch.rater_id), votes.of_people()))
    except NotConvergedError:
        return None


def _panel(epoch: Epoch, items: Sequence[PairItem], arena: Arena) -> dict[str, Any] | None:
    """Measure a judge together with others that have judged nearly all of the same pairs."""
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
    costs = [_cost_per_pair(_judgements_in(member, arena)) for member, _ in judged]
    report = panels.measure_panel(panels.panel_items([own for _, own in judged]), costs)
    if report is None:
        return None
    ids, names = zip(*((member.pk, str(member)) for member, _ in judged), strict=True)
    stored = {"judges": list(ids), "names": list(names)}
    return report.to_json() | stored | {"fitted_until": fitted_until}


def _cost_per_pair(judgements: JudgementQuerySet) -> float:
    settled = judgements.exclude(state__in=Judgement.UNSETTLED)
    return float(summarise_costs(settled)["cost"]) / max(1, settled.count())


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
        if judge.protocol != DIRECT and other.judge.protocol == DIRECT:  # as in Direct2Pair
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


# Samples from here on belong to drift checks; lower ones measure how consistent a judge is.
DRIFT_CHECK_SAMPLES = 1000
VOTED = Judgement.State.VOTED
REPEATS = Q(sample__lt=DRIFT_CHECK_SAMPLES)
CALL_COLUMNS = ("verdict", "subject", "state")


@dataclass(frozen=True)
class SettledJudgement:
    """A settled judgement. Outcomes are in the judgement's own left and right.

    `forward` is the outcome of the call that showed left before right, `reverse` of the other.
    """

    state: str
    outcome: str | None = None
    score: float | None = None
    forward: str | None = None
    reverse: str | None = None

    def swapped(self) -> "SettledJudgement":
        """The same judgement with left and right exchanged."""
        return SettledJudgement(
            self.state,
            self.outcome and mirror(self.outcome),
            self.score,
            self.reverse and mirror(self.reverse),
            self.forward and mirror(self.forward),
        )


@dataclass
class PairVotes:
    """People's votes on two responses of an arena; the lower id is left."""

    prompt: int
    category: str
    candidates: tuple[int, int]
    labels: dict[str, str] = field(default_factory=dict)


def settled_judgements(
    epoch: Epoch, labels_in: LabelSet, samples: Q = REPEATS
) -> dict[int, dict[int, SettledJudgement]]:
    """Map item -> sample -> judgement; judgements that still wait are left out."""
    rows = epoch.judgements.filter(samples, item__labels_in=labels_in)
    by_item: dict[int, dict[int, SettledJudgement]] = {}
    for row in _settled_rows(rows):
        assert row.item_id is not None, "selected by its item"
        by_item.setdefault(row.item_id, {})[row.sample] = _settled_judgement(row, Sides(1, 2))
    return by_item


def _settled_rows(rows: Any) -> Iterator[Judgement]:
    """Load judgements with their calls' verdicts, but without the long replies."""
    calls = [f"{call}__{name}" for call in ("forward", "reverse") for name in CALL_COLUMNS]
    own = ("state", "outcome", "score", "sample", "item", "responses")
    sides = ("comparison__left_response", "comparison__right_response")
    counted = rows.counted().select_related("forward", "reverse", "comparison")
    # One that failed in another run gives way to a verdict.
    return iter(counted.only(*own, *calls, *sides).order_by("casts_vote", "pk"))


def _settled_judgement(judgement: Judgement, sides: Sides) -> SettledJudgement:
    calls = [judgement.forward, judgement.reverse]
    # A list shows the two anywhere among others; a call that scores one answer shows no order.
    subject = read_subject(judgement.forward.subject)
    if [answer for answer in subject.shown if answer in (sides.left, sides.right)] == [
        sides.right,
        sides.left,
    ]:
        calls.reverse()
    forward, reverse = (_outcome_of(call, sides) for call in calls)
    if judgement.state != VOTED:
        return SettledJudgement(judgement.state, None, None, forward, reverse)
    return SettledJudgement(
        judgement.state, judgement.outcome or None, judgement.score, forward, reverse
    )


def _outcome_of(call: Call, sides: Sides) -> str | None:
    """Return one call's outcome; None if it has no verdict, or scores a single answer."""
    if call.state != Call.State.DONE or not call.verdict:
        return None
    return call_outcome(call.verdict, call.subject, sides)


def pair_items(epoch: Epoch, labels_in: LabelSet) -> list[PairItem]:
    """Return the labelled pairs on which the judge has a settled judgement."""
    judgements, labels = settled_judgements(epoch, labels_in), labels_of(labels_in, "outcome")
    items = []
    models = _models_of(labels_in)
    for pk, key, prompt, category, left, right in _items(labels_in):
        samples = judgements.get(pk, {})
        if first := samples.get(0):
            items.append(
                PairItem(
                    key=key,
                    cluster=prompt,
                    category=category,
                    labels=labels.get(pk, ()),
                    verdict=first.outcome,
                    state=first.state,
                    forward=first.forward,
                    reverse=first.reverse,
                    length_left=left,
                    length_right=right,
                    repeats=tuple(samples[n].outcome for n in sorted(samples) if n),
                    own_family=own_side(epoch.judge.family, models.get(pk, ["", ""])),
                )
            )
    return items


def score_items(epoch: Epoch, labels_in: LabelSet) -> list[ScoreItem]:
    """Return the scored answers on which the judge has a settled judgement."""
    judgements, labels = settled_judgements(epoch, labels_in), labels_of(labels_in, "score")
    items = []
    for pk, key, prompt, category, length, _ in _items(labels_in):
        samples = judgements.get(pk, {})
        if first := samples.get(0):
            items.append(
                ScoreItem(
                    key=key,
                    cluster=prompt,
                    category=category,
                    labels=labels.get(pk, ()),
                    score=first.score,
                    state="done" if first.state == VOTED else first.state,
                    length=length,
                    repeats=tuple(samples[n].score for n in sorted(samples) if n),
                )
            )
    return items


def _items(labels_in: LabelSet) -> Iterable[tuple[int, str, str, str, int, int]]:
    rows = LabelItem.objects.filter(labels_in=labels_in).order_by("pk")
    columns = ("pk", "key", "prompt", "category", Length("response_1"), Length("response_2"))
    return rows.values_list(*columns)


def _models_of(labels_in: LabelSet) -> dict[int, list[str]]:
    """Map item -> the families of the models that wrote its two answers, if one is known."""
    rows = labels_in.items.exclude(model_1="", model_2="").values_list("pk", "model_1", "model_2")
    return {pk: [family_of(model) if model else "" for model in models] for pk, *models in rows}


def labels_of(labels_in: LabelSet, column: str) -> dict[int, tuple[tuple[str, Any], ...]]:
    """Map item -> (rater, label) of all its labels."""
    rows = Label.objects.filter(item__labels_in=labels_in).order_by("pk")
    by_item: dict[int, list[tuple[str, Any]]] = {}
    for item, rater, value in rows.values_list("item", "rater", column):
        by_item.setdefault(item, []).append((rater, value))
    return {item: tuple(labels) for item, labels in by_item.items()}


def arena_items(epoch: Epoch, arena: Arena) -> list[PairItem]:
    """Return the pairs that people voted on and that the judge, or the jury, has settled."""
    if epoch.judge.is_jury:
        settled = _settled_by_jury(epoch, arena)
    else:
        settled = _settled_by_judge(epoch, arena)
    weights = epoch.judge.weights or {}  # a weighted jury is measured by votes it was not fitted on
    after = weights["fitted_until"] if weights.get("arena") == arena.pk else 0
    people = {key: votes for key, votes in people_in(arena, after).items() if key in settled}
    lengths = _lengths(people)
    families, family = families_in(arena), epoch.judge.family
    return [
        PairItem(
            key=key,
            cluster=str(votes.prompt),
            category=votes.category,
            labels=tuple(votes.labels.items()),
            verdict=settled[key].outcome,
            state=settled[key].state,
            forward=settled[key].forward,
            reverse=settled[key].reverse,
            length_left=lengths[ids_of(key)[0]],
            length_right=lengths[ids_of(key)[1]],
            own_family=own_side(family, [families.get(pk, "") for pk in votes.candidates]),
        )
        for key, votes in people.items()
    ]


def voted_on(arena: Arena) -> dict[str, tuple[int, int, int]]:
    """Map each pair that people voted on to its prompt and two candidates, the lower id's first."""
    return {key: (votes.prompt, *votes.candidates) for key, votes in people_in(arena).items()}


def _settled_by_judge(epoch: Epoch, arena: Arena) -> dict[str, SettledJudgement]:
    settled = {}
    for row in _settled_rows(epoch.judgements.filter(sample=0, comparison__arena=arena)):
        assert row.comparison is not None, "selected by its comparison"
        sides = _sides_of(row.comparison)
        judgement = _settled_judgement(row, sides)
        settled[row.responses] = judgement if sides.left < sides.right else judgement.swapped()
    return settled


def _settled_by_jury(epoch: Epoch, arena: Arena) -> dict[str, SettledJudgement]:
    """A jury's decisions; without one, it abstained."""
    verdicts = epoch.jury_verdicts.filter(comparison__arena=arena)
    counted = verdicts.filter(Q(casts_vote=True) | Q(state=JuryVerdict.State.FAILED))
    settled = {}
    for verdict in counted.select_related("comparison").order_by("casts_vote", "pk"):
        if verdict.state == JuryVerdict.State.VOTED:
            counts: dict[str, int] = verdict.counts
            most = max(counts, key=lambda outcome: counts[outcome])
            judgement = SettledJudgement(VOTED, verdict.outcome or most)
        elif verdict.state == JuryVerdict.State.FAILED:
            judgement = SettledJudgement(Judgement.State.FAILED)
        else:
            judgement = SettledJudgement(Judgement.State.ABSTAINED)
        sides = _sides_of(verdict.comparison)
        settled[verdict.responses] = judgement if sides.left < sides.right else judgement.swapped()
    return settled


def _sides_of(comparison: Comparison) -> Sides:
    left, right = comparison.left_response_id, comparison.right_response_id
    assert left is not None, "judges compare texts"
    assert right is not None, "judges compare texts"
    return Sides(left, right)


def people_in(arena: Arena, after: int = 0) -> dict[str, PairVotes]:
    """Return people's votes on each pair, of those with larger ids than `after`."""
    rows = human_labels(arena).filter(pk__gt=after).order_by("pk").values_list(
        "pk", "outcome", "rater", "rater__name", "rater__arena",
        "comparison__prompt", "comparison__prompt__category",
        "comparison__left", "comparison__right",
        "comparison__left_response", "comparison__right_response",
    )  # fmt: skip
    people: dict[str, PairVotes] = {}
    for pk, outcome, rater, name, file, prompt, category, left, right, first, second in rows:
        is_swapped = first > second
        key = key_of_pair(first, second)
        if key not in people:
            candidates = (right, left) if is_swapped else (left, right)
            people[key] = PairVotes(prompt or 0, category or "", candidates)
        # Imported votes without a name share one rater, though each may be another person's.
        person = str(rater) if name or file is None else f"vote {pk}"
        people[key].labels[person] = mirror(outcome) if is_swapped else outcome
    return people


def _lengths(keys: Iterable[str]) -> Mapping[int, int]:
    ids = sorted({pk for key in keys for pk in ids_of(key)})
    lengths: dict[int, int] = {}
    for start in range(0, len(ids), 1000):
        rows = Response.objects.filter(pk__in=ids[start : start + 1000])
        lengths |= dict(rows.values_list("pk", Length("text")))
    return lengths
