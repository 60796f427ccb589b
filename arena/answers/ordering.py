"""Ordering a candidate's answers.

A run is opened once all of its calls are written, by whoever holds the lock on the candidate's
orders: an open run in which nothing waits is closed.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime

from django.db import transaction

from arena.access import Actor
from arena.answers.keeping import keep_left_behind
from arena.answers.quoting import Order, Quote, prepare_order
from arena.answers.refusals import AnswersRefused
from arena.answers.subjects import subject_of
from arena.calls.giving_up import given_up_on_failure
from arena.calls.models import Call, RunAsker
from arena.calls.money import cap_in_words
from arena.calls.services import cancel_run, create_calls, move_calls
from arena.models import Candidate, Prompt, Run, Team
from arena.services import audit
from arena.services.budgets import reserve_budget
from arena.services.candidate_checks import check_is_open
from arena.services.deadlocks import tried_twice
from arena.services.locks import one_at_a_time

BATCH = 500
BUSY = "The answers of this candidate are being ordered. Wait a moment, then try again."
UNDER_WAY = (
    "Run {run} of this candidate is not through yet. Resume it or cancel it before ordering more."
)
NO_CAP = "Fill in what the run may cost at most, in dollars. It cannot be ordered without."
CHANGED = (
    "The candidate was changed while its answers were being ordered, so nothing was ordered. Look "
    "at it, then order."
)
SENT = ("endpoint", "model", "system_prompt", "user_template", "parameters", "retired_at")
NOT_ENDED = [*Call.GOING_ON, Call.State.FAILED]


class UnderWay(AnswersRefused):
    """The candidate's answers are being generated already, by `run`."""

    def __init__(self, run: Run) -> None:
        super().__init__(UNDER_WAY.format(run=run.pk))
        self.run = run


def order_answers(
    *,
    candidate: Candidate,
    by: Actor,
    cap: int | None,
    now: datetime,
    prompts: Sequence[Prompt] | None = None,
) -> Run:
    """Write down a run with a call for each prompt that the candidate has no answer to; open it.

    It never spends more than `cap` nano-dollars; what costs nothing needs none. Written in small
    transactions, so that voters never wait for it; nothing is called before the run opens, and what
    fails before that is given up. What earlier runs left unanswered is taken over. Raises
    AnswersRefused, UnderWay, BudgetRefused, and CandidateRefused in an arena that is closed to the
    candidate's team.
    """
    with one_order_at_a_time(candidate=candidate):
        _check_no_other(candidate, now)
        keep_left_behind(candidate=candidate)
        order = prepare_order(candidate=candidate, prompts=prompts)
        check_cap(candidate, order.quote, cap)
        run = _begin(order, by, None if order.quote.is_free else cap, now)
        with given_up_on_failure(run=run, now=now):
            for start in range(BATCH, len(order.prompts), BATCH):
                _write(run, candidate, order.prompts[start : start + BATCH], now)
            open_run(run=run)
    return run


def quote_answers(*, candidate: Candidate, by: Actor) -> Order:
    """Return what would be ordered now, whatever the cap; nothing is written.

    Raises what `order_answers` raises, but that no budget is asked.
    """
    if run := unfinished_run(candidate):
        raise UnderWay(run)
    with transaction.atomic():
        check_is_open(candidate, by=by)
    order = prepare_order(candidate=candidate)
    check_cap(candidate, order.quote, order.quote.worst)
    return order


def one_order_at_a_time(*, candidate: Candidate) -> AbstractContextManager[None]:
    """Hold the lock on the candidate's orders; raises AnswersRefused when it is taken."""
    return one_at_a_time(f"answers-{candidate.pk}", busy=AnswersRefused(BUSY))


def unfinished_run(candidate: Candidate) -> Run | None:
    """Return the run that is generating the candidate's answers, or would if it were resumed."""
    states = [Run.State.ORDERED, Run.State.OPEN, Run.State.PAUSED]
    return Run.objects.of_answers().filter(candidate=candidate, state__in=states).first()


def check_cap(candidate: Candidate, quote: Quote, cap: int | None) -> None:
    """Refuse an order of which nobody knows the cost, or that could not spend anything."""
    if quote.worst is None:
        raise AnswersRefused(
            f"The price of {candidate.model} at {candidate.endpoint} is not known. An operator "
            f"enters it, in dollars per million tokens (0 is a price): manage.py price "
            f"{candidate.endpoint} {candidate.model} --input 0 --output 0"
        )
    if quote.is_free:
        return
    if cap is None:
        raise AnswersRefused(NO_CAP, field="cap")
    if cap <= 0:
        raise AnswersRefused("A cap of $0 buys nothing from a model that costs money.", field="cap")


def payer_of(candidate: Candidate) -> Team | None:
    """Return the team whose budget pays for the candidate's answers; None for operators' own."""
    return candidate.team or candidate.arena.team


# -- Writing ---------------------------------------------------------------------------------------


def _check_no_other(candidate: Candidate, now: datetime) -> None:
    """Refuse a second run of a candidate; one whose ordering was cut short is given up for it."""
    run = unfinished_run(candidate)
    if run is None:
        return
    if run.state != Run.State.ORDERED:
        raise UnderWay(run)
    # Whoever was writing it would hold the lock that this order has.
    cancel_run(run_id=run.pk, now=now)


@tried_twice
@transaction.atomic
def _begin(order: Order, by: Actor, cap: int | None, now: datetime) -> Run:
    """Write the run and its first calls: with these the candidate cannot be changed any more."""
    candidate, quote = order.candidate, order.quote
    check_is_open(candidate, by=by)
    _hold(candidate)
    # On SQLite the lock on orders ends before a transaction around them does.
    if run := unfinished_run(candidate):
        raise UnderWay(run)
    team = payer_of(candidate)
    reserve_budget(team=team, cap=cap)
    run = Run.objects.create(
        arena=candidate.arena,
        kind=Run.Kind.ANSWERS,
        candidate=candidate,
        team=team,
        max_calls=quote.calls,
        votes_wanted=quote.calls,
        cap=cap,
        expected_cost=quote.expected,
        worst_cost=quote.worst,
        created_by=by.user,
    )
    RunAsker.objects.create(
        run=run, asker=candidate.asker, endpoint=candidate.endpoint, model=candidate.model
    )
    audit.record(
        team=team,
        by=by,
        action="ordered answers",
        subject=candidate.own_name,
        run=run.pk,
        answers=quote.calls,
        cap=cap_in_words(cap),
    )
    _write(run, candidate, order.prompts[:BATCH], now)
    return run


def _hold(candidate: Candidate) -> None:
    """Lock the candidate's row; refuse where it is not what was quoted any more."""
    found = Candidate.objects.select_for_update(of=("self",), no_key=True).get(pk=candidate.pk)
    if any(getattr(found, name) != getattr(candidate, name) for name in SENT):
        raise AnswersRefused(CHANGED)


@tried_twice
@transaction.atomic
def _write(run: Run, candidate: Candidate, prompts: Sequence[Prompt], now: datetime) -> None:
    """Write some of a run's calls, while it is not cancelled."""
    locked = Run.objects.select_for_update(of=("self",), no_key=True)
    if locked.get(pk=run.pk).state != Run.State.ORDERED:
        return
    drafts = [
        Call(
            run=run,
            asker=candidate.asker,
            subject=subject_of(prompt.pk),
            endpoint=candidate.endpoint,
            model=candidate.model,
            due_at=now,
            ring_after=now,
        )
        for prompt in prompts
    ]
    found = create_calls(drafts=drafts).values()
    # What an earlier run failed to get, or was cancelled before it asked, is asked by this one.
    left = [call.pk for call in found if call.run_id != run.pk and call.state in NOT_ENDED]
    move_calls(call_ids=left, run_id=run.pk, now=now)


def open_run(*, run: Run) -> None:
    """Open a run of which all is written; its caller holds the lock on the candidate's orders."""
    wanted = run.calls.count()
    ordered = Run.objects.filter(pk=run.pk, state=Run.State.ORDERED)
    ordered.update(state=Run.State.OPEN, votes_wanted=wanted)
    run.refresh_from_db()


def give_up_left_behind(*, now: datetime) -> None:
    """Cancel the runs whose ordering was cut short: nobody holds the lock on those orders."""
    left = Run.objects.of_answers().filter(state=Run.State.ORDERED)
    for candidate in Candidate.objects.filter(pk__in=left.values("candidate")):
        with suppress(AnswersRefused), one_order_at_a_time(candidate=candidate):
            for run_id in left.filter(candidate=candidate).values_list("pk", flat=True):
                cancel_run(run_id=run_id, now=now)
