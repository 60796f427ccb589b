"""What a request asks for, read from its fences, its headings and its schema."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from arena.calls.providers.base import Request

CLOSING = re.compile(r"</[a-z-]+-([0-9a-f]{8,32})>")
ANSWER = re.compile(r"answer-[a-z]")
SECTION = re.compile(r"^###([^:\n]+):[ \n]?(.*?)(?=^###|\Z)", re.MULTILINE | re.DOTALL)
BETWEEN = re.compile(r"between (\d+) and (\d+)")
RESULT = "[RESULT]"
MOST_LABELS = 100
FIVE = ("1", "2", "3", "4", "5")
Kind = Literal["pairwise", "direct", "listwise", "note", "text"]


@dataclass(frozen=True)
class Asked:
    """A request, understood. `labels` are those of a scale, from worst to best.

    `beside` is what stands beside the prompt and says what is good: a reference, a grading note.
    """

    kind: Kind
    prompt: str
    answers: tuple[str, ...] = ()
    beside: str = ""
    labels: tuple[str, ...] = ()
    form: Literal["line", "prometheus"] = "line"
    nonce: str = ""
    is_repair: bool = False


def read_asked(request: Request) -> Asked:
    """Return what `request` asks for; whatever holds nothing to judge asks for a text.

    The last turn that shows something to judge counts: those before it are examples, and one
    after it asks for the verdict once more.
    """
    system = [message.content for message in request.messages if message.role == "system"]
    turns = [message.content for message in request.messages if message.role == "user"] or [""]
    for turn in reversed(turns):
        found = _fenced("\n".join([*system, turn]), request.schema) or _prometheus(turn)
        if found:
            return replace(found, is_repair=turn is not turns[-1])
    return Asked("text", turns[-1])


def _fenced(text: str, schema: Mapping[str, Any] | None) -> Asked | None:
    """Read fences with a nonce; None where `text` has no prompt in them."""
    # A stranger's text stands before the tag that closes it, so the last such tag is a real one.
    nonces = CLOSING.findall(text)
    if not nonces:
        return None
    nonce = nonces[-1]
    block = re.compile(rf"<([a-z-]+)-{nonce}>\n(.*?)\n</\1-{nonce}>", re.DOTALL)
    blocks = dict(block.findall(text))
    if "prompt" not in blocks:
        return None
    answers = tuple(blocks[name] for name in sorted(blocks) if ANSWER.fullmatch(name))
    verdict = (schema or {}).get("properties", {}).get("verdict", {})
    return Asked(
        kind=_kind(len(answers), verdict),
        prompt=blocks.get("prompt", ""),
        answers=answers,
        beside="\n".join(blocks[name] for name in ("reference", "note") if name in blocks),
        labels=_labels(text, nonce, verdict) if len(answers) == 1 else (),
        nonce=nonce,
    )


def _kind(answers: int, verdict: Mapping[str, Any]) -> Kind:
    if answers > 2 or (answers and verdict.get("type") == "array"):
        return "listwise"
    kinds: tuple[Kind, ...] = ("note", "direct", "pairwise")
    return kinds[answers]


def _labels(text: str, nonce: str, verdict: Mapping[str, Any]) -> tuple[str, ...]:
    """The labels of the scale: those of the schema, or those of the lines that may be written."""
    if "enum" in verdict:
        return tuple(map(str, verdict["enum"]))
    lines = re.findall(rf"^VERDICT-{nonce}: ?(.*\S)", text, re.MULTILINE)
    return _rising(line for line in lines if "<" not in line) or FIVE


def _rising(labels: Iterable[str]) -> tuple[str, ...]:
    once = list(dict.fromkeys(labels))
    return tuple(sorted(once, key=int) if all(re.fullmatch(r"-?\d+", x) for x in once) else once)


def _prometheus(text: str) -> Asked | None:
    """Read the two formats of Prometheus 2, whose parts stand below headings."""
    if RESULT not in text:
        return None
    parts = {title.strip().lower(): body.strip() for title, body in SECTION.findall(text)}
    answers = [body for title, body in parts.items() if title.startswith("response")]
    if not 1 <= len(answers) <= 2:
        return None
    return Asked(
        kind="pairwise" if len(answers) == 2 else "direct",
        prompt=parts.get("the instruction to evaluate") or parts.get("instruction", ""),
        answers=tuple(answers),
        beside="\n".join(body for title, body in parts.items() if title.startswith("reference")),
        labels=_range(parts.get("task description", "")) if len(answers) == 1 else (),
        form="prometheus",
    )


def _range(task: str) -> tuple[str, ...]:
    found = BETWEEN.search(task)
    low, high = (int(found.group(1)), int(found.group(2))) if found else (1, 5)
    return tuple(map(str, range(low, high + 1))) if 0 < high - low < MOST_LABELS else FIVE
