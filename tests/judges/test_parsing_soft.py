"""Reading how probable each verdict was from the log probabilities of its first token."""

import math
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.core.soft_verdicts import read_soft_verdict

NONCE = "0f1e2d3c4b5a6978"
V = f"VERDICT-{NONCE}"
PAIR = ("A", "B", "TIE")
FIVE = ("1", "2", "3", "4", "5")
TEN = tuple(map(str, range(1, 11)))


@dataclass(frozen=True)
class Token:
    token: str
    logprob: float = 0.0
    top: tuple[tuple[str, float], ...] = ()


def place(chosen: str, **chances: float) -> Token:
    """A token with the likeliest alternatives `chances` ("_" stands for a space)."""
    top = {token.replace("_", " "): math.log(chance) for token, chance in chances.items()}
    return Token(chosen, top.get(chosen, -9.0), tuple(top.items()))


def line(*tokens: Token) -> list[Token]:
    """A reply that gives its reasons and then its verdict line, whose end is `tokens`."""
    start = ["A is", " better", ".\n", "VERD", "ICT-", NONCE[:7], NONCE[7:], ":"]
    return [*(Token(text, -0.1, ((" B", -2.0),)) for text in start), *tokens]


def test_probabilities_are_normalised_over_offered_verdicts() -> None:
    tokens = line(place(" A", **{" A": 0.6, " B": 0.15, " T": 0.05, " The": 0.2}))
    soft = read_soft_verdict(tokens, PAIR, "A", nonce=NONCE)
    assert soft == pytest.approx({"A": 0.75, "B": 0.1875, "TIE": 0.0625})


@pytest.mark.parametrize(
    ("tokens", "labels", "verdict", "expected"),
    [
        (line(Token(" "), place("B", A=0.2, B=0.8)), PAIR, "B", {"A": 0.2, "B": 0.8}),
        (line(place(" B", _A=0.2, B=0.3, _B=0.5)), PAIR, "B", {"A": 0.2, "B": 0.8}),
        (line(place(" T", _T=0.6, _A=0.4), Token("IE")), PAIR, "TIE", {"TIE": 0.6, "A": 0.4}),
        (line(place(" **", _A=1.0), place("A", A=0.9, B=0.1)), PAIR, "A", {"A": 0.9, "B": 0.1}),
        (line(place(" A", _A=0.9, _B=0.1), Token(".\n")), PAIR, "A", {"A": 0.9, "B": 0.1}),
        (line(Token(" "), place("4", **{"4": 0.7, "5": 0.3})), FIVE, "4", {"4": 0.7, "5": 0.3}),
        (line(Token(" "), place("10", **{"10": 0.6, "9": 0.4})), TEN, "10", {"10": 0.6, "9": 0.4}),
    ],
)
def test_the_token_that_begins_the_verdict_is_found(
    tokens: list[Token], labels: tuple[str, ...], verdict: str, expected: dict[str, float]
) -> None:
    soft = read_soft_verdict(tokens, labels, verdict, nonce=NONCE)
    assert soft is not None
    assert soft == pytest.approx(dict.fromkeys(labels, 0.0) | expected)


def test_a_token_that_ends_after_a_sign_begins_no_longer_label() -> None:
    tokens = line(Token(" "), place("1\n", **{"1\n": 0.7, "2": 0.3}))
    soft = read_soft_verdict(tokens, TEN, "1", nonce=NONCE)
    assert soft == pytest.approx(dict.fromkeys(TEN, 0.0) | {"1": 0.7, "2": 0.3})


def test_the_last_verdict_line_is_the_place() -> None:
    announced = [Token("I end with VERDICT-"), Token(NONCE), Token(": A"), Token(".\n")]
    tokens = [*announced, *line(place(" A", _A=0.9, _B=0.1))]
    soft = read_soft_verdict(tokens, PAIR, "A", nonce=NONCE)
    assert soft == pytest.approx({"A": 0.9, "B": 0.1, "TIE": 0})


def test_written_token_counts_even_if_unlikely() -> None:
    written = Token(" A", math.log(0.3), ((" B", math.log(0.5)), (" **", math.log(0.2))))
    soft = read_soft_verdict(line(written), PAIR, "A", nonce=NONCE)
    assert soft == pytest.approx({"A": 0.375, "B": 0.625, "TIE": 0})


def test_less_likely_verdict_is_soft_too() -> None:
    """At a temperature above 0 the likeliest token is not always the one written."""
    soft = read_soft_verdict(line(place(" B", _A=0.8, _B=0.2)), PAIR, "B", nonce=NONCE)
    assert soft == pytest.approx({"A": 0.8, "B": 0.2, "TIE": 0})


def test_the_other_forms_are_read_as_well() -> None:
    four = place("4", **{"4": 0.9, "5": 0.1})
    prometheus = [Token("Feedback: good. ["), Token("RESULT"), Token("] "), four]
    assert read_soft_verdict(prometheus, FIVE, "4", form="prometheus") == pytest.approx(
        {"1": 0, "2": 0, "3": 0, "4": 0.9, "5": 0.1}
    )
    end = [place("B", A=0.3, B=0.7), Token('"'), Token("}")]
    json = [Token('{"reasoning": "", "ver'), Token('dict": "'), *end]
    assert read_soft_verdict(json, PAIR, "B", form="json") == pytest.approx(
        {"A": 0.3, "B": 0.7, "TIE": 0}
    )


@pytest.mark.parametrize(
    ("tokens", "labels", "verdict"),
    [
        ([], PAIR, "A"),
        ([Token("A is better")], PAIR, "A"),
        (line(), PAIR, "A"),
        (line(place(" A", _A=0.9, _B=0.1)), PAIR, "B"),  # not what the parser read
        (line(place(" A", _A=0.9, _B=0.1), Token(" or B")), PAIR, "A"),  # not the end
        (line(place(" A", _A=0.4, _The=0.6)), PAIR, "A"),  # mostly no verdict at all
        (line(Token(" "), place("1", **{"1": 1.0}), Token("0")), TEN, "10"),  # 1 or 10?
        (line(Token(" "), place("1", **{"1": 1.0})), TEN, "1"),
        (line(Token(" "), place("2", **{"2": 0.6, "1": 0.4})), TEN, "2"),
        (line(place(" A", _A=math.inf)), PAIR, "A"),
        ([Token(f"VERDICT-{NONCE}: A")], PAIR, "A"),  # more than the verdict in one token
        ([Token(V[:12]), Token(f"{V[12:]}: A", -3, ((" B", -0.1),))], PAIR, "A"),
    ],
)
def test_uncertain_position_gives_no_soft_verdict(
    tokens: list[Token], labels: tuple[str, ...], verdict: str
) -> None:
    assert read_soft_verdict(tokens, labels, verdict, nonce=NONCE) is None


TOKENS = st.builds(
    Token,
    st.sampled_from([f"VERDICT-{NONCE}", ":", " ", "A", " B", "T", "IE", "\n"])
    | st.text(max_size=3),
    st.floats(),
    st.lists(st.tuples(st.sampled_from(["A", " B", "T", "1"]), st.floats())).map(tuple),
)


@settings(deadline=None)
@given(st.lists(TOKENS), st.sampled_from(PAIR))
def test_no_tokens_raise_and_the_chances_sum_to_one(tokens: list[Token], verdict: str) -> None:
    soft = read_soft_verdict(tokens, PAIR, verdict, nonce=NONCE)
    if soft is not None:
        assert set(soft) == set(PAIR)
        assert math.isclose(sum(soft.values()), 1)
        assert soft[verdict] > 0
