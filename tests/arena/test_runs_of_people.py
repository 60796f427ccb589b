"""Runs of human votes: opened, updated, requested again where a comparison expired, closed."""

from collections import Counter
from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.urls import reverse
from django.utils import timezone

from arena.actors import CLI
from arena.models import Candidate, Run
from arena.services import comparisons, voting
from arena.services.comparisons import TIME_TO_VOTE
from arena.services.pairs import sync_pairs
from arena.tasks import reconcile_runs
from tests.factories import make_arena, make_person

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def ordered(arena, per_pair):
    run = comparisons.order_people_run(arena=arena, per_pair=per_pair, by=CLI)
    return comparisons.reconcile_people_run(run=run, now=NOW)


def vote(arena, rater=None, now=NOW):
    rater = rater or make_person()
    comparison = comparisons.next_comparison(arena=arena, rater=rater, now=now)
    voting.cast_vote(comparison=comparison, rater=rater, outcome="left", now=now)
    return comparison


def test_the_task_opens_an_ordered_run():
    run = comparisons.order_people_run(arena=make_arena(), per_pair=2, by=CLI)
    assert run.state == Run.State.ORDERED
    reconcile_runs()
    run.refresh_from_db()
    assert (run.state, run.votes_wanted) == (Run.State.OPEN, 6)
    assert sum(run.demands.values_list("remaining", flat=True)) == 6


def test_an_open_run_is_served_first_and_closes_when_complete():
    arena = make_arena()
    run = ordered(arena, per_pair=3)
    issued = [vote(arena) for _ in range(9)]
    assert all(comparison.run == run for comparison in issued)
    pairs = Counter(frozenset([c.left_id, c.right_id]) for c in issued)
    assert set(pairs.values()) == {3}
    run = comparisons.reconcile_people_run(run=run, now=NOW)
    assert (run.state, run.votes_done) == (Run.State.DONE, 9)
    assert run.closed_at == NOW
    assert vote(arena).run is None


def test_an_expired_comparison_is_retried():
    arena = make_arena(2, 2)
    run = ordered(arena, per_pair=1)
    comparisons.next_comparison(arena=arena, rater=make_person(), now=NOW)
    assert comparisons.reconcile_people_run(run=run, now=NOW).demands.get().remaining == 0
    later = NOW + TIME_TO_VOTE + timedelta(seconds=1)
    assert comparisons.reconcile_people_run(run=run, now=later).demands.get().remaining == 1
    assert vote(arena, now=later).run == run
    assert comparisons.reconcile_people_run(run=run, now=later).state == Run.State.DONE


def test_a_skipped_or_undone_comparison_is_retried():
    arena, rater = make_arena(2, 3), make_person()
    run = ordered(arena, per_pair=1)
    comparison = comparisons.next_comparison(arena=arena, rater=rater, now=NOW)
    voting.skip_comparison(comparison=comparison, rater=rater, now=NOW)
    assert comparisons.reconcile_people_run(run=run, now=NOW).demands.get().remaining == 1
    undone = vote(arena, rater)
    voting.undo_vote(comparison=undone, rater=rater, now=NOW)
    assert comparisons.reconcile_people_run(run=run, now=NOW).demands.get().remaining == 1


def test_an_undo_after_the_last_vote_opens_the_run_again():
    arena, rater = make_arena(2, 3), make_person()
    run = ordered(arena, per_pair=1)
    comparison = vote(arena, rater)
    assert comparisons.reconcile_people_run(run=run, now=NOW).state == Run.State.DONE
    voting.undo_vote(comparison=comparison, rater=rater, now=NOW)
    run = comparisons.reconcile_people_run(run=run, now=NOW)
    assert (run.state, run.votes_done, run.closed_at) == (Run.State.OPEN, 0, None)
    assert run.demands.get().remaining == 1


def test_a_run_wants_nothing_more_of_what_was_retired():
    arena = make_arena(3, 2)
    run = ordered(arena, per_pair=2)
    gone = arena.candidates.first()
    Candidate.objects.filter(pk=gone.pk).update(retired_at=NOW)
    sync_pairs(arena=arena)
    comparisons.reconcile_people_run(run=run, now=NOW)
    for _ in range(2):
        comparison = vote(arena)
        assert gone.pk not in (comparison.left_id, comparison.right_id)
    run = comparisons.reconcile_people_run(run=run, now=NOW)
    assert (run.state, run.votes_wanted) == (Run.State.DONE, 2)


def test_tending_twice_changes_nothing():
    arena = make_arena()
    run = ordered(arena, per_pair=2)
    vote(arena)
    first, second = (comparisons.reconcile_people_run(run=run, now=NOW) for _ in range(2))
    assert (first.votes_done, first.state) == (second.votes_done, second.state) == (1, "open")


def test_a_cancelled_run_asks_for_nothing_more():
    arena = make_arena()
    run = ordered(arena, per_pair=2)
    comparisons.cancel_people_run(run=run, by=CLI, now=NOW)
    assert vote(arena).run is None
    assert comparisons.reconcile_people_run(run=run, now=NOW).state == Run.State.CANCELLED


@pytest.mark.parametrize("per_pair", [0, -1, comparisons.MAX_PER_PAIR + 1])
def test_an_impossible_number_of_votes_is_refused(per_pair):
    with pytest.raises(ValidationError, match="between 1 and"):
        comparisons.order_people_run(arena=make_arena(), per_pair=per_pair, by=CLI)


def test_an_arena_without_pairs_takes_no_run():
    with pytest.raises(ValidationError, match="No two candidates"):
        comparisons.order_people_run(arena=make_arena(1), per_pair=1, by=CLI)


def test_the_command_orders_and_the_voting_page_shows_progress(client, capsys):
    arena = make_arena()
    call_command("order_votes", arena.slug, per_pair=2)
    assert "6 votes requested" in capsys.readouterr().out
    reconcile_runs()
    for _ in range(2):
        vote(arena)
    reconcile_runs()
    page = client.get(reverse("vote", args=[arena.slug]))
    assert "2 of 6 requested votes collected" in page.text


@pytest.mark.parametrize(("slug", "per_pair"), [("nowhere", 1), ("known", 0)])
def test_the_command_reports_errors(slug, per_pair):
    make_arena(slug="known")
    with pytest.raises(CommandError, match=r"no arena|between 1 and"):
        call_command("order_votes", slug, per_pair=per_pair)
