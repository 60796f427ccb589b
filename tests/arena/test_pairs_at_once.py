"""Two candidates get answers to the same prompts at the same moment: their pair counts all of
them."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from arena.actors import Actor
from arena.files.rows import ResponseRow
from arena.models import Arena, Candidate, Comparison, Pair, Response
from arena.services import responses
from arena.services.comparisons import next_comparison
from arena.services.pairs import publish_pair_weights, sync_pairs
from arena.services.prompts import bring_back_prompt, retire_prompt
from arena.services.raters import allow_comparison
from arena.services.voting import SkippedError, cast_vote, skip_comparison
from tests.deadlocks import Other, at_once
from tests.factories import make_arena, make_candidate, make_person

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("no_doorbell")]
PROMPTS = 6


def upload(candidate: Candidate) -> None:
    rows = [ResponseRow(i, candidate.name, prompt_id=f"p{i}") for i in range(PROMPTS)]
    responses.upsert_responses(candidate=candidate, rows=rows, by=Actor())


def newcomers(arena: Arena, n: int) -> list[Candidate]:
    return [make_candidate(arena, f"new-{i}") for i in range(n)]


def answer(candidate: Candidate) -> None:
    """Answer as a model does, whose answers are counted under no lock but the pairs' own."""
    prompts = candidate.arena.prompts.all()
    Response.objects.bulk_create(
        Response(candidate=candidate, prompt=one, text=candidate.name) for one in prompts
    )
    sync_pairs(arena=candidate.arena, touched=candidate)


def test_a_count_waits_for_the_others_commit_and_counts_both() -> None:
    arena = make_arena(0, PROMPTS)
    first, second = newcomers(arena, 2)
    other = Other(transaction.atomic(lambda: answer(second)))
    with transaction.atomic():
        answer(first)
        other.start()
        assert not other.ends_within(0.5)
    other.check()
    assert Pair.objects.get(arena=arena).shared_prompts == PROMPTS


def test_many_at_once_leave_the_right_counts() -> None:
    arena = make_arena(2, PROMPTS + 1)
    prompt = arena.prompts.latest("pk")  # that the newcomers do not answer
    pair = Pair.objects.get(arena=arena)
    weights = {(pair.low_id, pair.high_id): 2.0}

    def retire_and_bring_back() -> None:
        retire_prompt(prompt=prompt, by=Actor(), now=timezone.now())
        bring_back_prompt(prompt=prompt, by=Actor())

    works: list[Callable[[], Any]] = [
        *[lambda candidate=candidate: upload(candidate) for candidate in newcomers(arena, 5)],
        retire_and_bring_back,
        lambda: sync_pairs(arena=arena),
        lambda: publish_pair_weights(arena=arena, weights=weights),
    ]
    at_once(*works)
    pair.refresh_from_db()
    assert (pair.shared_prompts, pair.weight) == (PROMPTS + 1, 2.0)
    others = Pair.objects.filter(arena=arena).exclude(pk=pair.pk)
    assert list(others.values_list("shared_prompts", flat=True)) == [PROMPTS] * 20


def test_a_vote_and_a_skip_at_once_are_one_of_the_two() -> None:
    """Skipped votes would hide from the test for raters who skip all but one candidate's pairs."""
    arena, rater, now = make_arena(2, 12), make_person(), timezone.now()

    def vote(comparison: Comparison) -> Any:
        return cast_vote(comparison=comparison, rater=rater, outcome="tie", now=now)

    def skip(comparison: Comparison) -> Any:
        return skip_comparison(comparison=comparison, rater=rater, now=now)

    while comparison := next_comparison(arena=arena, rater=rater, now=now):
        works = [lambda work=work, row=comparison: work(row) for work in (vote, skip)]
        at_once(*works, expecting=(SkippedError,))
        comparison.refresh_from_db()
        assert (comparison.skipped_at is None) == comparison.votes.exists()


def test_a_vote_and_a_skip_with_the_next_pair_never_deadlock() -> None:
    """Both lock the comparison, then the rater. Within a transaction nothing is tried again."""
    arena, rater, now = make_arena(2, 24), make_person(), timezone.now()

    @transaction.atomic
    def vote(comparison: Comparison) -> None:
        cast_vote(comparison=comparison, rater=rater, outcome="tie", now=now)
        allow_comparison(rater=rater, now=now)
        next_comparison(arena=arena, rater=rater, now=now, exclude=[comparison])

    @transaction.atomic
    def skip(comparison: Comparison) -> None:
        skip_comparison(comparison=comparison, rater=rater, now=now)
        allow_comparison(rater=rater, now=now)
        next_comparison(arena=arena, rater=rater, now=now, exclude=[comparison])

    pairs = 0
    while comparison := next_comparison(arena=arena, rater=rater, now=now):
        works = [lambda work=work, row=comparison: work(row) for work in (vote, skip, skip, vote)]
        at_once(*works, expecting=(SkippedError,))
        pairs += 1
    assert pairs == 24
