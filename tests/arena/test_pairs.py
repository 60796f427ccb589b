"""Pairs count their shared prompts after every change; only differences are written."""

from datetime import UTC, datetime
from importlib import import_module
from itertools import combinations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from arena.actors import Actor
from arena.files.rows import ResponseRow
from arena.models import Arena, Candidate, Pair, Prompt, Response
from arena.services.candidates import retire_candidate
from arena.services.pairs import sync_pairs
from arena.services.prompts import bring_back_prompt, retire_prompt
from arena.services.responses import upsert_responses
from tests.arena.generation import order, work_off
from tests.factories import make_arena, make_candidate, make_variant

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 5, 1, tzinfo=UTC)


def counted(arena: Arena) -> dict[tuple[int, int], int]:
    """The prompts that two active candidates have both answered, counted one by one."""
    candidates = arena.candidates.filter(retired_at=None).order_by("pk")
    answered = {
        candidate.pk: set(
            candidate.responses.filter(prompt__retired_at=None).values_list("prompt", flat=True)
        )
        for candidate in candidates
    }
    pairs = {(a, b): len(answered[a] & answered[b]) for a, b in combinations(sorted(answered), 2)}
    return {pair: count for pair, count in pairs.items() if count}


def stored(arena: Arena) -> dict[tuple[int, int], int]:
    rows = Pair.objects.filter(arena=arena, shared_prompts__gt=0)
    return {(low, high): n for low, high, n in rows.values_list("low", "high", "shared_prompts")}


def statements_on_pairs(arena: Arena, touched: Candidate | None = None) -> list[str]:
    """What the recount wrote."""
    with CaptureQueriesContext(connection) as queries:
        sync_pairs(arena=arena, touched=touched)
    words = ("UPDATE", "INSERT")
    return [query["sql"] for query in queries if query["sql"].startswith(words)]


def upload(candidate: Candidate, *prompts: str) -> None:
    rows = [ResponseRow(i, f"Mine to {name}.", prompt_id=name) for i, name in enumerate(prompts)]
    upsert_responses(candidate=candidate, rows=rows, by=Actor())


def test_nothing_is_written_where_nothing_changed() -> None:
    arena = make_arena(5, 3)
    assert statements_on_pairs(arena) == []
    assert statements_on_pairs(arena, arena.candidates.earliest("pk")) == []


def test_only_pairs_with_changed_counts_are_written() -> None:
    arena = make_arena(6, 3)
    Response.objects.filter(candidate=arena.candidates.latest("pk")).earliest("pk").delete()
    (update,) = statements_on_pairs(arena)
    assert update.startswith("UPDATE")
    assert stored(arena) == counted(arena)
    assert sorted(stored(arena).values()) == [2] * 5 + [3] * 10


def test_a_wrong_count_is_put_right() -> None:
    arena = make_arena(4, 3)
    Pair.objects.filter(arena=arena).update(shared_prompts=7)
    sync_pairs(arena=arena)
    assert stored(arena) == counted(arena)


def test_uploaded_answers_are_counted_for_their_candidate() -> None:
    arena = make_arena(3, 4)
    newcomer = make_candidate(arena, "newcomer")
    upload(newcomer, "p0", "p2")
    assert len(stored(arena)) == 6
    assert stored(arena) == counted(arena)
    upload(newcomer, "p1")
    assert stored(arena) == counted(arena)
    other = make_candidate(arena, "other")
    upload(other, "p3")
    assert (stored(arena), (newcomer.pk, other.pk) in stored(arena)) == (counted(arena), False)


def test_retired_items_count_for_no_pair_until_restored() -> None:
    arena = make_arena(4, 3)
    first, second = arena.candidates.order_by("pk")[:2]
    retire_candidate(candidate=first, by=Actor(), now=NOW)
    assert stored(arena) == counted(arena)
    assert len(stored(arena)) == 3
    assert Pair.objects.filter(arena=arena).count() == 6  # they keep their history
    prompt = arena.prompts.earliest("pk")
    retire_prompt(prompt=prompt, by=Actor(), now=NOW)
    assert set(stored(arena).values()) == {2}
    extra = Prompt.objects.create(arena=arena, external_id="extra", text="Extra?")
    upload(second, "extra")
    assert stored(arena) == counted(arena)
    bring_back_prompt(prompt=prompt, by=Actor())
    assert set(stored(arena).values()) == {3}
    assert not extra.responses.exclude(candidate=second).exists()


def test_generated_answers_are_counted() -> None:
    arena = make_arena(3, 4)
    arena.prompts.filter(external_id="p3").update(retired_at=NOW)
    sync_pairs(arena=arena)
    variant = make_variant(arena=arena, endpoint="scripted", model="scripted-1")
    assert work_off(order(variant, cap=None)).state == "done"
    assert stored(arena) == counted(arena)
    assert (len(stored(arena)), set(stored(arena).values())) == (6, {3})


def test_counting_for_one_candidate_reads_no_answers_into_memory() -> None:
    arena = make_arena(8, 2)
    touched = arena.candidates.earliest("pk")
    with CaptureQueriesContext(connection) as queries:
        sync_pairs(arena=arena, touched=touched)
    read = [query["sql"] for query in queries if query["sql"].startswith("SELECT")]
    assert len(read) == 3  # the lock, the counts, the candidate's pairs
    assert "GROUP BY" in read[1]


def test_a_prompt_with_equal_answers_is_not_shared() -> None:
    arena = make_arena(3, 2)
    first, second, third = arena.candidates.order_by("pk")
    prompt = arena.prompts.earliest("pk")
    prompt.responses.filter(candidate__in=[first, second]).update(text="Yes.")
    every = {(first.pk, second.pk): 1, (first.pk, third.pk): 2, (second.pk, third.pk): 2}
    for touched in (None, second):
        Pair.objects.update(shared_prompts=2)
        sync_pairs(arena=arena, touched=touched)
        assert stored(arena) == every
    prompt.responses.filter(candidate=first).update(messages=[{"role": "tool", "content": "1"}])
    sync_pairs(arena=arena, touched=first)
    assert stored(arena)[first.pk, second.pk] == 2, "steps that differ are a difference"
    Response.objects.filter(candidate__in=[first, second]).update(text="Yes.", messages=None)
    sync_pairs(arena=arena, touched=first)
    assert (first.pk, second.pk) not in stored(arena)


def test_an_upgrade_counts_as_every_later_change_does() -> None:
    arena = make_arena(3, 3)
    first, second, _ = arena.candidates.order_by("pk")
    prompt = arena.prompts.earliest("pk")
    prompt.responses.filter(candidate__in=[first, second]).update(text="Yes.")
    retire_prompt(prompt=arena.prompts.latest("pk"), by=Actor(), now=NOW)
    sync_pairs(arena=arena)
    counts = stored(arena)
    Pair.objects.update(shared_prompts=3)
    migration = import_module("arena.migrations.0039_different_answers")
    with connection.cursor() as cursor:
        cursor.execute(migration.RECOUNT)
    assert stored(arena) == counts
    assert sorted(counts.values()) == [1, 2, 2]
