"""The answers of an arena that can be judged, and in sentences what is left out and why."""

from collections import Counter
from dataclasses import dataclass, field

from django.db.models import CharField, F
from django.db.models.functions import Cast, Length, Substr

from arena.models import Arena, Response

# Whoever writes more than this puts most models' context at risk.
LONG = 100_000
# Only a short text is looked at for being nothing but white space.
SHORT = 200


@dataclass(frozen=True)
class Answers:
    """`by_candidate` maps candidate -> prompt -> response; both texts are there.

    `lengths` maps a response to the characters of its text.
    """

    by_candidate: dict[int, dict[int, int]]
    lengths: dict[int, int]
    left_out: list[str] = field(default_factory=list)

    def by_prompt(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for candidate in sorted(self.by_candidate):
            for prompt, response in self.by_candidate[candidate].items():
                found.setdefault(prompt, []).append(response)
        return found


def answers_in(arena: Arena, *, needs_reference: bool = False) -> Answers:
    """Find the answers of active candidates to active prompts that a judge could read."""
    rows = (
        Response.objects.revealed()
        .filter(candidate__arena=arena, candidate__retired_at=None, prompt__retired_at=None)
        .exclude(prompt__text="")
        .annotate(
            size=Length("text"),
            start=Cast(Substr("text", 1, SHORT), CharField()),
            has_reference=Length(F("prompt__reference")),
        )
        .values_list("candidate", "prompt", "pk", "size", "start", "has_reference")
    )
    found = Answers({}, {})
    dropped: Counter[str] = Counter()
    for candidate, prompt, response, size, start, has_reference in rows:
        if not start.strip() and size <= SHORT:
            dropped["empty"] += 1
        elif needs_reference and not has_reference:
            dropped["reference"] += 1
        else:
            found.by_candidate.setdefault(candidate, {})[prompt] = response
            found.lengths[response] = size
    found.left_out.extend(_sentences(arena, found, dropped))
    return found


def _sentences(arena: Arena, found: Answers, dropped: Counter[str]) -> list[str]:
    said = []
    if dropped["empty"]:
        said.append(f"{_answers(dropped['empty'])} empty or only white space, and left out.")
    if dropped["reference"]:
        said.append(
            f"{_answers(dropped['reference'])} to prompts without the reference answer that this "
            "rubric needs, and left out."
        )
    if long := sum(size > LONG for size in found.lengths.values()):
        said.append(
            f"{_answers(long)} longer than {LONG:,} characters: they cost much, and may be too "
            "long for the model."
        )
    return said + _missing(arena, found)


def _answers(count: int) -> str:
    return "1 answer is" if count == 1 else f"{count} answers are"


def _missing(arena: Arena, found: Answers) -> list[str]:
    """Say which candidates answer fewer prompts than there are."""
    prompts = len(found.by_prompt())
    names = {one.pk: str(one) for one in arena.candidates.filter(retired_at=None)}
    return [
        f"{name} has no answer to {prompts - len(found.by_candidate.get(pk, {}))} of "
        f"{prompts} prompts; it is not judged there."
        for pk, name in sorted(names.items())
        if len(found.by_candidate.get(pk, {})) < prompts
    ]
