"""Reading verdicts in JSON: one object, alone, each key once."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.core.parsing import parse_structured

FIVE = ("1", "2", "3", "4", "5")


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        ('{"reasoning": "A is short, B is right.", "verdict": "B"}', "right"),
        ('  {"verdict": "A"}\n', "left"),
        ('{"verdict": "tie"}', "tie"),
        ('```json\n{"verdict": "A"}\n```', "left"),
        ('```\n{\n  "verdict": "B"\n}\n```\n', "right"),
        ('My verdict: {"verdict": "A"}', "left"),
        ('{"Reasoning": "A is right.", "Verdict": "A",}', "left"),
        ('Here is my evaluation:\n\n```json\n{"verdict": "A"}\n```\nI hope this helps!', "left"),
        ('~~~json\n{"verdict": "Answer A"}\n~~~', "left"),
        ('<think>Rather {"verdict": "B"}</think>\n{"verdict": "A"}<|im_end|>', "left"),
        ('以下是评估结果：\n```json\n{"verdict": "B"}\n```\nB is more complete.', "right"),
        ('{"reasoning": "A closes </think> early.", "verdict": "B"}', "right"),
        ('{"reasoning": "It says {\\"verdict\\": \\"A\\"}.", "verdict": "B"}', "right"),
    ],
)
def test_the_verdict_of_the_object_is_read(reply: str, outcome: str) -> None:
    read = parse_structured(reply, "pairwise")
    assert (read.state, read.outcome) == ("done", outcome)


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "A",
        '"A"',
        "null",
        "[]",
        '["A"]',
        "{}",
        '{"verdict": null}',
        '{"verdict": true}',
        '{"verdict": 1}',
        '{"verdict": ["A"]}',
        '{"verdict": {"verdict": "A"}}',
        '{"verdict": "A or B"}',
        '{"verdict": "C"}',
        '{"winner": "A"}',
        '{"verdict": "A", "verdict": "B"}',
        '{"verdict": "A", "verdict": "A"}',
        '{"verdict": "A", "Verdict": "B"}',
        '{"reasoning": {"x": 1, "x": 2}, "verdict": "A"}',
        '{"verdict": "A"} {"verdict": "A"}',
        'I read {"verdict": "A"} and {"verdict": "A"}.',
        '{"verdict": "A"}\nWait, that is wrong.',
        '{"verdict": "A"}\nDie andere Antwort ist besser.',
        'Do not answer with {"verdict": "A"}',
        'Earlier draft:\n{"verdict": "A"}',
        '{"verdict": "A"}\n\nFinal verdict: B',
        '<!-- {"verdict": "A"} -->',
        '<think>{"verdict": "A"}',
        '{"reasoning": "It is "A"}", "verdict": "A"}',
        '{"verdict": "A"} is what answer B contains.',
        'Answer B contains\n```json\n{"verdict": "B"}\n```',
        '```json\n{"verdict": "A"}\n```\n```json\n{"verdict": "B"}\n```',
        '{"verdict": "A"',
        "{'verdict': 'A'}",
        "[" * 50_000,
        '{"verdict": ' + "9" * 40_000 + "}",
        '{"verdict": "A", "reasoning": "' + "x" * 100_000 + '"}',
    ],
)
def test_anything_else_is_unreadable(reply: str) -> None:
    read = parse_structured(reply, "pairwise")
    assert (read.state, read.outcome) == ("unreadable", None)
    assert read.note


@pytest.mark.parametrize(
    ("verdict", "label"), [("4", "4"), (4, "4"), (4.0, None), (4.5, None), (True, None), (9, None)]
)
def test_a_label_may_be_a_text_or_an_integer(verdict: object, label: str | None) -> None:
    reply = json.dumps({"reasoning": "", "verdict": verdict})
    read = parse_structured(reply, "direct", labels=FIVE)
    assert read.label == label
    assert read.state == ("done" if label else "unreadable")


@pytest.mark.parametrize(
    ("verdict", "order"),
    [
        (["B", "A", "C"], ((1,), (0,), (2,))),
        (["B", ["C", "A"]], ((1,), (0, 2))),
        ("B > A = C", ((1,), (0, 2))),
        (["B", "A"], None),
        (["B", "A", "C", "C"], None),
        ([["B"], ["C", "A"]], ((1,), (0, 2))),
        ([["C", "A", "B"]], ((0, 1, 2),)),
        (["B > A", "C"], None),
        ([["B > A", "C"]], None),
        ([["B"], [], ["A", "C"]], None),
        (["B", ["A", ["C"]]], None),
        (["B", "A", 3], None),
        ([], None),
        (None, None),
        ({"B": 1}, None),
    ],
)
def test_an_order_is_a_list_from_best_to_worst(verdict: object, order: object) -> None:
    read = parse_structured(json.dumps({"verdict": verdict}), "listwise", n=3)
    assert read.order == order
    assert read.state == ("done" if order else "unreadable")


def test_refusal_and_cut_reply_differ_from_nonsense() -> None:
    assert parse_structured("I'm sorry, but I can't judge this.", "pairwise").state == "refused"
    assert "cut off" in parse_structured('{"reasoning": "The', "pairwise", cut_off=True).note
    assert parse_structured('{"verdict": "A"}', "pairwise", cut_off=True).outcome == "left"


PIECES = st.sampled_from(['{"verdict": ', '"A"', "}", "```json\n", "\n```", "[", "]", ",", "4"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["A", "B"]),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
)


@settings(deadline=None)
@given(st.text() | st.lists(PIECES | st.text(max_size=4)).map("".join), st.booleans())
def test_no_text_raises(text: str, cut_off: bool) -> None:
    pair = parse_structured(text, "pairwise", cut_off=cut_off)
    assert (pair.state == "done") == (pair.outcome is not None)
    direct = parse_structured(text, "direct", labels=FIVE, cut_off=cut_off)
    assert (direct.state == "done") == (direct.label in FIVE)
    assert parse_structured(text, "listwise", n=3, cut_off=cut_off).label is None


@settings(deadline=None)
@given(VALUES)
def test_no_value_raises(value: object) -> None:
    reply = json.dumps({"verdict": value})
    for protocol in ("pairwise", "direct", "listwise"):
        parse_structured(reply, protocol, labels=FIVE, n=2)  # type: ignore[arg-type]
