"""A judge's calls for the ledger: the request, and the verdict that its reply gives."""

from functools import lru_cache
from typing import Any, cast

from arena.calls.capabilities import capability_of
from arena.calls.execution import CannotAskCallError, CannotAskError, ReplyReading
from arena.calls.models import Call
from arena.calls.providers.base import Message, Reply, Request
from arena.models import Run
from judges.core.checklist import stored_verdict
from judges.core.parsing import (
    LETTERS,
    Asked,
    ProtocolName,
    ReadReply,
    read_note,
    read_reply,
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
from judges.core.verdict_format import note_schema
from judges.models import Epoch
from judges.services.registry import spec_of
from judges.services.settlement import settle_call
from judges.services.subjects import CallTarget, material_for, read_subject

PROMETHEUS = "prometheus"


class JudgeCallHandler:
    """Judge calls for the ledger (`arena.calls`), which does everything else."""

    kind = Run.Kind.JUDGE

    def render(self, call: Call) -> Request:
        spec, subject = spec_for(call), read_subject(call.subject)
        note = read_note(call.needs.reply) if call.needs else ""
        return request_for(spec, subject, nonce=call.nonce, note=note, turn=call.turn)

    def read(self, call: Call, reply: Reply) -> ReplyReading:
        """Read the verdict, whose outcome is about the order that was shown."""
        spec, subject = spec_for(call), read_subject(call.subject)
        if subject.is_note:
            return _read_note(reply)
        parsed = _parse_reply(spec, subject, call, reply)
        verdict = _verdict_of(spec, parsed)
        if verdict is not None:
            _add_probabilities(spec, verdict, reply, call.nonce)
        return ReplyReading(parsed.state, verdict, parsed.note)

    def repair(self, call: Call) -> str | None:
        """Return the message after a reply without a verdict; a note needs none."""
        spec, subject = spec_for(call), read_subject(call.subject)
        if subject.is_note:
            return None
        return repair_message(
            spec,
            nonce=call.nonce,
            n_answers=len(subject.shown),
            structured=spec.schema and wants_schema(spec, subject),
        )

    settle = staticmethod(settle_call)


def request_for(
    spec: JudgeSpec, subject: CallTarget, *, nonce: str, note: str = "", turn: int = 0
) -> Request:
    """Return the request of a call, as it is sent and as previews show it.

    `note` is the judge's grading note; in a second `turn` the messages are still to be added.
    Raises CannotAskError.
    """
    material, structured = material_for(subject, note=note), wants_schema(spec, subject)
    render = render_note if subject.is_note else render_prompt
    try:
        messages = render(spec, material, nonce=nonce, structured=structured)
    except MaterialError as error:
        raise CannotAskCallError(str(error)) from None
    return Request(
        spec.model,
        tuple(Message(role, text) for role, text in messages),
        spec.parameters,
        schema=_schema_of(spec, subject, turn) if structured else None,
        logprobs=wants_logprobs(spec, subject),
    )


def spec_for(call: Call) -> JudgeSpec:
    """Return the judge of a call; raises CannotAskError if its rubric's files have changed."""
    epoch = _epoch_of(call.requester)
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
def _epoch_of(requester: str) -> Epoch:
    """Cached, because a judge never changes, nor does the requester of an epoch."""
    return Epoch.objects.select_related("judge").get(requester=requester)


def wants_schema(spec: JudgeSpec, subject: CallTarget) -> bool:
    """Whether the reply is held to a JSON schema: the model must support it, and the rubric's
    format allow it."""
    if not (spec.schema if subject.is_note else spec.takes_schema):
        return False
    capability = capability_of(spec.endpoint, spec.model)
    return bool(capability and capability.json_schema)


def _schema_of(spec: JudgeSpec, subject: CallTarget, turn: int) -> dict[str, Any] | None:
    """Return the schema of a turn's reply. Judges of earlier releases repair a reply by a line."""
    if subject.is_note:
        return note_schema()
    if turn and not spec.schema:
        return None
    return verdict_schema(spec, len(subject.shown), repair=bool(turn))


def wants_logprobs(spec: JudgeSpec, subject: CallTarget) -> bool:
    """Whether the call asks for probabilities: the judge must record them, and the model return
    them."""
    if not spec.soft or subject.is_note or spec.protocol == "listwise":
        return False
    capability = capability_of(spec.endpoint, spec.model)
    return bool(capability and capability.logprobs)


def _read_note(reply: Reply) -> ReplyReading:
    """Read a grading note, which serves even where it was cut off."""
    if not read_note(reply.text):
        return ReplyReading(Call.State.UNREADABLE, note="The grading note is empty.")
    return ReplyReading(Call.State.DONE, verdict={})


def _parse_reply(spec: JudgeSpec, subject: CallTarget, call: Call, reply: Reply) -> ReadReply:
    rubric = spec.rubric
    asked = Asked(
        cast(ProtocolName, spec.protocol),
        call.nonce,
        labels=tuple(rubric.scale.spellings) if rubric.scale else (),
        n=len(subject.shown),
        items=len(rubric.items),
        prometheus=rubric.is_prometheus,
        structured=wants_schema(spec, subject) and (spec.schema or not call.turn),
        repairs=bool(call.turn),
    )
    return read_reply(reply.text, asked, cut_off=reply.cut_off)


def _verdict_of(spec: JudgeSpec, parsed: ReadReply) -> dict[str, object] | None:
    if parsed.outcome is not None:
        return {"outcome": parsed.outcome}
    if parsed.met is not None:
        return stored_verdict(spec.rubric.items, parsed.met)
    if parsed.order is not None:
        return {"order": [list(group) for group in parsed.order]}
    if parsed.label is not None and (scale := spec.rubric.scale) is not None:
        label = scale.spellings[parsed.label]
        return {"label": label, "score": scale.score_of(label)}
    return None


def _add_probabilities(
    spec: JudgeSpec, verdict: dict[str, object], reply: Reply, nonce: str
) -> None:
    """Add the probabilities to a verdict as `p`, if the endpoint returned them.

    Those of a scale also give its `expected` score.
    """
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
        if scale := spec.rubric.scale:
            verdict["expected"] = sum(
                scale.score_of(label) * share for label, share in probabilities.items()
            )


def _verdict_meanings(spec: JudgeSpec) -> dict[str, str]:
    """Map each verdict that a judge may write to its meaning: an outcome, or the label itself."""
    if spec.rubric.scale is not None:
        return {label: label for label in spec.rubric.scale.labels}
    letters: dict[str, str] = dict(LETTERS)
    if spec.rubric.verdict == PROMETHEUS:
        del letters["TIE"]
    return letters
