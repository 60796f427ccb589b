"""Rubrics: folders `rubrics/<slug>/{rubric.toml,system.md,user.md[,note.md]}`, loaded and checked.

rubric.toml holds:

- `title`; `protocol`: "pairwise", "direct" (one answer on a scale) or "listwise" (three or more);
- `verdict`: "line" (a last line with a nonce), "prometheus" (`Feedback: ... [RESULT] ...`) or, for
  "direct", "checklist" (a line for each of the `items`: {text, weight});
- `reference`: "never" or "required"; `note`: true where the judge first writes a grading note
  about the prompt, asked for by note.md;
- `scale`: {low, high}, integers; {low, high, step}; or {labels} from worst to best, for "direct"
  alone; `levels`: one description per entry of the scale;
- `criteria`: what counts, unless the arena has its own; `parameters`: sampling parameters.

Unknown keys, wrong types and contradictions are errors.
"""

import hashlib
import math
import os
import re
import tomllib
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

from judges.core.checklist import ChecklistError, ChecklistItem, read_items

PROTOCOLS = ("pairwise", "direct", "listwise")
VERDICTS = ("line", "prometheus", "checklist")
REFERENCES = ("never", "required")
TYPES: dict[str, type] = {
    "title": str,
    "protocol": str,
    "verdict": str,
    "reference": str,
    "note": bool,
    "scale": dict,
    "levels": list,
    "items": list,
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
FEWEST, MOST = 2, 101  # entries of a scale
LONGEST_TITLE = 100
MOST_TOKENS = 1_000_000
MOST_WEIGHT = 1_000_000
MOST_SETTING = 100.0  # of temperature, top_p and the penalties
PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
# Anything that may be meant as a placeholder, however it is spelled.
MEANT = re.compile(r"\{\s*[A-Za-z_][\w -]{0,40}\}")
ANSWERS = {
    "direct": {"answer"},
    "pairwise": {"answer_a", "answer_b"},
    "listwise": {"answers"},
}
RUBRICS = Path(__file__).resolve().parent.parent / "rubrics"
FILES = ("rubric.toml", "system.md", "user.md")
NOTE = "note.md"
Stamps = tuple[tuple[str, int, int, int], ...]


class ScaleError(ValueError):
    """A scale on which nothing can be measured; the message says why."""


@dataclass(frozen=True)
class Scale:
    """The verdicts of a direct assessment: a range of numbers, or labels from worst to best.

    ``step``: between two numbers, where it is not 1. Raises ScaleError unless there are 2 to 101
    different labels, each one line of text.
    """

    labels: tuple[str, ...]
    is_integer: bool = False
    step: float | None = None

    def __post_init__(self) -> None:
        _check_labels(self.labels)
        if self.is_integer and self.labels != _numerals(int(self.labels[0]), int(self.labels[-1])):
            raise ScaleError("An integer scale has every integer of its range, in order.")

    @classmethod
    def integers(cls, low: int, high: int) -> "Scale":
        """Return the scale of all integers from `low` (worst) to `high` (best)."""
        if type(low) is not int or type(high) is not int:
            raise ScaleError(f"The ends of a scale are integers, not {low!r} and {high!r}.")
        if not FEWEST - 1 <= high - low < MOST:
            raise ScaleError(
                f"A scale from {low} to {high} does not have {FEWEST} to {MOST} entries."
            )
        return cls(_numerals(low, high), is_integer=True)

    @classmethod
    def numbers(cls, low: float, high: float, step: float) -> "Scale":
        """Return the scale of the numbers from `low` (worst) to `high` (best), `step` apart."""
        if not all(
            type(number) in (int, float) and math.isfinite(number) for number in (low, high, step)
        ):
            raise ScaleError(f"A scale's low, high and step are numbers: {low}, {high}, {step}.")
        bottom, top, apart = (Decimal(str(number)) for number in (low, high, step))
        if apart <= 0 or not FEWEST - 1 <= (top - bottom) / apart < MOST or (top - bottom) % apart:
            raise ScaleError(
                f"Steps of {step} do not divide a scale from {low} to {high} into {FEWEST} to "
                f"{MOST} entries."
            )
        entries = range(int((top - bottom) / apart) + 1)
        labels = (f"{(bottom + apart * entry).normalize():f}" for entry in entries)
        return cls(tuple(labels), step=float(step))

    @classmethod
    def of_labels(cls, labels: tuple[str, ...] | list[str]) -> "Scale":
        """Return the scale of these labels, worst first."""
        return cls(tuple(labels))

    @property
    def spellings(self) -> dict[str, str]:
        """Map what a reply may write to the label: 8.0 is 8 if there are steps."""
        whole = [label for label in self.labels if self.step is not None and "." not in label]
        return {f"{label}.0": label for label in whole} | {label: label for label in self.labels}

    @property
    def low(self) -> float:
        """The worst score."""
        return self.score_of(self.labels[0])

    @property
    def high(self) -> float:
        """The best score."""
        return self.score_of(self.labels[-1])

    def score_of(self, label: str) -> float:
        """Return a label's score: the number itself, or its place from 1 (worst) upward.

        Raises ScaleError for a label that the scale does not have.
        """
        if label not in self.labels:
            raise ScaleError(f"{label!r} is not on the scale: {self.describe()}.")
        if self.is_integer or self.step is not None:
            return float(label)
        return 1.0 + self.labels.index(label)

    def describe(self) -> str:
        """Describe the entries in words. Sent to models: part of the prompts."""
        if self.is_integer:
            return f"an integer between {self.labels[0]} and {self.labels[-1]}"
        if self.step is not None:
            ends = f"{self.labels[0]} and {self.labels[-1]}"
            return f"a number between {ends}, in steps of {self.step:g}"
        return f"one of: {', '.join(self.labels)}"

    def to_json(self) -> dict[str, Any]:
        """Return the scale as in a rubric.toml, for `from_json`."""
        if self.is_integer:
            return {"low": int(self.labels[0]), "high": int(self.labels[-1])}
        if self.step is not None:
            return {"low": self.low, "high": self.high, "step": self.step}
        return {"labels": list(self.labels)}

    @classmethod
    def from_json(cls, facts: Any) -> "Scale":
        """Read `{low, high}`, perhaps with `step`, or `{labels}`; raises ScaleError otherwise."""
        match facts:
            case {"low": low, "high": high} if facts.keys() == {"low", "high"}:
                return cls.integers(low, high)
            case {"low": low, "high": high, "step": step} if len(facts) == 3:
                return cls.numbers(low, high, step)
            case {"labels": list(labels)} if facts.keys() == {"labels"}:
                return cls.of_labels(labels)
        raise ScaleError("A scale is {low, high} of integers, {low, high, step} or {labels}.")


def _numerals(low: int, high: int) -> tuple[str, ...]:
    return tuple(str(number) for number in range(low, high + 1))


def _check_labels(labels: tuple[str, ...]) -> None:
    if not FEWEST <= len(labels) <= MOST:
        raise ScaleError(f"A scale has {FEWEST} to {MOST} entries, not {len(labels)}.")
    for label in labels:
        if not isinstance(label, str) or not _is_one_line(label):
            raise ScaleError(f"The label {label!r} is not one line of text.")
    if len({_folded(label) for label in labels}) < len(labels):
        raise ScaleError("Two labels of the scale look the same in a reply.")


def _is_one_line(label: str) -> bool:
    """Whether the label has text, all of which survives in a reply on one line."""
    worn = label != " ".join(label.split()) or not label.isprintable()
    return not worn and any(character.isalnum() for character in label)


def _folded(label: str) -> str:
    return unicodedata.normalize("NFKC", label).casefold()


class FactsError(ValueError):
    """A rubric.toml that cannot be used; the message says why."""


@dataclass(frozen=True)
class Facts:
    """The contents of a rubric.toml. Only a direct assessment has `scale` and `levels`."""

    title: str
    protocol: str
    verdict: str
    reference: str
    note: bool
    scale: Scale | None
    levels: tuple[str, ...]
    criteria: str
    parameters: Mapping[str, Any]
    items: tuple[ChecklistItem, ...] = ()


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
        items=_items(raw),
    )
    _check_together(facts)
    return facts


def _table(text: str) -> dict[str, Any]:
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FactsError(f"rubric.toml is not TOML: {error}") from None
    except (ValueError, RecursionError):  # a number or a list that no rubric needs
        raise FactsError("rubric.toml has a number that is too long or lists too deep.") from None
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


def _items(raw: Mapping[str, Any]) -> tuple[ChecklistItem, ...]:
    try:
        items = read_items(raw["items"]) if "items" in raw else ()
    except ChecklistError as error:
        raise FactsError(str(error)) from None
    if any(abs(item.weight) > MOST_WEIGHT for item in items):
        raise FactsError(f"the weight of an item is at most {MOST_WEIGHT:,}.")
    return items


def _parameters(raw: Mapping[str, Any]) -> dict[str, Any]:
    parameters: dict[str, Any] = raw.get("parameters", {})
    if unknown := parameters.keys() - PARAMETERS:
        raise FactsError(f"unknown parameters {_names(unknown)}.")
    for name, value in parameters.items():
        kind, is_kind = _kind_of_parameter(name)
        if isinstance(value, bool) or not is_kind(value):
            raise FactsError(f"the parameter {name} is not {kind}: {value!r}.")
    return parameters


def _kind_of_parameter(name: str) -> tuple[str, Callable[[Any], bool]]:
    """Return in words what a parameter's value must be, and whether a value is that."""
    if name == "reasoning_effort":
        return "text", lambda value: isinstance(value, str)
    if name in ("max_tokens", "max_completion_tokens"):
        return (
            f"a whole number from 1 to {MOST_TOKENS:,}",
            lambda value: isinstance(value, int) and 1 <= value <= MOST_TOKENS,
        )
    if name == "seed":
        return "a whole number", lambda value: isinstance(value, int) and abs(value) < 2**63
    return "a number", lambda value: isinstance(value, int | float) and abs(value) <= MOST_SETTING


def _check_together(facts: Facts) -> None:
    """Raise FactsError if two facts of the same rubric contradict each other."""
    direct = facts.protocol == "direct"
    if (facts.verdict == "checklist") != bool(facts.items):
        raise FactsError("rubric.toml has items if, and only if, its verdict is a checklist.")
    if facts.items:
        if not direct or facts.scale is not None:
            raise FactsError("a checklist is a direct assessment without a scale.")
    elif direct != (facts.scale is not None):
        raise FactsError(
            "rubric.toml lacks scale." if direct else "only a direct assessment has a scale."
        )
    entries = len(facts.scale.labels) if facts.scale else 0
    if facts.levels and len(facts.levels) != entries:
        raise FactsError(f"{len(facts.levels)} levels describe {entries} entries of the scale.")
    if not facts.title:
        raise FactsError("the title is empty.")
    if len(facts.title) > LONGEST_TITLE or not facts.title.isprintable():
        raise FactsError(f"the title is one line of at most {LONGEST_TITLE} characters.")
    if facts.verdict == "prometheus" and facts.protocol == "listwise":
        raise FactsError("the Prometheus formats have no listwise protocol.")


def _names(names: set[str]) -> str:
    return ", ".join(sorted(names))


class RubricTemplateError(ValueError):
    """A template with placeholders that are unknown, missing or too many."""


def fill(template: str, values: Mapping[str, str]) -> str:
    """Fill in one pass: a placeholder inside a value stays text."""
    return PLACEHOLDER.sub(lambda match: values[match.group(1)], template)


def placeholders(text: str) -> set[str]:
    """Return the names of all placeholders in `text`."""
    return set(PLACEHOLDER.findall(text))


def check_templates(facts: Facts, files: Mapping[str, str]) -> None:
    """Raise RubricTemplateError unless the files use the placeholders that their rubric needs."""
    _check({name: files[name] for name in ("system.md", "user.md")}, *_of_judging(facts))
    if facts.note:
        _check({"note.md": files["note.md"]}, *_of_note(facts))
    if facts.verdict != "prometheus":
        _check_reply(files)
    _check_criteria(facts, placeholders(files["system.md"] + files["user.md"]))


def _of_judging(facts: Facts) -> tuple[set[str], set[str]]:
    """Return the placeholders that system.md and user.md must use between them, and may use."""
    needed = {"prompt"} | ANSWERS[facts.protocol]
    if facts.reference == "required":
        needed |= {"reference"}
    if facts.note:
        needed |= {"note"}
    optional = {"question", "criteria"} | ({"rubric"} if facts.scale else set())
    if facts.verdict == "checklist":
        return needed | {"nonce", "how_to_reply", "items"}, optional
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
            raise RubricTemplateError(
                f"{name} has the unknown placeholder {unknown}; known: {known}."
            )
    where = " and ".join(sorted(files))
    for missing in sorted(needed - placeholders("".join(files.values()))):
        raise RubricTemplateError(f"the placeholder {{{missing}}} is missing from {where}.")


def _unknown(text: str, known: set[str]) -> str:
    """Return the first thing in braces that is not exactly a known placeholder; '' if none."""
    spelled = {f"{{{name}}}" for name in known}
    return next((meant for meant in MEANT.findall(text) if meant not in spelled), "")


def _check_reply(files: Mapping[str, str]) -> None:
    """The instruction comes with the judge's options, so it appears once, before all material."""
    counts = [files[name].count("{how_to_reply}") for name in ("system.md", "user.md")]
    if counts != [1, 0]:
        raise RubricTemplateError(
            "the placeholder {how_to_reply} must appear exactly once, in system.md."
        )


def _check_criteria(facts: Facts, used: set[str]) -> None:
    """An arena's criteria must reach the judge, and the rubric must have some of its own."""
    present = used & {"criteria", "rubric"}
    if len(present) != 1:
        raise RubricTemplateError(
            "system.md and user.md use either {criteria} or, with the levels of a scale, {rubric}; "
            f"these use {' and '.join(sorted(present)) or 'neither'}."
        )
    if not facts.criteria:
        raise RubricTemplateError("rubric.toml lacks criteria, the default text for {criteria}.")
    if ("rubric" in present) != bool(facts.levels):
        raise RubricTemplateError(
            "rubric.toml has levels if, and only if, the templates use {rubric}."
        )


class RubricError(ValueError):
    """A rubric that cannot be used; the message says which file and why."""


@dataclass(frozen=True)
class Rubric:
    """A loaded rubric. `digest` covers every byte of its files; `note` is the text of note.md."""

    slug: str
    title: str
    protocol: str
    system: str
    user: str
    parameters: Mapping[str, Any]
    digest: str
    verdict: str = "line"
    reference: str = "never"
    note: str = ""
    scale: Scale | None = None
    levels: tuple[str, ...] = ()
    criteria: str = ""
    items: tuple[ChecklistItem, ...] = ()

    @property
    def is_prometheus(self) -> bool:
        """Whether this is a format that models were trained on: no nonce, no fences, its own
        ending."""
        return self.verdict == "prometheus"

    @property
    def length_neutral(self) -> bool:
        """Whether the judge is told by default that length earns nothing.

        It is, except in the Prometheus formats, whose models were trained on a fixed system text.
        """
        return not self.is_prometheus


def rubric_slugs(folder: Path = RUBRICS) -> list[str]:
    """Return the slugs of all rubrics in `folder`."""
    return sorted(path.parent.name for path in folder.glob("*/rubric.toml"))


def load_rubric(slug: str, folder: Path = RUBRICS) -> Rubric:
    """Read and check one rubric; raises RubricError with a sentence.

    Cached until its files change, because every call of a judge asks for it.
    """
    return _as_of(slug, folder, _stamps(folder / slug))


def _stamps(folder: Path) -> Stamps:
    """Return what changes whenever a file is written, replaced or renamed; () without files."""
    try:
        with os.scandir(folder) as entries:
            files = [(entry.name, entry.stat()) for entry in entries]
    except (OSError, ValueError):  # a name with a NUL
        return ()
    return tuple(sorted((name, s.st_ctime_ns, s.st_size, s.st_ino) for name, s in files))


@lru_cache(maxsize=64)
def _as_of(slug: str, folder: Path, _stamps: Stamps) -> Rubric:
    return rubric_of(slug, read_files(slug, folder))


def read_files(slug: str, folder: Path = RUBRICS) -> dict[str, bytes]:
    """Return a rubric's files by name, without checking them; raises RubricError if one is
    missing."""
    if slug not in rubric_slugs(folder):
        slugs = ", ".join(rubric_slugs(folder))
        raise RubricError(f"There is no rubric called {slug!r}. Known: {slugs}.")
    try:
        files = {name: (folder / slug / name).read_bytes() for name in FILES}
        if (folder / slug / NOTE).exists():
            files[NOTE] = (folder / slug / NOTE).read_bytes()
    except OSError as error:
        where = Path(str(error.filename)).name
        raise RubricError(f"Rubric {slug}: {where} cannot be read: {error.strerror}.") from None
    return files


def rubric_of(slug: str, files: Mapping[str, bytes]) -> Rubric:
    """Check the files of a rubric and return it; raises RubricError with a sentence."""
    try:
        return _checked(slug, files)
    except (FactsError, RubricTemplateError) as error:
        raise RubricError(f"Rubric {slug}: {error}") from None
    except ArithmeticError:
        raise RubricError(f"Rubric {slug}: rubric.toml has a number that is too large.") from None


def _checked(slug: str, files: Mapping[str, bytes]) -> Rubric:
    facts = read_facts(_text(files, "rubric.toml"))
    if facts.note and NOTE not in files:
        raise FactsError(f"rubric.toml says note = true, but there is no {NOTE}.")
    if NOTE in files and not facts.note:
        raise FactsError(f"{NOTE} exists, but rubric.toml does not say note = true.")
    # Only line ends are removed: a format may end with a significant space.
    texts = {name: _text(files, name).strip("\n") for name in files}
    check_templates(facts, texts)
    return Rubric(
        slug=slug,
        title=facts.title,
        protocol=facts.protocol,
        system=texts["system.md"],
        user=texts["user.md"],
        parameters=facts.parameters,
        digest=_digest(files),
        verdict=facts.verdict,
        reference=facts.reference,
        note=texts.get(NOTE, ""),
        scale=facts.scale,
        levels=facts.levels,
        criteria=facts.criteria,
        items=facts.items,
    )


def _text(contents: Mapping[str, bytes], name: str) -> str:
    try:
        return contents[name].decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise FactsError(f"{name} cannot be read as UTF-8: {error.reason}.") from None


def _digest(contents: Mapping[str, bytes]) -> str:
    """Return the SHA-256 over the names, lengths and bytes of a rubric's files."""
    digest = hashlib.sha256()
    for name, content in sorted(contents.items()):
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()
