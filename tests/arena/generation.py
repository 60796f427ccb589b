"""Candidates whose answers are generated, and runs processed without a queue."""

from typing import Any

from django.utils import timezone

from arena.actors import Actor
from arena.calls.execution import execute_call
from arena.calls.models import Call
from arena.generation import AnswerHandler, reconcile_runs
from arena.generation_runs import order_answers
from arena.models import Arena, Candidate, Prompt, Run
from tests.factories import DOLLAR

ROUNDS = 20


def generate_answer(*, call_id: int) -> Call | None:
    """Make one call for an answer as a worker does."""
    return execute_call(call_id=call_id, handler=AnswerHandler())


def order(
    candidate: Candidate, cap: int | None = DOLLAR, by: Actor | None = None, **fields: Any
) -> Run:
    by = by or Actor()
    return order_answers(candidate=candidate, by=by, cap=cap, now=timezone.now(), **fields)


def work_off(run: Run) -> Run:
    """Request every answer of a run, and again where allowed, as if it were due."""
    for _ in range(ROUNDS):
        calls = Call.objects.filter(run=run).in_progress()
        for call_id in calls.order_by("pk").values_list("pk", flat=True):
            generate_answer(call_id=call_id)
        if not calls.exists():
            break
        Call.objects.filter(run=run, state="waiting").update(due_at=timezone.now())
    run.refresh_from_db()
    return run


def stored(run: Run) -> Run:
    """The run as the database has it."""
    return Run.objects.get(pk=run.pk)


def sweep() -> None:
    reconcile_runs(now=timezone.now())


def prompts_of(arena: Arena) -> list[Prompt]:
    return list(arena.prompts.order_by("pk"))
