"""What a judge's call sends, and what its reply means."""

from functools import lru_cache
from typing import Any, cast

from arena.calls.capabilities import capability_of
from arena.calls.making import CannotAsk, CannotAskThis, Reading
from arena.calls.models import Call
from arena.calls.providers.base import Message, Reply, Request
from judges.core.parsing import (
    LETTERS,
    ReadReply,
    parse_direct,
    parse_listwise,
    parse_pairwise,
    parse_prometheus_pairwise,
    parse_prometheus_score,
    parse_structured,
    read_soft_verdict,
)
from judges.core.parsing.soft import Form
from judges.core.parsing.structured import Protocol
from judges.core.protocols import (
    MaterialError,
    render,
    render_note,
    repair_message,
    verdict_schema,
)
from judges.core.rubric import RubricError
from judges.core.spec import JudgeSpec
from judges.models import Epoch
from judges.services.material import material_for
from judges.services.registering import spec_of
from judges.services.subjects import Subject, read_subject

PROMETHEUS = "prometheus"


class JudgeAsking:
    """The judges' side of a call; the ledger does the rest."""

    def render(self, call: Call) -> Request:
        """Put together what the judge of this call is sent."""
        spec, subject = spec_for(call), read_subject(call.subject)
        material = material_for(subject, note=call.needs.reply if call.needs else "")
        structured = wants_schema(spec, subject)
        try:
            messages = (
                render_note(spec, material, nonce=call.nonce)
                if subject.is_note
                else render(spec, material, nonce=call.nonce, structured=structured)
            )
        except MaterialError as error:
            raise CannotAskThis(str(error)) from None
        return Request(
            spec.model,
            tuple(Message(role, text) for role, text in messages),
            spec.parameters,
            # The second turn asks for a line, which a schema would not let the model write.
            schema=_schema(spec, subject) if structured and not call.turn else None,
            logprobs=wants_logprobs(spec, subject),
        )

    def read(self, call: Call, reply: Reply) -> Reading:
        """Say what the reply to this call means; its outcome is about the order that was shown."""
        spec, subject = spec_for(call), read_subject(call.subject)
        if subject.is_note:
            return _read_note(reply)
        parsed = _parse(spec, subject, call, reply)
        verdict = _verdict_of(spec, parsed)
        if verdict is not None:
            _soft(spec, verdict, reply, call.nonce)
        return Reading(parsed.state, verdict, parsed.note)

    def repair(self, call: Call) -> str | None:
        """Return what a judge is told whose reply holds no verdict; a note needs none."""
        spec, subject = spec_for(call), read_subject(call.subject)
        if subject.is_note:
            return None
        return repair_message(spec, nonce=call.nonce, n_answers=len(subject.shown))


def spec_for(call: Call) -> JudgeSpec:
    """Return the judge of a call as its files make it; raises CannotAsk where they changed."""
    epoch = _epoch_of(call.asker)
    judge = epoch.judge
    try:
        spec = spec_of(judge)
    except RubricError as error:
        raise CannotAsk(str(error)) from None
    if spec.digest != judge.digest:
        raise CannotAsk(f"The files of rubric {judge.rubric} changed since {judge} was registered.")
    return spec


@lru_cache(maxsize=256)
def _epoch_of(asker: str) -> Epoch:
    """A judge and its epochs' askers never change, so one look is enough for a process."""
    return Epoch.objects.select_related("judge").get(asker=asker)


def wants_schema(spec: JudgeSpec, subject: Subject) -> bool:
    """Is the reply held to a JSON schema? Where the model can, and was not trained otherwise."""
    if subject.is_note or not spec.takes_schema:
        return False
    known = capability_of(spec.endpoint, spec.model)
    return bool(known and known.json_schema)


def _schema(spec: JudgeSpec, subject: Subject) -> dict[str, Any]:
    return verdict_schema(spec, len(subject.shown))


def wants_logprobs(spec: JudgeSpec, subject: Subject) -> bool:
    """Are probabilities asked for? Where the judge records them, and the model gives them."""
    if not spec.soft or subject.is_note or spec.protocol == "listwise":
        return False
    known = capability_of(spec.endpoint, spec.model)
    return bool(known and known.logprobs)


# -- Reading ---------------------------------------------------------------------------------------


def _read_note(reply: Reply) -> Reading:
    if not reply.text.strip():
        return Reading(Call.State.UNREADABLE, note="The grading note is empty.")
    if reply.cut_off:
        return Reading(Call.State.UNREADABLE, note="The grading note was cut off.")
    return Reading(Call.State.DONE, verdict={})


def _parse(spec: JudgeSpec, subject: Subject, call: Call, reply: Reply) -> ReadReply:
    text, cut_off, shown = reply.text, reply.cut_off, len(subject.shown)
    labels = spec.rubric.scale.labels if spec.rubric.scale else ()
    if spec.rubric.verdict == PROMETHEUS:
        if spec.protocol == "direct":
            return parse_prometheus_score(text, labels, cut_off=cut_off)
        return parse_prometheus_pairwise(text, cut_off=cut_off)
    if not call.turn and wants_schema(spec, subject) and text.lstrip().startswith(("{", "```")):
        protocol = cast(Protocol, spec.protocol)
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


def _soft(spec: JudgeSpec, verdict: dict[str, object], reply: Reply, nonce: str) -> None:
    """Put the probabilities of a verdict beside it, where the endpoint gave them."""
    if not reply.logprobs or "order" in verdict:
        return
    offered, said = _offered(spec, verdict)
    form: Form = "prometheus" if spec.rubric.verdict == PROMETHEUS else "line"
    if reply.text.lstrip().startswith("{"):
        form = "json"
    found = read_soft_verdict(reply.logprobs, list(offered), said, form=form, nonce=nonce)
    if found is not None:
        verdict["p"] = {offered[label]: share for label, share in found.items()}


def _offered(spec: JudgeSpec, verdict: dict[str, object]) -> tuple[dict[str, str], str]:
    """Map what a judge may write to what it means, and say what this one wrote."""
    if spec.rubric.scale is not None and "label" in verdict:
        return {label: label for label in spec.rubric.scale.labels}, str(verdict["label"])
    letters: dict[str, str] = {letter.upper(): meaning for letter, meaning in LETTERS.items()}
    if spec.rubric.verdict == PROMETHEUS:
        letters.pop("TIE", None)
    return letters, next(key for key, value in letters.items() if value == verdict["outcome"])
