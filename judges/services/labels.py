"""Label sets: stored once for each content, and drawn from by seed."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

from django.db import IntegrityError, transaction

from arena.models import Arena
from judges.core.calibration.items import Sampling
from judges.core.calibration.pairs import NO_TWO_PEOPLE
from judges.models import Label, LabelItem, LabelSet
from judges.services.label_files import LabelFile, LabelledItem, LabelsError, LabelValue
from ranking.stats.bootstrap import Estimate

BATCH = 500


def add_labels(*, file: LabelFile, name: str, arena: Arena | None = None) -> LabelSet:
    """Store the labels of a file; the same content is stored only once.

    `name` is for people. `arena` is the one whose votes they are, if any.
    """
    if stored := stored_labels(file):
        return stored
    items = items_of(file)
    labels = [
        Label(item=item, rater=rater, outcome=label)
        if isinstance(label, str)
        else Label(item=item, rater=rater, score=label)
        for item, labelled in zip(items, file.items, strict=True)
        for rater, label in labelled.labels.items()
    ]
    return store_once(file.digest, items, labels, name=name, kind=file.kind, arena=arena)


def selected(
    file: LabelFile, *, agreed: bool = False, per_score: int | None = None, seed: str = "0"
) -> LabelFile:
    """Select items of a file for a small, clean set of labels.

    `agreed`: only those to which at least two people gave the same label, and nobody another one.
    `per_score`: so many of each label, drawn by seed, of the items with one label only. Raises
    LabelsError if nothing is left.
    """
    items = file.items
    if agreed or per_score:
        items = [item for item in items if len(set(item.labels.values())) == 1]
    if agreed:
        items = [item for item in items if len(item.labels) > 1]
    if per_score:
        by_label: dict[LabelValue, list[LabelledItem]] = {}
        for item in sorted(items, key=lambda item: place_in_draw(seed, item.key)):
            by_label.setdefault(next(iter(item.labels.values())), []).append(item)
        items = [
            item for label in sorted(by_label, key=str) for item in by_label[label][:per_score]
        ]
    if not items:
        raise LabelsError("No item is left: people agree on none, or each has one label.")
    return replace(file, items=items)


def agreement_of_raters(file: LabelFile) -> Estimate:
    """How far people agree in a file: Pearson of scores, or the share of equal labels of pairs."""
    rows = [
        (item.prompt, first, second)
        for item in file.items
        for first, second in permutations(item.labels.values(), 2)
    ]
    sampling = Sampling(level=0.95, n_resamples=1000, seed=0)
    if file.kind == LabelSet.Kind.SCORES:
        scores = ((prompt, float(first), float(second)) for prompt, first, second in rows)
        found = sampling.correlations(scores, NO_TWO_PEOPLE).pearson
    else:
        equal = ((prompt, float(first == second), 1) for prompt, first, second in rows)
        found = sampling.share(equal, NO_TWO_PEOPLE)
    return replace(found, n=found.n // 2)  # each two labels are there both ways round


def stored_labels(file: LabelFile) -> LabelSet | None:
    """Return the set with the labels of this file, if it is stored."""
    return _set_with_digest(file.digest)


def _set_with_digest(digest: str) -> LabelSet | None:
    return LabelSet.objects.filter(digest=digest).first()


def items_of(file: LabelFile) -> list[LabelItem]:
    """Return the unsaved items of a file."""
    return [
        LabelItem(
            key=labelled.key,
            prompt=labelled.prompt,
            response_1=labelled.response_1,
            response_2=labelled.response_2,
            reference=labelled.reference,
            rubric=labelled.rubric,
            category=labelled.category,
            model_1=labelled.models[0],
            model_2=labelled.models[1],
        )
        for labelled in file.items
    ]


def drawn(items: Sequence[LabelItem], limit: int | None, seed: str) -> list[LabelItem]:
    """Draw `limit` of the items by seed: always the same, whatever their order."""
    shuffled = sorted(items, key=lambda item: place_in_draw(seed, item.key))
    return shuffled if limit is None else shuffled[:limit]


def place_in_draw(seed: str, key: str) -> bytes:
    return hashlib.sha256(f"{seed} {key}".encode()).digest()


def store_once(
    digest: str,
    items: Sequence[LabelItem],
    labels: Sequence[Label] = (),
    *,
    name: str,
    kind: str,
    arena: Arena | None,
) -> LabelSet:
    """Store unsaved items and their labels in one transaction, or return the set with this digest.

    If another set has the name, a number is appended.
    """
    try:
        with transaction.atomic():
            if stored := _set_with_digest(digest):
                return stored
            label_set = LabelSet.objects.create(
                name=_free_name(name),
                kind=kind,
                digest=digest,
                from_arena=arena is not None,
                arena=arena,
            )
            for item in items:
                item.labels_in = label_set
            LabelItem.objects.bulk_create(items, batch_size=BATCH)
            Label.objects.bulk_create(labels, batch_size=BATCH)
            return label_set
    except IntegrityError:  # somebody else stored the same set at the same moment
        label_set_of_other = _set_with_digest(digest)
        if label_set_of_other is None:
            raise
        return label_set_of_other


def _free_name(name: str) -> str:
    """Return `name`, with a number if another set has it."""
    free, number = name[:200], 1
    while LabelSet.objects.filter(name=free).exists():
        number += 1
        free = f"{name[:190]} ({number})"
    return free
