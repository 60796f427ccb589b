"""Reading an order of several answers: every letter exactly once."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.core.parsing import parse_listwise

NONCE = "0f1e2d3c4b5a6978"
V = f"VERDICT-{NONCE}"


@pytest.mark.parametrize(
    ("reply", "order"),
    [
        (f"Because.\n{V}: B > A > C", ((1,), (0,), (2,))),
        (f"Because.\n{V}: B > A = C", ((1,), (0, 2))),
        (f"Because.\n{V}: C=A>B", ((0, 2), (1,))),
        (f"Because.\n{V}: C = B = A", ((0, 1, 2),)),
        (f"Because.\n**{V}: c > b > a.**", ((2,), (1,), (0,))),
        (f"Because.\n{V}: **C** > `B` > [A]", ((2,), (1,), (0,))),
        (f"Because.\n{V}: <C> > <B> = <A>", ((2,), (0, 1))),
        (f"> {V}： Ｂ ＞ Ａ ＝ Ｃ", ((1,), (0, 2))),
        (f"Because.\n{V}: B > A > C because it is shorter", ((1,), (0,), (2,))),
        (f"{V}: Answer B > Answer A > Answer C\n\nB is the most complete.", ((1,), (0,), (2,))),
        (f"{V}: A > B > C\nOn reflection:\n{V}: A > C > B", ((0,), (2,), (1,))),
        (f"{V}: B > A > C\n\nA beats C because it has sources.", ((1,), (0,), (2,))),
        (f"First, {V}: B > A > C is what I expect.\n{V}: B > A > C", ((1,), (0,), (2,))),
    ],
)
def test_an_order_is_read_in_groups_from_best_to_worst(
    reply: str, order: tuple[tuple[int, ...], ...]
) -> None:
    read = parse_listwise(reply, NONCE, 3)
    assert (read.state, read.order) == ("done", order)
    assert (read.outcome, read.label) == (None, None)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "B",
        "B > A",
        "B > A > C > D",
        "B > A > A",
        "B > A > C > B",
        "A < B < C",
        "A, B, C",
        "A B C",
        "BAC",
        "B >> A > C",
        "B >= A > C",
        "B > A or C",
        "B > A > C (worst to best)",
        "B > A > C by length",
        "B > (A and C)",
        "B > A > ",
        "1 > 2 > 3",
        "B > А > C",  # the Cyrillic letter
        "B > A > C or C > B > A",
        "B > A > C\n\nA is better than B.",
        "B > A > C\n\nAnswer C is the best of them all.",
    ],
)
def test_everything_else_is_unreadable(value: str) -> None:
    read = parse_listwise(f"Because.\n{V}: {value}", NONCE, 3)
    assert (read.state, read.order) == ("unreadable", None)
    assert read.note


def test_two_orders_are_unreadable() -> None:
    read = parse_listwise(f"{V}: A > B > C\n{V}: A > C > B", NONCE, 3)
    assert "different" in read.note


def test_order_at_the_end_of_a_cut_reply_is_not_trusted() -> None:
    read = parse_listwise(f"{V}: A > B > C", NONCE, 3, cut_off=True)
    assert (read.state, read.order) == ("unreadable", None)


PIECES = st.sampled_from([V, f"{V}: A > B > C", "\n", ": ", "A", "B", "C", " > ", "=", "<", "*"])


@settings(deadline=None)
@given(st.text() | st.lists(PIECES).map("".join), st.integers(0, 30), st.booleans())
def test_no_text_raises_and_an_order_names_each_position_once(
    text: str, n: int, cut_off: bool
) -> None:
    read = parse_listwise(text, NONCE, n, cut_off=cut_off)
    assert (read.state == "done") == (read.order is not None)
    if read.order is not None:
        assert sorted(position for group in read.order for position in group) == list(range(n))


@settings(deadline=None)
@given(st.permutations(range(6)), st.lists(st.sampled_from(" >= "), min_size=5, max_size=5))
def test_an_order_reads_back_as_itself(positions: list[int], signs: list[str]) -> None:
    signs = [sign.strip() or ">" for sign in signs]
    chain = "".join(f"{sign}{chr(65 + p)}" for sign, p in zip(["", *signs], positions, strict=True))
    groups: list[list[int]] = [[positions[0]]]
    for sign, position in zip(signs, positions[1:], strict=True):
        if sign == "=":
            groups[-1].append(position)
        else:
            groups.append([position])
    expected = tuple(tuple(sorted(group)) for group in groups)
    assert parse_listwise(f"{V}: {chain}", NONCE, 6).order == expected


def test_the_pronoun_i_is_not_read_as_an_answer() -> None:
    read = parse_listwise(f"{V}: B > A > C\n\nI hope this helps!", NONCE, 3)
    assert read.order == ((1,), (0,), (2,))
