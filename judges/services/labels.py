"""Label sets: stored once for each content, uploaded by teams, and drawn from by seed."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from arena.actors import Actor
from arena.errors import ServiceError
from arena.models import Arena, Team
from arena.models.fields import clean_field
from arena.services.audit import record
from arena.validation import InputError
from judges.core.calibration.items import Sampling
from judges.core.calibration.pairs import NO_TWO_PEOPLE
from judges.models import Label, LabelItem, LabelSet
from judges.services.label_files import LabelFile, LabelledItem, LabelsError, LabelValue
from ranking.stats.bootstrap import Estimate

BATCH = 500


class LabelSetError(ServiceError):
    """Labels that cannot be stored or deleted; the message says why."""


@transaction.atomic
def upload_labels(*, team: Team, name: str, file: LabelFile, by: Actor) -> LabelSet:
    """Store a team's labels, which only the team sees. Raises LabelSetError."""
    try:
        name = clean_field(LabelSet, "name", name)
    except InputError as error:
        raise LabelSetError(f"The name {error.reason}.", field="name") from None
    # The team's row, because two people may upload at once.
    Team.objects.select_for_update(no_key=True).get(pk=team.pk)
    if stored := stored_labels(file, team):
        raise LabelSetError(f"The team already has these labels, as {stored}.")
    if team.label_sets.filter(name=name).exists():
        raise LabelSetError(f"The team already has labels called {name}.", field="name")
    stored = add_labels(file=file, name=name, team=team)
    items = len(file.items)
    record(team=team, by=by, action="uploaded labels", subject=name, items=items)
    return stored


@transaction.atomic
def remove_labels(*, label_set: LabelSet, by: Actor) -> None:
    """Delete a team's labels that no judge was asked about. Raises LabelSetError."""
    found = LabelSet.objects.filter(pk=label_set.pk)
    if not found.select_for_update():  # waits for a trial that is being started
        return
    if not found.unused():
        raise LabelSetError(
            f"Judges were asked about {label_set}, and their verdicts depend on these labels, so "
            "they cannot be deleted."
        )
    record(team=label_set.team, by=by, action="deleted labels", subject=label_set)
    label_set.delete()


def add_labels(
    *, file: LabelFile, name: str, arena: Arena | None = None, team: Team | None = None
) -> LabelSet:
    """Store the labels of a file; the same content is stored only once, and once for each team.

    `name` is for people. `arena` is the one whose votes they are, and `team` whose file it is, if
    any.
    """
    if stored := stored_labels(file, team):
        return stored
    items = items_of(file)
    labels = [
        Label(item=item, rater=rater, outcome=label)
        if isinstance(label, str)
        else Label(item=item, rater=rater, score=label)
        for item, labelled in zip(items, file.items, strict=True)
        for rater, label in labelled.labels.items()
    ]
    return store_once(file.digest, items, labels, name=name, kind=file.kind, arena=arena, team=team)


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


def stored_labels(file: LabelFile, team: Team | None = None) -> LabelSet | None:
    """Return the set with the labels of this file, if it is stored for the team, or for none."""
    return _sets_of(team).filter(digest=file.digest).first()


def _sets_of(team: Team | None) -> QuerySet[LabelSet]:
    return LabelSet.objects.filter(team=team, from_team=team is not None)


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
    team: Team | None = None,
) -> LabelSet:
    """Store unsaved items and their labels in one transaction, or return the set with this digest.

    If another set has the name, a number is appended.
    """
    try:
        with transaction.atomic():
            if stored := _sets_of(team).filter(digest=digest).first():
                return stored
            label_set = LabelSet.objects.create(
                name=_free_name(name, team),
                kind=kind,
                digest=digest,
                from_arena=arena is not None,
                arena=arena,
                from_team=team is not None,
                team=team,
            )
            for item in items:
                item.labels_in = label_set
            LabelItem.objects.bulk_create(items, batch_size=BATCH)
            Label.objects.bulk_create(labels, batch_size=BATCH)
            return label_set
    except IntegrityError:  # somebody else stored the same set at the same moment
        label_set_of_other = _sets_of(team).filter(digest=digest).first()
        if label_set_of_other is None:
            raise
        return label_set_of_other


def _free_name(name: str, team: Team | None) -> str:
    """Return `name`, with a number if another set has it."""
    free, number = name[:200], 1
    while _sets_of(team).filter(name=free).exists():
        number += 1
        free = f"{name[:190]} ({number})"
    return free
