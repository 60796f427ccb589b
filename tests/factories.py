"""Small arenas for tests, made through the services where there is one."""

from itertools import count
from typing import Any

from django.utils import timezone

from arena.models import Arena, Candidate, Comparison, Prompt, Rater, Response, Vote
from arena.services.arenas import create_arena
from arena.services.pairs import sync_pairs

_numbers = count(1)


def make_arena(n_candidates: int = 3, n_prompts: int = 4, **fields: Any) -> Arena:
    """An arena in which every candidate answers every prompt."""
    number = next(_numbers)
    arena = create_arena(**{"slug": f"arena-{number}", "name": f"Arena {number}"} | fields)
    candidates = [
        Candidate.objects.create(arena=arena, name=f"candidate-{i}") for i in range(n_candidates)
    ]
    for i in range(n_prompts):
        prompt = Prompt.objects.create(
            arena=arena, external_id=f"p{i}", text=f"Question {i}?", category=f"category-{i % 2}"
        )
        Response.objects.bulk_create(
            Response(candidate=c, prompt=prompt, text=f"Answer {i}-{j} of somebody.")
            for j, c in enumerate(candidates)
        )
    sync_pairs(arena=arena)
    return arena


def make_person(**fields: Any) -> Rater:
    """An anonymous rater."""
    return Rater.objects.create(kind=Rater.Kind.PERSON, **fields)


def make_vote(
    arena: Arena,
    left: Candidate,
    right: Candidate,
    outcome: str,
    prompt: Prompt | None = None,
    rater: Rater | None = None,
    **fields: Any,
) -> Vote:
    """A vote with a comparison of its own, as an import would bring it."""
    rater = rater or make_person()
    comparison = Comparison.objects.create(
        arena=arena, rater=rater, prompt=prompt, left=left, right=right
    )
    return Vote.objects.create(
        arena=arena,
        comparison=comparison,
        rater=rater,
        outcome=outcome,
        **{"cast_at": timezone.now(), "tallied": "source" in fields} | fields,
    )
