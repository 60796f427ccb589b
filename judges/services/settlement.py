"""Settles judgements whose calls have ended: writes results, casts votes, and ends runs."""

import json
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from arena.calls.models import Call
from arena.db import sql
from arena.models import Comparison, Run
from arena.services.runs import pause_requester
from judges.models import Judgement, JuryVerdict, RunJudge
from judges.services.judge_votes import try_to_vote
from judges.services.juries import settle_juries_of, settle_waiting_juries
from judges.services.subjects import first_reading, of_reading
from judges.services.verdicts import FinishedCall, JudgementResult, Sides, State, decide_readings

# Statements that every call needs are written as SQL: composing them with the ORM took several
# times longer than running them, and a worker's threads share one core. The waiting
# judgements of a call whose other call has ended too (as `Judgement.objects.ready`),
READY = """
    SELECT j.id, j.run_id FROM judges_judgement j
    JOIN arena_call f ON f.id = j.forward_id
    JOIN arena_call r ON r.id = j.reverse_id
    WHERE (j.forward_id = %s OR j.reverse_id = %s) AND j.state = 'waiting'
        AND f.state NOT IN ('waiting', 'running') AND r.state NOT IN ('waiting', 'running')
"""
# a waiting judgement, in the order of `_LockedJudgement`,
LOCK_JUDGEMENT = """
    SELECT f.state, f.subject, f.verdict, r.state, r.subject, r.verdict,
        j.epoch_id, j.comparison_id, j.sample, g.protocol, g.order_policy,
        c.left_response_id, c.right_response_id, f.id = r.id,
        EXISTS (SELECT 1 FROM judges_juryverdict_judgements m
            JOIN judges_juryverdict v ON v.id = m.juryverdict_id AND v.state = 'waiting'
            WHERE m.judgement_id = j.id),
        g.readings, g.soft, j.run_id, e.requester
    FROM judges_judgement j
    JOIN judges_epoch e ON e.id = j.epoch_id
    JOIN judges_judge g ON g.id = e.judge_id
    JOIN arena_call f ON f.id = j.forward_id
    JOIN arena_call r ON r.id = j.reverse_id
    LEFT JOIN arena_comparison c ON c.id = j.comparison_id
    WHERE j.id = %s AND j.state = 'waiting'
"""
SETTLE = """
    UPDATE judges_judgement
    SET state = %s, outcome = %s, preference = %s, score = %s, flipped = %s, settled_at = %s,
        casts_vote = %s AND NOT EXISTS (SELECT 1 FROM judges_judgement o
            WHERE o.epoch_id = judges_judgement.epoch_id AND o.casts_vote
                AND o.responses = judges_judgement.responses
                AND o.sample = judges_judgement.sample)
    WHERE id = %s
    RETURNING casts_vote
"""
REFUSE = """
    UPDATE judges_judgement
    SET state = 'failed', outcome = '', preference = NULL, score = NULL, flipped = NULL,
        casts_vote = false
    WHERE id = %s
    RETURNING id
"""
# and the end of a run. One statement, because a run that is resumed at the same moment sets
# judgements back to waiting while it opens.
CLOSE_RUN = """
    UPDATE arena_run SET state = 'done', closed_at = %s
    WHERE id = %s AND state = 'open'
        AND NOT EXISTS (SELECT 1 FROM judges_judgement j
            WHERE j.run_id = arena_run.id AND j.state = 'waiting')
        AND NOT EXISTS (SELECT 1 FROM judges_juryverdict v
            WHERE v.run_id = arena_run.id AND v.state = 'waiting')
    RETURNING id
"""
FEWEST_TO_DESPAIR = 30
MOST_LOOKED_AT = 60
USELESS = Fraction(2, 3)


def settle_call(call: Call) -> None:
    """Settle every judgement that this call completes, and close the runs that are done."""
    now = timezone.now()
    first = call.pk
    if (subject := first_reading(call.subject)) != call.subject:
        same = Call.objects.filter(run=call.run_id, requester=call.requester, sample=call.sample)
        first = same.values_list("pk", flat=True).get(subject=subject)
    ready = sql.rows(READY, first, first)
    for judgement_id, _ in ready:
        settle(judgement_id=judgement_id, now=now)
    for run_id in {run for _, run in ready}:
        close_if_done(run_id=run_id, now=now)
        _pause_if_hopeless(run_id, call.requester, now)


@transaction.atomic
def _pause_if_hopeless(run_id: int, requester: str, now: datetime) -> None:
    """Pause a judge of a run, once, if most verdicts change with the order or are unreadable.

    A judge that flips as often as a trusted one may (30 %) is hardly ever paused by chance: in
    simulations, in 34 of 1,000,000 runs.
    """
    if not settings.STOP_HOPELESS_JUDGES:
        return
    own = Judgement.objects.filter(run=run_id, epoch__requester=requester)
    first = own.settled().order_by("settled_at", "pk")
    ended = list(first.values_list("state", "flipped")[:MOST_LOOKED_AT])
    flips = sum(flipped is True for _, flipped in ended)
    unreadable = sum(state == State.UNREADABLE for state, _ in ended)
    if len(ended) < FEWEST_TO_DESPAIR or flips + unreadable < USELESS * len(ended):
        return
    member = RunJudge.objects.filter(run=run_id, epoch__requester=requester, hopeless_at=None)
    if own.waiting().exists() and member.update(hopeless_at=now):
        reason = (
            f"Of its first {len(ended)} pairs, {flips} were inconsistent when swapped and "
            f"{unreadable} unreadable, so it stopped to save money. To continue anyway, resume "
            "the run when its other judges, if any, are done."
        )
        pause_requester(run_id=run_id, requester=requester, reason=reason, now=now)


def settle(*, judgement_id: int, now: datetime) -> None:
    """Turn two finished calls into a vote, or into the state that explains why there is none."""
    try:
        _settle_judgement(judgement_id, now)
    except IntegrityError:  # another run's same judgement became the one that votes
        _settle_judgement(judgement_id, now)


@transaction.atomic
def _settle_judgement(judgement_id: int, now: datetime) -> None:
    judgement = _lock_judgement(judgement_id)
    if judgement is None:
        return
    forward, reverse = judgement.forward, judgement.reverse
    pairs = [(forward, reverse), *_other_readings(judgement)]
    if any(call.state in Call.GOING_ON for pair in pairs for call in pair):
        return
    result = decide_readings(
        pairs,
        protocol=judgement.protocol,
        policy=judgement.swap_policy,
        soft=bool(judgement.soft),
        sides=_sides_of_judgement(judgement),
    )
    facts = (result.state, result.outcome, result.preference, result.score, result.flipped)
    counts = result.state not in (Judgement.State.FAILED, Judgement.State.CANCELLED)
    row = sql.one(SETTLE, *facts, now, counts, judgement_id)
    votes = row and row[0] and judgement.comparison is not None and judgement.sample == 0
    if votes and result.outcome and not _cast_vote(judgement, result, now):
        sql.one(REFUSE, judgement_id)
    if judgement.jury_waits:
        settle_juries_of(judgement_id=judgement_id, now=now)


@dataclass(frozen=True)
class _LockedJudgement:
    """What settling needs to know about a judgement, whose row this transaction has locked."""

    forward: FinishedCall
    reverse: FinishedCall
    epoch: int
    comparison: int | None
    sample: int
    protocol: str
    swap_policy: str
    left: int | None
    right: int | None
    is_single: bool
    jury_waits: bool
    readings: int
    soft: bool
    run: int
    requester: str


def _lock_judgement(judgement_id: int) -> _LockedJudgement | None:
    """Lock a waiting judgement; None if another worker has settled it."""
    lock = " FOR NO KEY UPDATE OF j" if connection.features.has_select_for_update else ""
    row = sql.one(LOCK_JUDGEMENT + lock, judgement_id)
    if row is None:
        return None
    return _LockedJudgement(_finished_call(*row[:3]), _finished_call(*row[3:6]), *row[6:])


def _other_readings(judgement: _LockedJudgement) -> list[tuple[FinishedCall, FinishedCall]]:
    numbers = range(2, judgement.readings + 1)
    firsts = (judgement.forward.subject, judgement.reverse.subject)
    subjects = {of_reading(first, number) for number in numbers for first in firsts}
    same = Call.objects.filter(
        run=judgement.run, requester=judgement.requester, sample=judgement.sample
    )
    asked = same.filter(subject__in=subjects) if subjects else ()
    calls = {call.subject: FinishedCall(call.state, call.subject, call.verdict) for call in asked}
    return [
        (calls[of_reading(firsts[0], number)], calls[of_reading(firsts[1], number)])
        for number in numbers
    ]


def _finished_call(state: str, subject: str, verdict: str | None) -> FinishedCall:
    return FinishedCall(state, subject, json.loads(verdict) if verdict else None)


def _sides_of_judgement(judgement: _LockedJudgement) -> Sides | None:
    if judgement.comparison is None:
        return None if judgement.is_single else Sides(1, 2)
    assert judgement.left is not None
    assert judgement.right is not None
    return Sides(judgement.left, judgement.right)


def _cast_vote(judgement: _LockedJudgement, result: JudgementResult, now: datetime) -> bool:
    """Cast the judge's vote as the rater of the epoch that was asked."""
    assert judgement.comparison is not None
    comparisons = Comparison.objects.select_related("arena", "rater")
    comparison = comparisons.get(pk=judgement.comparison, rater__epoch=judgement.epoch)
    return try_to_vote(
        comparison.rater, comparison, result.outcome, now, preference=result.preference
    )


def settle_ready(*, now: datetime, run: Run | None = None) -> None:
    """Settle the judgements that wait for no call, in one run or in all, and close the runs that
    are done.

    Those are copied verdicts, and those that killed workers left unsettled.
    """
    ready, runs = Judgement.objects.ready(), Run.objects.filter(kind=Run.Kind.JUDGE)
    if run is not None:
        ready, runs = ready.filter(run=run), runs.filter(pk=run.pk)
    for judgement_id in ready.values_list("pk", flat=True):
        settle(judgement_id=judgement_id, now=now)
    settle_waiting_juries(now=now)
    for run_id in runs.filter(state=Run.State.OPEN).values_list("pk", flat=True):
        close_if_done(run_id=run_id, now=now)


def close_if_done(*, run_id: int, now: datetime) -> None:
    """Close an open run in which nothing waits, and count its votes."""
    if not sql.one(CLOSE_RUN, now, run_id):
        return
    jury_verdicts = JuryVerdict.objects.filter(run=run_id)
    if jury_verdicts.exists():
        voted = jury_verdicts.filter(state=JuryVerdict.State.VOTED, casts_vote=True).count()
    else:
        judgements = Judgement.objects.filter(run=run_id, sample=0, casts_vote=True)
        voted = judgements.filter(state=Judgement.State.VOTED).count()
    Run.objects.filter(pk=run_id).update(votes_done=voted)
