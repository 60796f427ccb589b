"""Label sets: stored once for each content, and drawn from by seed."""

import hashlib
from collections.abc import Sequence

from django.db import IntegrityError, transaction

from arena.models import Arena
from judges.models import Label, LabelItem, LabelSet
from judges.services.label_files import LabelFile

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
