"""The labels of a file, merged: each item once, with every person's label; and people's feedback
on a judge's reasoning.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from arena.files.reader import (
    FileError,
    Row,
    Source,
    csv_header,
    csv_rows,
    is_json,
    json_rows,
    unreadable,
)
from arena.files.rows import LABEL_COLUMNS, LabelRow, parse_label
from arena.formats.battles import LABEL_LAYOUTS
from arena.formats.records import Foreign, recognise
from arena.models import Arena, Response, Run
from arena.outcomes import BOTH_BAD, mirror
from arena.validation import InputError, numbered, quoted
from judges.core.rubric import Rubric, RubricError, Scale, load_rubric
from judges.core.spec import Drawn, Example, ExampleError, JudgeSpec, draw_examples
from judges.models import Epoch, Judgement, JuryVerdict, Label, LabelItem, LabelSet, Mark
from judges.services.calibration import people_in, voted_on
from judges.services.planning import (
    JudgeOrder,
    Member,
    OrderOptions,
    PlannedComparison,
    calls_for,
    exclude_family,
    shares_of,
)
from judges.services.registry import DEFAULT_RUBRIC, JudgeError
from judges.services.subjects import (
    answers_in,
    criteria_suffix,
    families_in,
    ids_of,
    key_of_pair,
    labelled_pairs,
)

MOST_SHOWN = 20
LabelValue = str | float
ItemKey = tuple[str, str, str, str, str]


class LabelsError(Exception):
    """A file with rows that cannot be used; the message names line, column and reason of each."""


@dataclass
class LabelledItem:
    """Two responses to a prompt, or one, and `labels`: rater -> outcome, or score.

    If a file has an item in both orders, the first order counts, and the labels of the other are
    mirrored.
    """

    prompt: str
    response_1: str
    response_2: str
    reference: str
    rubric: str
    category: str
    line: int
    models: tuple[str, str] = ("", "")
    labels: dict[str, LabelValue] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """SHA-256 of the texts."""
        texts = [self.prompt, self.response_1, self.response_2, self.reference, self.rubric]
        return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


@dataclass(frozen=True)
class LabelFile:
    """The labels of one file; `empty` counts the rows left out because a text in them is blank.

    `notes`: sentences about what else was left out or overruled.
    """

    kind: str
    items: list[LabelledItem]
    empty: int = 0
    notes: tuple[str, ...] = ()

    @property
    def labels(self) -> int:
        return sum(len(item.labels) for item in self.items)

    @property
    def digest(self) -> str:
        """The SHA-256 of the file's content, regardless of its format and the order of its rows."""
        content = sorted(
            [
                item.key,
                item.category,
                sorted(item.labels.items()),
                *(item.models if any(item.models) else []),
            ]
            for item in self.items
        )
        return hashlib.sha256(json.dumps([self.kind, content]).encode()).hexdigest()


def read_labels(path: Path, *, skip_bad: bool = False) -> LabelFile:
    """Read and check a whole file.

    Raises LabelsError for bad rows, unless they are to be skipped, and FileError for a bad file.
    """
    collected = _Collected()
    problems: list[tuple[int, InputError]] = []
    for row in _rows(path):
        try:
            if isinstance(row.content, InputError):
                raise row.content
            label = row.content
            collected.add(row.line, label if isinstance(label, LabelRow) else parse_label(label))
        except InputError as error:
            problems.append((row.line, error))
    if problems and not skip_bad:
        raise LabelsError(_in_words(path, problems, "Nothing was read"))
    if not collected.items:
        raise FileError(f"{path} has no labels.")
    notes = [_in_words(path, problems, "Skipped")] if problems else []
    notes += collected.notes()
    items = list(collected.items.values())
    return LabelFile(collected.kind, items, collected.empty, tuple(notes))


def _rows(path: Path) -> Iterator[Row]:
    """Yield every row, good or bad: values of our own format, or labels of another tool's."""
    if layout := recognise(path, LABEL_LAYOUTS):
        return Foreign(layout).rows(path, "labels")
    try:
        source = Source.of(path.read_bytes(), str(path), guess=False)
    except OSError as error:
        raise unreadable(path, error) from None
    if is_json(source):
        return json_rows(source)
    return csv_rows(source, csv_header(source, suffices=_suffice, wanted=LABEL_COLUMNS))


def _suffice(names: Sequence[str]) -> bool:
    known = {name.lower() for name in names}
    return "prompt" in known and bool(known & {"label", "score"})


def _in_words(path: Path, problems: list[tuple[int, InputError]], effect: str) -> str:
    sentences = [
        f"{path.name}, line {line}{f', {error.column}' if error.column else ''}: {error.advice}"
        for line, error in problems[:MOST_SHOWN]
    ]
    if len(problems) > MOST_SHOWN:
        sentences.append(f"... and {len(problems) - MOST_SHOWN:,} more.")
    return "\n".join([*sentences, f"{effect}: {numbered(len(problems), 'bad row')}."])


class _Collected:
    """Items so far, in the order of the file."""

    def __init__(self) -> None:
        self.kind = ""
        self.empty = 0
        self.items: dict[ItemKey, LabelledItem] = {}
        self.recategorised: list[str] = []

    def add(self, line: int, row: LabelRow) -> None:
        """Add a row's label; raises InputError if it contradicts an earlier one."""
        self.kind = self.kind or row.kind
        if row.kind != self.kind:
            raise InputError(f"is a row of {row.kind}; the rows above it are {self.kind}")
        if row.is_empty:
            self.empty += 1
            return
        item, turned = self._item(line, row)
        if row.category != item.category:
            first = f"{quoted(item.category)} in line {item.line}"
            self.recategorised.append(
                f"Line {line}: the category is {quoted(row.category)}, but the same item has "
                f"{first}; the first category counts."
            )
        if not any(item.models):
            item.models = (row.model_2, row.model_1) if turned else (row.model_1, row.model_2)
        label: LabelValue = row.score if row.score is not None else row.outcome
        _note(item, line, row.rater, mirror(row.outcome) if turned else label)

    def notes(self) -> list[str]:
        """Return a sentence for each of the first items with two categories."""
        listed = self.recategorised[:MOST_SHOWN]
        if more := len(self.recategorised) - len(listed):
            listed.append(f"... and {more:,} more rows with another category.")
        return listed

    def _item(self, line: int, row: LabelRow) -> tuple[LabelledItem, bool]:
        key = (row.prompt, row.response_1, row.response_2, row.reference, row.rubric)
        turned = (row.prompt, row.response_2, row.response_1, row.reference, row.rubric)
        if key not in self.items and turned in self.items:
            return self.items[turned], True
        if key not in self.items:
            self.items[key] = LabelledItem(*key, row.category, line)
        return self.items[key], False


def _note(item: LabelledItem, line: int, rater: str, label: LabelValue) -> None:
    """Store a label; each label without a rater counts as another person's."""
    name = rater or _nobody(item.labels)
    if item.labels.get(name, label) != label:
        before = f"{item.labels[name]} in line {item.lines[name]}"
        raise InputError(f"says {label} by rater {quoted(name)}, who gave the same item {before}")
    item.labels[name] = label
    item.lines.setdefault(name, line)


def _nobody(taken: Iterable[str]) -> str:
    name, number = "", 1
    while name in taken:
        number += 1
        name = f"unnamed {number}"
    return name


BATCH = 500


def add_labels(*, file: LabelFile, name: str, arena: Arena | None = None) -> LabelSet:
    """Store the labels of a file in one transaction; the same content is stored only once.

    `name` is for people; if another set has it, a number is appended. `arena` is the one whose
    votes they are, if any.
    """
    try:
        return stored_labels(file) or _store(file, name, arena)
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
    return [_item(None, item) for item in file.items]


def drawn(items: Sequence[LabelItem], limit: int | None, seed: str) -> list[LabelItem]:
    """Draw `limit` of the items by seed: always the same, whatever their order."""
    shuffled = sorted(items, key=lambda item: _draw(seed, item.key))
    return shuffled if limit is None else shuffled[:limit]


def free_name(name: str) -> str:
    """Return `name`, with a number if another set has it."""
    free, number = name[:200], 1
    while LabelSet.objects.filter(name=free).exists():
        number += 1
        free = f"{name[:190]} ({number})"
    return free


def _draw(seed: str, key: str) -> bytes:
    return hashlib.sha256(f"{seed} {key}".encode()).digest()


@transaction.atomic
def _store(file: LabelFile, name: str, arena: Arena | None) -> LabelSet:
    labels_in = LabelSet.objects.create(
        name=free_name(name),
        kind=file.kind,
        digest=file.digest,
        from_arena=arena is not None,
        arena=arena,
    )
    drafts = [_item(labels_in, item) for item in file.items]
    items = LabelItem.objects.bulk_create(drafts, batch_size=BATCH)
    Label.objects.bulk_create(
        [
            _label(item, rater, label)
            for item, labelled in zip(items, file.items, strict=True)
            for rater, label in labelled.labels.items()
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
        model_1=labelled.models[0],
        model_2=labelled.models[1],
    )


def _label(item: LabelItem, rater: str, value: str | float) -> Label:
    if isinstance(value, str):
        return Label(item=item, rater=rater, outcome=value)
    return Label(item=item, rater=rater, score=value)


def labels_of_votes(arena: Arena) -> LabelFile:
    """Return the human votes of an arena as labels, to measure a judge without a vote of its own.

    Another team's model is left out before it is disclosed. Raises JudgeError without votes.
    """
    families = families_in(arena)
    models = dict(arena.candidates.values_list("pk", "model"))
    people = people_in(arena)
    answers = Response.objects.select_related("prompt").in_bulk(
        {pk for key in people for pk in ids_of(key)}
    )
    items: dict[str, LabelledItem] = {}
    for key, votes in people.items():
        low, high = (answers[pk] for pk in ids_of(key))
        prompt = low.prompt
        known = [models[pk] if families.get(pk) else "" for pk in votes.candidates]
        texts = (prompt.text, low.text, high.text, prompt.reference, prompt.rubric)
        item = LabelledItem(*texts, votes.category, 0, (known[0], known[1]), dict(votes.labels))
        same = items.setdefault(item.key, item)  # other candidates may have given the same answers
        same.labels = item.labels | same.labels
    if not items:
        raise JudgeError(NO_VOTES)
    return LabelFile(LabelSet.Kind.PAIRS, list(items.values()))


NO_VOTES = "Nobody has compared two answers in this arena yet."
LISTWISE = (
    "In an arena, a listwise judge votes on lists of at least three answers, not on the single"
    " pairs that people voted on. Measure it on these pairs without votes (--no-votes), or start"
    " a judge run in the arena and measure it on the pairs of its lists."
)


def order_of_voted(
    *,
    arena: Arena,
    spec: JudgeSpec,
    epoch: Epoch | None,
    limit: int | None,
    seed: str,
    own_family: bool = False,
) -> JudgeOrder | None:
    """Return an order of the pairs that people voted on and the judge has not judged.

    At most `limit` of them, drawn by seed; None if nothing is left. Pairs with an answer of the
    judge's own family are left out unless `own_family`, because its votes count in the arena like
    any others. A listwise judge is not asked about single pairs: JudgeError if it has judged no
    list here.
    """
    if spec.protocol == "listwise":
        if epoch is None or not epoch.judgements.settled().filter(run__arena=arena).exists():
            raise JudgeError(LISTWISE)
        return None
    picks = _voted_picks(arena, spec, epoch)
    fair = picks if own_family else exclude_family(picks, spec.family, families_in(arena))
    shuffled = sorted(fair, key=lambda pick: _draw(seed, pick.responses))
    chosen = shuffled if limit is None else shuffled[:limit]
    if not chosen:
        return None
    suffix = criteria_suffix(arena.criteria)
    member = Member(spec, epoch, own_family, chosen, calls_for(spec, chosen, suffix), suffix)
    left_out = []
    if own := len(picks) - len(fair):
        left_out.append(
            f"{own} pairs have one answer from the judge's own model family and are left out."
        )
    return JudgeOrder(
        arena, OrderOptions(per_pair=1), [member], chosen, shares_of(chosen), None, left_out
    )


def judged_where_people_voted(epochs: QuerySet[Epoch], arena: Arena) -> QuerySet[Epoch]:
    """Return those of `epochs` that have a verdict on a pair of the arena that people voted on."""
    here = {"comparison__arena": arena, "responses__in": labelled_pairs(arena)}
    own = Judgement.objects.counted().filter(epoch=OuterRef("pk"), sample=0, **here)
    counted = Q(casts_vote=True) | Q(state=JuryVerdict.State.FAILED)
    of_juries = JuryVerdict.objects.filter(counted, epoch=OuterRef("pk"), **here)
    return epochs.filter(Exists(own) | Exists(of_juries))


def _voted_picks(arena: Arena, spec: JudgeSpec, epoch: Epoch | None) -> list[PlannedComparison]:
    asked: set[str] = set()
    if epoch is not None:
        judgements = epoch.judgements.filter(sample=0, run__arena=arena).asked()
        asked = set(judgements.values_list("responses", flat=True))
    answers = answers_in(arena, needs_reference=spec.rubric.reference == "required").by_candidate
    pairs = {(pair.low_id, pair.high_id): pair for pair in arena.pairs.all()}
    picks = []
    for key, (prompt, *candidates) in voted_on(arena).items():
        pair = pairs.get((min(candidates), max(candidates)))
        if pair is None or key in asked:
            continue
        low = answers.get(pair.low_id, {}).get(prompt)
        high = answers.get(pair.high_id, {}).get(prompt)
        if low and high and key_of_pair(low, high) == key:
            picks.append(PlannedComparison(pair, prompt, low, high))
    return picks


MOST_EXAMPLES = 16


def examples_from(*, name: str, rubric: str, n: int, seed: int) -> tuple[Example, ...]:
    """Draw `n` examples for a judge of this rubric from the label set called `name`.

    As evenly over the labels as possible, and only from items with one outcome (or score) that
    more than half of the people gave. Raises JudgeError with a sentence.
    """
    if not 0 < n <= MOST_EXAMPLES:
        raise JudgeError(f"A judge is shown 1 to {MOST_EXAMPLES} examples, not {n}.")
    label_set = LabelSet.objects.filter(name=name).first()
    if label_set is None:
        known = ", ".join(LabelSet.objects.values_list("name", flat=True)) or "none"
        raise JudgeError(f"There are no labels called {name!r}. Known: {known}.")
    try:
        return draw_examples(_example_pool(label_set, load_rubric(rubric)), n, seed)
    except (ExampleError, RubricError) as error:
        raise JudgeError(str(error)) from None


def rubric_in(judge: str) -> str:
    """Return the rubric in the name of a judge."""
    return judge.rsplit("@", 1)[1] if "@" in judge else DEFAULT_RUBRIC


def outside_examples(examples: Sequence[Example], items: Iterable[LabelItem]) -> list[LabelItem]:
    """Leave out the items that a judge has seen as examples: it must not be tested on them."""
    prompts = {example.prompt for example in examples}
    return [item for item in items if item.prompt not in prompts]


def _example_pool(labels: LabelSet, rubric: Rubric) -> list[Drawn]:
    pool = []
    for item in labels.items.prefetch_related("labels").order_by("pk"):
        verdict = _majority_verdict(item, rubric.scale)
        if verdict is None or (rubric.reference == "required" and not item.reference):
            continue
        answers = (item.response_1,) if rubric.scale else (item.response_1, item.response_2)
        example = Example(item.prompt, answers, verdict, reference=item.reference)
        pool.append((item.key, verdict, example))
    return pool


def _majority_verdict(item: LabelItem, scale: Scale | None) -> str | None:
    """Return the label that more than half of the people gave, as a judge writes it."""
    labels = list(item.labels.all())
    if scale is None:
        verdicts = [label.outcome for label in labels]
    else:
        verdict_of = {scale.score_of(label): label for label in scale.labels}
        verdicts = [
            "" if label.score is None else verdict_of.get(label.score, "") for label in labels
        ]
    verdict, count = Counter(verdicts).most_common(1)[0]
    return verdict if verdict not in ("", BOTH_BAD) and 2 * count > len(labels) else None


class FeedbackError(Exception):
    """Feedback that cannot be stored; the message is a sentence for the user."""


@dataclass(frozen=True)
class FeedbackShare:
    """How often people agreed with one statement about a judge's reasoning, of `n` answers."""

    kind: str
    label: str
    n: int
    holds: int

    @property
    def share(self) -> float | None:
        return self.holds / self.n if self.n else None


@transaction.atomic
def give_feedback(
    *, judgement: Judgement, user: Any, kind: str, holds: bool, now: datetime
) -> Mark:
    """Store whether a judge's reasoning is coherent, suitable or critical.

    A second answer of the same person replaces the first. Raises FeedbackError.
    """
    if kind not in Mark.Kind.values:
        raise FeedbackError(f"{kind!r} is not one of {', '.join(Mark.Kind.values)}.")
    if judgement.state in Judgement.UNSETTLED:
        raise FeedbackError("There is no reasoning yet: the judge has not answered.")
    mark, _ = Mark.objects.update_or_create(
        judgement=judgement, user=user, kind=kind, defaults={"holds": holds, "made_at": now}
    )
    return mark


def count_feedback(
    judge_ids: list[int], runs: QuerySet[Run]
) -> dict[int, dict[str, tuple[int, int]]]:
    """Map judge -> kind -> (answers, those that agree) in `runs`, in one query."""
    rows = (
        Mark.objects.filter(judgement__epoch__judge__in=judge_ids, judgement__run__in=runs)
        .values_list("judgement__epoch__judge", "kind")
        .annotate(n=Count("pk"), n_holds=Count("pk", filter=Q(holds=True)))
        .order_by()
    )
    counts: dict[int, dict[str, tuple[int, int]]] = {}
    for judge, kind, n, holds in rows:
        counts.setdefault(judge, {})[kind] = (n, holds)
    return counts


def feedback_shares(counts: dict[str, tuple[int, int]]) -> list[FeedbackShare]:
    """Turn one judge's counts into a row for each kind."""
    return [
        FeedbackShare(kind.value, str(kind.label), *counts.get(kind.value, (0, 0)))
        for kind in Mark.Kind
    ]
