"""Arenas with millions of stored votes: 100 candidates x 1,000 prompts, made by the database."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db import connection
from django.db.backends.utils import CursorWrapper
from django.utils import timezone

from arena.models import Arena, Candidate, Prompt, Rater
from ranking.services import leases

CANDIDATES, PROMPTS, RATERS = 100, 1000, 5000
AT_ONCE = 1_000_000
TABLES = ("arena_comparison", "arena_vote")
# Popular candidates meet more often; three votes in ten are ties, the others follow strength.
COMPARISONS = """
    INSERT INTO arena_comparison
        (key, arena_id, rater_id, prompt_id, left_id, right_id, names_itself)
    SELECT lpad(to_hex(%(after)s + number), 32, '0')::uuid, %(arena)s,
        %(rater)s + (random() * %(raters)s)::int,
        %(prompt)s + (random() * %(prompts)s)::int, %(candidate)s + l,
        %(candidate)s + (l + 1 + floor(random() * %(others)s)::int) %% %(candidates)s, false
    FROM (SELECT number, floor(power(random(), 1.5) * %(candidates)s)::int AS l
        FROM generate_series(1, %(n)s) AS number) AS drawn
"""
VOTES = """
    INSERT INTO arena_vote
        (arena_id, comparison_id, rater_id, outcome, cast_at, void_reason, tallied)
    SELECT arena_id, id, rater_id,
        CASE WHEN random() < 0.3 THEN 'tie'
            WHEN random() < 1 / (1 + exp((left_id - right_id) / 50.0)) THEN 'left'
            ELSE 'right' END,
        now(), '', true
    FROM arena_comparison WHERE arena_id = %(arena)s AND id > %(after)s ORDER BY id
"""


@dataclass(frozen=True)
class Sizes:
    """The name of an arena, and its number of votes."""

    name: str
    n_votes: int


def store(wanted: Iterable[Sizes]) -> list[Arena]:
    """Create the arenas. Their votes are marked as tallied, so that the timed rebuild counts
    them.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")  # generated rows need no checks
        indexes = _drop_indexes(cursor)
        arenas = [_store(cursor, sizes) for sizes in wanted]
        for statement in indexes:
            cursor.execute(statement)
        cursor.execute("SET session_replication_role = origin")
        cursor.execute("ANALYZE")
    return arenas


def _drop_indexes(cursor: CursorWrapper) -> list[str]:
    """Drop indexes that slow bulk inserts; return the statements that recreate them."""
    statements = []
    for table in TABLES:
        cursor.execute(
            "SELECT i.indexname, i.indexdef FROM pg_indexes i WHERE i.tablename = %s"
            " AND NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conname = i.indexname)",
            [table],
        )
        for name, definition in cursor.fetchall():
            cursor.execute(f'DROP INDEX "{name}"')
            statements.append(definition)
    return statements


def _store(cursor: CursorWrapper, sizes: Sizes) -> Arena:
    arena = Arena.objects.create(slug=sizes.name, name=sizes.name)
    leases.open_arena(arena_id=arena.pk)
    Candidate.objects.bulk_create(
        Candidate(arena=arena, name=f"candidate-{i:02}") for i in range(CANDIDATES)
    )
    Prompt.objects.bulk_create(
        Prompt(arena=arena, external_id=str(i), text=f"Question {i}?") for i in range(PROMPTS)
    )
    Rater.objects.bulk_create(
        Rater(kind=Rater.Kind.PERSON, name=f"{sizes.name} {i}", created_at=timezone.now())
        for i in range(RATERS)
    )
    first = {
        "arena": arena.pk,
        "candidate": arena.candidates.earliest("pk").pk,
        "candidates": CANDIDATES,
        "others": CANDIDATES - 1,
        "prompt": arena.prompts.earliest("pk").pk,
        "prompts": PROMPTS - 1,
        "rater": Rater.objects.order_by("-pk")[RATERS - 1].pk,
        "raters": RATERS - 1,
    }
    for start in range(0, sizes.n_votes, AT_ONCE):
        cursor.execute("SELECT coalesce(max(id), 0) FROM arena_comparison")
        (after,) = cursor.fetchone()
        n = min(AT_ONCE, sizes.n_votes - start)
        cursor.execute(COMPARISONS, first | {"n": n, "after": after})
        cursor.execute(VOTES, first | {"after": after})
    return arena
