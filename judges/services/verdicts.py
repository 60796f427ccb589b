"""From the verdicts of finished calls to the result of a judgement.

A call's verdict is about what it showed: `{"outcome": "left"}` says that the answer shown first is
better, `{"label": "4", "score": 4.0}` is a score, `{"met": [true, false], "score": 1.0}` that of a
checklist, `{"order": [[2], [0, 1]]}` ranks a list by positions. A soft verdict has
`{"p": {...}}` as well, the probability of each outcome or label; with a scale also
`{"expected": 3.47}`, which counts instead of the score where all calls have it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from arena.calls.models import Call
from arena.outcomes import PREFERENCES, TIE, mirror, outcome_of_lead
from judges.models import Judgement
from judges.services.juries import JuryState, majority
from judges.services.subjects import read_subject

State = Judgement.State
READABLE = (State.VOTED, State.ABSTAINED)
ROUNDING = 1e-9  # leads that are no more than rounding
# If a call ends without a verdict, so does the judgement; of two states, the first one listed.
WITHOUT_VERDICT = {
    Call.State.REFUSED: State.REFUSED,
    Call.State.TOO_LONG: State.TOO_LONG,
    Call.State.FAILED: State.FAILED,
    Call.State.UNREADABLE: State.UNREADABLE,
    Call.State.CANCELLED: State.CANCELLED,
}


@dataclass(frozen=True)
class FinishedCall:
    """A finished call: its state, its subject, and its verdict if there is one."""

    state: str
    subject: str
    verdict: Mapping[str, Any] | None


@dataclass(frozen=True)
class JudgementResult:
    """The result of a judgement. `preference` is 1 for left and 0 for right.

    `flipped` says whether the two orders disagree; None if there are no two verdicts on both.
    """

    state: str
    outcome: str = ""
    preference: float | None = None
    score: float | None = None
    flipped: bool | None = None


@dataclass(frozen=True)
class Sides:
    """The ids by which a call's subject names the left and the right answer."""

    left: int
    right: int


def decide(
    forward: FinishedCall, reverse: FinishedCall, *, protocol: str, policy: str, sides: Sides | None
) -> JudgementResult:
    """Return the result of two finished calls; a missing verdict is missing data, never a tie.

    `policy` is the judge's swap policy. `sides` is None for an item with one answer, whose score
    is the result.
    """
    states = {forward.state, reverse.state}
    for call_state, state in WITHOUT_VERDICT.items():
        if call_state in states:
            return JudgementResult(state)
    if protocol == "direct":
        left, right = _scores_of_verdicts(_verdict_of_call(forward), _verdict_of_call(reverse))
        return _compare_scores(left, right, sides)
    assert sides is not None, "two answers are compared"
    return _combine_orders(_orient_call(forward, sides), _orient_call(reverse, sides), policy)


def decide_readings(
    pairs: Sequence[tuple[FinishedCall, FinishedCall]],
    *,
    protocol: str,
    policy: str,
    soft: bool,
    sides: Sides | None,
) -> JudgementResult:
    """Return the one result of a judge that is asked several times.

    More than half of the readings must be readable. Scores are averaged, and so are verdicts of a
    soft judge and of one that averages the orders; otherwise more than half of those must agree.
    """
    results = [decide(*pair, protocol=protocol, policy=policy, sides=sides) for pair in pairs]
    if len(results) == 1:
        return results[0]
    read = [number for number, result in enumerate(results) if result.state in READABLE]
    if 2 * len(read) <= len(results):
        missing = Counter(result.state for result in results if result.state not in READABLE)
        return JudgementResult(missing.most_common(1)[0][0])
    if protocol == "direct":
        scores = [_scores_of_verdicts(*map(_verdict_of_call, pairs[number])) for number in read]
        left, right = (fmean(side) for side in zip(*scores, strict=True))
        return _compare_scores(left, right, sides)
    return _combine_readings([results[number] for number in read], policy, is_mean=soft)


def _combine_readings(
    read: Sequence[JudgementResult], policy: str, *, is_mean: bool
) -> JudgementResult:
    flipped = 2 * sum(reading.flipped is True for reading in read) > len(read)
    voted = [reading for reading in read if reading.state == State.VOTED]
    if (is_mean or policy == "average") and 2 * len(voted) > len(read):
        points = [(reading.preference, PREFERENCES[reading.outcome]) for reading in voted]
        mean = fmean(usual if exact is None else exact for exact, usual in points)
        outcome = outcome_of_lead(mean - 0.5, tolerance=ROUNDING)
        return JudgementResult(State.VOTED, outcome, mean, flipped=flipped)
    state, outcome = majority([reading.outcome for reading in read], 1)
    if state == JuryState.VOTED and outcome:
        return JudgementResult(State.VOTED, outcome, flipped=flipped)
    if policy == "tie":
        return JudgementResult(State.VOTED, TIE, flipped=flipped)
    return JudgementResult(State.ABSTAINED, flipped=flipped)


def _compare_scores(left: float, right: float, sides: Sides | None) -> JudgementResult:
    if sides is None:
        return JudgementResult(State.VOTED, score=left)
    return JudgementResult(State.VOTED, outcome_of_lead(left - right, tolerance=ROUNDING))


def _scores_of_verdicts(*verdicts: Mapping[str, Any]) -> list[float]:
    """Return the expected scores if all verdicts have one, otherwise the written ones."""
    name = "expected" if all("expected" in verdict for verdict in verdicts) else "score"
    return [float(verdict[name]) for verdict in verdicts]


@dataclass(frozen=True)
class OrientedVerdict:
    """One call's verdict in the comparison's own left and right.

    `points` are 1 for left, 0 for right, 0.5 for a tie; in a soft verdict, their expected value.
    """

    outcome: str
    points: float
    soft: bool


def _orient_call(call: FinishedCall, sides: Sides) -> OrientedVerdict:
    verdict = _verdict_of_call(call)
    outcome = call_outcome(verdict, call.subject, sides)
    assert outcome is not None, "a verdict about two answers has an outcome"
    probabilities: Mapping[str, float] | None = verdict.get("p")
    if probabilities is None:
        return OrientedVerdict(outcome, PREFERENCES[outcome], soft=False)
    points = sum(PREFERENCES[each] * probability for each, probability in probabilities.items())
    swapped = read_subject(call.subject).shown[0] != sides.left
    return OrientedVerdict(outcome, 1 - points if swapped else points, soft=True)


def call_outcome(verdict: Mapping[str, Any], subject: str, sides: Sides) -> str | None:
    """Return a call's outcome in terms of `sides`; None for a score of a single answer."""
    answers = read_subject(subject).shown
    if "order" in verdict:
        order: Sequence[Sequence[int]] = verdict["order"]
        rank = {position: place for place, group in enumerate(order) for position in group}
        return outcome_of_lead(rank[answers.index(sides.right)] - rank[answers.index(sides.left)])
    outcome: str | None = verdict.get("outcome")
    if outcome is None or answers[0] == sides.left:
        return outcome
    return mirror(outcome)


def _verdict_of_call(call: FinishedCall) -> Mapping[str, Any]:
    assert call.verdict is not None, "a call that is done has a verdict"
    return call.verdict


def _combine_orders(
    forward: OrientedVerdict, reverse: OrientedVerdict, policy: str
) -> JudgementResult:
    """If the two orders disagree, the judge's swap policy decides."""
    mean = (forward.points + reverse.points) / 2
    if forward.outcome == reverse.outcome:
        preference = mean if forward.soft and reverse.soft else None
        return JudgementResult(State.VOTED, forward.outcome, preference, flipped=False)
    if policy == "tie":
        return JudgementResult(State.VOTED, TIE, flipped=True)
    if policy == "average":
        outcome = outcome_of_lead(mean - 0.5, tolerance=ROUNDING)
        return JudgementResult(State.VOTED, outcome, mean, flipped=True)
    return JudgementResult(State.ABSTAINED, flipped=True)
