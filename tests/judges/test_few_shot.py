"""Few-shot examples come from people's labels, and never from what is tested."""

import pytest
from django.utils import timezone

from arena.services.runs import resume_unfinished
from judges.models import Judge, Label, LabelItem, LabelSet
from judges.services.examples import examples_from
from judges.services.label_runs import order_label_run
from judges.services.registry import JudgeError, Switches, register_judge, spec_named
from tests.factories import make_arena
from tests.judges.fake_server import FakeServer, better_is
from tests.judges.helpers import order, work_off

pytestmark = pytest.mark.django_db
OUTCOMES = ["left", "right", "tie"]


@pytest.fixture
def labels() -> LabelSet:
    """Twelve items, four of each outcome, and one on which people disagree."""
    found = LabelSet.objects.create(name="mine", kind="pairs", digest="d")
    for number in range(13):
        item = LabelItem.objects.create(
            labels_in=found,
            key=f"k{number}",
            prompt=f"Prompt {number}?",
            response_1=f"First {number}.",
            response_2=f"Second {number}.",
        )
        said = ["left", "right"] if number == 12 else [OUTCOMES[number % 3]]
        for rater, outcome in enumerate(said):
            Label.objects.create(item=item, rater=str(rater), outcome=outcome)
    return found


def drawn(n: int, seed: int = 0) -> list[tuple[str, str]]:
    found = examples_from(name="mine", rubric="pairwise", n=n, seed=seed)
    return [(example.prompt, example.verdict) for example in found]


@pytest.mark.usefixtures("labels")
def test_every_label_is_drawn_as_often_by_the_seed() -> None:
    assert sorted(verdict for _, verdict in drawn(6)) == ["left"] * 2 + ["right"] * 2 + ["tie"] * 2
    assert drawn(6) == drawn(6)
    assert drawn(6) != drawn(6, seed=1)


@pytest.mark.usefixtures("labels")
def test_an_item_on_which_people_are_at_odds_teaches_nothing() -> None:
    assert "Prompt 12?" not in [prompt for prompt, _ in drawn(12)]
    with pytest.raises(JudgeError, match="the pool has 12"):
        drawn(13)


def test_a_judge_with_examples_is_another_judge_and_shows_them(
    labels: LabelSet, local: FakeServer
) -> None:
    local.otherwise = better_is("TIE")
    examples = examples_from(name="mine", rubric="pairwise", n=3, seed=0)
    run = order(make_arena(2, 1), per_pair=1, switches=Switches(examples=examples))
    work_off(resume_unfinished(run=run, now=timezone.now()))
    judge = Judge.objects.get()
    assert judge.name.endswith("+examples3")
    assert len(judge.examples) == 3
    assert all(example.prompt in str(local.requests[0]) for example in examples)


def test_a_judge_is_not_tested_on_its_examples(labels: LabelSet) -> None:
    examples = examples_from(name="mine", rubric="pairwise", n=3, seed=0)
    epoch = register_judge(spec=spec_named("scripted", Switches(examples=examples)))
    run = order_label_run(epoch=epoch, items=list(labels.items.all()), cap=None, now=timezone.now())
    asked = set(run.judgements.values_list("item__prompt", flat=True))
    assert len(asked) == 10
    assert not asked & {example.prompt for example in examples}


def test_unknown_labels_and_too_many_examples_are_refused(labels: LabelSet) -> None:
    with pytest.raises(JudgeError, match="Known: mine"):
        examples_from(name="yours", rubric="pairwise", n=2, seed=0)
    with pytest.raises(JudgeError, match="1 to 16"):
        examples_from(name="mine", rubric="pairwise", n=17, seed=0)
