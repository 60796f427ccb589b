"""Ordering a run from a judge, and letting one that was left unfinished go on.

A run is opened once all of it is written, by whoever holds the lock on this judge's orders in the
arena: an open run in which nothing waits is closed, and what was added later would wait for ever.
"""

import secrets
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

from django.db import transaction

from arena.calls.models import Call
from arena.calls.services import create_calls, resume_run
from arena.models import Arena, Comparison, Rater, Response, Run
from arena.services.locks import one_at_a_time
from arena.services.pairing import take_side
from judges.core.spec import JudgeSpec
from judges.models import Judge, Judgement, RunJudge
from judges.services.adopting import adopt
from judges.services.planning import Pick, Plan, plan_run
from judges.services.registering import JudgeRefused, register_judge

BATCH = 100
BUSY = "A run of this judge in this arena is being ordered. Wait a moment, then try again."
UNFINISHED = [Run.State.ORDERED, Run.State.OPEN, Run.State.PAUSED]


def order_run(
    *,
    arena: Arena,
    spec: JudgeSpec,
    per_pair: int,
    max_calls: int,
    now: datetime,
    created_by: Any = None,
) -> Run:
    """Write down a run with all its calls, and open it; at most `max_calls` calls are created.

    Written in small transactions, so that voters never wait for it; nothing is called before the
    run opens. Raises JudgeRefused when there is nothing left that this judge was not asked, and
    while somebody else orders from it in this arena.
    """
    with one_order_at_a_time(arena=arena, digest=spec.digest):
        judge = register_judge(spec=spec)
        if judge.rater.blocked_at:
            raise JudgeRefused(f"The operator has blocked {judge}; its votes would not count.")
        plan = plan_run(arena=arena, spec=spec, per_pair=per_pair, max_calls=max_calls)
        if not plan.picks:
            raise JudgeRefused(nothing_left(plan, judge.name))
        run = _begin(arena, judge, plan, created_by)
        shares = plan.shares()
        for start in range(0, len(plan.picks), BATCH):
            _write(run, judge, plan.picks[start : start + BATCH], shares, now)
        _open(run)
    return run


def one_order_at_a_time(*, arena: Arena, digest: str) -> AbstractContextManager[None]:
    """Hold the lock on this judge's orders in the arena; raises JudgeRefused when it is taken."""
    return one_at_a_time(f"order-{arena.pk}-{digest[:16]}", busy=JudgeRefused(BUSY))


def nothing_left(plan: Plan, judge: str) -> str:
    """Say why a plan is empty."""
    if not plan.pairs:
        return "This arena has no two candidates that answer the same prompt."
    if plan.max_calls < 2:
        return "A comparison needs two calls, one in each order: --max-calls must be at least 2."
    return f"{judge} was already asked about every prompt of every pair in this arena."


def unfinished_run(*, arena: Arena, spec: JudgeSpec) -> Run | None:
    """Return this judge's newest run in the arena that has not come to its end, if any."""
    runs = Run.objects.filter(
        arena=arena, run_judges__judge__digest=spec.digest, state__in=UNFINISHED
    )
    return runs.order_by("-pk").first()


def go_on(*, run: Run, now: datetime) -> Run:
    """Let an unfinished run go on: one that paused, or whose ordering was cut short.

    What failed is asked again; what was answered is not. Raises JudgeRefused while the run is
    still being written.
    """
    if run.state == Run.State.PAUSED:
        failed = Judgement.objects.filter(run=run, state=Judgement.State.FAILED)
        with transaction.atomic():
            failed.update(state=Judgement.State.WAITING, settled_at=None)
            resume_run(run_id=run.pk, now=now)
    elif run.state == Run.State.ORDERED:
        judge = Judge.objects.get(run_judges__run=run)
        with one_order_at_a_time(arena=run.arena, digest=judge.digest):
            _open(run)
    run.refresh_from_db()
    return run


@transaction.atomic
def _begin(arena: Arena, judge: Judge, plan: Plan, created_by: Any) -> Run:
    run = Run.objects.create(
        arena=arena,
        kind=Rater.Kind.JUDGE,
        per_pair=plan.per_pair,
        max_calls=plan.max_calls,
        votes_wanted=len(plan.picks),
        created_by=created_by,
    )
    RunJudge.objects.create(run=run, judge=judge)
    return run


def _open(run: Run) -> None:
    wanted = run.judgements.count()
    state = Run.State.OPEN
    Run.objects.filter(pk=run.pk, state=Run.State.ORDERED).update(state=state, votes_wanted=wanted)
    run.refresh_from_db()


@transaction.atomic
def _write(
    run: Run, judge: Judge, picks: Sequence[Pick], shares: dict[int, float], now: datetime
) -> None:
    """Write comparisons, calls and judgements of some picks, while the run is not cancelled."""
    if Run.objects.select_for_update(of=("self",)).get(pk=run.pk).state != Run.State.ORDERED:
        return
    adopt(run=run, judge=judge, picks=picks, shares=shares, now=now)
    taken = set(
        judge.judgements.filter(responses__in=[pick.responses for pick in picks]).values_list(
            "responses", flat=True
        )
    )
    fresh = [pick for pick in picks if pick.responses not in taken]
    comparisons = _comparisons(run, judge, fresh, shares, now)
    pairs = [(one.left_response_id, one.right_response_id) for one in comparisons]
    orders = [order for left, right in pairs for order in ((left, right), (right, left))]
    calls = create_calls(drafts=[_draft(run, judge, order, now) for order in orders])
    Judgement.objects.bulk_create(
        Judgement(
            judge=judge,
            run=run,
            comparison=comparison,
            responses=pick.responses,
            forward=calls[judge.digest, subject_of(left, right), 0],
            reverse=calls[judge.digest, subject_of(right, left), 0],
        )
        for pick, comparison, (left, right) in zip(fresh, comparisons, pairs, strict=True)
    )


def _comparisons(
    run: Run, judge: Judge, picks: Sequence[Pick], shares: dict[int, float], now: datetime
) -> list[Comparison]:
    ids = [pk for pick in picks for pk in (pick.low_response, pick.high_response)]
    flagged = set(
        Response.objects.filter(pk__in=ids, names_itself=True).values_list("pk", flat=True)
    )
    drafts = []
    for pick in picks:
        sides = [(pick.pair.low_id, pick.low_response), (pick.pair.high_id, pick.high_response)]
        if not take_side(pair=pick.pair):
            sides.reverse()
        (left, left_response), (right, right_response) = sides
        drafts.append(
            Comparison(
                arena_id=run.arena_id,
                rater_id=judge.rater_id,
                run=run,
                prompt_id=pick.prompt_id,
                left_id=left,
                right_id=right,
                left_response_id=left_response,
                right_response_id=right_response,
                draw_probability=shares[pick.pair.pk],
                names_itself=bool(flagged & {left_response, right_response}),
                issued_at=now,
            )
        )
    return Comparison.objects.bulk_create(drafts)


def _draft(run: Run, judge: Judge, order: tuple[Any, Any], now: datetime) -> Call:
    return Call(
        run=run,
        asker=judge.digest,
        subject=subject_of(*order),
        endpoint=judge.endpoint,
        model=judge.model,
        nonce=secrets.token_hex(8),
        due_at=now,
        ring_after=now,
    )


def subject_of(*responses: Any) -> str:
    """Name responses in the order in which a call shows them."""
    return ",".join(str(response) for response in responses)
