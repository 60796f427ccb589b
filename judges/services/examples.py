"""Few-shot examples of a judge's prompt, drawn from stored labels."""

from collections import Counter
from collections.abc import Iterable, Sequence

from arena.actors import ANONYMOUS, Actor
from arena.outcomes import BOTH_BAD
from judges.core.rubric import Rubric, RubricError, Scale
from judges.core.spec import Drawn, Example, ExampleError, draw_examples
from judges.models import LabelItem, LabelSet
from judges.services.registry import DEFAULT_RUBRIC, JudgeError
from judges.services.rubrics import rubric_named

MOST_EXAMPLES = 16


def examples_from(
    *, name: str, rubric: str, n: int, seed: int, by: Actor = ANONYMOUS
) -> tuple[Example, ...]:
    """Draw `n` examples for a judge of this rubric from the label set called `name`.

    As evenly over the labels as possible, and only from items with one outcome (or score) that
    more than half of the people gave. Raises JudgeError with a sentence.
    """
    if not 0 < n <= MOST_EXAMPLES:
        raise JudgeError(f"A judge is shown 1 to {MOST_EXAMPLES} examples, not {n}.")
    without_team = LabelSet.objects.filter(from_team=False)
    label_set = without_team.filter(name=name).first()
    if label_set is None:
        names = ", ".join(without_team.values_list("name", flat=True)) or "none"
        raise JudgeError(f"There are no labels called {name!r}. Known: {names}.")
    try:
        return draw_examples(_example_pool(label_set, rubric_named(rubric, by)), n, seed)
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
