"""Calls that several runs want: nothing is paid twice, and nobody waits for a run at rest."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from arena.calls.models import Call
from arena.calls.pricing import set_price
from arena.calls.runs import cancel_run, pause_run
from arena.calls.scheduling import sweep
from arena.models import Arena, Prompt, Run
from arena.services.arenas import set_criteria
from judges.models import DriftCheck, Epoch, Judgement
from judges.services import calls
from judges.services.calls import judge_call, settle_ready
from judges.services.drift import start_drift_checks
from judges.services.label_runs import order_label_run
from judges.services.planning import OrderOptions, prepare_order
from judges.services.quotes import quote_for
from judges.services.registry import JudgeError, begin_next_epoch, spec_named
from judges.services.runs import resume_unfinished
from tests.factories import make_arena
from tests.judges.fake_server import FakeServer, better_is
from tests.judges.helpers import LOCAL, epoch_of, order, pair_row, store_labels, work_off

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


def test_sweep_takes_over_a_bounded_number_of_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "AT_MOST", 1)
    arena = make_arena(4, 1)
    paused = order(arena, DIRECT, per_pair=1, max_calls=3)
    second = order(arena, DIRECT, per_pair=1)
    stop(paused, "pause")
    held = paused.calls.count()
    calls.rescue_calls(now=timezone.now())
    # One call is wanted by many judgements, and counts once in each of the ways.
    assert 0 < held - paused.calls.count() <= 2
    work(second)
    assert second.state == "done"


def test_run_that_needs_votes_goes_before_a_waiting_jury() -> None:
    arena = make_arena(3, 1)
    member = order(arena, DIRECT, per_pair=1, max_calls=2)
    jury = order(arena, DIRECT, "scripted:scripted-2@score-1-4", pairs="all", like_run=member)
    alone = order(arena, DIRECT, per_pair=1)
    assert not jury.judgements.filter(forward__run=member).exists()
    stop(member, "pause")
    held = list(member.calls.values_list("pk", flat=True))
    calls.rescue_calls(now=timezone.now())
    assert set(Call.objects.filter(pk__in=held).values_list("run", flat=True)) == {alone.pk}


def test_nothing_is_taken_from_an_open_run() -> None:
    arena = make_arena(3, 1)
    first = order(arena, DIRECT, per_pair=1, max_calls=2)
    held = set(first.calls.values_list("pk", flat=True))
    second = order(arena, DIRECT, per_pair=1)
    assert set(first.calls.values_list("pk", flat=True)) == held
    work(first, second)
    assert (first.state, second.state) == ("done", "done")
    assert Call.objects.count() == 3


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
    with pytest.raises(JudgeError, match="the run may cost"):
        order(arena, per_pair=3)


def test_the_cap_moves_with_the_money_that_it_allowed(local: FakeServer) -> None:
    set_local_price(local)
    arena = make_arena(2, 1)
    first = order(arena, per_pair=1, cap=10**10)
    first.calls.update(state="failed", uncertain=10**9, requests=6)
    Run.objects.filter(pk=first.pk).update(uncertain=2 * 10**9)
    cancel_run(run_id=first.pk, now=timezone.now())
    second = order(arena, per_pair=1, cap=10**6)
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.uncertain, second.uncertain) == (0, 2 * 10**9)
    assert (first.cap, second.cap) == (8 * 10**9, 2 * 10**9 + 10**6)


def test_other_juries_do_not_count_for_this_one() -> None:
    arena = make_arena(2, 2)
    work_off(order(arena, *JURY, "scripted:scripted-3", per_pair=2))
    assert order(arena, *JURY, per_pair=2).votes_wanted == 2
    assert order(arena, *JURY, per_pair=2, quorum=1).votes_wanted == 2
    member = Epoch.objects.get(judge__model="scripted-1")
    begin_next_epoch(epoch=member, reason="It changed.", now=timezone.now())
    assert order(arena, *JURY, per_pair=2).votes_wanted == 2


def test_a_failure_that_two_runs_share_is_asked_again_by_either(local: FakeServer) -> None:
    arena, judge = make_arena(3, 1), f"{LOCAL}@score-1-4"
    first = order(arena, judge, per_pair=1, max_calls=2)
    second = order(arena, judge, per_pair=1)
    first.calls.update(state="failed", finished_at=timezone.now())
    second.calls.update(
        state="done", verdict={"label": "1", "score": 1.0}, finished_at=timezone.now()
    )
    settle_ready(now=timezone.now())
    second.refresh_from_db()
    assert second.state == "done"
    again = resume_unfinished(run=second, now=timezone.now())
    assert again.state == "open"
    assert Call.objects.filter(state="waiting", run=second).count() == 2


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
    judgement = Judgement.objects.get()
    assert judgement.run == run
    sent = [str(body["messages"]) for body in local.requests]
    assert [("Only brevity counts." in one) for one in sent] == [False, True, True]
