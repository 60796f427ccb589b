"""Trying a judge on labelled items, outside of any arena: through the same ledger, under a cap."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

from django.db import transaction

from arena.calls.prices import price_of
from arena.models import Run
from arena.services.locks import one_at_a_time
from judges.core.spec import JudgeSpec
from judges.models import Epoch, Judgement, LabelItem
from judges.services import subjects
from judges.services.exampling import outside_examples
from judges.services.ordering import check_cap, open_run, take_part
from judges.services.quoting import (
    CHARACTERS_PER_TOKEN,
    JudgeQuote,
    Quote,
    expected_of,
    frame_bytes,
    most_tokens,
    usual_answer,
    worst_of,
)
from judges.services.registering import JudgeRefused, spec_of
from judges.services.writing import write_calls

BATCH = 200
BUSY = "This judge is being asked about labels at this moment. Wait a moment, then try again."
LONE_ANSWER = (1,)
LISTWISE = "A listwise judge needs three answers or more; labels have two."
SINGLE = "This judge compares two answers; these labels are about single ones."
NO_REFERENCE = "None of these items can be asked: the rubric needs a reference answer."
ALL_SHOWN = "The judge was shown all of these items as examples, so they say nothing of it."


def quote_trials(*, spec: JudgeSpec, items: Sequence[LabelItem], samples: int = 1) -> Quote:
    """Say what asking this judge about these items costs, each `samples` times."""
    sizes = [
        _bytes(item, spec) for item in items for _ in range(samples * _calls_per_item(spec, item))
    ]
    rate = price_of(spec.endpoint, spec.model)
    usual, most = usual_answer(spec), most_tokens(spec.parameters)
    judge = JudgeQuote(
        label=spec.label,
        endpoint=spec.endpoint,
        model=spec.model,
        comparisons=len(items) * samples,
        calls=len(sizes),
        tokens_in=sum(size // CHARACTERS_PER_TOKEN for size in sizes),
        tokens_out=usual * len(sizes),
        expected=expected_of(rate, sizes, usual),
        worst=worst_of(rate, sizes, most),
    )
    return Quote(0, len(items) * samples, [judge])


def _calls_per_item(spec: JudgeSpec, item: LabelItem) -> int:
    lone = spec.protocol == "direct" and not item.response_2
    return (1 if lone else 2) + bool(spec.rubric.note)


def _bytes(item: LabelItem, spec: JudgeSpec) -> int:
    texts = (item.prompt, item.response_1, item.response_2, item.reference, item.rubric)
    return frame_bytes(spec) + sum(len(text.encode("utf-8", "replace")) for text in texts)


def order_trials(
    *,
    epoch: Epoch,
    items: Sequence[LabelItem],
    cap: int | None,
    now: datetime,
    samples: Sequence[int] = (0,),
    created_by: Any = None,
) -> Run:
    """Ask a judge about labelled items, once for each of `samples`; return the run, open.

    What it was asked before in this epoch under the same sample number is not asked again: its
    judgement stays where it is. `cap` is in nano-dollars. Raises JudgeRefused.
    """
    spec = spec_of(epoch.judge)
    usable = usable_items(spec, items)
    quote = quote_trials(spec=spec, items=usable, samples=len(samples))
    check_cap(quote, cap)
    run = _begin(epoch, quote, cap, created_by)
    for sample in samples:
        for start in range(0, len(usable), BATCH):
            _write(run, epoch, spec, usable[start : start + BATCH], sample, now)
    open_run(run=run)
    return run


def one_trial_at_a_time(*, epoch_id: int) -> AbstractContextManager[None]:
    """Hold the lock on asking a judge about labels; raises JudgeRefused when it is taken."""
    return one_at_a_time(f"trials-{epoch_id}", busy=JudgeRefused(BUSY))


def usable_items(spec: JudgeSpec, items: Sequence[LabelItem]) -> list[LabelItem]:
    """Leave out what this judge cannot be asked; raises JudgeRefused when nothing is left."""
    if spec.protocol == "listwise":
        raise JudgeRefused(LISTWISE)
    fitting = outside_examples(spec.examples, items)
    if items and not fitting:
        raise JudgeRefused(ALL_SHOWN)
    if spec.protocol == "pairwise":
        fitting = [item for item in fitting if item.response_2 or item.trap]
    if items and not fitting:
        raise JudgeRefused(SINGLE)
    if spec.rubric.reference == "required":
        fitting = [item for item in fitting if item.reference]
    if not fitting:
        raise JudgeRefused(NO_REFERENCE if items else "There is no item to ask about.")
    return fitting


@transaction.atomic
def _begin(epoch: Epoch, quote: Quote, cap: int | None, created_by: Any) -> Run:
    run = Run.objects.create(
        kind=Run.Kind.JUDGE,
        per_pair=1,
        votes_wanted=quote.comparisons,
        max_calls=quote.calls,
        cap=cap,
        expected_cost=quote.expected,
        worst_cost=quote.worst,
        created_by=created_by,
    )
    take_part(run=run, epoch=epoch, own_family=True)
    return run


@transaction.atomic
def _write(
    run: Run,
    epoch: Epoch,
    spec: JudgeSpec,
    items: Sequence[LabelItem],
    sample: int,
    now: datetime,
) -> None:
    keys = {subjects.key_of_item(item.pk): item for item in items}
    asked = epoch.judgements.filter(sample=sample, responses__in=keys)
    fresh = keys.keys() - set(asked.values_list("responses", flat=True))
    wanted: dict[str, str | None] = {}
    for key in keys:
        if key in fresh:
            wanted |= calls_for_item(spec, keys[key])
    calls = write_calls(run=run, epoch=epoch, wanted=wanted, now=now, sample=sample)
    drafts = []
    for key in sorted(fresh):
        forward, reverse = _two_calls(spec, keys[key])
        drafts.append(
            Judgement(
                epoch=epoch,
                run=run,
                item=keys[key],
                responses=key,
                sample=sample,
                forward=calls[forward],
                reverse=calls[reverse],
            )
        )
    Judgement.objects.bulk_create(drafts)


def calls_for_item(spec: JudgeSpec, item: LabelItem) -> dict[str, str | None]:
    """Map the subject of every call that an item takes to what it needs first."""
    note = subjects.of_item_note(item.pk) if spec.rubric.note else None
    calls: dict[str, str | None] = {note: None} if note else {}
    return calls | dict.fromkeys(_two_calls(spec, item), note)


def _two_calls(spec: JudgeSpec, item: LabelItem) -> tuple[str, str]:
    """Return the subjects of an item's two calls; the same one twice where it has one answer."""
    if spec.protocol != "direct":
        return subjects.of_item(item.pk, (1, 2)), subjects.of_item(item.pk, (2, 1))
    second = (2,) if item.response_2 or item.trap else LONE_ANSWER
    return subjects.of_item(item.pk, LONE_ANSWER), subjects.of_item(item.pk, second)
