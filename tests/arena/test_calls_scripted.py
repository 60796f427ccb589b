"""The scripted judge: deterministic, and as imperfect as a real one."""

from collections import Counter

import pytest

from arena.calls.providers.base import Message, Request, TooLong
from arena.calls.providers.scripted import CONTEXT, ScriptedProvider

NONCE = "00112233445566aa"


def asked(first: str, second: str, model: str = "scripted-1", nonce: str = NONCE) -> Request:
    text = (
        f"<prompt-{nonce}>\nHow do I cancel?\n</prompt-{nonce}>\n"
        f"<answer-a-{nonce}>\n{first}\n</answer-a-{nonce}>\n"
        f"<answer-b-{nonce}>\n{second}\n</answer-b-{nonce}>\nVERDICT-{nonce}: A"
    )
    return Request(model, (Message("user", text),))


def verdict(first: str, second: str, **fields: str) -> str:
    return ScriptedProvider().complete(asked(first, second, **fields)).text.rpartition(": ")[2]


def test_the_same_texts_get_the_same_reply_whatever_the_nonce() -> None:
    replies = {
        ScriptedProvider().complete(asked("x", "y", nonce=nonce)).text.replace(nonce, "")
        for nonce in (NONCE, "ffffffffffffffff")
    }
    assert len(replies) == 1


def test_the_model_is_the_seed() -> None:
    by_seed = {
        tuple(verdict(f"x{i}", f"y{i}", model=model) for i in range(20))
        for model in ("scripted-1", "scripted-2")
    }
    assert len(by_seed) == 2


def test_every_state_of_a_real_judge_occurs() -> None:
    seen: Counter[str] = Counter()
    for i in range(400):
        there, back = verdict(f"x{i}", f"y{i}"), verdict(f"y{i}", f"x{i}")
        for reply in (there, back):
            seen[reply if reply in ("A", "B", "TIE") else "unreadable"] += 1
            seen["refused"] += "can't assist" in reply
        seen["agreed"] += {there, back} == {"A", "B"} or there == back == "TIE"
        seen["flipped"] += there == back == "A"
    assert seen["agreed"] > 300
    assert min(seen[key] for key in ("flipped", "unreadable", "refused", "TIE")) >= 1
    assert seen["flipped"] < 100


def test_it_says_that_it_is_no_model() -> None:
    assert "not a real model" in ScriptedProvider().complete(asked("x", "y")).text


def test_what_is_no_comparison_gets_no_verdict() -> None:
    reply = ScriptedProvider().complete(Request("scripted-1", (Message("user", "Hello"),)))
    assert "VERDICT" not in reply.text


def test_a_text_beyond_its_context_is_too_long() -> None:
    with pytest.raises(TooLong):
        ScriptedProvider().complete(asked("x" * CONTEXT, "y"))
