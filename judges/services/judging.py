"""A judge's calls made, read, and settled into votes."""

from datetime import datetime

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q
from django.utils import timezone

from arena.calls.making import CannotAsk, Reading, make_call
from arena.calls.models import Call
from arena.calls.providers.base import Message, Reply, Request
from arena.models import Run
from arena.services.voting import VoteRefused, cast_vote
from judges.core.parsing import parse_pairwise
from judges.core.protocols import render_pairwise
from judges.core.rubric import RubricError
from judges.models import Judgement
from judges.services.registering import spec_of

SWAPPED = {"left": "right", "right": "left", "tie": "tie"}
# When the two calls end differently, the first of these that is among them names the judgement.
WITHOUT_VERDICT = {
    Call.State.REFUSED: Judgement.State.REFUSED,
    Call.State.TOO_LONG: Judgement.State.TOO_LONG,
    Call.State.FAILED: Judgement.State.FAILED,
    Call.State.UNREADABLE: Judgement.State.UNREADABLE,
}


def judge_call(*, call_id: int) -> None:
    """Make one call of a judge, if it is due, and settle its judgement if that was the second."""
    call = make_call(call_id=call_id, render=render, read=read)
    if call is not None and call.has_ended:
        settle(judgement_id=_judgement_of(call).pk, now=timezone.now())


def render(call: Call) -> Request:
    """Put together what the judge of this call is sent."""
    judgement = _judgement_of(call)
    judge, comparison = judgement.judge, judgement.comparison
    try:
        spec = spec_of(judge)
    except RubricError as error:
        raise CannotAsk(str(error)) from None
    if spec.digest != judge.digest:
        raise CannotAsk(f"The files of rubric {judge.rubric} changed since {judge} was registered.")
    prompt, left, right = comparison.prompt, comparison.left_response, comparison.right_response
    if prompt is None or left is None or right is None:
        raise CannotAsk("A comparison of this run has no texts.")
    shown = [left.text, right.text]
    if call.pk == judgement.reverse_id:
        shown.reverse()
    messages = render_pairwise(
        spec.rubric,
        question=comparison.arena.question,
        prompt=prompt.text,
        first=shown[0],
        second=shown[1],
        nonce=call.nonce,
    )
    turns = tuple(Message(role, text) for role, text in messages)
    return Request(judge.model, turns, judge.parameters)


def read(call: Call, reply: Reply) -> Reading:
    """Say what the reply to this call means; its outcome is about the order that was shown."""
    parsed = parse_pairwise(reply.text, call.nonce, cut_off=reply.cut_off)
    verdict = {"outcome": parsed.outcome} if parsed.outcome else None
    return Reading(parsed.state, verdict, parsed.note)


def settle(*, judgement_id: int, now: datetime) -> None:
    """Turn two ended calls into a vote or into the state that says why there is none."""
    run_id = _settle(judgement_id, now)
    if run_id is not None:
        close_if_done(run_id=run_id, now=now)


@transaction.atomic
def _settle(judgement_id: int, now: datetime) -> int | None:
    judgement = (
        Judgement.objects.waiting()
        .select_for_update(of=("self",))
        .select_related("judge__rater", "comparison", "forward", "reverse")
        .filter(pk=judgement_id)
        .first()
    )
    if judgement is None or not (judgement.forward.has_ended and judgement.reverse.has_ended):
        return None
    judgement.state, outcome = decide(judgement.forward, judgement.reverse)
    if outcome is not None and not _vote(judgement, outcome, now):
        judgement.state = Judgement.State.FAILED
    judgement.settled_at = now
    judgement.save(update_fields=["state", "settled_at"])
    if judgement.state == Judgement.State.VOTED:
        Run.objects.filter(pk=judgement.run_id).update(votes_done=F("votes_done") + 1)
    return judgement.run_id


def decide(forward: Call, reverse: Call) -> tuple[str, str | None]:
    """Return the judgement's state, and the outcome on which both orders agree.

    Only the same verdict in both orders is a verdict; anything else is missing data, not a tie.
    """
    ended = {forward.state, reverse.state}
    for call_state, state in WITHOUT_VERDICT.items():
        if call_state in ended:
            return state, None
    outcome, swapped = _outcome(forward), _outcome(reverse)
    if outcome != SWAPPED[swapped]:
        return Judgement.State.ABSTAINED, None
    return Judgement.State.VOTED, outcome


def _outcome(call: Call) -> str:
    assert call.verdict is not None, "a call that is done has a verdict"
    return str(call.verdict["outcome"])


def _vote(judgement: Judgement, outcome: str, now: datetime) -> bool:
    try:
        with transaction.atomic():
            cast_vote(
                comparison=judgement.comparison,
                rater=judgement.judge.rater,
                outcome=outcome,
                now=now,
            )
    except VoteRefused:
        return False
    return True


def settle_ready(*, now: datetime) -> None:
    """Settle what killed workers left behind, and close the runs that are through."""
    for judgement_id in Judgement.objects.ready().values_list("pk", flat=True):
        settle(judgement_id=judgement_id, now=now)
    for run_id in Run.objects.filter(kind="judge", state=Run.State.OPEN).values_list(
        "pk", flat=True
    ):
        close_if_done(run_id=run_id, now=now)


def close_if_done(*, run_id: int, now: datetime) -> None:
    """Close an open run of which nothing waits any more."""
    # One statement: a run that goes on puts judgements back to waiting while it opens.
    waiting = Judgement.objects.waiting().filter(run=OuterRef("pk"))
    done = Run.objects.filter(~Exists(waiting), pk=run_id, state=Run.State.OPEN)
    done.update(state=Run.State.DONE, closed_at=now)


def _judgement_of(call: Call) -> Judgement:
    return Judgement.objects.select_related(
        "judge",
        "comparison__arena",
        "comparison__prompt",
        "comparison__left_response",
        "comparison__right_response",
    ).get(Q(forward=call) | Q(reverse=call))
