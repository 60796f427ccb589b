"""Labelled items for the tests of trust, and judges that know which answer is the good one."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.utils import timezone

from arena.models import Run
from judges.models import Epoch, LabelSet
from judges.services.label_runs import find_outstanding, order_outstanding
from judges.services.labels import add_labels, read_labels
from judges.services.registry import register_judge, spec_named
from tests.judges.fake_server import Answer, completion
from tests.judges.helpers import LOCAL, work_off

GOOD, POOR = "Because the Earth turns (GOOD)", "Because"


def pair_row(number: int, label: str = "", **fields: Any) -> dict[str, Any]:
    """A pair whose good answer is the first one of every second item, and which is labelled so.

    Either answer is the longer one as often as not, whichever side it is on.
    """
    left = number % 2 == 0
    good, poor = f"{GOOD} {number}", f"{POOR} {number}" + ", in my view" * 5 * (number // 2 % 2)
    first, second = (good, poor) if left else (poor, good)
    row = {"prompt": f"Question {number}?", "response_1": first, "response_2": second}
    return row | {"label": label or ("1" if left else "2")} | fields


def write(folder: Path, rows: Sequence[dict[str, Any]], name: str = "labels.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def stored(folder: Path, rows: Sequence[dict[str, Any]]) -> LabelSet:
    return add_labels(file=read_labels(write(folder, rows)), name="labels")


def epoch_of(judge: str = LOCAL) -> Epoch:
    return register_judge(spec=spec_named(judge))


def ask(
    epoch: Epoch, labels_in: LabelSet, samples: Sequence[int] = (0,), cap: int | None = None
) -> list[Run]:
    """Ask a judge about a set and work it off."""
    items = list(labels_in.items.order_by("pk"))
    found = find_outstanding(
        spec=spec_named(epoch.judge.name), epoch=epoch, items=items, samples=samples
    )
    now = timezone.now()
    runs = order_outstanding(epoch=epoch, outstanding=found, samples=samples, cap=cap, now=now)
    return [work_off(run) for run in runs]


def judging(answer: Answer) -> Answer:
    """The answer to whoever asks for a verdict, after a plain word to whoever probes the model."""
    return lambda body: answer(body) if is_judging(body) else completion("Hello.")


def is_judging(body: dict[str, Any]) -> bool:
    return "VERDICT-" in body["messages"][0]["content"]
