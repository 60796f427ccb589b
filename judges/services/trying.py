"""What is still to be asked of labelled items, and asking it: under a cap, and never twice."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Count, Q

from arena.calls.models import Call
from arena.calls.services import raise_cap
from arena.models import Run
from judges.core.spec import JudgeSpec
from judges.models import Epoch, Judgement, LabelItem
from judges.models.judgements import JudgementQuerySet
from judges.services.adopting import take_over
from judges.services.going_on import UNFINISHED, go_on
from judges.services.ordering import open_run
from judges.services.quoting import Quote
from judges.services.registering import JudgeRefused
from judges.services.trials import one_trial_at_a_time, order_trials, quote_trials, usable_items


@dataclass(frozen=True)
class Outstanding:
    """What a judge was not asked yet of some items, and the runs that ask it and are not through.

    `missing` names an item once for each sample that is missing.
    """

    missing: list[LabelItem]
    runs: list[Run] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    @property
    def items(self) -> list[LabelItem]:
        return list({item.key: item for item in self.missing}.values())


def outstanding(
    *, spec: JudgeSpec, epoch: Epoch | None, items: Sequence[LabelItem], samples: Sequence[int]
) -> Outstanding:
    """Find what is still to be asked; nothing is written.

    `epoch` is None for a judge that was never registered. Raises JudgeRefused where none of the
    items can be asked of such a judge at all.
    """
    usable = usable_items(spec, items)
    said = []
    if skipped := len(items) - len(usable):
        said.append(f"{skipped} items cannot be asked of this judge, and are left out.")
    if epoch is None:
        return Outstanding(list(usable) * len(samples), [], said)
    asked = _asked(epoch, usable, samples)
    missing = [item for item in usable for sample in samples if (item.pk, sample) not in asked]
    return Outstanding(missing, _unfinished(epoch, usable, samples), said)


def quote_outstanding(spec: JudgeSpec, found: Outstanding) -> Quote:
    """Say what asking the rest costs; nothing is counted that an unfinished run pays for."""
    return quote_trials(spec=spec, items=found.missing)


def ask_outstanding(
    *,
    epoch: Epoch,
    found: Outstanding,
    samples: Sequence[int],
    cap: int | None,
    now: datetime,
) -> list[Run]:
    """Let unfinished runs go on and order the rest; return the runs to be waited for.

    A cap above a paused run's own raises it. Raises JudgeRefused, RunRefused.
    """
    with one_trial_at_a_time(epoch_id=epoch.pk):
        for run in found.runs:
            let_go_on(run=run, cap=cap, now=now)
        if not found.missing:
            return found.runs
        run = order_trials(epoch=epoch, items=found.items, cap=cap, now=now, samples=samples)
        _take_over_cancelled(run, epoch, found.items, samples, now)
    return [*found.runs, run]


def let_go_on(*, run: Run, cap: int | None, now: datetime) -> None:
    """Open a run of trials again that paused, or whose ordering was cut short."""
    if cap is not None and run.cap is not None and cap > run.cap:
        _raise(run, cap)
    if run.state == Run.State.ORDERED:
        open_run(run=run)  # its caller holds the lock already
    elif run.state == Run.State.PAUSED:
        go_on(run=run, now=now)


def _raise(run: Run, cap: int) -> None:
    try:
        raise_cap(run_id=run.pk, cap=cap)
    except ValidationError as error:
        raise JudgeRefused(" ".join(error.messages)) from None


# -- What is left ----------------------------------------------------------------------------------


def _asked(
    epoch: Epoch, items: Sequence[LabelItem], samples: Sequence[int]
) -> set[tuple[int | None, int]]:
    asked = _of(epoch, items, samples).not_free()
    return set(asked.values_list("item", "sample"))


def _unfinished(epoch: Epoch, items: Sequence[LabelItem], samples: Sequence[int]) -> list[Run]:
    waiting = _of(epoch, items, samples).waiting()
    runs = Run.objects.filter(pk__in=waiting.values("run"), state__in=UNFINISHED)
    return list(runs.order_by("pk"))


def _of(epoch: Epoch, items: Sequence[LabelItem], samples: Sequence[int]) -> JudgementQuerySet:
    """Judgements on the sets that the items are of: whoever draws fewer asks of the same sets."""
    sets = {item.labels_in_id for item in items}
    return epoch.judgements.filter(item__labels_in__in=sets, sample__in=samples)


@transaction.atomic
def _take_over_cancelled(
    run: Run, epoch: Epoch, items: Sequence[LabelItem], samples: Sequence[int], now: datetime
) -> None:
    """Move what cancelled runs left waiting to `run`, which may have been closed as empty."""
    Run.objects.select_for_update(of=("self",)).get(pk=run.pk)
    drawn = {item.pk for item in items}
    free = _of(epoch, items, samples).free().values_list("pk", "item")
    ids = [pk for pk, item in free if item in drawn]
    if not ids:
        return
    Judgement.objects.filter(pk__in=ids).update(run=run)
    theirs = Q(forward_of__in=ids) | Q(reverse_of__in=ids) | Q(needed_by__forward_of__in=ids)
    calls = Call.objects.filter(pk__in=Call.objects.filter(theirs).values("pk"))
    take_over(run=run, calls=calls, now=now)
    wanted = run.judgements.aggregate(n=Count("pk"))["n"]
    Run.objects.filter(pk=run.pk).update(state=Run.State.OPEN, closed_at=None, votes_wanted=wanted)
