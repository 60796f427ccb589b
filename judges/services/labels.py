"""Label sets: stored once for each content, and drawn from by seed."""

import hashlib
from collections.abc import Sequence

from django.db import IntegrityError, transaction

from arena.models import Arena
from judges.models import Label, LabelItem, LabelSet
from judges.services.label_files import LabelFile, LabelledItem

BATCH = 500


def add_labels(*, file: LabelFile, name: str, arena: Arena | None = None) -> LabelSet:
    """Store the labels of a file in one transaction; the same content is stored only once.

    `name` is for people; if another set has it, a number is appended. `arena` is the one whose
    votes they are, if any.
    """
    try:
        return stored_labels(file) or _store_label_set(file, name, arena)
    except IntegrityError:  # somebody else stored the same set at the same moment
        label_set = stored_labels(file)
        if label_set is None:
            raise
        return label_set


def stored_labels(file: LabelFile) -> LabelSet | None:
    """Return the set with the labels of this file, if it is stored."""
    return LabelSet.objects.filter(digest=file.digest).first()


def items_of(file: LabelFile) -> list[LabelItem]:
    """Return the unsaved items of a file, to quote the cost of judging them."""
    return [_unsaved_item(None, item) for item in file.items]


def drawn(items: Sequence[LabelItem], limit: int | None, seed: str) -> list[LabelItem]:
    """Draw `limit` of the items by seed: always the same, whatever their order."""
    shuffled = sorted(items, key=lambda item: place_in_draw(seed, item.key))
    return shuffled if limit is None else shuffled[:limit]


def free_name(name: str) -> str:
    """Return `name`, with a number if another set has it."""
    free, number = name[:200], 1
    while LabelSet.objects.filter(name=free).exists():
        number += 1
        free = f"{name[:190]} ({number})"
    return free


def place_in_draw(seed: str, key: str) -> bytes:
    return hashlib.sha256(f"{seed} {key}".encode()).digest()


@transaction.atomic
def _store_label_set(file: LabelFile, name: str, arena: Arena | None) -> LabelSet:
    labels_in = LabelSet.objects.create(
        name=free_name(name),
        kind=file.kind,
        digest=file.digest,
        from_arena=arena is not None,
        arena=arena,
    )
    drafts = [_unsaved_item(labels_in, item) for item in file.items]
    items = LabelItem.objects.bulk_create(drafts, batch_size=BATCH)
    Label.objects.bulk_create(
        [
            Label(item=item, rater=rater, outcome=label)
            if isinstance(label, str)
            else Label(item=item, rater=rater, score=label)
            for item, labelled in zip(items, file.items, strict=True)
            for rater, label in labelled.labels.items()
        ],
        batch_size=BATCH,
    )
    return labels_in


def _unsaved_item(labels_in: LabelSet | None, labelled: LabelledItem) -> LabelItem:
    return LabelItem(
        labels_in=labels_in,
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
