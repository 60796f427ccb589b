"""A judge's calls made, and settled into votes."""

import json
from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone

from arena.calls.making import make_call
from arena.calls.models import Call
from arena.models import Comparison, Run
from arena.services import statements
from judges.models import Judgement, JuryVerdict
from judges.services.adopting import rescue_calls
from judges.services.asking import JudgeAsking
from judges.services.casting import vote_as
from judges.services.juries import settle_juries_of, settle_waiting_juries
from judges.services.verdicts import Decision, Ended, Sides, decide

ASKING = JudgeAsking()
# What every call needs is written out: composing it with the ORM took several times longer than
# running it, and a worker's threads share one core. These are Judgement.objects.of_call().ready(),
READY = """
    SELECT j.id, j.run_id FROM judges_judgement j
    JOIN arena_call f ON f.id = j.forward_id
    JOIN arena_call r ON r.id = j.reverse_id
    WHERE (j.forward_id = %s OR j.reverse_id = %s) AND j.state = 'waiting'
        AND f.state NOT IN ('waiting', 'running') AND r.state NOT IN ('waiting', 'running')
"""
# a judgement that waits, in the order of `_Held`,
HOLD = """
    SELECT f.state, f.subject, f.verdict, r.state, r.subject, r.verdict,
        j.epoch_id, j.comparison_id, j.sample, g.protocol, g.order_policy,
        c.left_response_id, c.right_response_id, f.id = r.id,
        EXISTS (SELECT 1 FROM judges_juryverdict_judgements m
            JOIN judges_juryverdict v ON v.id = m.juryverdict_id AND v.state = 'waiting'
            WHERE m.judgement_id = j.id)
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
    SET state = %s, outcome = %s, preference = %s, score = %s, flipped = %s, settled_at = %s
    WHERE id = %s
    RETURNING id
"""
# and the end of a run. One statement: a run that goes on puts judgements back to waiting while it
# opens.
CLOSE = """
    UPDATE arena_run SET state = 'done', closed_at = %s
    WHERE id = %s AND state = 'open'
        AND NOT EXISTS (SELECT 1 FROM judges_judgement j
            WHERE j.run_id = arena_run.id AND j.state = 'waiting')
        AND NOT EXISTS (SELECT 1 FROM judges_juryverdict v
            WHERE v.run_id = arena_run.id AND v.state = 'waiting')
    RETURNING id
"""


def judge_call(*, call_id: int) -> Call | None:
    """Make one call of a judge, if it is due, and settle what hangs on it if that was the last.

    Returns the call as it stands; None when it was not ours to make.
    """
    call = make_call(call_id=call_id, asking=ASKING)
    if call is not None and call.has_ended:
        settle_call(call_id=call.pk, now=timezone.now())
    return call


def settle_call(*, call_id: int, now: datetime) -> None:
    """Settle every judgement whose calls have ended with this one; close a run that is through."""
    ready = statements.rows(READY, call_id, call_id)
    for judgement_id, _ in ready:
        settle(judgement_id=judgement_id, now=now)
    for run_id in {run for _, run in ready}:
        close_if_done(run_id=run_id, now=now)


@transaction.atomic
def settle(*, judgement_id: int, now: datetime) -> None:
    """Turn two ended calls into a vote or into the state that says why there is none."""
    held = _hold(judgement_id)
    if held is None or not {held.forward.state, held.reverse.state}.isdisjoint(Call.GOING_ON):
        return
    decision = decide(
        held.forward,
        held.reverse,
        protocol=held.protocol,
        policy=held.order_policy,
        sides=_sides(held),
    )
    asked = held.comparison if held.sample == 0 else None
    if asked and decision.outcome and not _vote(held.epoch, asked, decision, now):
        decision = Decision(Judgement.State.FAILED)
    _write(judgement_id, decision, now)
    if held.jury_waits:
        settle_juries_of(judgement_id=judgement_id, now=now)


@dataclass(frozen=True)
class _Held:
    """What settling needs of a judgement whose row this transaction has locked."""

    forward: Ended
    reverse: Ended
    epoch: int
    comparison: int | None
    sample: int
    protocol: str
    order_policy: str
    left: int | None
    right: int | None
    is_single: bool
    jury_waits: bool


def _hold(judgement_id: int) -> _Held | None:
    """Lock a judgement that waits; None where somebody else has settled it."""
    locked = HOLD if connection.vendor == "sqlite" else f"{HOLD} FOR NO KEY UPDATE OF j"
    row = statements.one(locked, judgement_id)
    if row is None:
        return None
    return _Held(_ended(*row[:3]), _ended(*row[3:6]), *row[6:])


def _ended(state: str, subject: str, verdict: str | None) -> Ended:
    return Ended(state, subject, json.loads(verdict) if verdict else None)


def _sides(held: _Held) -> Sides | None:
    """Return the ids by which the calls' subjects name the left and the right answer."""
    if held.comparison is None:
        return None if held.is_single else Sides(1, 2)
    assert held.left is not None
    assert held.right is not None
    return Sides(held.left, held.right)


def _vote(epoch_id: int, comparison_id: int, decision: Decision, now: datetime) -> bool:
    """Cast the judge's vote as the rater of the epoch that was asked."""
    issued = Comparison.objects.select_related("arena", "rater")
    comparison = issued.get(pk=comparison_id, rater__epoch=epoch_id)
    soft = decision.preference
    return vote_as(comparison.rater, comparison, decision.outcome, now, preference=soft)


def _write(judgement_id: int, decision: Decision, now: datetime) -> None:
    facts = (decision.outcome, decision.preference, decision.score, decision.flipped)
    statements.one(SETTLE, decision.state, *facts, now, judgement_id)


# -- Sweeping and closing --------------------------------------------------------------------------


def settle_ready(*, now: datetime) -> None:
    """Settle what killed workers left behind, and close the runs that are through."""
    for judgement_id in Judgement.objects.ready().values_list("pk", flat=True):
        settle(judgement_id=judgement_id, now=now)
    settle_waiting_juries(now=now)
    rescue_calls(now=now)
    runs = Run.objects.filter(kind=Run.Kind.JUDGE, state=Run.State.OPEN)
    for run_id in runs.values_list("pk", flat=True):
        close_if_done(run_id=run_id, now=now)


def close_if_done(*, run_id: int, now: datetime) -> None:
    """Close an open run of which nothing waits any more."""
    with statements.alone():
        closed = statements.one(CLOSE, now, run_id)
    if closed:
        _count_votes(run_id)


def _count_votes(run_id: int) -> None:
    """Note how many votes a run brought, once it is through."""
    voted = Q(state=Judgement.State.VOTED, sample=0)
    verdicts = JuryVerdict.objects.filter(run=run_id)
    if verdicts.exists():
        votes = verdicts.filter(state=JuryVerdict.State.VOTED).count()
    else:
        votes = Judgement.objects.filter(voted, run=run_id).count()
    Run.objects.filter(pk=run_id).update(votes_done=votes)
