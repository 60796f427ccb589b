"""What two ended calls amount to: one verdict about the left and the right answer, or none.

A call's verdict is about what it showed: `{"outcome": "left"}` says that the answer shown first is
better, `{"label": "4", "score": 4.0}` is a score, `{"order": [[2], [0, 1]]}` ranks a list by
positions. `{"p": {...}}` beside it holds the probabilities of a soft verdict.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from arena.calls.models import Call
from judges.models import Judgement
from judges.services.subjects import read_subject

State = Judgement.State
# The same outcomes, of the two answers named the other way round.
SWAPPED = {"left": "right", "right": "left", "tie": "tie", "both_bad": "both_bad"}
POINTS = {"left": 1.0, "tie": 0.5, "right": 0.0}
# When the two calls end differently, the first of these that is among them names the judgement.
WITHOUT_VERDICT = {
    Call.State.REFUSED: State.REFUSED,
    Call.State.TOO_LONG: State.TOO_LONG,
    Call.State.FAILED: State.FAILED,
    Call.State.UNREADABLE: State.UNREADABLE,
}


@dataclass(frozen=True)
class Ended:
    """A call that has ended: its state, what it was about, and the verdict where there is one."""

    state: str
    subject: str
    verdict: Mapping[str, Any] | None


@dataclass(frozen=True)
class Decision:
    """A judgement's end. `preference` is 1 for left; `flipped` is None where nothing could flip."""

    state: str
    outcome: str = ""
    preference: float | None = None
    score: float | None = None
    flipped: bool | None = None


@dataclass(frozen=True)
class Sides:
    """What is compared: the ids that a call's subject shows as left and as right."""

    left: int
    right: int


def decide(
    forward: Ended, reverse: Ended, *, protocol: str, policy: str, sides: Sides | None
) -> Decision:
    """Return what two ended calls amount to; anything but two verdicts is missing data, not a tie.

    `sides` is None for an item with one answer, whose score is the decision.
    """
    ended = {forward.state, reverse.state}
    for call_state, state in WITHOUT_VERDICT.items():
        if call_state in ended:
            return Decision(state)
    if protocol == "direct":
        return _by_scores(forward, reverse, single=sides is None)
    assert sides is not None, "two answers are compared"
    return _by_orders(_seen(forward, sides), _seen(reverse, sides), policy)


def _by_scores(forward: Ended, reverse: Ended, *, single: bool) -> Decision:
    """The better score wins, equal scores tie."""
    left, right = _score(forward), _score(reverse)
    if single:
        return Decision(State.VOTED, score=left)
    outcome = "tie" if left == right else "left" if left > right else "right"
    return Decision(State.VOTED, outcome)


def _score(call: Ended) -> float:
    return float(_verdict(call)["score"])


@dataclass(frozen=True)
class Seen:
    """One order's verdict in the comparison's own left and right; soft where `points` is not
    just the outcome's."""

    outcome: str
    points: float
    soft: bool


def _seen(call: Ended, sides: Sides) -> Seen:
    verdict = _verdict(call)
    outcome = outcome_said(verdict, call.subject, sides)
    assert outcome is not None, "a verdict about two answers has an outcome"
    probabilities: Mapping[str, float] | None = verdict.get("p")
    if probabilities is None:
        return Seen(outcome, POINTS[outcome], soft=False)
    points = sum(POINTS[one] * share for one, share in probabilities.items())
    swapped = read_subject(call.subject).shown[0] != sides.left
    return Seen(outcome, 1 - points if swapped else points, soft=True)


def outcome_said(verdict: Mapping[str, Any], subject: str, sides: Sides) -> str | None:
    """Return what one call's verdict says of left and right; None for a score of one answer."""
    shown = read_subject(subject).shown
    if "order" in verdict:
        return _ranked(verdict["order"], shown.index(sides.left), shown.index(sides.right))
    outcome: str | None = verdict.get("outcome")
    if outcome is None or shown[0] == sides.left:
        return outcome
    return SWAPPED[outcome]


def _ranked(order: Sequence[Sequence[int]], left: int, right: int) -> str:
    rank = {position: place for place, group in enumerate(order) for position in group}
    if rank[left] == rank[right]:
        return "tie"
    return "left" if rank[left] < rank[right] else "right"


def _verdict(call: Ended) -> Mapping[str, Any]:
    assert call.verdict is not None, "a call that is done has a verdict"
    return call.verdict


def _by_orders(forward: Seen, reverse: Seen, policy: str) -> Decision:
    """Both orders agree, or the judge's order policy says what that is worth."""
    flipped = forward.outcome != reverse.outcome
    mean = (forward.points + reverse.points) / 2
    soft = mean if forward.soft and reverse.soft else None
    if not flipped:
        return Decision(State.VOTED, forward.outcome, soft, flipped=False)
    if policy == "tie":
        return Decision(State.VOTED, "tie", flipped=True)
    if policy == "average":
        return Decision(State.VOTED, _outcome_of(mean), mean, flipped=True)
    return Decision(State.ABSTAINED, flipped=True)


def _outcome_of(points: float) -> str:
    if abs(points - 0.5) < 1e-9:
        return "tie"
    return "left" if points > 0.5 else "right"
