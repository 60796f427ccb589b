"""A judge's calls: making the request, reading the reply, settling the verdict as a vote."""

import json
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import cast

from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from arena.calls.capabilities import capability_of
from arena.calls.execution import CannotAskCallError, CannotAskError, ReplyReading, execute_call
from arena.calls.models import Call
from arena.calls.providers.base import Message, Reply, Request
from arena.db import sql
from arena.models import Comparison, Run
from judges.core.parsing import (
    LETTERS,
    ProtocolName,
    ReadReply,
    parse_direct,
    parse_listwise,
    parse_pairwise,
    parse_prometheus_pairwise,
    parse_prometheus_score,
    parse_structured,
)
from judges.core.prompts import (
    MaterialError,
    render_note,
    render_prompt,
    repair_message,
    verdict_schema,
)
from judges.core.rubric import RubricError
from judges.core.soft_verdicts import Form, read_soft_verdict
from judges.core.spec import JudgeSpec
from judges.models import Epoch, Judgement, JuryVerdict
from judges.services.registry import spec_of
from judges.services.subjects import CallTarget, material_for, read_subject
from judges.services.verdicts import (
    FinishedCall,
    JudgementResult,
    Sides,
    decide,
    settle_juries_of,
    settle_waiting_juries,
    try_to_vote,
)

PROMETHEUS = "prometheus"


class JudgeCallHandler:
    """Judge calls for the ledger (`arena.calls`), which does everything else."""

    def render(self, call: Call) -> Request:
        spec, subject = spec_for(call), read_subject(call.subject)
        material = material_for(subject, note=call.needs.reply if call.needs else "")
        structured = wants_schema(spec, subject)
        # The repair turn asks for a line, which a schema would not let the model write.
        has_schema = structured and not call.turn
        try:
            messages = (
                render_note(spec, material, nonce=call.nonce)
                if subject.is_note
                else render_prompt(spec, material, nonce=call.nonce, structured=structured)
            )
        except MaterialError as error:
            raise CannotAskCallError(str(error)) from None
        return Request(
            spec.model,
            tuple(Message(role, text) for role, text in messages),
            spec.parameters,
            schema=verdict_schema(spec, len(subject.shown)) if has_schema else None,
            logprobs=wants_logprobs(spec, subject),
        )

    def read(self, call: Call, reply: Reply) -> ReplyReading:
        """Read the verdict, whose outcome is about the order that was shown."""
        spec, subject = spec_for(call), read_subject(call.subject)
        if subject.is_note:
            return _read_note(reply)
        parsed = _parse(spec, subject, call, reply)
        verdict = _verdict_of(spec, parsed)
        if verdict is not None:
            _add_probabilities(spec, verdict, reply, call.nonce)
        return ReplyReading(parsed.state, verdict, parsed.note)

    def repair(self, call: Call) -> str | None:
        """Return the message after a reply without a verdict; a note needs none."""
        spec, subject = spec_for(call), read_subject(call.subject)
        if subject.is_note:
            return None
        return repair_message(spec, nonce=call.nonce, n_answers=len(subject.shown))


def spec_for(call: Call) -> JudgeSpec:
    """Return the judge of a call; raises CannotAskError where its rubric's files have changed."""
    epoch = _epoch_of(call.asker)
    judge = epoch.judge
    try:
        spec = spec_of(judge)
    except RubricError as error:
        raise CannotAskError(str(error)) from None
    if spec.digest != judge.digest:
        raise CannotAskError(
            f"The files of rubric {judge.rubric} have changed since {judge} was registered."
        )
    return spec


@lru_cache(maxsize=256)
def _epoch_of(asker: str) -> Epoch:
    """Cached: a judge never changes, and neither does the asker of an epoch."""
    return Epoch.objects.select_related("judge").get(asker=asker)


def wants_schema(spec: JudgeSpec, subject: CallTarget) -> bool:
    """Is the reply held to a JSON schema? If the model can, and its rubric's format allows it."""
    if subject.is_note or not spec.takes_schema:
        return False
    capability = capability_of(spec.endpoint, spec.model)
    return bool(capability and capability.json_schema)


def wants_logprobs(spec: JudgeSpec, subject: CallTarget) -> bool:
    """Does the call ask for probabilities? If the judge records them, and the model has them."""
    if not spec.soft or subject.is_note or spec.protocol == "listwise":
        return False
    capability = capability_of(spec.endpoint, spec.model)
    return bool(capability and capability.logprobs)


# -- Reading replies -------------------------------------------------------------------------------


def _read_note(reply: Reply) -> ReplyReading:
    if not reply.text.strip():
        return ReplyReading(Call.State.UNREADABLE, note="The grading note is empty.")
    if reply.cut_off:
        return ReplyReading(Call.State.UNREADABLE, note="The grading note was cut off.")
    return ReplyReading(Call.State.DONE, verdict={})


def _parse(spec: JudgeSpec, subject: CallTarget, call: Call, reply: Reply) -> ReadReply:
    text, cut_off, shown = reply.text, reply.cut_off, len(subject.shown)
    labels = spec.rubric.scale.labels if spec.rubric.scale else ()
    if spec.rubric.verdict == PROMETHEUS:
        if spec.protocol == "direct":
            return parse_prometheus_score(text, labels, cut_off=cut_off)
        return parse_prometheus_pairwise(text, cut_off=cut_off)
    if not call.turn and wants_schema(spec, subject) and text.lstrip().startswith(("{", "```")):
        protocol = cast(ProtocolName, spec.protocol)
        parsed = parse_structured(text, protocol, labels=labels, n=shown, cut_off=cut_off)
        if parsed.state == "done":
            return parsed
    if spec.protocol == "direct":
        return parse_direct(text, call.nonce, labels, cut_off=cut_off)
    if spec.protocol == "listwise":
        return parse_listwise(text, call.nonce, shown, cut_off=cut_off)
    return parse_pairwise(text, call.nonce, cut_off=cut_off)


def _verdict_of(spec: JudgeSpec, parsed: ReadReply) -> dict[str, object] | None:
    if parsed.outcome is not None:
        return {"outcome": parsed.outcome}
    if parsed.order is not None:
        return {"order": [list(group) for group in parsed.order]}
    if parsed.label is not None and spec.rubric.scale is not None:
        return {"label": parsed.label, "score": spec.rubric.scale.score_of(parsed.label)}
    return None


def _add_probabilities(
    spec: JudgeSpec, verdict: dict[str, object], reply: Reply, nonce: str
) -> None:
    """Add the probabilities to a verdict as `p`, where the endpoint returned them."""
    if not reply.logprobs or "order" in verdict:
        return
    meanings = _verdict_meanings(spec)
    chosen = verdict.get("label", verdict.get("outcome"))
    written = next(label for label, meaning in meanings.items() if meaning == chosen)
    form: Form = "prometheus" if spec.rubric.verdict == PROMETHEUS else "line"
    if reply.text.lstrip().startswith("{"):
        form = "json"
    probabilities = read_soft_verdict(
        reply.logprobs, list(meanings), written, form=form, nonce=nonce
    )
    if probabilities is not None:
        verdict["p"] = {meanings[label]: share for label, share in probabilities.items()}


def _verdict_meanings(spec: JudgeSpec) -> dict[str, str]:
    """Map each verdict that a judge may write to its meaning: an outcome, or the label itself."""
    if spec.rubric.scale is not None:
        return {label: label for label in spec.rubric.scale.labels}
    letters: dict[str, str] = dict(LETTERS)
    if spec.rubric.verdict == PROMETHEUS:
        del letters["TIE"]
    return letters


# -- Making calls and settling them ----------------------------------------------------------------

HANDLER = JudgeCallHandler()
# Statements that every call needs are written as SQL: composing them with the ORM took several
# times longer than running them, and a worker's threads share one core. The judgements to settle
# (as Judgement.objects.of_call().ready()),
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


def judge_call(*, call_id: int) -> Call | None:
    """Make one call of a judge, if it is due, and settle the judgements that it completes.

    Returns the call as it stands; None when another worker has it, or it is not due.
    """
    call = execute_call(call_id=call_id, handler=HANDLER)
    if call is not None and call.has_ended:
        settle_call(call_id=call.pk, now=timezone.now())
    return call


def settle_call(*, call_id: int, now: datetime) -> None:
    """Settle every judgement that this call completes, and close the runs that are done."""
    ready = sql.rows(READY, call_id, call_id)
    for judgement_id, _ in ready:
        settle(judgement_id=judgement_id, now=now)
    for run_id in {run for _, run in ready}:
        close_if_done(run_id=run_id, now=now)


def settle(*, judgement_id: int, now: datetime) -> None:
    """Turn two finished calls into a vote, or into the state that explains why there is none."""
    try:
        _settle(judgement_id, now)
    except IntegrityError:  # another run's same judgement became the one that votes
        _settle(judgement_id, now)


@transaction.atomic
def _settle(judgement_id: int, now: datetime) -> None:
    judgement = _lock_judgement(judgement_id)
    if judgement is None:
        return
    forward, reverse = judgement.forward, judgement.reverse
    if not {forward.state, reverse.state}.isdisjoint(Call.GOING_ON):
        return
    result = decide(
        forward,
        reverse,
        protocol=judgement.protocol,
        policy=judgement.swap_policy,
        sides=_sides(judgement),
    )
    facts = (result.state, result.outcome, result.preference, result.score, result.flipped)
    counts = result.state not in (Judgement.State.FAILED, Judgement.State.CANCELLED)
    row = sql.one(SETTLE, *facts, now, counts, judgement_id)
    votes = row and row[0] and judgement.comparison is not None and judgement.sample == 0
    if votes and result.outcome and not _vote(judgement, result, now):
        sql.one(REFUSE, judgement_id)
    if judgement.jury_waits:
        settle_juries_of(judgement_id=judgement_id, now=now)


@dataclass(frozen=True)
class _LockedJudgement:
    """What settling needs of a judgement whose row this transaction has locked."""

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


def _lock_judgement(judgement_id: int) -> _LockedJudgement | None:
    """Lock a waiting judgement; None where another worker has settled it."""
    lock = "" if connection.vendor == "sqlite" else " FOR NO KEY UPDATE OF j"
    row = sql.one(LOCK_JUDGEMENT + lock, judgement_id)
    if row is None:
        return None
    return _LockedJudgement(_finished_call(*row[:3]), _finished_call(*row[3:6]), *row[6:])


def _finished_call(state: str, subject: str, verdict: str | None) -> FinishedCall:
    return FinishedCall(state, subject, json.loads(verdict) if verdict else None)


def _sides(judgement: _LockedJudgement) -> Sides | None:
    if judgement.comparison is None:
        return None if judgement.is_single else Sides(1, 2)
    assert judgement.left is not None
    assert judgement.right is not None
    return Sides(judgement.left, judgement.right)


def _vote(judgement: _LockedJudgement, result: JudgementResult, now: datetime) -> bool:
    """Cast the judge's vote as the rater of the epoch that was asked."""
    assert judgement.comparison is not None
    comparisons = Comparison.objects.select_related("arena", "rater")
    comparison = comparisons.get(pk=judgement.comparison, rater__epoch=judgement.epoch)
    return try_to_vote(
        comparison.rater, comparison, result.outcome, now, preference=result.preference
    )


def settle_ready(*, now: datetime, run: Run | None = None) -> None:
    """Settle what waits for no call, in one run or in all, and close the runs that are done.

    Those are copied verdicts, and what killed workers left behind.
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
    with sql.single_statement():
        closed = sql.one(CLOSE_RUN, now, run_id)
    if not closed:
        return
    jury_verdicts = JuryVerdict.objects.filter(run=run_id)
    if jury_verdicts.exists():
        voted = jury_verdicts.filter(state=JuryVerdict.State.VOTED, casts_vote=True).count()
    else:
        judgements = Judgement.objects.filter(run=run_id, sample=0, casts_vote=True)
        voted = judgements.filter(state=Judgement.State.VOTED).count()
    Run.objects.filter(pk=run_id).update(votes_done=voted)
