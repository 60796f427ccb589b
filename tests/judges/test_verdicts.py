"""Two finished calls result in one verdict, or in the reason for none."""

from typing import Any

import pytest

from arena.calls.models import Call
from judges.services.verdicts import JudgementResult, Sides, decide, decide_readings

SIDES = Sides(left=5, right=9)


def call(subject: str, verdict: dict[str, Any] | None = None, state: str = "done") -> Call:
    return Call(subject=subject, state=state, verdict=verdict)


def pairwise(
    forward: dict[str, Any], reverse: dict[str, Any], policy: str = "abstain"
) -> JudgementResult:
    calls = call("5,9", forward), call("9,5", reverse)
    return decide(*calls, protocol="pairwise", policy=policy, sides=SIDES)


def said(outcome: str, **probabilities: float) -> dict[str, Any]:
    return {"outcome": outcome} | ({"p": probabilities} if probabilities else {})


@pytest.mark.parametrize(
    ("forward", "reverse", "outcome"),
    [("left", "right", "left"), ("right", "left", "right"), ("tie", "tie", "tie")],
)
def test_a_verdict_that_survives_the_swap_counts(forward: str, reverse: str, outcome: str) -> None:
    decision = pairwise(said(forward), said(reverse))
    assert (decision.state, decision.outcome, decision.flipped) == ("voted", outcome, False)
    assert decision.preference is None


@pytest.mark.parametrize(
    ("policy", "state", "outcome", "preference"),
    [
        ("abstain", "abstained", "", None),
        ("tie", "voted", "tie", None),
        ("average", "voted", "tie", 0.5),
    ],
)
def test_inconsistent_verdict_follows_the_swap_policy(
    policy: str, state: str, outcome: str, preference: float | None
) -> None:
    decision = pairwise(said("left"), said("left"), policy)
    assert (decision.state, decision.outcome, decision.preference) == (state, outcome, preference)
    assert decision.flipped


def test_half_a_verdict_averages_to_three_quarters() -> None:
    decision = pairwise(said("left"), said("tie"), "average")
    assert (decision.outcome, decision.preference) == ("left", 0.75)


def test_soft_verdict_is_the_mean_of_both_orders() -> None:
    decision = pairwise(
        said("left", left=0.8, tie=0.1, right=0.1), said("right", left=0.2, tie=0.0, right=0.8)
    )
    assert decision.outcome == "left"
    assert decision.preference == pytest.approx((0.85 + 0.8) / 2)


def test_one_soft_order_alone_makes_no_soft_verdict() -> None:
    decision = pairwise(said("left", left=0.9, tie=0.0, right=0.1), said("right"))
    assert (decision.outcome, decision.preference) == ("left", None)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (("refused", "failed"), "refused"),
        (("done", "too_long"), "too_long"),
        (("failed", "unreadable"), "failed"),
        (("unreadable", "done"), "unreadable"),
    ],
)
def test_a_call_without_a_verdict_is_missing_data(states: tuple[str, str], expected: str) -> None:
    forward, reverse = (
        call("5,9", said("tie") if state == "done" else None, state) for state in states
    )
    decision = decide(forward, reverse, protocol="pairwise", policy="tie", sides=SIDES)
    assert decision == JudgementResult(expected)


@pytest.mark.parametrize(
    ("left", "right", "outcome"), [(4, 2, "left"), (2, 4, "right"), (3, 3, "tie")]
)
def test_the_better_score_wins_and_equal_scores_tie(left: int, right: int, outcome: str) -> None:
    calls = call("5", {"label": str(left), "score": left}), call("9", {"score": right})
    decision = decide(*calls, protocol="direct", policy="abstain", sides=SIDES)
    assert decision == JudgementResult("voted", outcome)


def test_an_item_with_one_answer_gets_its_score() -> None:
    scored = call("item:3:1", {"label": "4", "score": 4.0})
    decision = decide(scored, scored, protocol="direct", policy="abstain", sides=None)
    assert decision == JudgementResult("voted", score=4.0)


def listwise(forward: list[list[int]], reverse: list[list[int]]) -> JudgementResult:
    calls = call("9,7,5", {"order": forward}), call("5,7,9", {"order": reverse})
    return decide(*calls, protocol="listwise", policy="abstain", sides=SIDES)


def test_a_list_ranks_each_of_its_pairs() -> None:
    assert listwise([[2], [1], [0]], [[0], [1], [2]]).outcome == "left"
    assert listwise([[1], [0, 2]], [[1], [0, 2]]).outcome == "tie"


def test_a_list_that_follows_the_order_flips() -> None:
    assert listwise([[0], [1], [2]], [[0], [1], [2]]) == JudgementResult("abstained", flipped=True)


def scored(score: float, expected: float | None = None) -> Call:
    verdict = {"label": str(score), "score": score}
    return call("1", verdict | ({} if expected is None else {"expected": expected}))


@pytest.mark.parametrize(
    ("left", "right", "outcome"),
    [
        (scored(3), scored(3), "tie"),
        (scored(3, 3.47), scored(3, 2.50), "left"),
        (scored(3, 2.9), scored(3, 3.1), "right"),
        (scored(3, 3.47), scored(3), "tie"),  # the expected score of one alone is not comparable
        (scored(4), scored(3, 3.9), "left"),
    ],
)
def test_expected_scores_decide_where_both_are_known(left: Call, right: Call, outcome: str) -> None:
    decision = decide(left, right, protocol="direct", policy="abstain", sides=Sides(1, 2))
    assert (decision.state, decision.outcome) == ("voted", outcome)


def test_a_single_answer_gets_its_expected_score() -> None:
    one = scored(3, 3.47)
    assert decide(one, one, protocol="direct", policy="abstain", sides=None).score == 3.47


ORDERS = {
    "L": ("left", "right"),
    "R": ("right", "left"),
    "T": ("tie", "tie"),
    "F": ("left", "left"),
}


def readings(
    seen: str, policy: str = "abstain", *, soft: bool = False, protocol: str = "pairwise"
) -> JudgementResult:
    """`seen` has a letter for each reading: left, right, tie, flipped, or X for unreadable."""
    pairs = []
    for letter in seen:
        if letter == "X":
            pairs.append((call("5,9", state="unreadable"), call("9,5", state="done")))
        else:
            forward, reverse = ORDERS[letter]
            pairs.append((call("5,9~2", said(forward)), call("9,5~2", said(reverse))))
    return decide_readings(pairs, protocol=protocol, policy=policy, soft=soft, sides=SIDES)


@pytest.mark.parametrize(
    ("seen", "policy", "soft", "result"),
    [
        ("L", "abstain", False, ("voted", "left", None)),
        ("LLR", "abstain", False, ("voted", "left", None)),
        ("RTR", "abstain", False, ("voted", "right", None)),
        ("TTL", "abstain", False, ("voted", "tie", None)),
        ("LRT", "abstain", False, ("abstained", "", None)),
        ("LRT", "tie", False, ("voted", "tie", None)),
        ("LLF", "abstain", False, ("voted", "left", None)),
        ("LFF", "abstain", False, ("abstained", "", None)),
        ("LR", "abstain", False, ("abstained", "", None)),
        ("LLX", "abstain", False, ("voted", "left", None)),
        ("LRX", "abstain", False, ("abstained", "", None)),
        ("LXX", "abstain", False, ("unreadable", "", None)),
        ("XXX", "tie", False, ("unreadable", "", None)),
        ("LLR", "abstain", True, ("voted", "left", 2 / 3)),
        ("LFF", "abstain", True, ("abstained", "", None)),
        ("LLR", "average", False, ("voted", "left", 2 / 3)),
        ("LRT", "average", False, ("voted", "tie", 0.5)),
    ],
)
def test_readings_settle_one_verdict(
    seen: str, policy: str, soft: bool, result: tuple[str, str, float | None]
) -> None:
    found = readings(seen, policy, soft=soft)
    assert (found.state, found.outcome, found.preference) == (*result[:2], pytest.approx(result[2]))


def test_scores_of_several_readings_are_averaged() -> None:
    scores = [(4, 3), (2, 3), (4, 3)]
    pairs = [(call("5", {"score": one}), call("9", {"score": two})) for one, two in scores]
    options: dict[str, Any] = {"protocol": "direct", "policy": "abstain", "soft": False}
    assert decide_readings(pairs, sides=SIDES, **options) == JudgementResult("voted", "left")
    lone = decide_readings(pairs, sides=None, **options)
    assert lone.score == pytest.approx(10 / 3)
