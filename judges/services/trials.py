"""Trials of a changed rubric: half of the labelled pairs is looked at, the other half measures.

Whoever changes a rubric has read where its judge and people disagree. On those pairs the change
looks better than it is, so it is measured on pairs that nobody was shown. A prompt's pairs are all
in the same half, because what helps with one of them helps with the others.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from arena.actors import Actor
from arena.models import Arena, Prompt, Run, Team
from arena.outcomes import BOTH_BAD, TIE, mirror
from arena.services import runs
from judges.core.calibration.items import PairItem, majority
from judges.core.rubric import RubricError
from judges.core.spec import JudgeSpec, SpecError
from judges.models import Epoch, Judge, Judgement, LabelItem, LabelSet, RubricTrial, RubricVersion
from judges.services.calibration_items import arena_items, labels_of, pair_items
from judges.services.label_files import LabelFile
from judges.services.label_runs import (
    Outstanding,
    find_outstanding,
    order_outstanding,
    quote_label_run,
    usable_items,
)
from judges.services.labels import add_labels, drawn, items_of, stored_labels
from judges.services.quotes import Quote
from judges.services.registry import JudgeError, register_judge, spec_of
from judges.services.rubrics import read_version
from judges.services.voted_pairs import labels_of_votes
from ranking.stats.agreement import mcnemar

SEED = "trial"
SAMPLES = (0,)
FAILED = Judgement.State.FAILED
NOTHING_TO_MEASURE = "None of these pairs is in the half that measures. Collect more human votes."
SAME = "This judge already has this version. Choose another judge, or write a new version first."
CHANGED = "This judge's rubric has changed on the server since it was registered."


def is_for_looking(prompt: str) -> bool:
    """Whether the pairs of a prompt are shown to those who change a rubric, or else measure it."""
    return hashlib.sha256(f"half {prompt}".encode()).digest()[0] % 2 == 0


@dataclass(frozen=True)
class Disagreement:
    """A judgement against what most people chose: `outcome`, with the judgement's sides.

    `chosen` of `people` chose it.
    """

    judgement: Judgement
    outcome: str
    chosen: int
    people: int


@dataclass(frozen=True)
class Disagreements:
    """The pairs of an arena for looking at on which a judge and most people disagree.

    Those on which people are most certain come first: by the share of people, as if two more, one
    for either, had voted.
    """

    epoch: Epoch
    arena: Arena

    @cached_property
    def items(self) -> list[PairItem]:
        texts = dict(Prompt.objects.filter(arena=self.arena).values_list("pk", "text"))
        wrong = [
            item
            for item in arena_items(self.epoch, self.arena)
            if is_for_looking(texts.get(int(item.cluster), ""))
            and item.verdict
            and (chosen := majority(item.people))
            and item.verdict != chosen[0]
        ]
        return sorted(wrong, key=lambda item: (-_certainty(item), item.key))

    def load(self, chosen: Sequence[PairItem]) -> list[Disagreement]:
        """Return some of the items with their texts and calls."""
        items = {item.key: item for item in chosen}
        rows = self.epoch.judgements.counted().with_texts().select_related("forward", "reverse")
        judgements = rows.filter(sample=0, comparison__arena=self.arena, responses__in=items)
        found = {row.responses: row for row in judgements.order_by("casts_vote", "pk")}
        return [_disagreement(found[key], item) for key, item in items.items() if key in found]


def _certainty(item: PairItem) -> float:
    (chosen,) = majority(item.people)
    return (item.people.count(chosen) + 1) / (len(item.people) + 2)


def _disagreement(judgement: Judgement, item: PairItem) -> Disagreement:
    (chosen,) = majority(item.people)
    comparison = judgement.comparison
    assert comparison is not None, "selected by its comparison"
    left, right = comparison.left_response_id or 0, comparison.right_response_id or 0
    outcome = chosen if left < right else mirror(chosen)  # of an item the lower id is left
    return Disagreement(judgement, outcome, item.people.count(chosen), len(item.people))


@dataclass(frozen=True)
class TrialPlan:
    """A trial before it is started: what will be asked, and what that costs."""

    version: RubricVersion
    before: Epoch
    specs: tuple[JudgeSpec, JudgeSpec]
    labels: LabelFile | LabelSet
    arena: Arena | None
    items: Sequence[LabelItem]
    pairs: int
    outstanding: tuple[Outstanding, Outstanding]

    @cached_property
    def quote(self) -> Quote:
        judges = [
            quote_label_run(spec=spec, items=left.missing).judges[0]
            for spec, left in zip(self.specs, self.outstanding, strict=True)
        ]
        return Quote(0, sum(judge.comparisons for judge in judges), judges)

    def shares_of(self, cap: int | None) -> list[int | None]:
        """Divide a cap in proportion to what each judge would cost at worst on all of the pairs."""
        quotes = [quote_label_run(spec=spec, items=self.items) for spec in self.specs]
        worst = [quote.worst or 0 for quote in quotes]
        if cap is None or not sum(worst):
            return [None, None]
        return [cap * part // sum(worst) for part in worst]


def plan_trial(
    *, version: RubricVersion, judge: Judge, source: Arena | LabelSet, pairs: int
) -> TrialPlan:
    """Plan a trial of a version with a judge, on at most `pairs` human-labelled pairs that measure.

    Nothing is written. Raises JudgeError.
    """
    before = judge.epochs.open().select_related("judge", "rater").get()
    labels = labels_of_votes(source) if isinstance(source, Arena) else source
    specs = _specs_of(judge, version)
    items = _measuring(labels, specs, pairs)
    stored = stored_items(labels, items)
    after = Epoch.objects.open().filter(judge__digest=specs[1].digest).first()
    left = [
        find_outstanding(spec=spec, epoch=epoch, items=stored, samples=SAMPLES)
        for spec, epoch in zip(specs, (before, after), strict=True)
    ]
    arena = source if isinstance(source, Arena) else None
    return TrialPlan(version, before, specs, labels, arena, stored, pairs, (left[0], left[1]))


def _specs_of(judge: Judge, version: RubricVersion) -> tuple[JudgeSpec, JudgeSpec]:
    try:
        before = spec_of(judge)
        after = replace(before, rubric=read_version(version))
    except (RubricError, SpecError) as error:
        raise JudgeError(str(error)) from None
    if before.digest != judge.digest:
        raise JudgeError(CHANGED)
    if before.digest == after.digest:
        raise JudgeError(SAME)
    return before, after


def _measuring(
    labels: LabelFile | LabelSet, specs: Sequence[JudgeSpec], pairs: int
) -> list[LabelItem]:
    """Draw from the half that measures, of what both judges can judge and most people agree on."""
    measuring = [
        item
        for item, outcomes in _with_outcomes(labels)
        if not is_for_looking(item.prompt) and majority(outcomes)
    ]
    if not measuring:
        raise JudgeError(NOTHING_TO_MEASURE)
    for spec in specs:
        measuring = usable_items(spec, measuring)
    return drawn(measuring, pairs, SEED)


def _with_outcomes(labels: LabelFile | LabelSet) -> list[tuple[LabelItem, list[str]]]:
    """Return the items with what people said of each, where "both bad" is a tie."""
    if isinstance(labels, LabelFile):
        told = [list(map(str, labelled.labels.values())) for labelled in labels.items]
        rows = list(zip(items_of(labels), told, strict=True))
    else:
        said = labels_of(labels, "outcome")
        items = labels.items.order_by("pk")
        rows = [(item, [outcome for _, outcome in said.get(item.pk, ())]) for item in items]
    return [(item, [TIE if each == BOTH_BAD else each for each in told]) for item, told in rows]


def stored_items(labels: LabelFile | LabelSet, items: Sequence[LabelItem]) -> list[LabelItem]:
    """Return the rows of these items where their labels are stored, else the items themselves."""
    if isinstance(labels, LabelSet):
        return list(items)
    keys = [item.key for item in items]
    stored = LabelItem.objects.filter(labels_in=stored_labels(labels), key__in=keys)
    rows = {item.key: item for item in stored}
    return [rows.get(item.key, item) for item in items]


def start_trial(
    *, plan: TrialPlan, team: Team, cap: int | None, by: Actor, now: datetime
) -> RubricTrial:
    """Store a trial and ask both judges what they were not asked before; `team` pays up to `cap`.

    After an interruption, the same call goes on. Raises JudgeError and RunError.
    """
    runs.rehearse_payment(team=team, quote=plan.quote, cap=cap)
    labels = plan.labels
    if isinstance(labels, LabelFile):
        assert plan.arena is not None, "labels that are not stored are an arena's votes"
        name = f"Human votes in {plan.arena.slug}"
        labels = add_labels(file=labels, name=name, arena=plan.arena)
    after = register_judge(spec=plan.specs[1])
    trial, _ = RubricTrial.objects.get_or_create(
        version=plan.version,
        before=plan.before.judge,
        after=after.judge,
        labels_in=labels,
        pairs=plan.pairs,
        defaults={"made_by": by.user},
    )
    keys = [item.key for item in plan.items]
    items = list(labels.items.filter(key__in=keys))
    shares = plan.shares_of(cap)
    for spec, epoch, share in zip(plan.specs, (plan.before, after), shares, strict=True):
        left = find_outstanding(spec=spec, epoch=epoch, items=items, samples=SAMPLES)
        # Runs that others pay for are waited for, not resumed.
        own = [run for run in left.runs if run.team_id == team.pk]
        order_outstanding(
            epoch=epoch,
            outstanding=replace(left, runs=own),
            samples=SAMPLES,
            cap=share,
            now=now,
            team=team,
            by=by,
        )
    return trial


@dataclass(frozen=True)
class TrialResult:
    """How often both judges chose what most people chose, on the pairs that both have settled.

    No verdict is a miss; pairs on which the server failed are not settled.
    `p`: McNemar's exact test of the pairs on which one judge is right alone.
    """

    wanted: int
    settled: int
    before: int
    after: int
    only_before: int
    only_after: int
    p: float
    runs: Sequence[Run]

    @property
    def share_before(self) -> float | None:
        return self.before / self.settled if self.settled else None

    @property
    def share_after(self) -> float | None:
        return self.after / self.settled if self.settled else None

    @property
    def goes_on(self) -> bool:
        return any(run.goes_on for run in self.runs)

    @property
    def is_complete(self) -> bool:
        return self.settled == self.wanted

    @property
    def billed(self) -> int:
        return sum(run.settled for run in self.runs)

    @property
    def uncertain(self) -> int:
        return sum(run.uncertain for run in self.runs)


def result_of(trial: RubricTrial) -> TrialResult:
    """Return what a trial has shown so far."""
    specs = _specs_of(trial.before, trial.version)
    wanted = {item.key for item in _measuring(trial.labels_in, specs, trial.pairs)}
    before, after = (
        {
            item.key: item
            for item in pair_items(_epoch_on(judge, trial.labels_in), trial.labels_in)
            if item.key in wanted and item.state != FAILED
        }
        for judge in (trial.before, trial.after)
    )
    settled = before.keys() & after.keys()
    right = [
        (before[key].verdict == chosen, after[key].verdict == chosen)
        for key in settled
        for chosen in majority(before[key].people)
    ]
    only_before, only_after = right.count((True, False)), right.count((False, True))
    both = right.count((True, True))
    asked = Run.objects.filter(
        team=trial.version.rubric.team_id,
        run_judges__epoch__judge__in=[trial.before_id, trial.after_id],
        run_judges__labels_in=trial.labels_in_id,
    )
    return TrialResult(
        wanted=len(wanted),
        settled=len(settled),
        before=both + only_before,
        after=both + only_after,
        only_before=only_before,
        only_after=only_after,
        p=mcnemar(only_before, only_after),
        runs=list(asked.order_by("pk")),
    )


def _epoch_on(judge: Judge, labels_in: LabelSet) -> Epoch:
    """Return the newest epoch of a judge that was asked about these labels; else the open one."""
    epochs = judge.epochs.select_related("judge").order_by("-number")
    asked = epochs.filter(judgements__item__labels_in=labels_in).first()
    return asked or epochs.open().get()
