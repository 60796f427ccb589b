"""Orders: which comparisons and calls a run is made of."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import pytest
from django.utils import timezone

from arena.actors import CLI
from arena.calls.models import Call
from arena.db.sql import MOST_UNEVEN
from arena.models import Arena, Candidate, Pair, Prompt, Rater, Response, Run, Team
from arena.services import runs as engine
from arena.services.arenas import delete_arena
from arena.services.orders import cancel_people_run
from arena.services.pairs import publish_pair_weights, sync_pairs
from arena.services.runs import cancel_run, order_run, resume_unfinished
from judges.models import Judgement
from judges.services import runs
from judges.services.orders import prepare_order
from judges.services.planning import OrderOptions, PlannedComparison, PlanOptions, RunPlan, plan_run
from judges.services.registry import JudgeError, spec_named
from judges.services.runs import JudgeRunWriter, unfinished_run
from judges.services.settlement import close_if_done
from judges.services.subjects import families_in
from tests.factories import make_arena
from tests.judges.fake_server import FakeServer, better_is
from tests.judges.helpers import LOCAL, judge_call, order, order_lock_held, work_off

pytestmark = pytest.mark.django_db
SCRIPTED = "scripted"


def planned(arena: Arena, name: str, per_pair: int) -> RunPlan:
    requesters = PlanOptions(seed=spec_named(name).digest)
    return plan_run(
        arena=arena, options=OrderOptions(per_pair), judges=requesters, asked=frozenset()
    )


def responses(arena: Arena) -> list[str]:
    return list(Judgement.objects.filter(run__arena=arena).values_list("responses", flat=True))


def test_every_pair_is_asked_as_ordered_in_both_orders() -> None:
    run = order(make_arena(3, 4), SCRIPTED, per_pair=2)
    pairs = Counter(
        frozenset(ids) for ids in run.comparisons.values_list("left", "right").iterator()
    )
    assert sorted(pairs.values()) == [2, 2, 2]
    assert (run.state, run.votes_wanted, Call.objects.count()) == ("open", 6, 12)
    for judgement in Judgement.objects.select_related("forward", "reverse", "comparison"):
        left = judgement.comparison.left_response_id
        right = judgement.comparison.right_response_id
        assert judgement.forward.subject == f"{left},{right}"
        assert judgement.reverse.subject == f"{right},{left}"


def test_cap_on_calls_cuts_rounds_not_pairs() -> None:
    run = order(make_arena(4, 5), SCRIPTED, per_pair=3, max_calls=15)
    pairs = Counter(
        frozenset(ids) for ids in run.comparisons.values_list("left", "right").iterator()
    )
    assert Call.objects.count() == 14
    assert sorted(pairs.values()) == [1, 1, 1, 1, 1, 2]


def test_same_order_brings_new_items_until_none_are_left() -> None:
    arena = make_arena(2, 5)
    for _ in range(2):
        order(arena, SCRIPTED, per_pair=2)
    assert len(set(responses(arena))) == 4
    assert order(arena, SCRIPTED, per_pair=2).votes_wanted == 1
    with pytest.raises(JudgeError, match="still judging"):
        order(arena, SCRIPTED, per_pair=2)
    for run in Run.objects.all():
        work_off(run)
    with pytest.raises(JudgeError, match="already judged every prompt"):
        order(arena, SCRIPTED, per_pair=2)
    assert len(set(responses(arena))) == len(responses(arena)) == 5


def test_another_judge_is_asked_about_the_same_items_again() -> None:
    arena = make_arena(2, 2)
    order(arena, SCRIPTED)
    assert order(arena, "scripted:scripted-2").votes_wanted == 2


def test_the_pair_judged_least_comes_first() -> None:
    arena = make_arena(3, 4)
    first = order(arena, SCRIPTED, per_pair=1, max_calls=2).comparisons.get()
    second = order(arena, SCRIPTED, per_pair=1, max_calls=4)
    seen = {frozenset((one.left_id, one.right_id)) for one in second.comparisons.all()}
    assert frozenset((first.left_id, first.right_id)) not in seen


def test_heavier_pairs_come_first_and_weightless_never() -> None:
    arena = make_arena(3, 2)
    low, middle, high = arena.candidates.order_by("pk")
    publish_pair_weights(
        arena=arena,
        weights={(low.pk, middle.pk): 0, (low.pk, high.pk): 0.2, (middle.pk, high.pk): 0.8},
    )
    plan = planned(arena, SCRIPTED, 1)
    assert [pick.pair.low_id for pick in plan.picks] == [middle.pk, low.pk]


def test_sides_are_balanced_per_pair() -> None:
    order(make_arena(3, 30), SCRIPTED, per_pair=30)
    for pair in Pair.objects.all():
        assert pair.low_left + pair.high_left == 30
        assert abs(pair.low_left - pair.high_left) <= MOST_UNEVEN


def test_comparisons_store_judge_and_draw_probability() -> None:
    run = order(make_arena(3, 3), SCRIPTED, per_pair=1)
    epoch = Judgement.objects.all()[0].epoch
    for comparison in run.comparisons.all():
        assert comparison.rater == epoch.rater
        assert comparison.expires_at is None
        assert comparison.draw_probability == pytest.approx(1 / 3)


def test_answers_without_text_are_not_sent_to_a_judge() -> None:
    arena = make_arena(2, 3)
    Response.objects.filter(prompt__external_id="p0").update(text="")
    Prompt.objects.filter(external_id="p1").update(text="")
    run = order(arena, SCRIPTED, per_pair=3)
    assert [one.prompt.external_id for one in run.comparisons.all()] == ["p2"]


def test_prompts_are_drawn_by_the_judge_and_the_pair() -> None:
    arena = make_arena(2, 12)
    drawn = [
        [pick.prompt_id for pick in planned(arena, name, 6).picks]
        for name in ("scripted", "scripted", "scripted:scripted-2")
    ]
    assert drawn[0] == drawn[1]
    assert drawn[0] != drawn[2]


@pytest.mark.parametrize(
    ("candidates", "max_calls", "says"),
    [(1, 10, "only one candidate"), (2, 1, "at least 2"), (2, 0, "at least 2")],
)
def test_what_cannot_be_bought_is_reported_and_leaves_no_run(
    candidates: int, max_calls: int, says: str
) -> None:
    with pytest.raises(JudgeError, match=says):
        order(make_arena(candidates, 2), SCRIPTED, max_calls=max_calls)
    assert not Run.objects.exists()


def test_simultaneous_orders_never_buy_the_same_pair() -> None:
    arena = make_arena(2, 4)
    late = prepare_order(arena=arena, specs=[spec_named(SCRIPTED)], options=OrderOptions(4))
    first = order(arena, SCRIPTED, per_pair=2)
    second = order_run(order=late, cap=None, now=timezone.now())
    assert (first.votes_wanted, second.votes_wanted) == (2, 2)
    assert sorted(responses(arena)) == sorted(pick.responses for pick in late.picks)


def test_interrupted_order_resumes_with_what_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    arena = make_arena(3, 4)
    with monkeypatch.context() as patch:
        patch.setattr(engine, "open_run", lambda run: None)
        order(arena, SCRIPTED)
    run = unfinished_run(arena=arena, digests=[spec_named(SCRIPTED).digest])
    assert run is not None
    assert run.state == "ordered"
    assert resume_unfinished(run=run, now=timezone.now()).state == "open"


def test_no_candidates_pair_is_left_out() -> None:
    arena = make_arena(5, 2)
    run = order(arena, SCRIPTED, per_pair=1)
    asked = {tuple(sorted(ids)) for ids in run.comparisons.values_list("left", "right")}
    assert asked == set(combinations(sorted(arena.candidates.values_list("pk", flat=True)), 2))


def test_items_a_cancelled_run_never_asked_are_free() -> None:
    arena = make_arena(2, 3)
    cancelled = order(arena, SCRIPTED, per_pair=3)
    cancel_people_run(run=cancelled, by=CLI, now=timezone.now())
    run = work_off(order(arena, SCRIPTED, per_pair=3))
    assert (run.state, run.votes_wanted, run.judgements.count()) == ("done", 3, 3)
    assert sorted(responses(arena)) == sorted([*set(responses(arena))] * 2)
    assert set(cancelled.judgements.values_list("state", flat=True)) == {"cancelled"}
    assert run.comparisons.filter(votes__isnull=False).count() == arena.votes.count() == 3
    assert sum(Call.objects.values_list("requests", flat=True)) == 6


def test_what_a_cancelled_run_paid_for_is_not_paid_again(local: FakeServer) -> None:
    local.otherwise = better_is("TIE")
    arena = make_arena(2, 2)
    cancelled = order(arena, LOCAL)
    settled, half = cancelled.judgements.order_by("pk")
    for call_id in (settled.forward_id, settled.reverse_id, half.forward_id):
        judge_call(call_id=call_id)
    cancel_people_run(run=cancelled, by=CLI, now=timezone.now())
    run = work_off(order(arena, LOCAL))
    assert (run.votes_wanted, run.votes_done) == (1, 1)
    assert sum(Call.objects.values_list("requests", flat=True)) == len(local.requests) == 4
    assert run.calls.get(copied=True).reply == Call.objects.get(pk=half.forward_id).reply
    assert cancelled.judgements.get(state="voted") == settled


def test_failed_call_of_a_cancelled_run_is_tried_again() -> None:
    arena = make_arena(2, 1)
    cancelled = order(arena, SCRIPTED)
    Call.objects.filter(pk=cancelled.judgements.get().forward_id).update(
        state="failed", requests=6, error="HTTP 500", finished_at=timezone.now()
    )
    cancel_people_run(run=cancelled, by=CLI, now=timezone.now())
    run = work_off(order(arena, SCRIPTED))
    assert run.state == "done"
    assert set(run.calls.values_list("state", "copied")) == {("done", False)}


def test_reused_comparison_stores_the_new_draw_probability() -> None:
    arena = make_arena(3, 2)
    cancel_people_run(run=order(arena, SCRIPTED, per_pair=1), by=CLI, now=timezone.now())
    run = order(arena, SCRIPTED, per_pair=2, max_calls=8)
    shares = Counter(frozenset((one.left_id, one.right_id)) for one in run.comparisons.all())
    assert sorted(shares.values()) == [1, 1, 2]
    for one in run.comparisons.all():
        share = shares[frozenset((one.left_id, one.right_id))] / 4
        assert one.draw_probability == pytest.approx(share)


@pytest.mark.django_db(transaction=True)
def test_run_being_written_is_not_opened_by_another_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arena = make_arena(2, 2)
    with monkeypatch.context() as patch:
        patch.setattr(engine, "open_run", lambda run: None)
        run = order(arena, SCRIPTED)
    with order_lock_held(arena):
        with pytest.raises(JudgeError, match="being started"):
            resume_unfinished(run=run, now=timezone.now())
        with pytest.raises(JudgeError, match="being started"):
            order(arena, "scripted:scripted-2")
        assert order(make_arena(2, 2), SCRIPTED).state == "open"
    run.refresh_from_db()
    assert run.state == "ordered"
    assert resume_unfinished(run=run, now=timezone.now()).state == "open"


def test_opened_or_cancelled_runs_grow_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    write, arena = runs.write_comparisons, make_arena(2, 4)

    def then_cancel(*, writer: JudgeRunWriter, picks: Sequence[PlannedComparison]) -> None:
        write(writer=writer, picks=picks)
        cancel_run(run_id=writer.run.pk, now=timezone.now())

    monkeypatch.setattr(runs, "BATCH", 2)
    monkeypatch.setattr(runs, "write_comparisons", then_cancel)
    run = order(arena, SCRIPTED, per_pair=4)
    assert (run.state, run.judgements.count(), run.comparisons.count()) == ("cancelled", 2, 2)
    assert Call.objects.count() == 4


def test_a_run_is_not_closed_while_anything_waits() -> None:
    run = order(make_arena(2, 2), SCRIPTED)
    close_if_done(run_id=run.pk, now=timezone.now())
    run.refresh_from_db()
    assert run.state == "open"
    run.judgements.update(state="voted")
    close_if_done(run_id=run.pk, now=timezone.now())
    run.refresh_from_db()
    assert run.state == "done"


def test_a_blocked_judge_is_asked_nothing() -> None:
    arena = make_arena(2, 3)
    epoch = order(arena, SCRIPTED, per_pair=1).run_judges.get().epoch
    Rater.objects.filter(pk=epoch.rater_id).update(blocked_at=timezone.now())
    calls = Call.objects.count()
    with pytest.raises(JudgeError, match="blocked"):
        order(arena, SCRIPTED, per_pair=1)
    assert Call.objects.count() == calls


def test_an_arena_with_judgements_can_be_deleted() -> None:
    arena = make_arena(2, 3)
    work_off(order(arena, SCRIPTED, per_pair=2))
    delete_arena(arena=arena, by=CLI)
    assert not Judgement.objects.exists()
    assert not Run.objects.exists()


def test_scripted_judge_may_judge_scripted_answers() -> None:
    arena = make_arena(2, 3)
    arena.candidates.update(model="scripted-1", endpoint="scripted")
    assert order(arena, "scripted").votes_wanted == 2


def test_quotes_hide_models_of_undisclosed_candidates() -> None:
    arena = make_arena(2, 3)
    guest = Team.objects.create(slug="guests", name="Guests")
    hidden = arena.candidates.first()
    Candidate.objects.filter(pk=hidden.pk).update(
        team=guest, model="prometheus-7b", disclosed_at=None, private_until_votes=100
    )
    assert families_in(arena).get(hidden.pk, "") == ""
    Candidate.objects.filter(pk=hidden.pk).update(disclosed_at=timezone.now())
    assert families_in(arena)[hidden.pk] == "mistral"


def test_equal_answers_are_not_sent_to_judges_and_the_order_says_how_many() -> None:
    arena = make_arena(3, 3)
    first, second, _ = arena.candidates.order_by("pk")
    equal = arena.prompts.order_by("pk")[:2]
    Response.objects.filter(prompt__in=equal, candidate__in=[first, second]).update(text="Yes.")
    sync_pairs(arena=arena)
    plan = planned(arena, SCRIPTED, per_pair=3)
    assert len(plan.picks) == 3 * 3 - 2
    assert "2 comparisons are left out because both answers are the same." in plan.left_out
    run = work_off(order(arena, SCRIPTED, per_pair=3))
    shown = run.comparisons.values_list("left_response__text", "right_response__text")
    assert len(shown) == 7
    assert all(left != right for left, right in shown)


def test_an_order_of_nothing_but_equal_answers_says_so() -> None:
    arena = make_arena(2, 2)
    Response.objects.filter(prompt__arena=arena).update(text="Yes.")
    sync_pairs(arena=arena)
    with pytest.raises(JudgeError, match="different answers"):
        order(arena, SCRIPTED)
