"""What a rubric.toml says, checked: unknown keys, wrong types and contradictions are errors."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from judges.core.scales import Scale, ScaleError

PROTOCOLS = ("pairwise", "direct", "listwise")
VERDICTS = ("line", "prometheus")
REFERENCES = ("never", "required")
TYPES: dict[str, type] = {
    "title": str,
    "protocol": str,
    "verdict": str,
    "reference": str,
    "note": bool,
    "scale": dict,
    "levels": list,
    "criteria": str,
    "parameters": dict,
}
KINDS = {str: "text", bool: "true or false", dict: "a table", list: "a list"}
PARAMETERS = {
    "temperature",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "seed",
    "frequency_penalty",
    "presence_penalty",
    "reasoning_effort",
}


class FactsError(ValueError):
    """A rubric.toml that cannot be used; the message says why."""


@dataclass(frozen=True)
class Facts:
    """The contents of a rubric.toml. `scale` and `levels` are a direct assessment's alone."""

    title: str
    protocol: str
    verdict: str
    reference: str
    note: bool
    scale: Scale | None
    levels: tuple[str, ...]
    criteria: str
    parameters: Mapping[str, Any]


def read_facts(text: str) -> Facts:
    """Read a rubric.toml; raises FactsError with a sentence."""
    raw = _table(text)
    facts = Facts(
        title=raw["title"].strip(),
        protocol=_choice(raw, "protocol", PROTOCOLS),
        verdict=_choice(raw, "verdict", VERDICTS),
        reference=_choice(raw, "reference", REFERENCES),
        note=raw.get("note", False),
        scale=_scale(raw),
        levels=_levels(raw),
        criteria=raw.get("criteria", "").strip(),
        parameters=_parameters(raw),
    )
    _check_together(facts)
    return facts


def _table(text: str) -> dict[str, Any]:
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FactsError(f"rubric.toml is not TOML: {error}") from None
    if missing := {"title", "protocol"} - raw.keys():
        raise FactsError(f"rubric.toml lacks {_names(missing)}.")
    if unknown := raw.keys() - TYPES.keys():
        raise FactsError(f"rubric.toml has unknown {_names(unknown)}.")
    for key, value in raw.items():
        if not isinstance(value, TYPES[key]):
            raise FactsError(f"{key} in rubric.toml is not {KINDS[TYPES[key]]}.")
    return raw


def _choice(raw: Mapping[str, Any], key: str, known: tuple[str, ...]) -> str:
    value = str(raw.get(key, known[0]))
    if value not in known:
        raise FactsError(f"unknown {key} {value!r}; known: {', '.join(known)}.")
    return value


def _scale(raw: Mapping[str, Any]) -> Scale | None:
    if "scale" not in raw:
        return None
    try:
        return Scale.from_json(raw["scale"])
    except ScaleError as error:
        raise FactsError(str(error)) from None


def _levels(raw: Mapping[str, Any]) -> tuple[str, ...]:
    levels = raw.get("levels", [])
    if not all(isinstance(level, str) and level.strip() for level in levels):
        raise FactsError("levels in rubric.toml is not a list of texts.")
    return tuple(level.strip() for level in levels)


def _parameters(raw: Mapping[str, Any]) -> dict[str, Any]:
    parameters: dict[str, Any] = raw.get("parameters", {})
    if unknown := parameters.keys() - PARAMETERS:
        raise FactsError(f"unknown parameters {_names(unknown)}.")
    for name, value in parameters.items():
        wanted = (str,) if name == "reasoning_effort" else (int, float)
        if not isinstance(value, wanted) or isinstance(value, bool):
            kind = "text" if wanted == (str,) else "a number"
            raise FactsError(f"the parameter {name} is not {kind}: {value!r}.")
    return parameters


def _check_together(facts: Facts) -> None:
    """Raise FactsError where two facts of the same rubric contradict each other."""
    direct = facts.protocol == "direct"
    if direct != (facts.scale is not None):
        raise FactsError(
            "rubric.toml lacks scale." if direct else "only a direct assessment has a scale."
        )
    entries = len(facts.scale.labels) if facts.scale else 0
    if facts.levels and len(facts.levels) != entries:
        raise FactsError(f"{len(facts.levels)} levels describe {entries} entries of the scale.")
    if not facts.title:
        raise FactsError("the title is empty.")
    if facts.verdict == "prometheus" and facts.protocol == "listwise":
        raise FactsError("the Prometheus formats have no listwise protocol.")


def _names(names: set[str]) -> str:
    return ", ".join(sorted(names))
