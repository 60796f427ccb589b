"""Arenas with many stored votes in ten categories, half of them by people and half by judges."""

from dataclasses import dataclass
from datetime import datetime

import numpy as np
from django.db import connection, transaction
from django.utils import timezone

from arena.models import Arena, Candidate, Comparison, Prompt, Rater
from arena.outcomes import LEFT, RIGHT, TIE
from ranking.services import leases

AT_ONCE = 10_000
CATEGORIES, SEED = 10, 1
COMPARISONS = """
    INSERT INTO arena_comparison
        (key, arena_id, rater_id, prompt_id, left_id, right_id, names_itself)
    VALUES (%s, %s, %s, %s, %s, %s, %s)
"""
VOTES = """
    INSERT INTO arena_vote (arena_id, comparison_id, rater_id, outcome, cast_at, void_reason)
    VALUES (%s, %s, %s, %s, %s, '')
"""


@dataclass(frozen=True)
class Sizes:
    """What an arena has many of; `judges`: who cast every other vote."""

    slug: str
    votes: int
    candidates: int
    prompts: int = 1000
    people: int = 2500
    judges: int = 10
    categories: int = CATEGORIES


def store(sizes: Sizes) -> Arena:
    """Create the arena with its votes, which no refresh has read yet."""
    arena = Arena.objects.create(slug=sizes.slug, name=sizes.slug)
    leases.open_arena(arena_id=arena.pk)
    Candidate.objects.bulk_create(
        Candidate(arena=arena, name=f"candidate-{i:02}") for i in range(sizes.candidates)
    )
    Prompt.objects.bulk_create(
        Prompt(
            arena=arena,
            external_id=str(i),
            text=f"Question {i}?",
            category=f"category-{i % sizes.categories}" if sizes.categories else "",
        )
        for i in range(sizes.prompts)
    )
    now, rng = timezone.now(), np.random.default_rng(SEED)
    kinds = [(Rater.Kind.PERSON, sizes.people), (Rater.Kind.JUDGE, sizes.judges)]
    Rater.objects.bulk_create(
        Rater(kind=kind, name=f"{kind} {i}", arena=arena, created_at=now)
        for kind, n in kinds
        for i in range(n)
    )
    with transaction.atomic():
        for start in range(0, sizes.votes, AT_ONCE):
            cast(arena, min(AT_ONCE, sizes.votes - start), rng, now)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return arena


def cast(arena: Arena, n_votes: int, rng: np.random.Generator, now: datetime) -> None:
    """Cast votes, in turns by a person and a judge, if there are any judges."""
    candidates = np.array(arena.candidates.order_by("pk").values_list("pk", flat=True))
    prompts = np.array(arena.prompts.order_by("pk").values_list("pk", flat=True))
    voters = Rater.objects.filter(arena=arena).order_by("pk")
    people, judges = (
        np.array(voters.filter(kind=kind).values_list("pk", flat=True))
        for kind in (Rater.Kind.PERSON, Rater.Kind.JUDGE)
    )
    # Popular candidates meet more often; three votes in ten are ties, the others follow strength.
    left = (rng.random(n_votes) ** 1.5 * len(candidates)).astype(int)
    right = (left + rng.integers(1, len(candidates), n_votes)) % len(candidates)
    rater = rng.choice(people, n_votes)
    if len(judges):
        rater[1::2] = rng.choice(judges, len(rater[1::2]))
    wins = rng.random(n_votes) < 1 / (1 + np.exp((left - right) * 2 / len(candidates)))
    outcome = np.where(rng.random(n_votes) < 0.3, TIE, np.where(wins, LEFT, RIGHT)).tolist()
    columns = (rater, rng.choice(prompts, n_votes), candidates[left], candidates[right])
    rows = zip(*(column.tolist() for column in columns), strict=True)
    comparisons = Comparison.objects.order_by("pk").values_list("pk", flat=True)
    last = comparisons.last() or 0
    # Objects of the ORM would take ten times as long.
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.executemany(
            COMPARISONS,
            [(f"{last + n:032x}", arena.pk, *row, False) for n, row in enumerate(rows, 1)],
        )
        made = zip(comparisons.filter(pk__gt=last), rater.tolist(), outcome, strict=True)
        cursor.executemany(VOTES, [(arena.pk, *row, now) for row in made])
