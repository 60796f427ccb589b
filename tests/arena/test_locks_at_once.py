"""Concurrent writers wait for one another in one order, and voters wait for nobody.

SQLite has one writer at a time, so these are about PostgreSQL.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from arena.actors import CLI
from arena.api import prompts as api_prompts
from arena.files.rows import ResponseRow
from arena.models import Arena, Candidate, Comparison, Pair
from arena.services import candidates, locks, responses
from arena.services.arenas import update_arena
from arena.services.candidates import retire_candidate, revise_candidate
from arena.services.comparisons import next_comparison
from tests.arena.rest import token_of
from tests.deadlocks import Other
from tests.factories import make_person

NOW = datetime(2026, 5, 1, tzinfo=UTC)
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _on_postgresql(no_doorbell: None) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("On SQLite whoever writes is alone.")


def voter(arena: Arena) -> Other:
    """A rater with a pair."""
    rater = make_person()
    return Other(lambda: next_comparison(arena=arena, rater=rater, now=timezone.now()))


def while_in(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, other: Other, seconds: float
) -> list[bool]:
    """Have `other` work once, just before `name` is called; return whether it has ended."""
    work, ended = getattr(module, name), []

    def let_work_first(*args: Any, **kwargs: Any) -> Any:
        if not ended:
            other.start()
            ended.append(other.ends_within(seconds))
        return work(*args, **kwargs)

    monkeypatch.setattr(module, name, let_work_first)
    return ended


def test_an_upload_under_way_keeps_no_voter_waiting(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts pairs next, and the voter holds one: each would wait for the other."""
    other = voter(arena)
    ended = while_in(monkeypatch, responses, "sync_pairs", other, 60)
    candidate = arena.candidates.earliest("pk")
    rows = [
        ResponseRow(i, f"Answer {i}-0 of somebody.", prompt_id=f"p{i}", tokens_out=9)
        for i in range(2)
    ]
    report = responses.upsert_responses(candidate=candidate, rows=rows, by=CLI)
    other.check()
    assert (ended, report.changed, Comparison.objects.count()) == ([True], 2, 1)


def test_a_prompt_being_retired_keeps_no_voter_waiting(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    arena.prompts.exclude(external_id="p0").delete()
    other = voter(arena)
    ended = while_in(monkeypatch, api_prompts, "retire_prompt", other, 60)
    answer = token_of(arena.team).patch(f"arenas/{arena.slug}/prompts/p0/", {"retired": True})
    other.check()
    assert (ended, answer.status_code) == ([True], 200)
    assert Pair.objects.get(arena=arena).shared_prompts == 0


def test_a_next_version_does_not_hold_up_its_boards(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Publishing locks the refresh row while its standings refer to the candidate."""
    first = arena.candidates.earliest("pk")
    other = Other(lambda: refer_to(first))
    ended = while_in(monkeypatch, candidates, "is_in_use", other, 60)
    made = revise_candidate(candidate=first, by=CLI, now=NOW, notes="Shorter.")
    other.check()
    assert (ended, made.version) == ([True], 2)


def refer_to(candidate: Candidate) -> None:
    """Lock the candidate's row like any row that refers to it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM arena_candidate WHERE id = %s FOR KEY SHARE", [candidate.pk])


def retire(arena: Arena) -> None:
    retire_candidate(candidate=arena.candidates.earliest("pk"), by=CLI, now=NOW)


def revise(arena: Arena) -> None:
    revise_candidate(candidate=arena.candidates.earliest("pk"), by=CLI, now=NOW, notes="Mine.")


def upload(arena: Arena) -> None:
    rows = [ResponseRow(1, "Answer 0-0 of somebody.", prompt_id="p0", tokens_out=9)]
    responses.upsert_responses(candidate=arena.candidates.earliest("pk"), rows=rows, by=CLI)


def rename(arena: Arena) -> None:
    update_arena(arena=arena, by=CLI, question="Which one is better?")


@pytest.mark.parametrize("work", [retire, revise, upload])
def test_the_arena_is_locked_before_its_candidates(
    arena: Arena, work: Callable[[Arena], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "ROLLED_BACK", ())  # nothing is tried again
    other = Other(lambda: work(arena))
    with transaction.atomic():
        locks.lock_arena(arena.pk)
        other.start()
        assert not other.ends_within(0.5)
        Candidate.objects.select_for_update(no_key=True).get(pk=arena.candidates.earliest("pk").pk)
    other.check()


def test_an_arena_changed_during_a_retirement_waits(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both also lock the refresh row: the boards show the arena's texts and candidates."""
    monkeypatch.setattr(locks, "ROLLED_BACK", ())
    other = Other(lambda: rename(arena))
    ended = while_in(monkeypatch, candidates, "sync_pairs", other, 0.5)
    retire(arena)
    other.check()
    arena.refresh_from_db()
    assert (ended, arena.question) == ([False], "Which one is better?")
