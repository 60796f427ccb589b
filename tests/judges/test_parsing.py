"""Reading replies: only an unambiguous verdict, alone where it was asked for, is a verdict."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.core import parsing
from judges.core.parsing import (
    LONGEST_REPLY,
    Asked,
    GoldenReply,
    ReadReply,
    golden_replies,
    last_named_winner,
    parse_checklist,
    parse_direct,
    parse_listwise,
    parse_pairwise,
    parse_structured,
    read_note,
    reader_digest,
)

NONCE = GoldenReply.NONCE
V = f"VERDICT-{NONCE}"
FIVE = tuple("12345")
PAIR = Asked("pairwise", NONCE, structured=True)
HOSTILE = 185  # the first replies of the corpus


def meaning_of(read: ReadReply) -> Any:
    """Return the verdict as the corpus spells it."""
    order = read.order and [list(group) for group in read.order]
    return read.outcome or read.label or order or (read.met and list(read.met))


def test_at_most_two_percent_of_hostile_replies_are_read_wrongly() -> None:
    hostile = golden_replies()[:HOSTILE]
    wrong = [
        golden.reply
        for golden in hostile
        if (read := golden.read()).state == "done" and meaning_of(read) != golden.meaning
    ]
    assert len(wrong) <= 0.02 * len(hostile), wrong


def test_replies_in_the_forms_that_were_asked_for_are_read_as_they_mean() -> None:
    for golden in golden_replies()[HOSTILE:]:
        assert meaning_of(golden.read()) == golden.meaning, golden.reply


def test_the_corpus_reads_as_the_digest_of_the_reader_says() -> None:
    """If this fails, replies are read in another way, so that judges get successors: write down the
    new digest only if that is meant."""
    assert reader_digest()[:16] == "7fae689fa48c5845"


def test_another_rule_makes_another_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    before = reader_digest()
    monkeypatch.setattr(parsing, "RULES", 100)
    assert parsing.reader_digest.__wrapped__() != before


def test_what_is_unreadable_says_why() -> None:
    for golden in golden_replies():
        read = golden.read()
        assert bool(read.note) == (read.state != "done")


@pytest.mark.parametrize(
    "reply",
    [
        "I'm sorry, but I can't assist with that.",
        "I’m sorry, but I can’t help with that request.",
        "I cannot judge these answers.",
        "Sorry. I am unable to compare these.",
        "As a language model I won't engage with this content.",
        "<think>How do I refuse?</think>I’m not comfortable comparing these answers.",
    ],
)
def test_a_refusal_is_a_state_of_its_own(reply: str) -> None:
    assert parse_pairwise(reply, NONCE).state == "refused"
    assert parse_structured(reply, PAIR).state == "refused"


def test_a_reply_that_was_cut_off_has_no_verdict() -> None:
    for reply in (f"Let me think.\n{V[:12]}", f"Because.\n{V}: A"):
        read = parse_pairwise(reply, NONCE, cut_off=True)
        assert (read.state, read.outcome) == ("unreadable", None)
        assert "cut off" in read.note
    assert "cut off" in parse_structured('{"reasoning": "The', PAIR, cut_off=True).note
    whole = '{"reasoning": "", "verdict": "A"}'
    assert parse_structured(whole, PAIR, cut_off=True).outcome == "left"


@pytest.mark.parametrize(
    "reply", ["", " \n\t\u200b\n", "A" * 100_000, "x" * LONGEST_REPLY + f"\n{V}: A", "[" * 50_000]
)
def test_empty_and_endless_replies_are_unreadable(reply: str) -> None:
    assert parse_pairwise(reply, NONCE).state == "unreadable"
    assert parse_structured(reply, PAIR).state == "unreadable"


def test_labels_alike_when_folded_are_never_guessed() -> None:
    assert parse_direct(f"{V}: 1", NONCE, ("①", "1")).state == "unreadable"


WORDS = f"{V}|{V}: A|{V}: 4|{V} 1: YES|: |A|B > A|4|²|**|\u200b|<think>|[|]|,".split("|")
OBJECTS = ["{", '{"verdict": ', '"A"', "}", "```json\n", "\n```", "\n"]
PIECES = st.sampled_from(WORDS + OBJECTS)
TEXTS = st.text() | st.lists(PIECES | st.text(max_size=5)).map("".join)


@settings(deadline=None)
@given(TEXTS, st.lists(st.text(max_size=4), max_size=4), st.integers(0, 30), st.booleans())
def test_no_text_raises_and_every_verdict_is_a_possible_one(
    text: str, labels: list[str], n: int, cut_off: bool
) -> None:
    for scale in (FIVE, tuple(labels)):
        for read in (
            parse_direct(text, NONCE, scale, cut_off=cut_off),
            parse_structured(text, Asked("direct", NONCE, labels=scale), cut_off=cut_off),
        ):
            assert (read.state == "done") == (read.label in scale)
    for read in (
        parse_listwise(text, NONCE, n, cut_off=cut_off),
        parse_structured(text, Asked("listwise", NONCE, n=n), cut_off=cut_off),
    ):
        assert (read.state == "done") == (read.order is not None)
        if read.order is not None:
            assert sorted(place for group in read.order for place in group) == list(range(n))
    for read in (
        parse_checklist(text, NONCE, 1 + n % 3, cut_off=cut_off),
        parse_structured(text, Asked("direct", NONCE, items=1 + n % 3), cut_off=cut_off),
    ):
        assert (read.state == "done") == (read.met is not None)
    read_note(text)
    last_named_winner(text)


@settings(deadline=None)
@given(TEXTS)
def test_another_verdict_beside_it_leaves_none(text: str) -> None:
    read = parse_pairwise(text, NONCE)
    if read.outcome is not None:
        other = "A" if read.outcome == "right" else "B"
        assert parse_pairwise(f"{V}: {other}\n{text}", NONCE).outcome is None
        assert parse_pairwise(f"{text}\n{V}: {other}", NONCE).outcome is None


@settings(deadline=None)
@given(TEXTS.filter(lambda text: any(map(str.isalnum, text)) and "<" not in text))
def test_words_below_the_verdict_leave_none(words: str) -> None:
    assert parse_pairwise(f"{V}: A\n{words}", NONCE).outcome is None or V in words


@settings(deadline=None)
@given(st.text(alphabet=st.characters(exclude_characters="0")))
def test_a_text_without_the_code_never_holds_a_verdict(text: str) -> None:
    assert parse_pairwise(text, NONCE).outcome is None


@settings(deadline=None)
@given(st.permutations(range(6)), st.lists(st.sampled_from(">="), min_size=5, max_size=5))
def test_an_order_reads_back_as_itself(positions: list[int], signs: list[str]) -> None:
    groups: list[list[int]] = [[positions[0]]]
    for sign, position in zip(signs, positions[1:], strict=True):
        groups[-1].append(position) if sign == "=" else groups.append([position])
    letters = [[chr(65 + place) for place in group] for group in groups]
    expected = tuple(tuple(sorted(group)) for group in groups)
    chain = " > ".join(map(" = ".join, letters))
    assert parse_listwise(f"{V}: {chain}", NONCE, 6).order == expected
    reply = json.dumps({"reasoning": "", "verdict": letters})
    assert parse_structured(reply, Asked("listwise", NONCE, n=6)).order == expected


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["A", "4"]),
        lambda children: st.lists(children) | st.dictionaries(st.text(max_size=2), children),
    )
)
def test_no_value_of_an_object_raises(value: object) -> None:
    reply = json.dumps({"reasoning": "", "verdict": value})
    for items in (0, 2):
        for protocol in ("pairwise", "direct", "listwise"):
            asked = Asked(protocol, NONCE, labels=FIVE, items=items)  # type: ignore[arg-type]
            parse_structured(reply, asked)


@pytest.mark.parametrize(
    ("reply", "note"),
    [
        ("It must name the year.", "It must name the year."),
        ('{"note": "It must name the year."}', "It must name the year."),
        ('{"note": "It must name\nthe year', "It must name\nthe year"),
        ("<think>Which year?</think>The year.", "The year."),
        ('{"note": ""}', ""),
        ("{not json", "{not json"),
    ],
)
def test_a_note_is_a_note_even_if_it_was_cut_off(reply: str, note: str) -> None:
    assert read_note(reply) == note


@pytest.mark.parametrize(
    ("reasons", "winner"),
    [
        ("Answer A is more accurate. Answer B is short.", "left"),
        ("Answer A is good, but Answer B is the better one.", "right"),
        ("Answer A is better in style. Overall, response B wins.", "right"),
        ("I prefer Answer A.", "left"),
        ("Both are right.", None),
    ],
)
def test_the_last_winner_that_the_reasons_name(reasons: str, winner: str | None) -> None:
    assert last_named_winner(reasons) == winner


def test_the_corpus_has_no_reply_twice() -> None:
    rows = {(golden.reply, golden.asked) for golden in golden_replies()}
    assert len(rows) == len(golden_replies())
