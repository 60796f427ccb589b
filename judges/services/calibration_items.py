"""What calibrations measure: labelled items and pairs of answers, each with people's labels and the
judge's settled verdicts.

An arena's items are the pairs of responses that people voted on. There the response with the lower
id is left, whichever side people and the judge saw it on.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Q

from arena.calls.models import Call
from arena.models import Arena, Comparison, Response
from arena.outcomes import mirror
from arena.shown_text import as_read
from judges.core.calibration.items import PairItem, ScoreItem, own_side
from judges.core.spec import family_of
from judges.models import Epoch, Judgement, JuryVerdict, Label, LabelItem, LabelSet
from judges.services.subjects import families_in, human_labels, ids_of, key_of_pair, read_subject
from judges.services.verdicts import Sides, call_outcome

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
    for pk, key, prompt, category, left, right in _texts_of_items(labels_in):
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
    for pk, key, prompt, category, length, _ in _texts_of_items(labels_in):
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


def _texts_of_items(labels_in: LabelSet) -> Iterator[tuple[int, str, str, str, int, int]]:
    """Yield each item's id, key, prompt and category, and how long its answers are as read."""
    rows = LabelItem.objects.filter(labels_in=labels_in).order_by("pk")
    columns = ("pk", "key", "prompt", "category", "response_1", "response_2")
    for *facts, first, second in rows.values_list(*columns).iterator():
        yield *facts, len(as_read(first)), len(as_read(second))


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
    lengths = _lengths_of_answers(people)
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


def _lengths_of_answers(keys: Iterable[str]) -> Mapping[int, int]:
    ids = sorted({pk for key in keys for pk in ids_of(key)})
    lengths: dict[int, int] = {}
    for start in range(0, len(ids), 1000):
        rows = Response.objects.filter(pk__in=ids[start : start + 1000]).values_list("pk", "text")
        lengths |= {pk: len(as_read(text)) for pk, text in rows.iterator()}
    return lengths
