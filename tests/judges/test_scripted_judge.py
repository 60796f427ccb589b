"""The scripted model understands every rubric that is shipped, and is understood by the parsers."""

import pytest

from arena.calls.providers.base import Message, Request
from arena.calls.providers.scripted import ScriptedProvider
from judges.core.parsing import Asked, ReadReply, read_note, read_reply
from judges.core.prompts import Material, render_note, render_prompt, repair_message, verdict_schema
from judges.core.rubric import load_rubric, rubric_slugs
from judges.core.soft_verdicts import read_soft_verdict
from judges.core.spec import JudgeSpec
from judges.core.verdict_format import note_schema

NONCE = "0123456789abcdef"
TRIES = 40
SHOWN = {"direct": 1, "pairwise": 2, "listwise": 4}


def spec_of(slug: str) -> JudgeSpec:
    return JudgeSpec("scripted", "scripted-1", load_rubric(slug))


def material(spec: JudgeSpec, i: int) -> Material:
    answers = [f"You cancel it {i}.", f"No idea {i}.", f"Cancel {i}?", f"Ask somebody {i}."]
    return Material(
        question="Which answer helps more?",
        criteria="",
        prompt="How do I cancel?",
        answers=tuple(answers[: SHOWN[spec.protocol]]),
        reference="You cancel it in the settings.",
        note="A good answer names the settings.",
    )


def requests(spec: JudgeSpec, *, structured: bool = False, repair: bool = False) -> list[Request]:
    shown = SHOWN[spec.protocol]
    asked = []
    for i in range(TRIES):
        turns = render_prompt(spec, material(spec, i), nonce=NONCE, structured=structured)
        if repair:
            said = repair_message(spec, nonce=NONCE, n_answers=shown, structured=structured)
            turns = [*turns, ("assistant", "Hard to say."), ("user", said)]
        messages = tuple(Message(role, text) for role, text in turns)
        schema = verdict_schema(spec, shown, repair=repair) if structured else None
        asked.append(Request("scripted-1", messages, schema=schema, logprobs=True))
    return asked


def parsed(spec: JudgeSpec, text: str, *, repairs: bool = False) -> ReadReply:
    asked = Asked(
        spec.protocol,  # type: ignore[arg-type]
        NONCE,
        labels=spec.rubric.scale.labels if spec.rubric.scale else (),
        n=SHOWN[spec.protocol],
        items=len(spec.rubric.items),
        prometheus=spec.rubric.is_prometheus,
        structured=text.startswith("{"),
        repairs=repairs,
    )
    return read_reply(text, asked)


def states(spec: JudgeSpec, asked: list[Request], *, repairs: bool = False) -> list[ReadReply]:
    texts = [ScriptedProvider().complete(request).text for request in asked]
    return [parsed(spec, text, repairs=repairs) for text in texts]


@pytest.mark.parametrize("slug", rubric_slugs())
def test_nearly_every_reply_holds_a_verdict(slug: str) -> None:
    spec = spec_of(slug)
    read = states(spec, requests(spec))
    assert sum(one.state == "done" for one in read) >= TRIES * 0.85
    assert len({(one.outcome, one.label, one.order, one.met) for one in read}) > 1


@pytest.mark.parametrize("slug", rubric_slugs())
def test_repair_turn_brings_a_verdict_unless_declined(slug: str) -> None:
    spec = spec_of(slug)
    read = states(spec, requests(spec, repair=True), repairs=True)
    assert {one.state for one in read} <= {"done", "refused"}


@pytest.mark.parametrize("repair", [False, True])
@pytest.mark.parametrize("slug", [slug for slug in rubric_slugs() if spec_of(slug).takes_schema])
def test_a_schema_is_obeyed(slug: str, repair: bool) -> None:
    spec = spec_of(slug)
    read = states(spec, requests(spec, structured=True, repair=repair), repairs=repair)
    assert {one.state for one in read} <= {"done", "refused"}


@pytest.mark.parametrize("structured", [False, True])
@pytest.mark.parametrize("slug", ["pairwise", "score-1-4"])
def test_a_soft_verdict_can_be_read(slug: str, structured: bool) -> None:
    spec = spec_of(slug)
    labels = spec.rubric.scale.labels if spec.rubric.scale else ("A", "B", "TIE")
    for request in requests(spec, structured=structured):
        reply = ScriptedProvider().complete(request)
        if parsed(spec, reply.text).state != "done":
            continue
        verdict = next(
            label
            for label in labels
            if reply.text.rstrip('"}').endswith((f" {label}", f'"{label}'))
        )
        form = "json" if structured else "line"
        chances = read_soft_verdict(reply.logprobs, labels, verdict, form=form, nonce=NONCE)
        assert chances is not None
        assert max(chances, key=lambda label: chances[label]) == verdict


def test_a_grading_note_is_written() -> None:
    spec = spec_of("pairwise-note")
    turns = render_note(spec, material(spec, 0), nonce=NONCE)
    messages = tuple(Message(role, text) for role, text in turns)
    reply = ScriptedProvider().complete(Request("scripted-1", messages)).text
    assert "cancel" in reply
    assert NONCE not in reply
    held = ScriptedProvider().complete(Request("scripted-1", messages, schema=note_schema())).text
    assert read_note(held) == reply
