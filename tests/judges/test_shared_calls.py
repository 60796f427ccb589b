"""Calls shared by several runs: nothing is paid twice, and no run waits for a paused one."""

import inspect
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.utils import timezone

from arena.calls.models import Call
from arena.calls.prices import set_price
from arena.calls.scheduling import sweep
from arena.models import Arena, Prompt, Run, Vote
from arena.outcomes import mirror
from arena.services.arenas import set_criteria
from arena.services.runs import RunError, cancel_run, pause_run, resume_unfinished
from judges.models import DriftCheck, Epoch, Judgement
from judges.services.drift import start_drift_checks
from judges.services.label_runs import order_label_run
from judges.services.orders import prepare_order
from judges.services.planning import OrderOptions
from judges.services.quotes import quote_for
from judges.services.registry import JudgeError, begin_next_epoch, spec_named
from judges.services.settlement import settle_ready
from tests.factories import make_arena
from tests.judges.fake_server import FakeServer, better_is
from tests.judges.helpers import (
    LOCAL,
    epoch_of,
    judge_call,
    order,
    pair_row,
    store_labels,
    work_off,
)

pytestmark = pytest.mark.django_db
DIRECT = "scripted@score-1-4"
JURY = ("scripted:scripted-1", "scripted:scripted-2")


def work(*runs: Run) -> None:
    """Make every call that may be made, whichever run it is of, and sweep as the beat does."""
    for _ in range(6):
        Call.objects.filter(state="waiting").update(due_at=timezone.now())
        for call_id in Call.objects.claimable(timezone.now()).values_list("pk", flat=True):
            judge_call(call_id=call_id)
        sweep(now=timezone.now())
        settle_ready(now=timezone.now())
    for run in runs:
        run.refresh_from_db()


def stop(run: Run, how: str) -> None:
    if how == "cancel":
        cancel_run(run_id=run.pk, now=timezone.now())
    else:
        pause_run(run_id=run.pk, reason="Paused by me.")


@pytest.mark.parametrize("how", ["cancel", "pause"])
@pytest.mark.parametrize(("judge", "calls"), [(DIRECT, 2), ("scripted@pairwise-note", 3)])
def test_run_makes_calls_that_a_dead_run_never_will(judge: str, calls: int, how: str) -> None:
    arena = make_arena(3, 1)
    first = order(arena, judge, per_pair=1, max_calls=calls)
    second = order(arena, judge, per_pair=1)
    stop(first, how)
    work(first, second)
    assert second.state == "done"
    assert not second.judgements.filter(state="waiting").exists()


@pytest.mark.parametrize("how", ["cancel", "pause"])
def test_a_jury_does_not_wait_for_a_member_s_run_at_rest(how: str) -> None:
    arena = make_arena(2, 2)
    alone = order(arena, JURY[0], per_pair=2)
    jury = order(arena, *JURY, per_pair=2)
    stop(alone, how)
    work(jury)
    assert jury.state == "done"
    assert not jury.jury_verdicts.filter(state="waiting").exists()


def test_two_open_runs_share_what_either_is_answered() -> None:
    arena = make_arena(3, 1)
    first = order(arena, DIRECT, per_pair=1, max_calls=2)
    second = order(arena, DIRECT, per_pair=1)
    work(first, second)
    assert (first.state, second.state) == ("done", "done")
    assert (first.calls.count(), second.calls.count()) == (2, 3)
    assert Call.objects.filter(copied=True).count() == 2
    assert sum(Call.objects.values_list("requests", flat=True)) == 3


def test_the_first_verdict_votes_and_a_later_one_is_only_shown() -> None:
    arena = make_arena(2, 2)
    alone = order(arena, JURY[0], per_pair=2)
    jury = order(arena, *JURY, per_pair=2)
    work(jury, alone)
    member = epoch_of(JURY[0])
    by_run = {
        run: list(member.judgements.filter(run=run).order_by("responses")) for run in (alone, jury)
    }
    for own, shared in zip(*by_run.values(), strict=True):
        assert {own.casts_vote, shared.casts_vote} == {True, False}
        assert (own.state, own.responses) == (shared.state, shared.responses)
        same_side = own.comparison.left_response_id == shared.comparison.left_response_id
        assert own.outcome == (shared.outcome if same_side else mirror(shared.outcome))
    votes = arena.votes.filter(rater=member.rater)
    counted = member.judgements.filter(casts_vote=True, state="voted")
    assert set(votes.values_list("comparison", flat=True)) == set(
        counted.values_list("comparison", flat=True)
    )


def test_a_member_that_failed_in_one_run_votes_through_another() -> None:
    arena = make_arena(2, 1)
    alone = order(arena, JURY[0], per_pair=1)
    alone.calls.update(state="failed", requests=6, finished_at=timezone.now())
    settle_ready(now=timezone.now())
    work(alone)
    jury = order(arena, *JURY, per_pair=1)
    work(jury)
    member = epoch_of(JURY[0])
    assert (alone.state, jury.state) == ("done", "done")
    assert list(member.judgements.order_by("run").values_list("state", "casts_vote")) == [
        ("failed", False),
        (member.judgements.get(run=jury).state, True),
    ]


def test_cancelling_a_run_closes_its_judgements_and_jury_verdicts() -> None:
    arena = make_arena(2, 2)
    run = order(arena, *JURY, per_pair=2)
    judge_call(call_id=run.judgements.earliest("pk").forward_id)
    stop(run, "cancel")
    assert set(run.judgements.values_list("state", flat=True)) == {"cancelled"}
    assert set(run.jury_verdicts.values_list("state", flat=True)) == {"cancelled"}
    assert set(run.calls.values_list("state", flat=True)) == {"done", "cancelled"}
    again = order(arena, *JURY, per_pair=2)
    work(again)
    assert (again.state, again.votes_wanted) == ("done", 2)
    assert again.calls.filter(copied=True).count() == 1


def test_another_sample_is_another_call(tmp_path: Path, local: FakeServer) -> None:
    labels_in = store_labels(tmp_path, [pair_row(i) for i in range(5)])
    epoch, now = epoch_of(), timezone.now()
    items = list(labels_in.items.order_by("pk"))
    paused = order_label_run(epoch=epoch, items=items, cap=10**9, now=now)
    pause_run(run_id=paused.pk, reason="Paused by me.")
    start_drift_checks(epoch=epoch, labels_in=labels_in, cap=10**9, now=now)
    assert paused.calls.count() == DriftCheck.objects.get().run.calls.count() == 10
    work(paused)
    assert paused.state == "paused"
    assert set(paused.calls.values_list("state", flat=True)) == {"waiting"}


def set_local_price(local: FakeServer) -> None:
    _, model = LOCAL.split(":")
    one = Decimal(1)
    set_price(endpoint="local", model=model, input_usd=one, output_usd=one, now=timezone.now())


def test_what_a_cancelled_run_never_asked_is_in_the_next_quote(local: FakeServer) -> None:
    set_local_price(local)
    arena = make_arena(2, 3)
    cancel_run(run_id=order(arena, per_pair=3, cap=10**9).pk, now=timezone.now())
    quote = quote_for(
        prepare_order(arena=arena, specs=[spec_named(LOCAL)], options=OrderOptions(3))
    )
    assert quote.calls == 6
    assert quote.worst
    with pytest.raises(RunError, match="spending cap"):
        order(arena, per_pair=3)


def test_other_juries_do_not_count_for_this_one() -> None:
    arena = make_arena(2, 2)
    work_off(order(arena, *JURY, "scripted:scripted-3", per_pair=2))
    assert order(arena, *JURY, per_pair=2).votes_wanted == 2
    assert order(arena, *JURY, per_pair=2, quorum=1).votes_wanted == 2
    member = Epoch.objects.get(judge__model="scripted-1")
    begin_next_epoch(epoch=member, reason="It changed.", now=timezone.now())
    assert order(arena, *JURY, per_pair=2).votes_wanted == 2


def test_a_failure_is_retried_by_its_own_run() -> None:
    arena = make_arena(3, 1)
    first = order(arena, DIRECT, per_pair=1, max_calls=2)
    second = order(arena, DIRECT, per_pair=1)
    second.calls.update(state="failed", finished_at=timezone.now())
    work(first, second)
    assert (first.state, second.state) == ("done", "done")
    resume_unfinished(run=second, now=timezone.now())
    work(second)
    assert second.state == "done"
    assert set(second.calls.values_list("state", flat=True)) == {"done"}


def like(arena: Arena, judge: str, run: Run, **fields: Any) -> Run:
    return order(arena, judge, per_pair=2, like_run=run, **fields)


def test_unjudgeable_items_of_another_run_are_left_out() -> None:
    arena = make_arena(2, 2)
    Prompt.objects.filter(arena=arena, external_id="p0").update(reference="42")
    run = work_off(order(arena, "scripted", per_pair=2))
    again = work_off(like(arena, "scripted@pairwise-reference", run))
    assert (again.state, again.votes_wanted) == ("done", 1)
    with pytest.raises(JudgeError, match="listwise"):
        like(arena, "scripted@listwise", run)


def test_answers_given_under_other_criteria_are_not_used_again(local: FakeServer) -> None:
    arena = make_arena(3, 1)
    work_off(order(arena, DIRECT, per_pair=1, max_calls=2))
    set_criteria(arena=arena, criteria="Only brevity counts.")
    run = work_off(order(arena, DIRECT, per_pair=1))
    marks = [
        {call.subject.partition("@")[2] for call in (one.forward, one.reverse)}
        for one in run.judgements.select_related("forward", "reverse")
    ]
    assert len(marks) == 2
    assert all(len(mark) == 1 and "" not in mark for mark in marks)


def test_a_judgement_is_never_finished_under_other_words(local: FakeServer) -> None:
    local.otherwise = better_is("TIE")
    arena = make_arena(2, 1)
    cancelled = order(arena, per_pair=1)
    judge_call(call_id=cancelled.judgements.get().forward_id)
    cancel_run(run_id=cancelled.pk, now=timezone.now())
    set_criteria(arena=arena, criteria="Only brevity counts.")
    run = work_off(order(arena, per_pair=1))
    assert run.state == "done"
    assert cancelled.judgements.get().state == "cancelled"
    assert run.judgements.get().state == "voted"
    sent = [str(body["messages"]) for body in local.requests]
    assert [("Only brevity counts." in one) for one in sent] == [False, True, True]


def test_a_deleted_run_s_votes_stay_and_are_not_cast_again() -> None:
    arena = make_arena(2, 2)
    alone, jury = order(arena, JURY[0], per_pair=2), order(arena, *JURY, per_pair=2)
    for call_id in alone.calls.values_list("pk", flat=True):
        judge_call(call_id=call_id)
    votes = Vote.objects.filter(rater=epoch_of(JURY[0]).rater)
    cast = set(votes.values_list("pk", flat=True))
    assert len(cast) == 2
    alone.delete()
    work(jury)
    assert (jury.state, jury.judgements.filter(casts_vote=True).count()) == ("done", 4)
    assert set(votes.values_list("pk", flat=True)) == cast


def give_calls() -> None:
    """Do what the migration does, on a column that has had another name since."""
    migration = import_module("judges.migrations.0011_calls_of_their_own")
    source = inspect.getsource(migration.give_calls).replace('"asker"', '"requester"')
    there = dict(vars(migration))
    exec(source, there)
    there["give_calls"](apps, None)


def test_upgraded_runs_have_calls_of_their_own() -> None:
    """Before, the second run waited for the calls of the first."""
    arena = make_arena(3, 1)
    first = order(arena, DIRECT, per_pair=1, max_calls=2)
    second = order(arena, DIRECT, per_pair=1)
    for call in first.calls.all():
        Judgement.objects.filter(run=second, forward__subject=call.subject).update(forward=call)
        Judgement.objects.filter(run=second, reverse__subject=call.subject).update(reverse=call)
        second.calls.get(subject=call.subject).delete()
    stop(first, "pause")
    give_calls()
    work(second)
    assert (second.state, second.calls.count()) == ("done", 3)
    assert first.calls.filter(state="waiting").count() == 2


def test_upgraded_juries_have_judgements_of_their_own() -> None:
    """Before, the jury waited for a verdict in its member's run."""
    arena = make_arena(2, 2)
    alone = order(arena, JURY[0], per_pair=2)
    jury = order(arena, *JURY, per_pair=2)
    for theirs in jury.judgements.filter(epoch=epoch_of(JURY[0])):
        mine = alone.judgements.get(responses=theirs.responses)
        for verdict in theirs.jury_verdicts.all():
            verdict.judgements.add(mine)
        calls = [theirs.forward_id, theirs.reverse_id]
        theirs.comparison.delete()
        Call.objects.filter(pk__in=calls).delete()
    stop(alone, "pause")
    give_calls()
    work(jury)
    assert (jury.state, jury.judgements.count(), jury.calls.count()) == ("done", 4, 8)
    assert alone.judgements.filter(state="waiting").count() == 2


def test_upgraded_verdicts_vote_and_what_cancelled_runs_left_is_closed() -> None:
    arena = make_arena(2, 2)
    done = work_off(order(arena, JURY[0], per_pair=2, max_calls=2))
    left = order(arena, JURY[0], per_pair=2)
    Judgement.objects.update(casts_vote=False)
    Run.objects.filter(pk=left.pk).update(state="cancelled")
    give_calls()
    assert set(done.judgements.values_list("state", "casts_vote")) <= {
        ("voted", True),
        ("abstained", True),
    }
    assert set(left.judgements.values_list("state", "casts_vote")) == {("cancelled", False)}
    assert set(left.calls.values_list("state", flat=True)) == {"cancelled"}
