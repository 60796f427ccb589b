"""Ordering a run from judges, and letting one that was left unfinished go on.

A run is opened once all of it is written, by whoever holds the lock on the arena's orders: an open
run in which nothing waits is closed, and what was added later would wait for ever.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q

from arena.calls.models import Call, RunAsker
from arena.calls.services import create_calls, move_calls, resume_run, retry_failures
from arena.models import Arena, Comparison, PairDemand, Rater, Response, Run
from arena.services.locks import one_at_a_time
from arena.services.pairing import take_side
from judges.core.scanning import scan
from judges.models import Epoch, Judgement, JuryVerdict, RunJudge
from judges.services import subjects
from judges.services.adopting import adopt, adopt_verdicts, drop_other_words, take_over
from judges.services.juries import settle_waiting_juries
from judges.services.orders import Member, Order, calls_for, shown_in
from judges.services.planning import Pick
from judges.services.quoting import Quote, quote_for
from judges.services.registering import JudgeRefused, register_judge, register_jury

BATCH = 100
BUSY = "A run of judges in this arena is being ordered. Wait a moment, then try again."
UNFINISHED = [Run.State.ORDERED, Run.State.OPEN, Run.State.PAUSED]


@dataclass(frozen=True)
class Writing:
    """A run that is being written: who judges it, and when it was ordered."""

    run: Run
    arena: Arena
    members: list[tuple[Member, Epoch]]
    jury: Epoch | None
    shares: Mapping[int, float]
    now: datetime


def order_run(*, order: Order, cap: int | None, now: datetime, created_by: Any = None) -> Run:
    """Write down a run with all its calls, and open it; it never spends more than `cap`.

    `cap` is in nano-dollars. Written in small transactions, so that voters never wait for it;
    nothing is called before the run opens. Raises JudgeRefused when a price is not known, the cap
    buys nothing, a judge is blocked, and while somebody else orders in this arena.
    """
    quote = quote_for(order)
    check_cap(quote, cap)
    with one_order_at_a_time(arena=order.arena):
        writing = _begin(order, quote, cap, now, created_by)
        for start in range(0, len(order.picks), BATCH):
            _write(writing, order.picks[start : start + BATCH])
        _open(writing.run)
    # Members who had judged a pair before have nothing left to settle it with.
    settle_waiting_juries(now=now)
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


def one_order_at_a_time(*, arena: Arena) -> AbstractContextManager[None]:
    """Hold the lock on judges' orders in the arena; raises JudgeRefused when it is taken."""
    return one_at_a_time(f"order-{arena.pk}", busy=JudgeRefused(BUSY))


# -- Beginning and opening -------------------------------------------------------------------------


@transaction.atomic
def _begin(order: Order, quote: Quote, cap: int | None, now: datetime, created_by: Any) -> Writing:
    members = [(member, _unblocked(register_judge(spec=member.spec))) for member in order.members]
    jury = None
    if order.is_jury:
        jury = _unblocked(
            register_jury(members=[epoch for _, epoch in members], quorum=order.quorum)
        )
    run = Run.objects.create(
        arena=order.arena,
        kind=Rater.Kind.JUDGE,
        per_pair=order.wanted.per_pair,
        max_calls=order.calls,
        votes_wanted=len(order.picks),
        cap=cap,
        expected_cost=quote.expected,
        worst_cost=quote.worst,
        criteria=Arena.objects.values_list("criteria", flat=True).get(pk=order.arena.pk),
        created_by=created_by,
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


def _open(run: Run) -> None:
    wanted = (run.jury_verdicts if run.jury_verdicts.exists() else run.judgements).count()
    state = Run.State.OPEN
    Run.objects.filter(pk=run.pk, state=Run.State.ORDERED).update(state=state, votes_wanted=wanted)
    run.refresh_from_db()


# -- Writing ---------------------------------------------------------------------------------------


@transaction.atomic
def _write(writing: Writing, picks: Sequence[Pick]) -> None:
    """Write comparisons, calls and judgements of some picks, while the run is not cancelled."""
    run = writing.run
    if Run.objects.select_for_update(of=("self",)).get(pk=run.pk).state != Run.State.ORDERED:
        return
    flagged = _speaking_to_judges(picks)
    for member, epoch in writing.members:
        mine = {pick.responses for pick in member.picks}
        _write_member(writing, member, epoch, [p for p in picks if p.responses in mine], flagged)
    if writing.jury is not None:
        _write_jury(writing, writing.jury, picks)
    _show_to_people(writing.arena, [pick for pick in picks if pick.responses in flagged])


def _write_member(
    writing: Writing, member: Member, epoch: Epoch, picks: Sequence[Pick], flagged: set[str]
) -> None:
    run, now = writing.run, writing.now
    drop_other_words(epoch=epoch, picks=picks, mark=member.mark)
    adopt(run=run, epoch=epoch, picks=picks, shares=writing.shares, now=now)
    taken = set(
        epoch.judgements.filter(
            sample=0, responses__in=[pick.responses for pick in picks]
        ).values_list("responses", flat=True)
    )
    fresh = [pick for pick in picks if pick.responses not in taken]
    wanted = calls_for(member.spec, fresh, member.mark)
    calls = write_calls(run=run, epoch=epoch, wanted=wanted, now=now)
    comparisons = _comparisons(writing, epoch.rater, fresh)
    drafts = []
    for pick, comparison in zip(fresh, comparisons, strict=True):
        forward, reverse = _two_calls(member, pick, comparison)
        drafts.append(
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
    Judgement.objects.bulk_create(drafts)


def _two_calls(member: Member, pick: Pick, comparison: Comparison) -> tuple[str, str]:
    """Return the subjects of a comparison's two calls, the one that starts with its left first.

    For a list there is no such one: `forward` is the list as it was drawn.
    """
    first, second = shown_in(member.spec, pick)
    if member.spec.protocol != "listwise" and first[0] != comparison.left_response_id:
        first, second = second, first
    mark = member.mark
    return subjects.of_responses(first, mark), subjects.of_responses(second, mark)


def write_calls(
    *, run: Run, epoch: Epoch, wanted: Mapping[str, str | None], now: datetime, sample: int = 0
) -> dict[str, Call]:
    """Write the calls that are not there yet, those that others need first; map subject to call.

    `wanted` maps each subject to the subject whose reply it needs, or None.
    """
    first = [subject for subject, needed in wanted.items() if needed is None]
    then = [subject for subject, needed in wanted.items() if needed is not None]
    found = _calls(run, epoch, first, {}, now, sample)
    needed_by = {subject: found[needed] for subject in then if (needed := wanted[subject])}
    return found | _calls(run, epoch, then, needed_by, now, sample)


def _calls(
    run: Run,
    epoch: Epoch,
    wanted: Sequence[str],
    needed_by: Mapping[str, Call],
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
            needs=needed_by.get(subject),
            nonce=secrets.token_hex(8),
            due_at=now,
            ring_after=now,
        )
        for subject in wanted
    ]
    found = create_calls(drafts=drafts) if drafts else {}
    # An answer's score may be wanted by two runs: of one at rest this one takes it over.
    elsewhere = [call for call in found.values() if call.run_id != run.pk]
    if stuck := [call.pk for call in elsewhere if call.state != Call.State.DONE]:
        resting = Call.objects.filter(pk__in=stuck).exclude(run__state=Run.State.OPEN)
        take_over(run=run, calls=resting, now=now)
    return {subject: found[epoch.asker, subject, sample] for subject in wanted}


def _comparisons(writing: Writing, rater: Rater, picks: Sequence[Pick]) -> list[Comparison]:
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
                arena=writing.arena,
                rater=rater,
                run=writing.run,
                prompt_id=pick.prompt_id,
                left_id=left,
                right_id=right,
                left_response_id=left_response,
                right_response_id=right_response,
                draw_probability=writing.shares[pick.pair.pk],
                names_itself=bool(named & {left_response, right_response}),
                issued_at=writing.now,
            )
        )
    return Comparison.objects.bulk_create(drafts)


def _write_jury(writing: Writing, jury: Epoch, picks: Sequence[Pick]) -> None:
    """Write what the jury is to decide, beside the judgements of its members, old and new."""
    adopt_verdicts(run=writing.run, jury=jury, picks=picks)
    responses = [pick.responses for pick in picks]
    found = jury.jury_verdicts.filter(responses__in=responses)
    taken = set(found.values_list("responses", flat=True))
    fresh = [pick for pick in picks if pick.responses not in taken]
    comparisons = _comparisons(writing, jury.rater, fresh)
    JuryVerdict.objects.bulk_create(
        JuryVerdict(epoch=jury, run=writing.run, comparison=comparison, responses=pick.responses)
        for pick, comparison in zip(fresh, comparisons, strict=True)
    )
    verdict_of = {verdict.responses: verdict for verdict in found.filter(run=writing.run)}
    of_members = Judgement.objects.filter(
        epoch__in=[epoch for _, epoch in writing.members], responses__in=verdict_of, sample=0
    )
    through = JuryVerdict.judgements.through
    through.objects.bulk_create(
        [
            through(juryverdict=verdict_of[judgement.responses], judgement=judgement)
            for judgement in of_members
        ],
        ignore_conflicts=True,  # what was taken over knows some of its members already
    )


# -- Answers that speak to the judge ---------------------------------------------------------------


def _speaking_to_judges(picks: Sequence[Pick]) -> set[str]:
    """Return the pairs of responses of which one looks as if it told the judge what to say."""
    ids = {pk for pick in picks for pk in (pick.low_response, pick.high_response)}
    rows = Response.objects.filter(pk__in=ids).values_list("pk", "text")
    hit = {pk for pk, text in rows if scan(text)}
    return {pick.responses for pick in picks if hit & {pick.low_response, pick.high_response}}


def _show_to_people(arena: Arena, picks: Iterable[Pick]) -> None:
    """Ask for one vote of people on each flagged pair, unless somebody was asked already."""
    for pick in picks:
        PairDemand.objects.get_or_create(
            arena=arena,
            pair=pick.pair,
            prompt_id=pick.prompt_id,
            run=None,
            defaults={"remaining": 1},
        )


# -- Going on --------------------------------------------------------------------------------------


def unfinished_run(*, arena: Arena, digests: Sequence[str]) -> Run | None:
    """Return the newest run of just these judges in the arena that has not come to its end."""
    runs = Run.objects.filter(arena=arena, kind=Rater.Kind.JUDGE, state__in=UNFINISHED)
    for run in runs.order_by("-pk"):
        asked = run.run_judges.exclude(epoch__judge__protocol="jury")
        if set(asked.values_list("epoch__judge__digest", flat=True)) == set(digests):
            return run
    return None


def go_on(*, run: Run, now: datetime) -> Run:
    """Let a run go on: one that paused, whose ordering was cut short, or that has failures.

    What failed is asked again; what was answered is not. Raises JudgeRefused while the run is
    still being written.
    """
    if run.state == Run.State.ORDERED:
        with one_order_at_a_time(arena=run.in_arena):
            _open(run)
    elif run.state in (Run.State.PAUSED, Run.State.DONE):
        _ask_failures_again(run, now)
    run.refresh_from_db()
    return run


@transaction.atomic
def _ask_failures_again(run: Run, now: datetime) -> None:
    failed = Judgement.objects.filter(run=run, state=Judgement.State.FAILED)
    again = list(failed.values_list("pk", flat=True))
    JuryVerdict.objects.filter(judgements__in=failed).exclude(state=JuryVerdict.State.VOTED).update(
        state=JuryVerdict.State.WAITING, settled_at=None, counts={}
    )
    failed.update(state=Judgement.State.WAITING, settled_at=None)
    move_calls(call_ids=_failed_calls(again), run_id=run.pk, now=now)
    if run.state == Run.State.PAUSED:
        resume_run(run_id=run.pk, now=now)
    elif again:
        retry_failures(run_id=run.pk, now=now)
        Run.objects.filter(pk=run.pk, state=Run.State.DONE).update(
            state=Run.State.OPEN, closed_at=None
        )


def _failed_calls(judgements: Sequence[int]) -> list[int]:
    """The calls for want of which judgements failed, whichever run they were made for."""
    theirs = Q(forward_of__in=judgements) | Q(reverse_of__in=judgements)
    direct = Call.objects.filter(theirs)
    needed = direct.exclude(needs=None).values("needs")
    failed = Call.objects.filter(Q(pk__in=direct.values("pk")) | Q(pk__in=needed))
    return list(failed.filter(state=Call.State.FAILED).values_list("pk", flat=True))
