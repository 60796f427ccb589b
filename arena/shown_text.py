"""What people and judges are shown of a text: a model's thought apart from what it says, and
pictures as words. Pure; the stored text stays as it was given.

A thought stands in an answer between `<think>` and `</think>` (or `<thinking>`, in capitals or not)
where the answer, a line outside code, or what follows another thought begins with the opening tag.
It ends at the first closing tag. An answer whose first tag of all is a closing one outside code
began with its thought: chat templates write the opening tag themselves. What is never closed is no
thought, and an answer that would have nothing else is shown whole: nobody can compare an empty one.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

OPENING_TAGS = ("<think>", "<thinking>")  # in capitals or not
LONGEST_CLOSING_TAG = len("</thinking>")
_OPEN = "<think(?:ing)?>"
_CLOSE = "</think(?:ing)?>"
_TAG = re.compile(f"{_OPEN}|(?P<close>{_CLOSE})", re.IGNORECASE)
CLOSING_TAG = re.compile(_CLOSE, re.IGNORECASE)
_AT_EITHER_END = re.compile(rf"\A\s*{_OPEN}|{_CLOSE}\Z", re.IGNORECASE)
# Whatever opens a thought, a fence of code, or the end of a thought without a beginning.
_MARK = re.compile(
    rf"(?:\A\s*|^[ ]{{0,3}}|(?<=</think>)\s*|(?<=</thinking>)\s*)(?P<open>{_OPEN})"
    r"|^[ \t>]*(?P<fence>`{3,}+|~{3,}+)(?P<info>[^\n]*)"
    rf"|{_CLOSE}",
    re.IGNORECASE | re.MULTILINE,
)


class Part(NamedTuple):
    """A piece of an answer. A thought includes its tags."""

    text: str
    is_thought: bool


def parts_of(answer: str) -> list[Part]:
    """Return the answer in pieces, which together are the answer."""
    parts, last = [], 0
    for start, end in _thoughts(answer):
        parts += [Part(answer[last:start], False), Part(answer[start:end], True)]
        last = end
    parts.append(Part(answer[last:], False))
    if not any(part.text.strip() for part in parts if not part.is_thought):
        parts = [Part(answer, False)]
    return [part for part in parts if part.text]


def without_thought(answer: str) -> str:
    """Return what an answer says, without what the model thought."""
    parts = parts_of(answer)
    if not any(part.is_thought for part in parts):
        return answer
    return "".join(part.text for part in parts if not part.is_thought).lstrip()


def thought_in(answer: str) -> str:
    """Return what the model thought, without tags; '' if that is not in the answer."""
    thoughts = (
        _AT_EITHER_END.sub("", text).strip() for text, thought in parts_of(answer) if thought
    )
    return "\n\n".join(filter(None, thoughts))


def _thoughts(answer: str) -> Iterator[tuple[int, int]]:
    """Yield where each thought begins and ends."""
    first = _TAG.search(answer)
    if first is None:
        return
    at, fence = 0, ""
    while mark := _MARK.search(answer, at):
        at = mark.end()
        if mark["fence"]:
            fence = _fence_after(fence, mark["fence"], mark["info"])
        elif fence:
            continue
        elif mark["open"]:
            closed = CLOSING_TAG.search(answer, at)
            if closed is None:
                return
            at = closed.end()
            yield mark.start(), at
        elif mark.start() == first.start() and not _is_in_code(answer, mark.start()):
            yield 0, at


def _fence_after(fence: str, marks: str, info: str) -> str:
    """Return the fence that is open after a line that begins with `marks`; '' for none."""
    if fence:
        closes = marks[0] == fence[0] and len(marks) >= len(fence) and not info.strip()
        return "" if closes else fence
    return marks if marks[0] == "~" or "`" not in info else ""


def _is_in_code(answer: str, place: int) -> bool:
    """Whether a place is between backticks on its line."""
    line = answer.rfind("\n", 0, place) + 1
    return answer.count("`", line, place) % 2 == 1


# Possessive, and bounded where something else may follow: it takes a text of any kind in one pass.
_URI = (
    r"data:image/(?P<kind>[\w.+-]{1,40}+)(?:;[\w=.-]{1,80}+){0,5}?;base64,(?P<data>[\w+/-]++)={0,2}"
)
_PICTURE = re.compile(
    r"(?:(?P<markdown>!\[[^][\n]{0,1000}\]\([ \t]{0,9}<?)"
    r"|(?P<html><img\b[^<>]{0,1000}?\bsrc[ ]?=[ ]?[\"']?))?"
    rf"{_URI}"
    r"(?(markdown)(?:>?(?:[ \t]{1,9}(?:\"[^\"\n]{0,1000}\"|'[^'\n]{0,1000}'))?[ \t]{0,9}\))?)"
    r"(?(html)(?:[\"']?[^<>]{0,1000}>)?)",
    re.IGNORECASE | re.ASCII,
)


def name_pictures(text: str) -> str:
    """Return the text with each base64 picture replaced by its name: [image, PNG, 88 kB]."""
    return _PICTURE.sub(_name_of, text) if ";base64," in text.lower() else text


def _name_of(picture: re.Match[str]) -> str:
    kind = picture["kind"].upper().partition("+")[0].removeprefix("X-")
    return f"[image, {kind}, {_size(len(picture['data']) * 3 // 4)}]"


def _size(size: int) -> str:
    if size < 1024:
        return f"{size} B"
    kilobytes = round(size / 1024)
    return f"{kilobytes} kB" if kilobytes < 1024 else f"{size / 1024**2:.1f} MB"


def as_read(answer: str) -> str:
    """Return an answer as judges read it: without thought, its pictures named."""
    return name_pictures(without_thought(answer))
