"""Ordering a run from judges.

A run is opened once all of it is written, by whoever holds the lock on the arena's orders: an open
run in which nothing waits is closed, and what was added later would wait for ever.
"""

from contextlib import AbstractContextManager, suppress
from datetime import datetime

from django.db import transaction

from arena.access import COMMAND, Actor
from arena.calls.giving_up import given_up_on_failure
from arena.calls.models import RunAsker
from arena.calls.money import cap_in_words
from arena.calls.services import cancel_run
from arena.models import Arena, Run, Team
from arena.services import audit
from arena.services.budgets import BudgetRefused, reserve_budget
from arena.services.deadlocks import tried_twice
from arena.services.locks import one_at_a_time
from judges.models import Epoch, RunJudge
from judges.services.juries import settle_waiting_juries
from judges.services.orders import Order
from judges.services.quoting import Quote, quote_for
from judges.services.registering import JudgeRefused, register_judge, register_jury
from judges.services.writing import Writing, write_picks

BATCH = 100
BUSY = "A run of judges in this arena is being ordered. Wait a moment, then try again."


def order_run(*, order: Order, cap: int | None, now: datetime, by: Actor = COMMAND) -> Run:
    """Write down a run with all its calls, and open it; it never spends more than `cap`.

    `cap` is in nano-dollars, and comes out of the budget of the arena's team, where it has one.
    Written in small transactions, so that voters never wait for it; nothing is called before the
    run opens, and what fails before that is given up. Raises JudgeRefused when a price is not
    known, the cap buys nothing or passes the budget, a judge is blocked, and while somebody else
    orders in this arena.
    """
    quote = quote_for(order)
    check_cap(quote, cap)
    with one_order_at_a_time(arena=order.arena):
        _give_up(order.arena, now)
        writing = _begin(order, quote, cap, now, by)
        with given_up_on_failure(run=writing.run, now=now):
            for start in range(0, len(order.picks), BATCH):
                write_picks(writing=writing, picks=order.picks[start : start + BATCH])
            open_run(run=writing.run)
    # Members who had judged a pair before have nothing left to settle it with. The sweep does it
    # too, so trouble with it must not make an order that stands look as if it had failed.
    transaction.on_commit(lambda: settle_waiting_juries(now=now), robust=True)
    return writing.run


def check_cap(quote: Quote, cap: int | None) -> None:
    """Refuse an order that could not spend what it needs, or that nobody knows the cost of."""
    if missing := quote.without_price:
        one = missing[0]
        raise JudgeRefused(
            f"The price of {one.model} at {one.endpoint} is not known. An operator enters it, in "
            f"dollars per million tokens (0 is a price): "
            f"manage.py price {one.endpoint} {one.model} --input 0 --output 0"
        )
    if not quote.worst:
        return
    if cap is None:
        raise JudgeRefused("Say what the run may cost at most: --cap 5.00.")
    if cap <= 0:
        raise JudgeRefused("A cap of $0 buys nothing from a model that costs money.")


@transaction.atomic
def check_budget(*, team: Team | None, quote: Quote, cap: int | None) -> None:
    """Refuse an order that the team's budget does not cover; what costs nothing needs none.

    Within a transaction nobody else takes of the budget until its end.
    """
    try:
        reserve_budget(team=team, cap=cap if quote.worst else None)
    except BudgetRefused as refusal:
        raise JudgeRefused(str(refusal), field=refusal.field) from None


def one_order_at_a_time(*, arena: Arena) -> AbstractContextManager[None]:
    """Hold the lock on judges' orders in the arena; raises JudgeRefused when it is taken."""
    return one_at_a_time(f"order-{arena.pk}", busy=JudgeRefused(BUSY))


# -- Beginning and opening -------------------------------------------------------------------------


@tried_twice
@transaction.atomic
def _begin(order: Order, quote: Quote, cap: int | None, now: datetime, by: Actor) -> Writing:
    team = order.arena.team
    check_budget(team=team, quote=quote, cap=cap)
    members = [(member, _unblocked(register_judge(spec=member.spec))) for member in order.members]
    jury = None
    if order.is_jury:
        jury = _unblocked(
            register_jury(members=[epoch for _, epoch in members], quorum=order.quorum)
        )
    run = Run.objects.create(
        arena=order.arena,
        kind=Run.Kind.JUDGE,
        per_pair=order.wanted.per_pair,
        max_calls=order.calls,
        votes_wanted=len(order.picks),
        team=team,
        # A cap that nothing can spend would take up a team's budget all the same.
        cap=cap if quote.worst or team is None else None,
        expected_cost=quote.expected,
        worst_cost=quote.worst,
        criteria=Arena.objects.values_list("criteria", flat=True).get(pk=order.arena.pk),
        created_by=by.user,
    )
    audit.record(
        team=team,
        by=by,
        action="ordered a run of judges",
        subject=order.arena,
        run=run.pk,
        cap=cap_in_words(run.cap),
    )
    for member, epoch in members:
        take_part(run=run, epoch=epoch, own_family=member.own_family)
    if jury is not None:
        RunJudge.objects.create(run=run, epoch=jury)
    return Writing(run, order.arena, members, jury, order.shares, now)


def take_part(*, run: Run, epoch: Epoch, own_family: bool = False) -> None:
    """Note that a judge is asked in a run."""
    judge = epoch.judge
    RunJudge.objects.create(run=run, epoch=epoch, own_family=own_family)
    RunAsker.objects.create(run=run, asker=epoch.asker, endpoint=judge.endpoint, model=judge.model)


def _unblocked(epoch: Epoch) -> Epoch:
    if epoch.rater.blocked_at:
        raise JudgeRefused(f"The operator has blocked {epoch}; its votes would not count.")
    return epoch


def open_run(*, run: Run) -> None:
    """Open a run of which all is written; its caller holds the lock under which it was."""
    wanted = (run.jury_verdicts if run.jury_verdicts.exists() else run.judgements).count()
    state = Run.State.OPEN
    Run.objects.filter(pk=run.pk, state=Run.State.ORDERED).update(state=state, votes_wanted=wanted)
    run.refresh_from_db()


# -- Giving up -------------------------------------------------------------------------------------


def give_up_left_behind(*, now: datetime) -> None:
    """Cancel the runs whose ordering was cut short: nobody holds the lock on their arena's orders.

    What they reserved is free again, and what they had written is for the next order to take over.
    """
    left = Run.objects.filter(kind=Run.Kind.JUDGE, state=Run.State.ORDERED)
    for arena in Arena.objects.filter(pk__in=left.exclude(arena=None).values("arena")):
        with suppress(JudgeRefused), one_order_at_a_time(arena=arena):
            _give_up(arena, now)


def _give_up(arena: Arena, now: datetime) -> None:
    """Whoever was writing these runs would hold the lock that the caller has."""
    left = Run.objects.filter(arena=arena, kind=Run.Kind.JUDGE, state=Run.State.ORDERED)
    for run_id in left.values_list("pk", flat=True):
        cancel_run(run_id=run_id, now=now)
