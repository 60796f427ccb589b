"""What makes a judge this judge: everything that could change its verdicts, and its digest."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from judges.core.parsing import PARSER_VERSION
from judges.core.rubric import Rubric

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
MOVING = {"latest", "auto"}


class SpecError(ValueError):
    """A judge that may not be registered; the message says why."""


@dataclass(frozen=True)
class JudgeSpec:
    """An endpoint, a pinned model, and what the judge is told."""

    endpoint: str
    model: str
    rubric: Rubric
    order_policy: str = "abstain"

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
    def label(self) -> str:
        """The name a judge of this spec goes by."""
        return f"{self.endpoint}:{self.model}@{self.rubric.slug}"

    @property
    def digest(self) -> str:
        """SHA-256 over everything above, the rubric's files and the parser's version."""
        facts = {
            "endpoint": self.endpoint,
            "model": self.model,
            "family": self.family,
            "protocol": self.protocol,
            "rubric": self.rubric.slug,
            "files": self.rubric.digest,
            "parameters": dict(self.parameters),
            "order_policy": self.order_policy,
            "parser": PARSER_VERSION,
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def check_pinned(model: str) -> None:
    """Refuse a model name that means another model tomorrow."""
    if moving := MOVING & set(re.split(r"[^a-z0-9]+", model.lower())):
        raise SpecError(
            f"The model {model!r} is an alias ({', '.join(sorted(moving))}): it may become another "
            "model at any time. Name a pinned version."
        )


def family_of(model: str) -> str:
    """Return the family a model belongs to: its maker where known, else its first word."""
    name = model.lower().rsplit("/", 1)[-1]
    for family, pattern in FAMILIES.items():
        if re.search(pattern, name):
            return family
    word = re.match(r"[a-z]+", name)
    return word.group() if word else name
