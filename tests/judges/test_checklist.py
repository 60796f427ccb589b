"""Checklists: their items, the replies that answer them, and the scores that follow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.core.checklist import (
    ChecklistError,
    ChecklistItem,
    describe_items,
    item_lines,
    read_items,
    score_of,
)
from judges.core.parsing import parse_checklist
from judges.core.rubric import load_rubric
from judges.core.spec import JudgeSpec, SpecError
from judges.models import Judgement
from tests.factories import make_arena
from tests.judges.helpers import order, work_off

NONCE = "0f1e2d3c4b5a6978"
MARK = f"VERDICT-{NONCE}"


def test_items_have_a_text_and_a_weight() -> None:
    items = read_items(
        [{"text": "Is it  right?", "weight": 3}, {"text": "Does it mislead?", "weight": -2.5}]
    )
    assert items == (ChecklistItem("Is it right?", 3), ChecklistItem("Does it mislead?", -2.5))
    assert describe_items(items) == "1. Is it right? (+3)\n2. Does it mislead? (-2.5)"
    assert [score_of(items, met) for met in ((True, True), (False, True), (False, False))] == [
        0.5,
        -2.5,
        0,
    ]


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ([], "1 to 50 items"),
        (["Is it right?"], "item 1 is not"),
        ([{"text": " "}], "item 1 is not"),
        ([{"text": "a", "wieght": 2}], "item 1 is not"),
        ([{"text": "a", "weight": 0}], "weight of item 1"),
        ([{"text": "a", "weight": True}], "weight of item 1"),
        ([{"text": "a", "weight": float("nan")}], "weight of item 1"),
        ([{"text": "A"}, {"text": "a"}], "are the same"),
    ],
)
def test_other_items_are_refused(raw: list[object], says: str) -> None:
    with pytest.raises(ChecklistError, match=says):
        read_items(raw)


@pytest.mark.parametrize(
    "reply",
    [
        f"Reasons.\n\n{MARK} 1: YES\n{MARK} 2: NO",
        f"- **{MARK} 1:** Yes.\n- **{MARK} 2:** no",
        f"<think>{MARK} 1: NO</think>\n{MARK} 2: NO\n{MARK} 1: YES</s>",
        f"{MARK} 1: yes\n\n{MARK} 2: No!\n{MARK} 1: YES",
    ],
)
def test_each_item_is_read(reply: str) -> None:
    assert parse_checklist(reply, NONCE, 2).met == (True, False)


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "1: YES\n2: NO",
        f"{MARK} 1: YES",
        f"{MARK} 1: YES\n{MARK} 2: NO\n{MARK} 3: NO",
        f"{MARK} 1: YES\n{MARK} 1: NO\n{MARK} 2: NO",
        f"{MARK} 1: YES or NO\n{MARK} 2: NO",
        f"{MARK} 1: YES, mostly\n{MARK} 2: NO",
        f"{MARK} 1: maybe\n{MARK} 2: NO",
        "VERDICT-ffffffffffffffff 1: YES\nVERDICT-ffffffffffffffff 2: NO",
        item_lines(2, NONCE),
    ],
)
def test_what_does_not_answer_each_item_once_is_unreadable(reply: str) -> None:
    assert parse_checklist(reply, NONCE, 2).state == "unreadable"


def test_a_reply_that_was_cut_off_is_unreadable() -> None:
    whole = f"{MARK} 1: YES\n{MARK} 2: NO"
    assert parse_checklist(whole, NONCE, 2, cut_off=True).state == "unreadable"


@given(st.text(), st.integers(1, 5))
def test_no_reply_raises(reply: str, n: int) -> None:
    for text in (reply, f"{reply}\n{MARK} 1: {reply}"):
        parse_checklist(text, NONCE, n)


def test_a_checklist_takes_no_probabilities() -> None:
    with pytest.raises(SpecError, match="neither probabilities nor examples"):
        JudgeSpec("local", "m-1", load_rubric("checklist"), soft=True)


@pytest.mark.django_db
def test_each_point_is_stored_and_the_sum_decides() -> None:
    run = work_off(order(make_arena(3, 4), "scripted:scripted-1@checklist", per_pair=4))
    voted = Judgement.objects.filter(run=run, state="voted").select_related("forward", "reverse")
    assert voted.count() > 6
    items = load_rubric("checklist").items
    for one in voted:
        scores = []
        for call in (one.forward, one.reverse):
            assert call.verdict is not None
            assert call.verdict["score"] == score_of(items, call.verdict["met"])
            scores.append(call.verdict["score"])
        left, right = scores
        assert one.outcome == ("tie" if left == right else "left" if left > right else "right")
