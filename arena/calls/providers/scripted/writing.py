"""Texts made of the prompt's own words, and objects that obey a schema."""

from collections.abc import Mapping
from typing import Any

from arena.calls.providers.scripted.deciding import WORD, fraction

LABEL = "Scripted text, by no real model."
MOST_WORDS = 12
SENTENCES = (
    "Start with {}.",
    "Mind {} as well.",
    "For {}, take the usual way and check what comes of it.",
    "As to {}: a short step at a time.",
)


def note_for(prompt: str) -> str:
    """Return a grading note: what a good answer to `prompt` takes up."""
    words = ", ".join(_words(prompt)[:MOST_WORDS]) or "what was asked"
    return f"Scripted note, by no real model. A good answer takes up: {words}."


def answer_to(prompt: str, seed: str, system: str) -> str:
    """Return an answer that takes up as many words of `prompt` as model and system text allow."""
    diligence = 0.3 + 0.7 * fraction(seed, "diligence", system)
    kept = [word for word in _words(prompt) if fraction(seed, system, prompt, word) < diligence]
    said = [_sentence(seed, system, word) for word in kept[:MOST_WORDS]]
    return " ".join([LABEL, *said]) if said else f"{LABEL} There is nothing to add to that."


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(WORD.findall(text.lower())))


def _sentence(seed: str, system: str, word: str) -> str:
    place = int(fraction(seed, system, "sentence", word) * len(SENTENCES))
    return SENTENCES[place].format(word)


def obeying(schema: Mapping[str, Any], given: Mapping[str, Any] | None = None) -> Any:
    """Return a value that obeys `schema`; `given` are properties of it that are known already."""
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return obeying(schema[key][0], given)
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        known = given or {}
        parts = schema.get("properties", {})
        return {name: known[name] if name in known else obeying(parts[name]) for name in parts}
    if kind == "array":
        return [obeying(schema.get("items", {})) for _ in range(schema.get("minItems", 0))]
    plain = {"string": LABEL, "boolean": False, "integer": 0, "number": 0}
    return schema.get("minimum", plain[kind]) if kind in plain else None
