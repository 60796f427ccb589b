"""Judge runs: ordering, opening, resuming and retrying them.

A run's comparisons, calls and judgements are written in small transactions, so that voters never
wait for them. A run opens once all of it is written, under the lock on its arena's orders: an open
run in which nothing waits is closed, and whatever were added later would wait for ever.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from arena.actors import CLI, Actor, TeamPermission
from arena.calls.models import Call, RunAsker
from arena.calls.money import cap_in_words
from arena.calls.runs import (
    cancel_run,
    create_calls,
    pause_asker,
    reopen_run,
    resume_run,
    why_not,
)
from arena.calls.scheduling import given_up_on_failure
from arena.models import Arena, Comparison, PairDemand, Rater, Response, Run, Team
from arena.services import audit
from arena.services.locks import exclusive_lock, lock_arena, retry_on_deadlock
from arena.services.pairs import take_side
from arena.services.runs import (
    BudgetError,
    RunError,
    reopen_with,
    reserve_budget,
    resume_with,
)
from arena.services.runs import cancel as cancel
from arena.services.runs import pause as pause
from arena.services.runs import set_cap as set_cap
from judges.core.injection import find_suspicious
from judges.models import Epoch, Judgement, JuryVerdict, RunJudge
from judges.services import subjects
from judges.services.calls import settle_ready
from judges.services.planning import JudgeOrder, Member, PlannedComparison, answer_orders, calls_for
from judges.services.quotes import Quote, quote_for
from judges.services.registry import JudgeError, register_judge, register_jury

State = Run.State
UNFINISHED = [State.ORDERED, State.OPEN, State.PAUSED]
BATCH = 100
BUSY = "Another judge run is being ordered in this arena. Try again in a moment."
LABEL_RUN_BUSY = "This judge is already being asked about labels. Try again in a moment."
BLOCKED = "An administrator has blocked {epoch}; its votes would not count."


@dataclass(frozen=True)
class RunWriter:
    """A run that is being written, with its judges and each pair's share of the comparisons."""

    run: Run
    arena: Arena
    members: list[tuple[Member, Epoch]]
    jury: Epoch | None
    shares: Mapping[int, float]
    now: datetime


@retry_on_deadlock
@transaction.atomic
def write_comparisons(*, writer: RunWriter, picks: Sequence[PlannedComparison]) -> None:
    """Write comparisons, calls and judgements of some picks, unless the run was cancelled."""
    # Taking sides updates many pairs, in the same order as whoever else updates them.
    lock_arena(writer.arena.pk)
    locked = Run.objects.select_for_update(of=("self",), no_key=True)
    if locked.get(pk=writer.run.pk).state != State.ORDERED:
        return
    new_picks = _not_asked(writer, picks)
    flagged = _suspicious_pairs(new_picks)
    for member, epoch in writer.members:
        own = {pick.responses for pick in member.picks}
        own_picks = [pick for pick in new_picks if pick.responses in own]
        _write_member(writer, member, epoch, own_picks, flagged)
    if writer.jury is not None:
        _write_jury(writer, writer.jury, new_picks)
    _show_to_people(writer.arena, [pick for pick in new_picks if pick.responses in flagged])


def _not_asked(writer: RunWriter, picks: Sequence[PlannedComparison]) -> list[PlannedComparison]:
    """Drop what another run has asked of the judge, or the jury, since the order was planned."""
    responses = [pick.responses for pick in picks]
    asked: QuerySet[Any]
    if writer.jury is not None:
        asked = writer.jury.jury_verdicts.exclude(state=JuryVerdict.State.CANCELLED)
    else:
        [(_, epoch)] = writer.members
        asked = epoch.judgements.asked().filter(sample=0)
    asked = asked.filter(responses__in=responses)
    already_asked = set(asked.values_list("responses", flat=True))
    return [pick for pick in picks if pick.responses not in already_asked]


def _write_member(
    writer: RunWriter,
    member: Member,
    epoch: Epoch,
    picks: Sequence[PlannedComparison],
    flagged: set[str],
) -> None:
    """Write one judge's part. What it was asked in other runs is copied from there."""
    run = writer.run
    needs = calls_for(member.spec, picks, member.criteria_suffix)
    calls = write_calls(run=run, epoch=epoch, needs=needs, now=writer.now)
    judgements = []
    comparisons = _create_comparisons(writer, epoch.rater, picks)
    for pick, comparison in zip(picks, comparisons, strict=True):
        forward, reverse = _two_calls(member, pick, comparison)
        judgements.append(
            Judgement(
                epoch=epoch,
                run=run,
                comparison=comparison,
                responses=pick.responses,
                forward=calls[forward],
                reverse=calls[reverse],
                flagged=pick.responses in flagged,
            )
        )
    Judgement.objects.bulk_create(judgements)


def _two_calls(member: Member, pick: PlannedComparison, comparison: Comparison) -> tuple[str, str]:
    """Return the subjects of a comparison's two calls; the first one shows its left answer first.

    A list has no such order: its first call shows the list as it was drawn.
    """
    first, second = answer_orders(member.spec, pick)
    if member.spec.protocol != "listwise" and first[0] != comparison.left_response_id:
        first, second = second, first
    suffix = member.criteria_suffix
    return subjects.of_responses(first, suffix), subjects.of_responses(second, suffix)


def write_calls(
    *, run: Run, epoch: Epoch, needs: Mapping[str, str | None], now: datetime, sample: int = 0
) -> dict[str, Call]:
    """Write the calls that the run does not have yet; return all of them by subject.

    `needs` maps each subject to the subject whose reply it needs first, or to None.
    """
    independent = [subject for subject, needed in needs.items() if needed is None]
    calls = _write_calls(run, epoch, independent, {}, now, sample)
    needed_calls = {subject: calls[needed] for subject, needed in needs.items() if needed}
    return calls | _write_calls(run, epoch, list(needed_calls), needed_calls, now, sample)


def _write_calls(
    run: Run,
    epoch: Epoch,
    call_subjects: Sequence[str],
    needed_calls: Mapping[str, Call],
    now: datetime,
    sample: int,
) -> dict[str, Call]:
    drafts = [
        Call(
            run=run,
            asker=epoch.asker,
            subject=subject,
            sample=sample,
            endpoint=epoch.judge.endpoint,
            model=epoch.judge.model,
            needs=needed_calls.get(subject),
            nonce=secrets.token_hex(8),
            due_at=now,
            ring_after=now,
        )
        for subject in call_subjects
    ]
    return create_calls(drafts=drafts, now=now)


def _create_comparisons(
    writer: RunWriter, rater: Rater, picks: Sequence[PlannedComparison]
) -> list[Comparison]:
    ids = [pk for pick in picks for pk in (pick.low_response, pick.high_response)]
    named = set(Response.objects.filter(pk__in=ids, names_itself=True).values_list("pk", flat=True))
    drafts = []
    for pick in picks:
        sides = [(pick.pair.low_id, pick.low_response), (pick.pair.high_id, pick.high_response)]
        if not take_side(pair=pick.pair):
            sides.reverse()
        (left, left_response), (right, right_response) = sides
        drafts.append(
            Comparison(
                arena=writer.arena,
                rater=rater,
                run=writer.run,
                prompt_id=pick.prompt_id,
                left_id=left,
                right_id=right,
                left_response_id=left_response,
                right_response_id=right_response,
                draw_probability=writer.shares[pick.pair.pk],
                names_itself=bool(named & {left_response, right_response}),
                issued_at=writer.now,
            )
        )
    return Comparison.objects.bulk_create(drafts)


def _write_jury(writer: RunWriter, jury: Epoch, picks: Sequence[PlannedComparison]) -> None:
    """Write the jury's verdicts and link them to the run's judgements of its members."""
    comparisons = _create_comparisons(writer, jury.rater, picks)
    verdicts = JuryVerdict.objects.bulk_create(
        JuryVerdict(epoch=jury, run=writer.run, comparison=comparison, responses=pick.responses)
        for pick, comparison in zip(picks, comparisons, strict=True)
    )
    verdict_of = {verdict.responses: verdict for verdict in verdicts}
    of_members = Judgement.objects.filter(
        run=writer.run,
        epoch__in=[epoch for _, epoch in writer.members],
        responses__in=verdict_of,
        sample=0,
    )
    through = JuryVerdict.judgements.through
    through.objects.bulk_create(
        through(juryverdict=verdict_of[judgement.responses], judgement=judgement)
        for judgement in of_members
    )


def _suspicious_pairs(picks: Sequence[PlannedComparison]) -> set[str]:
    """Return the pairs of responses in which one may try to steer the judge."""
    ids = {pk for pick in picks for pk in (pick.low_response, pick.high_response)}
    rows = Response.objects.filter(pk__in=ids).values_list("pk", "candidate", "text")
    suspicious = find_suspicious(rows)
    return {
        pick.responses for pick in picks if suspicious & {pick.low_response, pick.high_response}
    }


def _show_to_people(arena: Arena, picks: Iterable[PlannedComparison]) -> None:
    """Request one human vote on each flagged pair, unless one was requested before."""
    for pick in picks:
        PairDemand.objects.get_or_create(
            arena=arena,
            pair=pick.pair,
            prompt_id=pick.prompt_id,
            run=None,
            defaults={"remaining": 1},
        )


# -- Ordering --------------------------------------------------------------------------------------


def order_run(*, order: JudgeOrder, cap: int | None, now: datetime, by: Actor = CLI) -> Run:
    """Write a run with all its calls, and open it; it never spends more than `cap`.

    `cap` is in nano-dollars, and comes out of the budget of the arena's team, where it has one.
    Nothing is called before the run opens; if writer it fails, it is cancelled. Raises JudgeError
    when a price is not known, the cap buys nothing or exceeds the budget, a judge is blocked, or
    somebody else is ordering in this arena.
    """
    quote = quote_for(order)
    check_cap(quote, cap)
    with one_order_at_a_time(arena=order.arena):
        _cancel_unopened(order.arena, now)
        writer = _create_run(order, quote, cap, now, by)
        with given_up_on_failure(run=writer.run, now=now):
            for start in range(0, len(order.picks), BATCH):
                write_comparisons(writer=writer, picks=order.picks[start : start + BATCH])
            open_run(run=writer.run)
    # What all members had judged before can be decided now. The sweep does it too, so a failure
    # here must not make an order that stands look as if it had failed.
    transaction.on_commit(lambda: settle_ready(now=now, run=writer.run), robust=True)
    return writer.run


def check_cap(quote: Quote, cap: int | None) -> None:
    """Refuse an order without the cap that it needs, or whose cost is unknown."""
    if missing := quote.without_price:
        judge = missing[0]
        raise JudgeError(
            f"The price of {judge.model} at {judge.endpoint} is not known. An administrator sets "
            f"it in dollars per million tokens (0 is a price): "
            f"manage.py price {judge.endpoint} {judge.model} --input 0 --output 0"
        )
    if not quote.worst:
        return
    if cap is None:
        raise JudgeError("Set the most that the run may cost: --cap 5.00.")
    if cap <= 0:
        raise JudgeError("This model costs money; enter a cap above $0.")


@transaction.atomic
def check_budget(*, team: Team | None, quote: Quote, cap: int | None) -> None:
    """Refuse an order that the team's budget does not cover; a free one needs no budget.

    Inside a transaction, nobody else can take from the budget until its end.
    """
    try:
        reserve_budget(team=team, cap=cap if quote.worst else None)
    except BudgetError as error:
        raise JudgeError(str(error), field=error.field) from None


def one_order_at_a_time(*, arena: Arena) -> AbstractContextManager[None]:
    """Hold the lock on judge orders in the arena; raises JudgeError when it is taken."""
    return exclusive_lock(f"order-{arena.pk}", busy=JudgeError(BUSY))


def one_label_run_at_a_time(*, epoch_id: int) -> AbstractContextManager[None]:
    """Hold the lock on a judge's label runs; raises JudgeError when it is taken."""
    return exclusive_lock(f"label-run-{epoch_id}", busy=JudgeError(LABEL_RUN_BUSY))


@retry_on_deadlock
@transaction.atomic
def _create_run(
    order: JudgeOrder, quote: Quote, cap: int | None, now: datetime, by: Actor
) -> RunWriter:
    team = order.arena.team
    check_budget(team=team, quote=quote, cap=cap)
    members = [
        (member, _check_not_blocked(register_judge(spec=member.spec))) for member in order.members
    ]
    jury = None
    if order.is_jury:
        epochs = [epoch for _, epoch in members]
        jury = _check_not_blocked(register_jury(members=epochs, quorum=order.quorum))
    run = Run.objects.create(
        arena=order.arena,
        kind=Run.Kind.JUDGE,
        per_pair=order.options.per_pair,
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
        add_judge(run=run, epoch=epoch, own_family=member.own_family)
    if jury is not None:
        RunJudge.objects.create(run=run, epoch=jury)
    return RunWriter(run, order.arena, members, jury, order.shares, now)


def add_judge(*, run: Run, epoch: Epoch, own_family: bool = False) -> None:
    """Record that a run asks this judge."""
    judge = epoch.judge
    RunJudge.objects.create(run=run, epoch=epoch, own_family=own_family)
    RunAsker.objects.create(run=run, asker=epoch.asker, endpoint=judge.endpoint, model=judge.model)


def _check_not_blocked(epoch: Epoch) -> Epoch:
    if epoch.rater.blocked_at:
        raise JudgeError(BLOCKED.format(epoch=epoch))
    return epoch


def open_run(*, run: Run) -> None:
    """Open a fully written run; the caller holds the lock under which it was written."""
    votes = (run.jury_verdicts if run.jury_verdicts.exists() else run.judgements).count()
    ordered = Run.objects.filter(pk=run.pk, state=State.ORDERED)
    ordered.update(state=State.OPEN, votes_wanted=votes)
    run.refresh_from_db()


def cancel_stale_orders(*, now: datetime) -> None:
    """Cancel the runs whose ordering was cut short: nobody holds the lock on their arena's orders.

    What they reserved is free again, and the next order takes over what they had written.
    """
    unopened = Run.objects.filter(kind=Run.Kind.JUDGE, state=State.ORDERED)
    for arena in Arena.objects.filter(pk__in=unopened.exclude(arena=None).values("arena")):
        with suppress(JudgeError), one_order_at_a_time(arena=arena):
            _cancel_unopened(arena, now)


def _cancel_unopened(arena: Arena, now: datetime) -> None:
    """Cancel an arena's unopened runs. The caller holds the lock, so nobody is writer them."""
    unopened = Run.objects.filter(arena=arena, kind=Run.Kind.JUDGE, state=State.ORDERED)
    for run_id in unopened.values_list("pk", flat=True):
        cancel_run(run_id=run_id, now=now)


def pause_blocked_judges(*, now: datetime) -> int:
    """Stop asking blocked judges in open runs, whose votes would not count; return how many.

    Called before every round of calls, because a run with a blocked judge can be resumed.
    """
    active = RunAsker.objects.filter(run__state=State.OPEN, paused_at=None)
    blocked = Epoch.objects.filter(
        rater__blocked_at__isnull=False, asker__in=active.values("asker")
    )
    epochs = {epoch.asker: epoch for epoch in blocked.select_related("judge")}
    to_pause = list(active.filter(asker__in=epochs)) if epochs else []
    for run_asker in to_pause:
        reason = BLOCKED.format(epoch=epochs[run_asker.asker])
        pause_asker(run_id=run_asker.run_id, asker=run_asker.asker, reason=reason, now=now)
    return len(to_pause)


# -- Pausing, resuming and retrying ----------------------------------------------------------------


def can_steer(actor: Actor, arena: Arena | None) -> bool:
    """May `actor` order, pause, resume and cancel judge runs in `arena`?

    They spend the money of the arena's team. Runs without an arena, and those in arenas without a
    team, are the administrators'.
    """
    return actor.may(TeamPermission.JUDGE, arena.team_id if arena else None)


def resume(*, run: Run, by: Actor, now: datetime, cap: int | None = None) -> None:
    """Resume a run, with a new cap in nano-dollars where one is given.

    Raises RunError, BudgetError, and JudgeError while the run is still being written.
    """
    resume_with(partial(resume_unfinished, run=run, now=now), run=run, by=by, cap=cap)


def retry_failed(*, run: Run, by: Actor, now: datetime) -> None:
    """Retry what failed in a finished run. Raises RunError, BudgetError."""
    reopen = partial(resume_unfinished, run=run, now=now)
    reopen_with(reopen, run=run, by=by, has_failed=has_failures, failures="verdicts")


def unfinished_run(*, arena: Arena, digests: Sequence[str]) -> Run | None:
    """Return the newest unfinished run of exactly these judges in the arena."""
    runs = Run.objects.filter(arena=arena, kind=Run.Kind.JUDGE, state__in=UNFINISHED)
    for run in runs.order_by("-pk"):
        asked = run.run_judges.exclude(epoch__judge__protocol="jury")
        if set(asked.values_list("epoch__judge__digest", flat=True)) == set(digests):
            return run
    return None


def resume_unfinished(*, run: Run, now: datetime) -> Run:
    """Continue a run that paused, whose ordering was cut short, or that is done with failures.

    Failed judgements are retried; answered ones are not asked again. Raises JudgeError while the
    run is still being written, and RunError where it was cancelled or closed since it was read.
    """
    if run.state == State.ORDERED:
        with _order_lock(run):
            open_run(run=run)
        if run.state != State.OPEN:
            raise RunError(why_not(run, "resumed"))
    elif run.state == State.PAUSED:
        with transaction.atomic():
            _reset_failed(run, now)
            if not resume_run(run_id=run.pk, now=now):
                raise RunError(why_not(run, "resumed"))
    elif run.state == State.DONE and has_failures(run):
        with transaction.atomic():
            _reset_failed(run, now)
            if not reopen_run(run_id=run.pk, now=now):
                raise RunError(why_not(run, "reopened"))
    run.refresh_from_db()
    return run


def _order_lock(run: Run) -> AbstractContextManager[None]:
    """Hold the lock under which the run is written; raises JudgeError if it is taken."""
    if run.arena is not None:
        return one_order_at_a_time(arena=run.arena)
    return one_label_run_at_a_time(epoch_id=run.run_judges.get().epoch_id)


def has_failures(run: Run) -> bool:
    return _failed_judgements(run).exists()


def _reset_failed(run: Run, now: datetime) -> None:
    """Set failed judgements, and the jury verdicts that they left undecided, back to waiting."""
    failed = _failed_judgements(run)
    JuryVerdict.objects.filter(judgements__in=failed).exclude(state=JuryVerdict.State.VOTED).update(
        state=JuryVerdict.State.WAITING, settled_at=None, counts={}, casts_vote=False
    )
    failed.update(state=Judgement.State.WAITING, settled_at=None)


def cancel_judgements(*, run_id: int, now: datetime, **_: object) -> None:
    """Close what waits in a run that is being cancelled; a receiver of `run_cancelled`."""
    for model in (Judgement, JuryVerdict):
        waiting = model.objects.filter(run=run_id, state=model.State.WAITING)
        waiting.update(state=model.State.CANCELLED, settled_at=now)


def _failed_judgements(run: Run) -> QuerySet[Judgement]:
    return Judgement.objects.filter(run=run, state=Judgement.State.FAILED)
