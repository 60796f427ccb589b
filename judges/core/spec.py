"""What identifies a judge: its specification and digest, and its few-shot examples."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, zip_longest
from typing import Any

from judges.core.parsing import reader_digest
from judges.core.rubric import Rubric
from judges.core.verdict_format import can_show, is_order, verdicts_of

# Raise it when the texts that `prompts` and `verdict_format` add to a rubric's files change, or how
# prompts and answers are shown. Since 2, without thought, and with pictures named.
PROMPT_VERSION = 2
# What stands in the digests of judges whose replies an earlier release read by its own grammar.
EARLIER_READER = {"parser": 3}
MOST_READINGS = 9
EFFORTS = ("minimal", "low", "medium", "high")
LEAST_OUTPUT, MOST_OUTPUT = 64, 200_000  # tokens
SWAP_POLICIES = ("abstain", "tie", "average")
OUTCOMES = {"left": "A", "right": "B", "tie": "TIE"}
Drawn = tuple[str, str, "Example"]  # key, label, example


class ExampleError(ValueError):
    """Examples that cannot be drawn; the message says why."""


@dataclass(frozen=True)
class Example:
    """One judgement by people, with `answers` in the order in which they are shown.

    `verdict` is "left", "right" or "tie" for two answers, a label of the scale for one, and for
    three or more their letters, best first: "B > A = C".
    """

    prompt: str
    answers: tuple[str, ...]
    verdict: str
    reason: str = ""
    reference: str = ""


def draw_examples(pool: Sequence[Drawn], n: int, seed: int | str) -> tuple[Example, ...]:
    """Draw `n` examples from a pool of (key, label, example), as evenly over labels as possible.

    A key is drawn at most once. The draw depends on the seed and the content of the pool, not on
    its order. Raises ExampleError when the pool is too small.
    """
    # Several people's labels of one item are several entries; the draw takes one of them.
    by_key = {entry[0]: entry for entry in _shuffled(pool, seed, "key")}
    if not 0 <= n <= len(by_key):
        raise ExampleError(f"{n} examples were requested; the pool has {len(by_key)}.")
    chosen = _round_robin(list(by_key.values()), seed)[:n]
    return tuple(example for _, _, example in _shuffled(chosen, seed, "order"))


def _round_robin(pool: Sequence[Drawn], seed: int | str) -> list[Drawn]:
    """Take one entry of each label in turn, the labels in a random order."""
    strata: dict[str, list[Drawn]] = {}
    for entry in _shuffled(pool, seed, "stratum"):
        strata.setdefault(entry[1], []).append(entry)
    labels = sorted(strata, key=lambda label: _draw(seed, "label", label))
    turns = zip_longest(*(strata[label] for label in labels))
    return [entry for entry in chain.from_iterable(turns) if entry is not None]


def _shuffled(pool: Iterable[Drawn], seed: int | str, purpose: str) -> list[Drawn]:
    def draw(entry: Drawn) -> bytes:
        key, label, example = entry
        return _draw(seed, purpose, key, label, json.dumps(asdict(example)))

    return sorted(pool, key=draw)


def _draw(seed: int | str, *parts: str) -> bytes:
    """Return the SHA-256 of the parts: a random order that anybody can repeat."""
    return hashlib.sha256(json.dumps([seed, *parts]).encode()).digest()


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
# Undated names that their makers point at the current version.
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
    """A judge: an endpoint, a model, a rubric and options.

    swap_policy: what happens when the verdict changes with the order of the answers.
    unpinned: the model name is a known alias.
    length_neutral: tell the judge that length earns nothing; None leaves it to the rubric.
    soft: record the probability of each outcome, where the endpoint returns it; of a scale, the
        expected score counts.
    readings: how often each call is asked; together they are one verdict.
    schema: hold every reply to a JSON schema, also those that repair one, checklists and notes,
        where the server can; judges of earlier releases know fewer schemas.
    parents_family: the family of a merged model, whose name does not tell it.
    output_limit: the most tokens of a reply, thought included; None leaves it to the rubric.
    effort: how much a model that thinks shall think; "" leaves it to the model.

    Raises SpecError for options that contradict the rubric.
    """

    endpoint: str
    model: str
    rubric: Rubric
    swap_policy: str = "abstain"
    unpinned: bool = False
    length_neutral: bool | None = None
    examples: tuple[Example, ...] = ()
    soft: bool = False
    parents_family: str = ""
    readings: int = 1
    schema: bool = True
    output_limit: int | None = None
    effort: str = ""

    def __post_init__(self) -> None:
        if self.swap_policy not in SWAP_POLICIES:
            policies = ", ".join(SWAP_POLICIES)
            raise SpecError(f"Unknown order policy {self.swap_policy!r}; known: {policies}.")
        if self.protocol == "direct" and self.swap_policy != "abstain":
            raise SpecError("A direct assessment shows one answer, so it needs no order policy.")
        if self.rubric.items and (self.soft or self.examples):
            raise SpecError("A checklist supports neither probabilities nor examples.")
        if not 1 <= self.readings <= MOST_READINGS:
            raise SpecError(f"Ask a judge 1 to {MOST_READINGS} times, not {self.readings}.")
        if self.readings > 1 and self.protocol == "listwise":
            raise SpecError("A listwise judge can be asked only once.")
        if self.output_limit and not LEAST_OUTPUT <= self.output_limit <= MOST_OUTPUT:
            raise SpecError(
                f"An output limit is {LEAST_OUTPUT} to {MOST_OUTPUT:,} tokens,"
                f" not {self.output_limit:,}."
            )
        if self.effort and self.effort not in EFFORTS:
            raise SpecError(f"Unknown effort {self.effort!r}; known: {', '.join(EFFORTS)}.")
        for example in self.examples:
            _check_example(example, self.rubric)

    @property
    def family(self) -> str:
        return self.parents_family or family_of(self.model)

    @property
    def protocol(self) -> str:
        return self.rubric.protocol

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The rubric's sampling parameters, with the judge's own limit and effort."""
        given = dict(self.rubric.parameters)
        if self.output_limit:
            given.pop("max_completion_tokens", None)
            given["max_tokens"] = self.output_limit
        return given | ({"reasoning_effort": self.effort} if self.effort else {})

    @property
    def is_length_neutral(self) -> bool:
        """Whether the judge is told that length earns nothing."""
        if self.length_neutral is None:
            return self.rubric.length_neutral
        return self.length_neutral

    @property
    def takes_schema(self) -> bool:
        """Whether an endpoint may hold verdicts to a JSON schema. Some formats have a form of their
        own."""
        return not self.rubric.is_prometheus and (self.schema or not self.rubric.items)

    @property
    def label(self) -> str:
        """The judge's default name, with its options: `endpoint:model@pairwise+examples4`."""
        return f"{self.endpoint}:{self.model}@{self.rubric.slug}{''.join(self._switches())}"

    def _switches(self) -> Iterator[str]:
        if self.examples:
            yield f"+examples{len(self.examples)}"
        if self.is_length_neutral != self.rubric.length_neutral:
            yield "+evenlength" if self.is_length_neutral else "+anylength"
        if self.soft:
            yield "+soft"
        if self.readings > 1:
            yield f"+samples{self.readings}"
        if self.output_limit:
            yield f"+limit{self.output_limit}"
        if self.effort:
            yield f"+effort-{self.effort}"
        if self.swap_policy != "abstain":
            yield f"/{self.swap_policy}"

    @property
    def digest(self) -> str:
        """The SHA-256 of everything that could change a verdict.

        That is every field except `unpinned`, the rubric's files and settings, the version of
        Ringside's own prompts, and the reader of the replies.
        """
        return self.digest_with(reader_digest(), PROMPT_VERSION)

    def digest_with(self, reader: str, prompt_version: int) -> str:
        """Return the digest in a release with this reader and version of the prompts; "" is the
        reader before readers had digests."""
        versions = {"prompts": prompt_version} | ({"reader": reader} if reader else EARLIER_READER)
        facts = self._own_facts() | _facts_of(self.rubric) | versions
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def _own_facts(self) -> dict[str, Any]:
        # Options that came later are facts only if they are used, so that other digests stay the
        # same.
        expected = {"scores": "expected"} if self.soft and self.protocol == "direct" else {}
        readings = {"samples": self.readings} if self.readings > 1 else {}
        output_limit = {"output_limit": self.output_limit} if self.output_limit else {}
        effort = {"effort": self.effort} if self.effort else {}
        return (
            expected
            | readings
            | ({"schema": True} if self.schema else {})
            | output_limit
            | effort
            | {
                "endpoint": self.endpoint,
                "model": self.model,
                "family": self.family,
                "order_policy": self.swap_policy,
                "length_neutral": self.is_length_neutral,
                "examples": [asdict(example) for example in self.examples],
                "soft": self.soft,
            }
        )


def check_pinned(model: str, unpinned: bool = False) -> None:
    """Raise SpecError for a model name that may refer to another model later, unless allowed."""
    if is_alias(model) and not unpinned:
        raise SpecError(
            f"The model {model!r} is an alias: it may become another model at any time. "
            "Use a pinned version, or mark this judge as unpinned."
        )


def is_alias(model: str) -> bool:
    """Whether this name may point to a newer model later.

    It recognises words such as `latest`, hosted previews without a date or build number, and
    undated names that makers point at their current version. Any other name counts as pinned.
    """
    name = model.lower().rsplit("/", 1)[-1]
    words = set(re.split(r"[^a-z0-9]+", name))
    unfinished = bool(words & UNFINISHED) and family_of(name) in HOSTED
    moving = bool(words & MOVING) or (unfinished and not BUILD.search(name))
    return moving or bool(POINTERS.fullmatch(name))


def family_of(model: str) -> str:
    """Return the family a model belongs to: its maker if known, else its first word."""
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
    n_answers = len(example.answers)
    if not can_show(rubric, n_answers):
        raise SpecError(f"Rubric {rubric.slug} cannot show an example with {n_answers} answers.")
    if not _can_say(rubric, n_answers, example.verdict):
        raise SpecError(f"Rubric {rubric.slug} has no verdict {example.verdict!r} for an example.")
    if rubric.reference == "required" and not example.reference.strip():
        raise SpecError(f"An example for rubric {rubric.slug} needs a reference answer.")


def _can_say(rubric: Rubric, n_answers: int, verdict: str) -> bool:
    if rubric.protocol == "listwise":
        return is_order(verdict, n_answers)
    spelled = OUTCOMES.get(verdict, "") if rubric.protocol == "pairwise" else verdict
    return spelled in verdicts_of(rubric, n_answers)
