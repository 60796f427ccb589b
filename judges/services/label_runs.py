"""Label runs: a judge asked about labelled items, outside any arena, with a spending cap."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction

from arena.actors import CLI, Actor
from arena.models import Run, Team
from arena.services import runs
from arena.services.locks import exclusive_lock
from judges.core.spec import JudgeSpec
from judges.models import Epoch, Judgement, LabelItem
from judges.services import subjects
from judges.services.examples import outside_examples
from judges.services.quotes import Quote, prompt_overhead, quote_calls
from judges.services.registry import JudgeError, spec_of
from judges.services.runs import JudgementRunHandler, add_judge, new_nonce, write_calls

BATCH = 200
LONE_ANSWER = (1,)
SINGLE = "This judge compares two answers; these labels are scores of single answers."
NO_REFERENCE = "This rubric needs a reference answer, and none of these items has one."
ALL_EXAMPLES = (
    "All of these items are examples in the judge's prompt, so it can't be measured on them."
)
NO_ITEMS = "There are no items to judge."
LABEL_RUN_BUSY = "This judge is already judging labelled items. Try again in a moment."


def quote_label_run(*, spec: JudgeSpec, items: Sequence[LabelItem], samples: int = 1) -> Quote:
    """Return the cost of judging each of these items `samples` times."""
    overhead = prompt_overhead(spec)
    sizes = [
        overhead + _text_bytes(item, spec, subjects.read_subject(subject).shown)
        for item in items
        for subject in calls_for_item(spec, item)
    ]
    judge = quote_calls(spec, len(items) * samples, sizes * samples)
    return Quote(0, len(items) * samples, [judge])


def _text_bytes(item: LabelItem, spec: JudgeSpec, places: Sequence[int]) -> int:
    """Return the bytes of an item's texts that a call shows."""
    texts = [item.prompt, item.rubric]
    texts += [item.response_1 if place == 1 else item.response_2 for place in places]
    if spec.rubric.reference == "required":
        texts.append(item.reference)
    return sum(len(text.encode("utf-8", "replace")) for text in texts)


@dataclass(frozen=True)
class LabelOrder:
    """Items that a judge is asked about, once for each sample number; `team` pays, if any."""

    kind = runs.LABELS
    epoch: Epoch
    spec: JudgeSpec
    items: Sequence[LabelItem]
    samples: Sequence[int] = (0,)
    team: Team | None = None


class LabelRunHandler(JudgementRunHandler):
    """Runs of one judge about labelled items, which belong to no arena."""

    ordered = "ordered a run of judges"

    def lock(self, about: LabelOrder | Run) -> AbstractContextManager[None]:
        if isinstance(about, LabelOrder):
            return nullcontext()  # the caller holds it while it finds what was not asked yet
        return one_label_run_at_a_time(epoch_id=about.run_judges.get().epoch_id)

    def quote(self, order: LabelOrder) -> Quote:
        return quote_label_run(spec=order.spec, items=order.items, samples=len(order.samples))

    def draft(self, order: LabelOrder, by: Actor) -> Run:
        votes = len(order.items) * len(order.samples)
        return Run(kind=Run.Kind.JUDGE, per_pair=1, votes_wanted=votes, team=order.team)

    def begin(self, order: LabelOrder, run: Run, now: datetime) -> "LabelRunWriter":
        labels_in = order.items[0].labels_in
        add_judge(run=run, epoch=order.epoch, labels_in=labels_in, own_family=True)
        return LabelRunWriter(order, run, now)


@dataclass(frozen=True)
class LabelRunWriter:
    """Writes a label run's calls and judgements."""

    order: LabelOrder
    run: Run
    now: datetime

    def write(self) -> None:
        place: dict[str, int] = {}
        for item in self.order.items:
            place.setdefault(item.prompt, len(place))
        # Items of one prompt together: servers' caches keep what requests begin with.
        items = sorted(self.order.items, key=lambda item: place[item.prompt])
        for sample in self.order.samples:
            nonce = new_nonce()  # a repeated request must not be the same, or it shows no variation
            for start in range(0, len(items), BATCH):
                self.write_batch(items[start : start + BATCH], sample, nonce)

    @transaction.atomic
    def write_batch(self, items: Sequence[LabelItem], sample: int, nonce: str) -> None:
        """Write the calls and judgements of the items that were not asked about before."""
        run, epoch, spec, now = self.run, self.order.epoch, self.order.spec, self.now
        by_key = {subjects.key_of_item(item.pk): item for item in items}
        asked = epoch.judgements.asked().filter(sample=sample, responses__in=by_key)
        new_keys = by_key.keys() - set(asked.values_list("responses", flat=True))
        needs: dict[str, str | None] = {}
        for key, item in by_key.items():
            if key in new_keys:
                needs |= calls_for_item(spec, item)
        calls = write_calls(run=run, epoch=epoch, needs=needs, now=now, nonce=nonce, sample=sample)
        judgements = []
        for key in sorted(new_keys):
            forward, reverse = _subjects_of_item(spec, by_key[key])
            judgements.append(
                Judgement(
                    epoch=epoch,
                    run=run,
                    item=by_key[key],
                    responses=key,
                    sample=sample,
                    forward=calls[forward],
                    reverse=calls[reverse],
                )
            )
        Judgement.objects.bulk_create(judgements)


def order_label_run(
    *,
    epoch: Epoch,
    items: Sequence[LabelItem],
    cap: int | None,
    now: datetime,
    samples: Sequence[int] = (0,),
    team: Team | None = None,
    by: Actor = CLI,
) -> Run:
    """Ask a judge about labelled items, once for each sample number; return the open run.

    Items already asked about in this epoch under the same sample number are not asked again: their
    judgements stay in the run they belong to. `cap` is in nano-dollars. Raises JudgeError and
    RunError.
    """
    spec = spec_of(epoch.judge)
    order = LabelOrder(epoch, spec, usable_items(spec, items), samples, team)
    return runs.order_run(order=order, cap=cap, now=now, by=by)


def one_label_run_at_a_time(*, epoch_id: int) -> AbstractContextManager[None]:
    """Hold the lock on a judge's label runs; raises JudgeError when it is taken."""
    return exclusive_lock(f"label-run-{epoch_id}", busy=JudgeError(LABEL_RUN_BUSY))


def usable_items(spec: JudgeSpec, items: Sequence[LabelItem]) -> list[LabelItem]:
    """Leave out the items that this judge can't judge; raises JudgeError when none is left."""
    if not items:
        raise JudgeError(NO_ITEMS)
    usable = outside_examples(spec.examples, items)
    if not usable:
        raise JudgeError(ALL_EXAMPLES)
    if spec.protocol != "direct":  # a listwise judge puts the two in order
        usable = [item for item in usable if item.response_2 or item.trap]
    if not usable:
        raise JudgeError(SINGLE)
    if spec.rubric.reference == "required":
        usable = [item for item in usable if item.reference]
    if not usable:
        raise JudgeError(NO_REFERENCE)
    return usable


def calls_for_item(spec: JudgeSpec, item: LabelItem) -> dict[str, str | None]:
    """Map the subject of each call that an item takes to the subject of the call it needs first."""
    note = subjects.of_item_note(item.pk or 0) if spec.rubric.note else None
    calls: dict[str, str | None] = {note: None} if note else {}
    subjects_of_all = (
        subjects.of_reading(subject, number)
        for subject in _subjects_of_item(spec, item)
        for number in range(1, spec.readings + 1)
    )
    return calls | dict.fromkeys(subjects_of_all, note)


def _subjects_of_item(spec: JudgeSpec, item: LabelItem) -> tuple[str, str]:
    """Return the subjects of an item's two calls; with a single answer, the same one twice."""
    pk = item.pk or 0  # to be quoted, it need not be saved
    if spec.protocol != "direct":
        return subjects.of_item(pk, (1, 2)), subjects.of_item(pk, (2, 1))
    # In a honeypot the second answer may be empty on purpose.
    second = (2,) if item.response_2 or item.trap else LONE_ANSWER
    return subjects.of_item(pk, LONE_ANSWER), subjects.of_item(pk, second)


@dataclass(frozen=True)
class Outstanding:
    """Items that a judge was not asked about yet, and the unfinished runs that ask about others.

    `missing` names an item once for each missing sample; `left_out` explains what is skipped.
    """

    missing: list[LabelItem]
    runs: list[Run] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    @property
    def items(self) -> list[LabelItem]:
        return list({item.key: item for item in self.missing}.values())


def find_outstanding(
    *, spec: JudgeSpec, epoch: Epoch | None, items: Sequence[LabelItem], samples: Sequence[int]
) -> Outstanding:
    """Find what a judge has still to be asked; nothing is written.

    `epoch` is None for a judge that was never registered. Raises JudgeError if this judge can't
    judge any of the items.
    """
    usable = usable_items(spec, items)
    left_out = []
    if skipped := len(items) - len(usable):
        left_out.append(f"{skipped} items can't be judged by this judge and are left out.")
    if epoch is None:
        return Outstanding(list(usable) * len(samples), [], left_out)
    sets = {item.labels_in_id for item in usable}  # a smaller draw comes from the same sets
    judgements = epoch.judgements.filter(item__labels_in__in=sets, sample__in=samples)
    asked = set(judgements.asked().values_list("item", "sample"))
    missing = [item for item in usable for sample in samples if (item.pk, sample) not in asked]
    unfinished = Run.objects.filter(
        pk__in=judgements.waiting().values("run"), state__in=runs.UNFINISHED
    )
    return Outstanding(missing, list(unfinished.order_by("pk")), left_out)


def order_outstanding(
    *,
    epoch: Epoch,
    outstanding: Outstanding,
    samples: Sequence[int],
    cap: int | None,
    now: datetime,
    team: Team | None = None,
    by: Actor = CLI,
) -> list[Run]:
    """Resume unfinished runs and order the missing items; return the runs to wait for.

    A cap above a paused run's own raises it. Raises JudgeError, RunError.
    """
    with one_label_run_at_a_time(epoch_id=epoch.pk):
        for run in outstanding.runs:
            resume_label_run(run=run, cap=cap, now=now)
        if not outstanding.missing:
            return outstanding.runs
        items = outstanding.items
        run = order_label_run(
            epoch=epoch, items=items, cap=cap, now=now, samples=samples, team=team, by=by
        )
    return [*outstanding.runs, run]


def resume_label_run(*, run: Run, cap: int | None, now: datetime) -> None:
    """Resume a label run that paused, or open one whose ordering was cut short."""
    if cap is not None and run.cap is not None and cap > run.cap:
        runs.set_cap(run=run, cap=cap)
    if run.state == Run.State.ORDERED:
        runs.open_run(run=run)  # the caller already holds the lock
    elif run.state == Run.State.PAUSED:
        runs.resume_unfinished(run=run, now=now)
