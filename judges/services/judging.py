"""A judge's calls made, and settled into votes."""

from datetime import datetime

from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from arena.calls.making import make_call
from arena.calls.models import Call
from arena.models import Rater, Run
from judges.models import Judgement, JuryVerdict
from judges.services.asking import JudgeAsking
from judges.services.casting import vote_as
from judges.services.juries import settle_juries_of
from judges.services.verdicts import Decision, Sides, decide

ASKING = JudgeAsking()


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
    ready = list(Judgement.objects.of_call(call_id).ready().values_list("pk", "run"))
    for judgement_id, _ in ready:
        settle(judgement_id=judgement_id, now=now)
    for run_id in {run for _, run in ready}:
        close_if_done(run_id=run_id, now=now)


@transaction.atomic
def settle(*, judgement_id: int, now: datetime) -> None:
    """Turn two ended calls into a vote or into the state that says why there is none."""
    judgement = (
        Judgement.objects.waiting()
        .select_for_update(of=("self",))
        .select_related("epoch__judge", "epoch__rater", "comparison__arena", "forward", "reverse")
        .filter(pk=judgement_id)
        .first()
    )
    if judgement is None or not (judgement.forward.has_ended and judgement.reverse.has_ended):
        return
    decision = _decide(judgement)
    if decision.outcome and judgement.comparison is not None and judgement.sample == 0:
        rater, soft = judgement.epoch.rater, decision.preference
        if not vote_as(rater, judgement.comparison, decision.outcome, now, preference=soft):
            decision = Decision(Judgement.State.FAILED)
    _write(judgement, decision, now)
    settle_juries_of(judgement=judgement, now=now)


def _decide(judgement: Judgement) -> Decision:
    judge = judgement.epoch.judge
    return decide(
        judgement.forward,
        judgement.reverse,
        protocol=judge.protocol,
        policy=judge.order_policy,
        sides=_sides(judgement),
    )


def _sides(judgement: Judgement) -> Sides | None:
    """Return the ids by which the calls' subjects name the left and the right answer."""
    comparison = judgement.comparison
    if comparison is None:
        return Sides(1, 2) if judgement.forward_id != judgement.reverse_id else None
    assert comparison.left_response_id is not None
    assert comparison.right_response_id is not None
    return Sides(comparison.left_response_id, comparison.right_response_id)


def _write(judgement: Judgement, decision: Decision, now: datetime) -> None:
    judgement.state, judgement.outcome = decision.state, decision.outcome
    judgement.preference, judgement.score = decision.preference, decision.score
    judgement.flipped, judgement.settled_at = decision.flipped, now
    judgement.save(
        update_fields=["state", "outcome", "preference", "score", "flipped", "settled_at"]
    )


# -- Sweeping and closing --------------------------------------------------------------------------


def settle_ready(*, now: datetime) -> None:
    """Settle what killed workers left behind, and close the runs that are through."""
    for judgement_id in Judgement.objects.ready().values_list("pk", flat=True):
        settle(judgement_id=judgement_id, now=now)
    runs = Run.objects.filter(kind=Rater.Kind.JUDGE, state=Run.State.OPEN)
    for run_id in runs.values_list("pk", flat=True):
        close_if_done(run_id=run_id, now=now)


def close_if_done(*, run_id: int, now: datetime) -> None:
    """Close an open run of which nothing waits any more."""
    # One statement: a run that goes on puts judgements back to waiting while it opens.
    waiting = Judgement.objects.waiting().filter(run=OuterRef("pk"))
    juries = JuryVerdict.objects.filter(run=OuterRef("pk"), state=JuryVerdict.State.WAITING)
    done = Run.objects.filter(~Exists(waiting), ~Exists(juries), pk=run_id, state=Run.State.OPEN)
    if done.update(state=Run.State.DONE, closed_at=now):
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
