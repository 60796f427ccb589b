"""Labels of people, stored: a file's content is a set, and the same content is stored once."""

import hashlib
from collections.abc import Sequence

from django.db import IntegrityError, transaction

from judges.labels import LabelFile, LabelledItem
from judges.models import Label, LabelItem, LabelSet

BATCH = 500


def add_labels(*, file: LabelFile, name: str) -> LabelSet:
    """Store the labels of a file in one transaction; what is there already is returned as it is.

    `name` is for people; where another set has it, a number is put behind.
    """
    try:
        return _stored(file.digest) or _store(file, name)
    except IntegrityError:  # somebody else stored the same at the same moment
        found = _stored(file.digest)
        if found is None:
            raise
        return found


def stored_labels(file: LabelFile) -> LabelSet | None:
    """Return the set that holds the labels of this file, if there is one."""
    return _stored(file.digest)


def items_of(file: LabelFile) -> list[LabelItem]:
    """Return the items of a file that is not stored, to quote what asking about them would cost."""
    return [_item(None, item) for item in file.items]


def drawn(items: Sequence[LabelItem], limit: int | None, seed: str) -> list[LabelItem]:
    """Return `limit` of the items, drawn by seed: always the same, whatever their order."""
    by_draw = sorted(items, key=lambda item: _draw(seed, item.key))
    return by_draw if limit is None else by_draw[:limit]


def free_name(name: str) -> str:
    """Return `name`, or where a set has it already, `name` with a number."""
    free, number = name[:200], 1
    while LabelSet.objects.filter(name=free).exists():
        number += 1
        free = f"{name[:190]} ({number})"
    return free


def _draw(seed: str, key: str) -> bytes:
    return hashlib.sha256(f"{seed} {key}".encode()).digest()


def _stored(digest: str) -> LabelSet | None:
    return LabelSet.objects.filter(digest=digest).first()


@transaction.atomic
def _store(file: LabelFile, name: str) -> LabelSet:
    labels_in = LabelSet.objects.create(name=free_name(name), kind=file.kind, digest=file.digest)
    drafts = [_item(labels_in, item) for item in file.items]
    items = LabelItem.objects.bulk_create(drafts, batch_size=BATCH)
    Label.objects.bulk_create(
        [
            _label(item, rater, said)
            for item, labelled in zip(items, file.items, strict=True)
            for rater, said in labelled.said.items()
        ],
        batch_size=BATCH,
    )
    return labels_in


def _item(labels_in: LabelSet | None, labelled: LabelledItem) -> LabelItem:
    return LabelItem(
        labels_in=labels_in,
        key=labelled.key,
        prompt=labelled.prompt,
        response_1=labelled.response_1,
        response_2=labelled.response_2,
        reference=labelled.reference,
        rubric=labelled.rubric,
        category=labelled.category,
    )


def _label(item: LabelItem, rater: str, said: str | float) -> Label:
    if isinstance(said, str):
        return Label(item=item, rater=rater, outcome=said)
    return Label(item=item, rater=rater, score=said)
