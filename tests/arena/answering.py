"""Candidates whose answers are generated, and runs worked off without a queue."""

from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from arena.actors import Actor
from arena.calls.models import Call
from arena.generation import generate_answer, reconcile_runs
from arena.generation_runs import order_answers
from arena.models import Arena, Candidate, Membership, Prompt, Run, Team
from tests.arena.ledger import DOLLAR, MODEL
from tests.factories import make_arena

ROUNDS = 20


def make_team(budget: int = 100 * DOLLAR, **fields: Any) -> Team:
    number = Team.objects.count()
    values = {"slug": f"team-{number}", "name": f"Team {number}", "budget": budget}
    return Team.objects.create(**values | fields)


def make_member(team: Team, role: str = "member") -> User:
    user = User.objects.create_user(f"{role}-{User.objects.count()}")
    Membership.objects.create(team=team, user=user, role=role)
    return user


def make_variant(n_prompts: int = 3, team: Team | None = None, **fields: Any) -> Candidate:
    """A prompt variant that has answered nothing, in an arena of its own with so many prompts."""
    arena = fields.pop("arena", None) or make_arena(0, n_prompts, team=team)
    values = {
        "name": f"variant-{Candidate.objects.count()}",
        "endpoint": "paid",
        "model": MODEL,
        "system_prompt": "Be brief.",
        "user_template": "Q: {{ prompt }}",
        "team": team,
    }
    return Candidate.objects.create(arena=arena, **values | fields)


def order(
    candidate: Candidate, cap: int | None = DOLLAR, by: Actor | None = None, **fields: Any
) -> Run:
    by = by or Actor()
    return order_answers(candidate=candidate, by=by, cap=cap, now=timezone.now(), **fields)


def work_off(run: Run) -> Run:
    """Ask for every answer of a run, and again where that is allowed, as if its time had come."""
    for _ in range(ROUNDS):
        calls = Call.objects.filter(run=run).in_progress()
        for call_id in calls.order_by("pk").values_list("pk", flat=True):
            generate_answer(call_id=call_id)
        if not calls.exists():
            break
        Call.objects.filter(run=run, state="waiting").update(due_at=timezone.now())
    run.refresh_from_db()
    return run


def sweep() -> None:
    reconcile_runs(now=timezone.now())


def prompts_of(arena: Arena) -> list[Prompt]:
    return list(arena.prompts.order_by("pk"))
