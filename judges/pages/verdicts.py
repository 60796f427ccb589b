"""One verdict in full: both answers, what the judge said in each order, and what it cost.

Answers are called left and right throughout, as the comparison fixes them. In each order the judge
knew them by other names: A is what it was shown first.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.safestring import SafeString, mark_safe

from arena.calls.models import Call
from arena.models import Comparison, Prompt, Vote
from arena.rendering import render_markdown
from arena.services.rendering import prompt_html, response_html
from judges.models import Epoch, Judge, Judgement, JuryVerdict, LabelItem
from judges.pages.judges import what_it_is
from judges.services.juries import seen_from
from judges.services.subjects import read_subject
from judges.services.verdicts import SWAPPED

WORDS = {
    "left": "The left answer is better",
    "right": "The right answer is better",
    "tie": "A tie",
    "both_bad": "Both are bad",
}
LONE = "The answer"


@dataclass(frozen=True)
class Texts:
    """What was judged, as safe HTML; `right` is None for an item with one answer."""

    prompt: SafeString
    left: SafeString
    right: SafeString | None
    reference: SafeString | None = None


@dataclass(frozen=True)
class Reading:
    """One call of the judge, in the words of the page."""

    title: str
    shown: str
    said: str
    call: Call
    soft: tuple[tuple[str, float], ...] = ()

    @property
    def reasoning(self) -> str:
        """The reasoning of a reply that was held to a JSON schema; '' for any other reply."""
        try:
            reply = json.loads(self.call.reply)
        except (ValueError, RecursionError):
            return ""
        said = reply.get("reasoning") if isinstance(reply, dict) else None
        return said if isinstance(said, str) else ""


def texts_of(judgement: Judgement) -> Texts:
    """Return the texts of a judgement that was loaded with them."""
    if judgement.item is not None:
        return _texts_of_item(judgement.item)
    comparison = judgement.comparison
    assert comparison is not None, "a judgement is about a comparison or an item"
    prompt = comparison.prompt
    return Texts(
        prompt_html(prompt),
        response_html(comparison.left_response),
        response_html(comparison.right_response),
        _html(prompt.reference) if prompt and prompt.reference else None,
    )


def _texts_of_item(item: LabelItem) -> Texts:
    lone = not item.response_2 and not item.trap
    return Texts(
        _html(item.prompt),
        _html(item.response_1),
        None if lone else _html(item.response_2),
        _html(item.reference) if item.reference else None,
    )


def _html(text: str) -> SafeString:
    return mark_safe(render_markdown(text))  # noqa: S308  (sanitised by render_markdown)


# -- What is the team's alone ----------------------------------------------------------------------


def has_secrets(judgement: Judgement) -> bool:
    """Has its prompt a reference answer or a rubric of its own?"""
    prompt = _prompt(judgement)
    return prompt is not None and bool(prompt.reference or prompt.rubric)


def may_repeat_secrets(judgement: Judgement) -> bool:
    """Was the judge told one of them, so that what it wrote may repeat it?

    A prompt's own rubric is told to every judge, its reference to those that ask for it.
    """
    prompt = _prompt(judgement)
    if prompt is None or not has_secrets(judgement):
        return False
    return bool(prompt.rubric) or _reads_references(judgement.epoch.judge)


def _prompt(judgement: Judgement) -> Prompt | None:
    return judgement.comparison.prompt if judgement.comparison else None


def _reads_references(judge: Judge) -> bool:
    """Of a judge whose files have changed since nobody can tell any more."""
    made_of = what_it_is(judge)
    if made_of.rubric is None or made_of.changed:
        return True
    return made_of.rubric.reference == "required"


# -- The two calls ---------------------------------------------------------------------------------


def readings_of(judgement: Judgement) -> list[Reading]:
    """Both calls of a judgement, or the one where both are the same."""
    sides, protocol = _sides(judgement), judgement.epoch.judge.protocol
    calls = [judgement.forward]
    if judgement.reverse_id != judgement.forward_id:
        calls.append(judgement.reverse)
    return [_reading(call, number, sides, protocol) for number, call in enumerate(calls, start=1)]


def _sides(judgement: Judgement) -> dict[int, str]:
    """Map the ids in a call's subject to the sides on which the answers stand."""
    comparison: Comparison | None = judgement.comparison
    if comparison is None:
        return {1: "left", 2: "right"}
    ids = comparison.left_response_id, comparison.right_response_id
    return {pk: side for pk, side in zip(ids, ("left", "right"), strict=True) if pk is not None}


def _reading(call: Call, number: int, sides: Mapping[int, str], protocol: str) -> Reading:
    shown = read_subject(call.subject).shown
    if protocol == "direct":
        return Reading(_scored(shown, sides), "It was shown alone.", _label(call), call)
    if protocol == "listwise":
        title = "The list as drawn" if number == 1 else "The list turned round"
        return Reading(title, _places_shown(shown, sides), _places(call, shown, sides), call)
    first = sides.get(shown[0], "left")
    title = f"The {first} answer first"
    return Reading(
        title,
        f"To the judge the {first} answer was A, the {SWAPPED[first]} one B.",
        _outcome(call, first),
        call,
        _soft(call, first),
    )


def _scored(shown: Sequence[int], sides: Mapping[int, str]) -> str:
    return f"The {sides.get(shown[0], 'left')} answer"


def _label(call: Call) -> str:
    verdict = _verdict(call)
    return f"Score {verdict['label']}" if "label" in verdict else _state(call)


def _outcome(call: Call, first: str) -> str:
    outcome = _verdict(call).get("outcome")
    if outcome is None:
        return _state(call)
    return WORDS[outcome if first == "left" else SWAPPED[outcome]]


def _soft(call: Call, first: str) -> tuple[tuple[str, float], ...]:
    """The probabilities that the model gave, in the sides of the page."""
    found: Mapping[str, float] = _verdict(call).get("p") or {}
    turned = {one if first == "left" else SWAPPED[one]: share for one, share in found.items()}
    return tuple((WORDS[one], turned[one]) for one in WORDS if one in turned)


def _places_shown(shown: Sequence[int], sides: Mapping[int, str]) -> str:
    places = [
        f"the {side} answer was {chr(ord('A') + shown.index(pk))}"
        for pk, side in sides.items()
        if pk in shown
    ]
    return f"Of {len(shown)} answers {' and '.join(places)}."


def _places(call: Call, shown: Sequence[int], sides: Mapping[int, str]) -> str:
    order = _verdict(call).get("order")
    if order is None:
        return _state(call)
    place = {shown[position]: rank for rank, group in enumerate(order, 1) for position in group}
    told = [f"{side} answer in place {place[pk]}" for pk, side in sides.items() if pk in place]
    return f"{', '.join(told).capitalize()} of {len(order)}"


def _verdict(call: Call) -> Mapping[str, Any]:
    return call.verdict or {}


def _state(call: Call) -> str:
    return str(call.get_state_display())


# -- The jury --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JuryLine:
    """What a jury made of its members' verdicts, in the sides of the page."""

    jury: Epoch
    state: str
    counts: list[tuple[str, int]]


def juries_of(judgement: Judgement) -> list[JuryLine]:
    """The juries that this verdict was part of. Their own comparison may stand the other way."""
    verdicts = judgement.jury_verdicts.select_related("epoch__judge", "comparison")
    return [_jury_line(judgement, verdict) for verdict in verdicts]


def _jury_line(judgement: Judgement, verdict: JuryVerdict) -> JuryLine:
    own, theirs = judgement.comparison, verdict.comparison
    left = own.left_response_id if own else None
    seen = {
        seen_from(left, outcome, theirs.left_response_id): count
        for outcome, count in verdict.counts.items()
    }
    counts = [(WORDS[outcome], seen[outcome]) for outcome in WORDS if outcome in seen]
    return JuryLine(verdict.epoch, str(verdict.get_state_display()), counts)


# -- Names, for whoever asks -----------------------------------------------------------------------


def has_public_page(judgement: Judgement) -> bool:
    """Is there a vote that counts, so that the comparison has a page with its names?"""
    return Vote.objects.live().filter(comparison=judgement.comparison_id).exists()


def conclusion(judgement: Judgement) -> str:
    """What the judgement came to, in one line."""
    if judgement.score is not None:
        return f"Score {judgement.score:g}"
    if judgement.outcome:
        return WORDS[judgement.outcome]
    if judgement.state == Judgement.State.ABSTAINED:
        return "It changed its mind when the order was swapped, so it does not vote"
    return f"No verdict: {judgement.get_state_display().lower()}"
