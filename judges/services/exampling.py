"""Few-shot examples for a judge, drawn from labels that people gave."""

from collections import Counter
from collections.abc import Iterable, Sequence

from judges.core.examples import Drawn, Example, ExampleError, draw_examples
from judges.core.rubric import Rubric, RubricError, load_rubric
from judges.core.scales import Scale
from judges.models import LabelItem, LabelSet
from judges.services.registering import DEFAULT_RUBRIC, JudgeRefused

MOST_EXAMPLES = 16


def examples_from(*, name: str, rubric: str, n: int, seed: int) -> tuple[Example, ...]:
    """Draw `n` examples for a judge of this rubric from the label set called `name`.

    As many of each label as can be. Only items on which people are clear can teach anything: one
    outcome (or score) that more than half of them gave. Raises JudgeRefused with a sentence.
    """
    if not 0 < n <= MOST_EXAMPLES:
        raise JudgeRefused(f"A judge is shown 1 to {MOST_EXAMPLES} examples, not {n}.")
    found = LabelSet.objects.filter(name=name).first()
    if found is None:
        known = ", ".join(LabelSet.objects.values_list("name", flat=True)) or "none"
        raise JudgeRefused(f"There are no labels called {name!r}. Known: {known}.")
    try:
        return draw_examples(_pool(found, load_rubric(rubric)), n, seed)
    except (ExampleError, RubricError) as error:
        raise JudgeRefused(str(error)) from None


def rubric_in(judge: str) -> str:
    """Return the rubric that a typed judge names."""
    return judge.rsplit("@", 1)[1] if "@" in judge else DEFAULT_RUBRIC


def outside_examples(examples: Sequence[Example], items: Iterable[LabelItem]) -> list[LabelItem]:
    """Leave out what a judge was shown as an example: it must not be tested on that."""
    shown = {example.prompt for example in examples}
    return [item for item in items if item.prompt not in shown]


def _pool(labels: LabelSet, rubric: Rubric) -> list[Drawn]:
    pool = []
    for item in labels.items.prefetch_related("labels").order_by("pk"):
        said = _said(item, rubric.scale)
        if said is None or (rubric.reference == "required" and not item.reference):
            continue
        answers = (item.response_1,) if rubric.scale else (item.response_1, item.response_2)
        example = Example(item.prompt, answers, said, reference=item.reference)
        pool.append((item.key, said, example))
    return pool


def _said(item: LabelItem, scale: Scale | None) -> str | None:
    """Return what more than half of the people say of an item, in the judge's words."""
    labels = list(item.labels.all())
    said = (
        [label.outcome for label in labels]
        if scale is None
        else [_label_of(label.score, scale) for label in labels]
    )
    counts = Counter(said)
    most, count = counts.most_common(1)[0]
    return most if most not in ("", "both_bad") and 2 * count > len(labels) else None


def _label_of(score: float | None, scale: Scale) -> str:
    """Return the label of a score, '' for what is no score of this scale."""
    return next((one for one in scale.labels if scale.score_of(one) == score), "")
