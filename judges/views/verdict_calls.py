"""A judgement's calls as the page of a verdict shows them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from arena.calls.models import Call
from arena.models import Comparison
from arena.outcomes import VERDICTS, mirror
from judges.models import Judgement
from judges.services.subjects import of_reading, read_subject


@dataclass(frozen=True)
class DisplayedCall:
    """One call of the judge as the page shows it."""

    title: str
    shown: str
    result: str
    call: Call
    probabilities: tuple[tuple[str, float], ...] = ()

    @property
    def reasoning(self) -> str:
        """The reasoning of a reply that was held to a JSON schema; '' for any other reply."""
        try:
            reply = json.loads(self.call.reply)
        except (ValueError, RecursionError):
            return ""
        reasoning = reply.get("reasoning") if isinstance(reply, dict) else None
        return reasoning if isinstance(reasoning, str) else ""


def calls_of(judgement: Judgement) -> list[DisplayedCall]:
    """Both calls of a judgement, or the only one if both are the same."""
    sides = _sides_in_subject(judgement)
    display = {"direct": _score_call, "listwise": _listwise_call}.get(
        judgement.epoch.judge.protocol, _pairwise_call
    )
    calls = [display(judgement.forward, sides)]
    if judgement.reverse_id != judgement.forward_id:
        reverse = display(judgement.reverse, sides)
        is_list = judgement.epoch.judge.protocol == "listwise"
        calls.append(replace(reverse, title="List reversed") if is_list else reverse)
    for number in range(2, judgement.epoch.judge.readings + 1):
        calls += [
            replace(call, title=f"{call.title}, sample {number}")
            for call in (display(call, sides) for call in _calls_of_reading(judgement, number))
        ]
    return calls


def _calls_of_reading(judgement: Judgement, number: int) -> list[Call]:
    """Return the calls of a further reading, in the order of the first one's."""
    firsts = dict.fromkeys((judgement.forward.subject, judgement.reverse.subject))
    names = [of_reading(subject, number) for subject in firsts]
    asked = Call.objects.filter(
        run=judgement.run_id, requester=judgement.epoch.requester, sample=judgement.sample
    )
    calls = {call.subject: call for call in asked.filter(subject__in=names)}
    return [calls[name] for name in names if name in calls]


def _sides_in_subject(judgement: Judgement) -> dict[int, str]:
    """Map the ids in a call's subject to the sides of the answers."""
    comparison: Comparison | None = judgement.comparison
    if comparison is None:
        return {1: "left", 2: "right"}
    ids = comparison.left_response_id, comparison.right_response_id
    return {pk: side for pk, side in zip(ids, ("left", "right"), strict=True) if pk is not None}


def _score_call(call: Call, sides: Mapping[int, str]) -> DisplayedCall:
    side = sides.get(read_subject(call.subject).shown[0], "left")
    verdict = call.verdict or {}
    result = call.get_state_display()
    if "met" in verdict:
        answers = [f"{i} {'yes' if met else 'no'}" for i, met in enumerate(verdict["met"], start=1)]
        result = f"Score {verdict['score']:g}: {', '.join(answers)}"
    elif "label" in verdict:
        result = f"Score {verdict['label']}"
    return DisplayedCall(f"{side.capitalize()} answer", "Shown alone.", result, call)


def _listwise_call(call: Call, sides: Mapping[int, str]) -> DisplayedCall:
    answers = read_subject(call.subject).shown
    letters = [
        f"the {side} answer was {chr(ord('A') + answers.index(pk))}"
        for pk, side in sides.items()
        if pk in answers
    ]
    result, order = str(call.get_state_display()), (call.verdict or {}).get("order")
    if order is not None:
        rank = {
            answers[position]: rank for rank, group in enumerate(order, 1) for position in group
        }
        ranks = [f"{side} answer in place {rank[pk]}" for pk, side in sides.items() if pk in rank]
        result = f"{', '.join(ranks).capitalize()} of {len(order)}"
    text = f"Of {len(answers)} answers {' and '.join(letters)}."
    return DisplayedCall("List as drawn", text, result, call)


def _pairwise_call(call: Call, sides: Mapping[int, str]) -> DisplayedCall:
    first = sides.get(read_subject(call.subject).shown[0], "left")
    verdict: Mapping[str, Any] = call.verdict or {}

    def as_on_page(outcome: str) -> str:
        return outcome if first == "left" else mirror(outcome)

    outcome = verdict.get("outcome")
    result = call.get_state_display() if outcome is None else VERDICTS[as_on_page(outcome)]
    by_side = {as_on_page(outcome): value for outcome, value in (verdict.get("p") or {}).items()}
    return DisplayedCall(
        f"{first.capitalize()} answer first",
        f"The judge saw the {first} answer as A, the {mirror(first)} one as B.",
        result,
        call,
        tuple((VERDICTS[side], by_side[side]) for side in VERDICTS if side in by_side),
    )
