"""Reading replies: only an unambiguous verdict is a verdict."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.core.parsing import LONGEST_REPLY, parse_pairwise

NONCE = "0f1e2d3c4b5a6978"
V = f"VERDICT-{NONCE}"


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (f"Because.\n{V}: A", "left"),
        (f"Because.\n\n{V}: B\n", "right"),
        (f"{V}: TIE", "tie"),
        (f"Because.\n**{V}: A**", "left"),
        (f"Because.\n{V}: **B**", "right"),
        (f"Because.\n**{V}:** `B`.", "right"),
        (f'Because.\n"{V}: A"', "left"),
        (f"Because.\n{V}: “A”", "left"),
        (f"Because.\n{V}: [[B]]", "right"),
        (f"Because.\n[{V}: (A)]", "left"),
        (f"Because.\n> {V}: tie", "tie"),
        (f"because.\n{V.lower()}: a", "left"),
        (f"Because.\n{V}： Ｂ", "right"),
        (f"Because.\nＶＥＲＤＩＣＴ-{NONCE}: ＴＩＥ", "tie"),
        (f"Because.\r\n{V} :A  \r\n```\n", "left"),
        (f"Because.\n{V}:\u200b A\u200b", "left"),
        (f"I will end with {V}: A.\n{V}: A", "left"),
        (f"Answer B says 'VERDICT: B' and [RESULT] B.\n{V}: A", "left"),
        (f"{V}: as I said, at the end.\n{V}: B", "right"),
        (f"An older nonce: VERDICT-ffffffffffffffff: B\n{V}: A", "left"),
        (f"Ответ А лучше, потому что он верен.\n{V}: A", "left"),
        (f"I can't judge the style, but A is right.\n{V}: A", "left"),
        (f"Step <1> |x| \\o/\n{V}: B", "right"),
        (f"Because.\n<{V}: A>", "left"),
        (f"Because.\n| {V}: B |", "right"),
        (f"Because.\n{V}: A\n---\n***", "left"),
    ],
)
def test_one_verdict_on_the_last_line_is_read(reply: str, outcome: str) -> None:
    read = parse_pairwise(reply, NONCE)
    assert (read.state, read.outcome) == ("done", outcome)


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "   \n\t\u200b\n",
        "A",
        "Answer A is better.",
        "B\n\nAnswer B is better because it is correct.",
        "Both A and B are good.",
        "VERDICT: A",
        "VERDICT-: A",
        "VERDICT-ffffffffffffffff: A",
        "[RESULT] A",
        "[[A]]",
        '{"verdict": "A"}',
        f'```json\n{{"VERDICT-{NONCE}": "A or B"}}\n```',
        V,
        f"{V}:",
        f"{V}: C",
        f"{V}: A or B",
        f"{V}: A|B|TIE",
        f"{V}: A/B",
        f"{V}: A, B",
        f"~~{V}: A~~",
        f"{V}: A<B>",
        f"{V}: not A",
        f'```json\n{{"verdict": "{V}: A"}}\n```',
        f"{V}: AB",
        f"{V}: A\n{V}: B",
        f"{V}: B\nOn reflection:\n{V}: A",
        f"{V}: A\nThat is because it is more complete.",
        f"{V}: Answer A",
        f"{V}: А",  # the Cyrillic letter
        f"{V}: tied",
        f"{V}0: A",
        f"The answer quotes “VERDICT-ffffffffffffffff: A” as its last line:\nVERDICT-{'f' * 16}: A",
        f"{V[:-1]}: A",
        "Long. " * (LONGEST_REPLY // 6 + 1) + f"\n{V}: A",
        "A" * 100_000,
        "Resposta A é melhor.\nVEREDICTO: A",
        "回答Aの方が良いです。",
    ],
)
def test_everything_else_is_unreadable_and_never_a_tie(reply: str) -> None:
    read = parse_pairwise(reply, NONCE)
    assert (read.state, read.outcome) == ("unreadable", None)
    assert read.note


@pytest.mark.parametrize(
    "reply",
    [
        "I'm sorry, but I can't assist with that.",
        "I’m sorry, but I can’t help with that request.",
        "I cannot judge these answers.",
        "Sorry. I am unable to compare these.",
        "As a language model I won't engage with this content.",
        "Es tut mir leid, ich kann dabei leider nicht helfen.",
        "Je suis désolé, mais je ne peux pas évaluer ces réponses.",
        "Lo siento, no puedo evaluar estas respuestas.",
        "К сожалению, я не могу оценить эти ответы.",
        "抱歉，我无法评价这些回答。",
    ],
)
def test_a_refusal_is_a_state_of_its_own(reply: str) -> None:
    assert parse_pairwise(reply, NONCE).state == "refused"


def test_reply_cut_off_before_its_verdict_is_unreadable() -> None:
    read = parse_pairwise(f"Let me think.\nVERDICT-{NONCE[:5]}", NONCE, cut_off=True)
    assert read.state == "unreadable"
    assert "cut off" in read.note


def test_verdict_at_the_end_of_a_cut_reply_is_not_trusted() -> None:
    """The next words may have been "or B"."""
    read = parse_pairwise(f"Because.\n{V}: A", NONCE, cut_off=True)
    assert (read.state, read.outcome) == ("unreadable", None)
    assert "cut off" in read.note


PIECES = st.sampled_from(
    [V, f"{V}: A", f"{V}: B", "\n", ": ", "A", "B", "TIE", "**", "\u200b", "Ａ"]
)
TEXTS = st.text() | st.lists(PIECES | st.text(max_size=5)).map("".join)


@settings(deadline=None)
@given(TEXTS, st.booleans())
def test_any_text_parses_and_verdicts_need_a_last_line(text: str, cut_off: bool) -> None:
    read = parse_pairwise(text, NONCE, cut_off=cut_off)
    assert (read.state == "done") == (read.outcome is not None)
    if read.outcome is None:
        return
    assert NONCE in text
    letter = {"left": "A", "right": "B", "tie": "TIE"}[read.outcome]
    other = "B" if letter != "B" else "A"
    assert parse_pairwise(f"{text}\n{V}: {other}", NONCE).state == "unreadable"


@settings(deadline=None)
@given(st.text(alphabet=st.characters(exclude_characters="0")))
def test_a_text_without_the_nonce_never_holds_a_verdict(text: str) -> None:
    assert parse_pairwise(text, NONCE).outcome is None
