"""Templates: which placeholders a rubric's files must and may use, and filling them."""

import re
from collections.abc import Mapping

from judges.core.facts import Facts

PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
# What somebody may have meant as a placeholder, spelled in another way.
MEANT = re.compile(r"\{\s*[A-Za-z_][\w -]{0,40}\}")
ANSWERS = {
    "direct": {"answer"},
    "pairwise": {"answer_a", "answer_b"},
    "listwise": {"answers"},
}


class TemplateError(ValueError):
    """A template with placeholders that are unknown, missing or too many."""


def fill(template: str, values: Mapping[str, str]) -> str:
    """Fill in one pass: a placeholder inside a value stays text."""
    return PLACEHOLDER.sub(lambda match: values[match.group(1)], template)


def placeholders(text: str) -> set[str]:
    """Return the names of all placeholders in `text`."""
    return set(PLACEHOLDER.findall(text))


def check_templates(facts: Facts, files: Mapping[str, str]) -> None:
    """Raise TemplateError unless the files use the placeholders that their rubric needs."""
    _check({name: files[name] for name in ("system.md", "user.md")}, *_of_judging(facts))
    if facts.note:
        _check({"note.md": files["note.md"]}, *_of_note(facts))
    if facts.verdict == "line":
        _check_reply(files)
    _check_criteria(facts, placeholders(files["system.md"] + files["user.md"]))


def _of_judging(facts: Facts) -> tuple[set[str], set[str]]:
    """Return what system.md and user.md must hold between them, and what else they may."""
    needed = {"prompt"} | ANSWERS[facts.protocol]
    if facts.reference == "required":
        needed |= {"reference"}
    if facts.note:
        needed |= {"note"}
    optional = {"question", "criteria"} | ({"rubric"} if facts.scale else set())
    if facts.verdict == "line":
        return needed | {"nonce", "how_to_reply"}, optional | {"reminder"}
    return needed, optional


def _of_note(facts: Facts) -> tuple[set[str], set[str]]:
    reference = {"reference"} if facts.reference == "required" else set()
    return {"prompt", "nonce"} | reference, {"question", "criteria"}


def _check(files: Mapping[str, str], needed: set[str], optional: set[str]) -> None:
    for name, text in files.items():
        if unknown := _unknown(text, needed | optional):
            known = ", ".join(sorted(needed | optional))
            raise TemplateError(f"{name} has the unknown placeholder {unknown}; known: {known}.")
    where = " and ".join(sorted(files))
    for missing in sorted(needed - placeholders("".join(files.values()))):
        raise TemplateError(f"the placeholder {{{missing}}} is missing from {where}.")


def _unknown(text: str, known: set[str]) -> str:
    """Return the first thing in braces that is not exactly a known placeholder; '' if none."""
    spelled = {f"{{{name}}}" for name in known}
    return next((one.group() for one in MEANT.finditer(text) if one.group() not in spelled), "")


def _check_reply(files: Mapping[str, str]) -> None:
    """The instruction brings the switches along, so it has one place, before all material."""
    counts = [files[name].count("{how_to_reply}") for name in ("system.md", "user.md")]
    if counts != [1, 0]:
        raise TemplateError("the placeholder {how_to_reply} stands in system.md, and there once.")


def _check_criteria(facts: Facts, used: set[str]) -> None:
    """An arena's criteria must reach the judge, and the rubric must have some of its own."""
    shown = used & {"criteria", "rubric"}
    if len(shown) != 1:
        raise TemplateError(
            "system.md and user.md use either {criteria} or, with the levels of a scale, {rubric}; "
            f"these use {' and '.join(sorted(shown)) or 'neither'}."
        )
    if not facts.criteria:
        raise TemplateError("rubric.toml lacks criteria, the default text for {criteria}.")
    if ("rubric" in shown) != bool(facts.levels):
        raise TemplateError("rubric.toml has levels if, and only if, the templates use {rubric}.")
