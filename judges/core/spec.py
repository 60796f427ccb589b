"""What makes a judge this judge: everything that could change its verdicts, and its digest."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from judges.core.examples import Example
from judges.core.parsing import PARSER_VERSION
from judges.core.replying import can_show, is_order, verdicts_of
from judges.core.rubric import Rubric

# Raised whenever the words change that `protocols` and `replying` add to a rubric's files.
PROMPT_VERSION = 1
ORDER_POLICIES = ("abstain", "tie", "average")
OUTCOMES = {"left": "A", "right": "B", "tie": "TIE"}

FAMILIES = {
    "openai": r"gpt|chatgpt|davinci|\bo[1-9]\b",
    "anthropic": r"claude",
    "google": r"gemini|gemma|palm",
    "meta": r"llama",
    "mistral": r"mi[sx]tral|ministral|prometheus",
    "qwen": r"qwen|qwq",
    "deepseek": r"deepseek",
    "cohere": r"command",
    "microsoft": r"\bphi",
    "scripted": r"^scripted",
}
MOVING = {"latest", "auto", "default", "current", "newest"}
# A hosted preview moves, unless a date or a build number says which one it is.
HOSTED = {"openai", "anthropic", "google"}
UNFINISHED = {"preview", "experimental", "exp", "beta"}
BUILD = re.compile(r"(?<!\d)(\d{3,4}|\d{2}-\d{2}|\d{8})(?!\d)")
# Names without a date that their makers let point at whichever version is current.
POINTERS = re.compile(
    r"gpt-(3\.5|4|4o|4\.1|5|5\.\d)(-turbo|-mini|-nano|-pro|-chat)?|chatgpt-4o|o\d(-mini|-pro)?"
    r"|claude-3([.-][57])?-(opus|sonnet|haiku)|claude-(opus|sonnet|haiku)(-4([.-][015])?)?"
    r"|gemini-(1\.5-|2\.0-)?(pro|flash)(-lite|-8b)?|deepseek-(chat|reasoner)"
    r"|mistral-(tiny|small|medium|large)|command(-light|-r|-r-plus)?|grok-\d"
)


class SpecError(ValueError):
    """A judge that may not be registered; the message says why."""


@dataclass(frozen=True)
class JudgeSpec:
    """An endpoint, a pinned model, and what the judge is told.

    `length_neutral` None leaves it to the rubric. `unpinned` says that whoever named the model
    knows it to be an alias; `soft` that its verdicts carry the probability of each answer, where
    the endpoint tells it. Raises SpecError for what contradicts the rubric.
    """

    endpoint: str
    model: str
    rubric: Rubric
    order_policy: str = "abstain"
    unpinned: bool = False
    length_neutral: bool | None = None
    examples: tuple[Example, ...] = ()
    soft: bool = False

    def __post_init__(self) -> None:
        if self.order_policy not in ORDER_POLICIES:
            known = ", ".join(ORDER_POLICIES)
            raise SpecError(f"Unknown order policy {self.order_policy!r}; known: {known}.")
        if self.protocol == "direct" and self.order_policy != "abstain":
            raise SpecError("A direct assessment shows one answer: it needs no order policy.")
        for example in self.examples:
            _check_example(example, self.rubric)

    @property
    def family(self) -> str:
        return family_of(self.model)

    @property
    def protocol(self) -> str:
        return self.rubric.protocol

    @property
    def parameters(self) -> Mapping[str, Any]:
        return self.rubric.parameters

    @property
    def is_length_neutral(self) -> bool:
        """Is the judge told that length earns nothing?"""
        if self.length_neutral is None:
            return self.rubric.length_neutral
        return self.length_neutral

    @property
    def takes_schema(self) -> bool:
        """May an endpoint hold this judge to a JSON schema? The Prometheus formats have a tail."""
        return not self.rubric.is_prometheus

    @property
    def label(self) -> str:
        """The name a judge of this spec goes by, with what was switched: `@pairwise+examples4`."""
        return f"{self.endpoint}:{self.model}@{self.rubric.slug}{''.join(self._switches())}"

    def _switches(self) -> Iterator[str]:
        if self.examples:
            yield f"+examples{len(self.examples)}"
        if self.is_length_neutral != self.rubric.length_neutral:
            yield "+evenlength" if self.is_length_neutral else "+anylength"
        if self.soft:
            yield "+soft"
        if self.order_policy != "abstain":
            yield f"/{self.order_policy}"

    @property
    def digest(self) -> str:
        """SHA-256 over all that could change a verdict.

        That is everything above except `unpinned`, the rubric's files and what they say, and the
        versions of the words and the parser that are Ringside's own.
        """
        facts = self._own_facts() | _facts_of(self.rubric)
        versions = {"prompts": PROMPT_VERSION, "parser": PARSER_VERSION}
        return hashlib.sha256(json.dumps(facts | versions, sort_keys=True).encode()).hexdigest()

    def _own_facts(self) -> dict[str, Any]:
        return {
            "endpoint": self.endpoint,
            "model": self.model,
            "family": self.family,
            "order_policy": self.order_policy,
            "length_neutral": self.is_length_neutral,
            "examples": [asdict(example) for example in self.examples],
            "soft": self.soft,
        }


def check_pinned(model: str, unpinned: bool = False) -> None:
    """Refuse a model name that means another model tomorrow, unless that is known and wanted."""
    if is_alias(model) and not unpinned:
        raise SpecError(
            f"The model {model!r} is an alias: it may become another model at any time. "
            "Name a pinned version, or say that this judge is to be unpinned."
        )


def is_alias(model: str) -> bool:
    """Does this name move on to newer models?

    Known are words such as `latest`, hosted previews without a date or build number, and undated
    names that makers let point at their current version. Any other name counts as pinned.
    """
    name = model.lower().rsplit("/", 1)[-1]
    words = set(re.split(r"[^a-z0-9]+", name))
    unfinished = bool(words & UNFINISHED) and family_of(name) in HOSTED
    moving = bool(words & MOVING) or (unfinished and not BUILD.search(name))
    return moving or bool(POINTERS.fullmatch(name))


def family_of(model: str) -> str:
    """Return the family a model belongs to: its maker where known, else its first word."""
    name = model.lower().rsplit("/", 1)[-1]
    for family, pattern in FAMILIES.items():
        if re.search(pattern, name):
            return family
    word = re.match(r"[a-z]+", name)
    return word.group() if word else name


def _facts_of(rubric: Rubric) -> dict[str, Any]:
    return {
        "rubric": rubric.slug,
        "files": rubric.digest,
        "protocol": rubric.protocol,
        "verdict": rubric.verdict,
        "reference": rubric.reference,
        "note": bool(rubric.note),
        "scale": rubric.scale.to_json() if rubric.scale else None,
        "parameters": dict(rubric.parameters),
    }


def _check_example(example: Example, rubric: Rubric) -> None:
    shown = len(example.answers)
    if not can_show(rubric, shown):
        raise SpecError(f"An example with {shown} answers does not fit rubric {rubric.slug}.")
    if not _can_say(rubric, shown, example.verdict):
        raise SpecError(f"Rubric {rubric.slug} has no verdict {example.verdict!r} for an example.")
    if rubric.reference == "required" and not example.reference.strip():
        raise SpecError(f"An example for rubric {rubric.slug} needs a reference answer.")


def _can_say(rubric: Rubric, shown: int, verdict: str) -> bool:
    if rubric.protocol == "listwise":
        return is_order(verdict, shown)
    spelled = OUTCOMES.get(verdict, "") if rubric.protocol == "pairwise" else verdict
    return spelled in verdicts_of(rubric, shown)
