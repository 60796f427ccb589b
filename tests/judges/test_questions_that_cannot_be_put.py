"""A question that cannot be put together fails alone; the others of its judge are asked."""

import pytest
from django.utils import timezone

from arena.calls.execution import CannotAskCallError, CannotAskError
from arena.calls.models import Call, RunAsker
from arena.models import Response, Run, Vote
from judges.services.runs import resume_unfinished
from judges.services.subjects import GONE, CallTarget, material_for
from tests.factories import make_arena
from tests.judges.fake_server import FakeServer, better_is
from tests.judges.helpers import LOCAL, order, work_off

pytestmark = pytest.mark.django_db
REFERENCED = f"{LOCAL}@pairwise-reference"


def with_references(prompts: int, rubric: str = REFERENCED) -> Run:
    arena = make_arena(2, prompts)
    arena.prompts.update(reference="A good answer.")
    return order(arena, rubric, per_pair=prompts)


def test_a_reference_that_was_taken_away_costs_its_own_verdict_alone(local: FakeServer) -> None:
    local.otherwise = better_is("TIE")
    run = with_references(3)
    first = run.judgements.select_related("comparison").order_by("pk").first()
    run.arena.prompts.filter(pk=first.comparison.prompt_id).update(reference="")
    work_off(run)
    first.refresh_from_db()
    assert (run.state, run.votes_done, first.state) == ("done", 2, "failed")
    assert not RunAsker.objects.filter(paused_at__isnull=False).exists()
    failed = Call.objects.filter(state="failed")
    assert {(call.requests, call.cost) for call in failed} == {(0, 0)}
    assert all("needs a reference answer" in call.error for call in failed)
    assert len(local.requests) == 4


def test_it_is_asked_again_once_it_can_be(local: FakeServer) -> None:
    local.otherwise = better_is("TIE")
    run = with_references(2)
    run.arena.prompts.update(reference="")
    assert work_off(run).state == "done"
    run.arena.prompts.update(reference="A better answer.")
    work_off(resume_unfinished(run=run, now=timezone.now()))
    assert Vote.objects.count() == run.votes_done == 2


def test_an_answer_that_lost_its_text_fails_with_a_sentence(local: FakeServer) -> None:
    local.otherwise = better_is("TIE")
    run = with_references(2, LOCAL)
    emptied = run.judgements.select_related("comparison").first().comparison.left_response_id
    Response.objects.filter(pk=emptied).update(text="")
    work_off(run)
    assert (run.state, run.votes_done) == ("done", 1)
    assert set(Call.objects.filter(state="failed").values_list("error", flat=True)) == {GONE}


def test_a_grading_note_that_cannot_be_asked_for_ends_what_needs_it(local: FakeServer) -> None:
    run = with_references(1, f"{LOCAL}@pairwise-note")
    run.arena.prompts.update(text="")
    work_off(run)
    assert run.state == "done"
    assert set(Call.objects.values_list("state", "requests")) == {("failed", 0)}
    assert not local.requests


@pytest.mark.parametrize(
    "subject", [CallTarget(item=0), CallTarget(prompt=0), CallTarget(shown=(1, 2))]
)
def test_what_is_gone_is_a_matter_of_one_question(subject: CallTarget) -> None:
    with pytest.raises(CannotAskCallError) as refusal:
        material_for(subject)
    assert isinstance(refusal.value, CannotAskError)
    assert str(refusal.value) == GONE
