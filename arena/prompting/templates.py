"""Templates with variables: `{{ prompt }}` is the prompt's text, other names are its variables.

Names are matched exactly. Single braces are text, so a template can contain JSON unchanged; of
three braces in a row the inner two count. Two opening braces as text are written `{{ "{{" }}`. A
value is inserted unchanged: braces inside it stay text.
"""

import difflib
import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate, groupby
from typing import Any, Literal

from arena.validation import InputError, clean_text, join_names, quoted

TEXT_LIMIT = 100_000  # characters of a system prompt, and of a user template
MESSAGE_LIMIT = 2_000_000  # characters of one message with its values in place
NAMES_COMPARED = 200  # with more names no suggestion is made, because comparing them is slow
PROMPT = "prompt"
LITERAL = '{{ "{{" }}'
# Linear time: no match begins inside another, and no part of the pattern can match in two ways.
_OPENED = re.compile(r"""\{\{(?!\{)(?:\s*(?P<quote>["'])\{\{(?P=quote)\s*\}\}|([^{}]*)(\}\})?)""")


class TemplateError(ValueError):
    """A template that cannot be used; the message is a sentence for people."""


@dataclass(frozen=True, slots=True)
class _Variable:
    name: str
    line: int


def variables_in(template: str) -> list[str]:
    """Return the names of the variables that `template` uses, in order, each once.

    Raises TemplateError for an invalid template.
    """
    return _names(template, "user template")


def check_turns(messages: Sequence[Mapping[str, Any]], *, known: Collection[str]) -> None:
    """Raise TemplateError unless these messages, each a template, can be filled."""
    for number, message in enumerate(messages, start=1):
        check_template(message["content"], known=known, part=f"message {number}")
    if not any(variables_in(message["content"]) for message in messages):
        raise TemplateError(
            "No message uses a variable, so every prompt would ask the same question; write "
            "{{ prompt }} where the prompt's text belongs."
        )


def check_template(template: str, *, known: Collection[str], part: str = "user template") -> None:
    """Raise TemplateError unless `template` can be filled from a prompt with the `known` variables.

    `prompt` is always known. An empty user template stands for `{{ prompt }}`.
    """
    _check_size(template, part)
    known = {PROMPT, *known}
    names = _names(template, part)
    if unknown := [name for name in names if name not in known]:
        raise TemplateError(_unknown(unknown, known, part))
    if part == "user template" and template.strip() and not names:
        raise TemplateError(
            "The user template uses no variable, so every prompt would ask the same question; "
            "write {{ prompt }} where the prompt's text belongs."
        )


def render_messages(
    *,
    system_prompt: str,
    user_template: str,
    prompt: str,
    variables: Mapping[str, str],
    prompt_id: str = "",
    messages: Sequence[Mapping[str, Any]] | None = None,
) -> list[tuple[str, str]]:
    """Return the messages to send as (role, content); a blank system prompt is not sent.

    `messages`, each a template, take the place of the two texts.

    Raises TemplateError for an invalid template, for a variable without a value (naming the prompt
    by `prompt_id` or its first words), and for a message that would be too long.
    """
    values = {**variables, PROMPT: prompt}
    called = quoted(prompt_id or prompt)
    if messages:
        return [
            (message["role"], _filled(message["content"], f"message {number}", values, called))
            for number, message in enumerate(messages, start=1)
        ]
    user = (
        _filled(user_template, "user template", values, called) if user_template.strip() else prompt
    )
    if not system_prompt.strip():
        return [("user", user)]
    return [("system", _filled(system_prompt, "system prompt", values, called)), ("user", user)]


def _filled(template: str, part: str, values: Mapping[str, str], called: str) -> str:
    pieces = []
    for piece in _pieces(template, part):
        if isinstance(piece, str):
            pieces.append(piece)
        elif piece.name in values:
            pieces.append(values[piece.name])
        else:
            raise TemplateError(
                f"The {part} uses {_braced(piece.name)}, "
                f"for which the prompt {called} has no value."
            )
    if (size := sum(map(len, pieces))) > MESSAGE_LIMIT:
        raise TemplateError(
            f"The {part} becomes {size:,} characters long with the prompt {called}; "
            f"the limit is {MESSAGE_LIMIT:,}."
        )
    return "".join(pieces)


# -- Reading -------------------------------------------------------------------------------------


def _names(template: str, part: str) -> list[str]:
    pieces = _pieces(template, part)
    return list(dict.fromkeys(piece.name for piece in pieces if isinstance(piece, _Variable)))


def _pieces(template: str, part: str) -> Iterator[str | _Variable]:
    """Yield the texts and the variables of `template` in order; raises TemplateError."""
    end, line = 0, 1
    for match in _OPENED.finditer(template):
        yield template[end : match.start()]
        line += template.count("\n", end, match.start())
        yield _opened(match, part, line)
        line += match.group().count("\n")
        end = match.end()
    yield template[end:]


def _opened(match: re.Match[str], part: str, line: int) -> str | _Variable:
    _, inside, closed = match.groups()
    if inside is None:
        return "{{"
    where = f"The {part}, line {line}:"
    name = inside.strip()
    if not closed:
        raise TemplateError(
            f"{where} {quoted('{{' + inside)} opens a variable that is not closed with two braces. "
            f"Write two literal braces as {LITERAL}."
        )
    if not name:
        raise TemplateError(f"{where} {{{{ }}}} names no variable; write {{{{ prompt }}}}.")
    if not name.isidentifier():
        raise TemplateError(
            f"{where} {quoted(name)} is not a valid variable name, which must be one word of "
            "letters, digits and underscores."
        )
    return _Variable(name, line)


# -- Words ---------------------------------------------------------------------------------------


def _check_size(template: str, part: str) -> None:
    if len(template) > TEXT_LIMIT:
        raise TemplateError(
            f"The {part} has {len(template):,} characters; the limit is {TEXT_LIMIT:,}."
        )
    try:
        clean_text(template)
    except InputError as error:
        raise TemplateError(f"The {part} {error.reason}.") from None


def _unknown(names: list[str], known: Collection[str], part: str) -> str:
    if len(names) > 1:
        used, there = join_names(map(_braced, names)), _all_of(known)
        return f"The {part} uses {used}, which no prompt has; the prompts have {there}."
    [name] = names
    says = f"The {part} uses {_braced(name)}, which no prompt has"
    if nearest := _nearest(name, known):
        return f"{says}; did you mean {_braced(nearest)}?"
    return f"{says}; the prompts have {_all_of(known)}."


def _nearest(name: str, known: Collection[str]) -> str:
    """Return the most similar known name, ignoring case; '' if none is, or with too many."""
    if len(known) > NAMES_COMPARED:
        return ""
    folded = {known_name.casefold(): known_name for known_name in sorted(known)}
    close = difflib.get_close_matches(name.casefold()[:200], folded, n=1)
    return folded[close[0]] if close else ""


def _all_of(known: Collection[str]) -> str:
    return join_names(map(_braced, sorted(known, key=lambda name: (name != PROMPT, name))))


def _braced(name: str) -> str:
    return "{{ " + (name if len(name) <= 60 else f"{name[:60]}...") + " }}"


# -- Differences between two versions --------------------------------------------------------------

Kind = Literal["same", "added", "removed", "gap"]
Span = tuple[int, int, int, int]
Words = list[tuple[str, bool]]

WORK = 6_000_000  # comparisons of lines or words: about a second
ALIKE = 0.4  # two blocks with a smaller share of common words are shown as different as a whole
_WORD = re.compile(r"\n|[^\S\n]+|\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Piece:
    """Some words of a line; `changed` if the other version lacks them."""

    text: str
    changed: bool = False


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of a diff; a `gap` stands for `left_out` unchanged lines that are not shown."""

    kind: Kind
    pieces: tuple[Piece, ...] = ()
    left_out: int = 0

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)


def diff_of(before: str, after: str, *, context: int = 3) -> list[DiffLine]:
    """Return the lines that differ, with `context` unchanged lines around them; [] if none do.

    Windows and Unix line endings count as equal.
    """
    old, new = _lines(before), _lines(after)
    if old == new:
        return []
    work = _Work(WORK)
    lines: list[DiffLine] = []
    for i, j, m, n in _segments(old, new, work, None):
        if old[i:j] == new[m:n]:
            lines += [DiffLine("same", _word_pieces([(line, False)])) for line in old[i:j]]
        else:
            lines += _changed(old[i:j], new[m:n], work)
    return list(_around_changes(lines, context))


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").split("\n") if text else []


def _around_changes(lines: list[DiffLine], context: int) -> Iterator[DiffLine]:
    at = 0
    for is_same, group in groupby(lines, key=lambda line: line.kind == "same"):
        run = list(group)
        head = context if at else 0
        at += len(run)
        tail = context if at < len(lines) else 0
        left_out = len(run) - head - tail
        if not is_same or left_out <= 0:
            yield from run
        else:
            yield from run[:head]
            yield DiffLine("gap", left_out=left_out)
            yield from run[head + left_out :]


# -- Words within changed lines ------------------------------------------------------------------


def _changed(old: list[str], new: list[str], work: "_Work") -> Iterator[DiffLine]:
    removed, added = _marked(old, new, work)
    for words in _by_line(removed, len(old)):
        yield DiffLine("removed", _word_pieces(words))
    for words in _by_line(added, len(new)):
        yield DiffLine("added", _word_pieces(words))


def _marked(old: list[str], new: list[str], work: "_Work") -> tuple[Words, Words]:
    """Return the words of both blocks, each with whether it changed."""
    left, right = (_WORD.findall("\n".join(lines)) for lines in (old, new))
    removed: Words = []
    added: Words = []
    common = 0
    for i, j, m, n in _segments(left, right, work, str.isspace) if old and new else ():
        changed = left[i:j] != right[m:n]
        common += 0 if changed else sum(not word.isspace() for word in left[i:j])
        removed += [(word, changed) for word in left[i:j]]
        added += [(word, changed) for word in right[m:n]]
    words = sum(not word.isspace() for word in [*left, *right])
    if 2 * common < ALIKE * words or not common:
        return [(word, False) for word in left], [(word, False) for word in right]
    return removed, added


def _by_line(words: Words, count: int) -> Iterator[Words]:
    """Yield the words of each of `count` lines, without the line breaks between them."""
    line: Words = []
    for word, changed in words:
        if word == "\n":
            yield line
            line = []
        else:
            line.append((word, changed))
    if count:
        yield line


def _word_pieces(words: Words) -> tuple[Piece, ...]:
    """Join neighbouring words into pieces that are changed or unchanged as a whole."""
    joined: list[tuple[list[str], bool]] = []
    for word, changed in words:
        if joined and joined[-1][1] == changed:
            joined[-1][0].append(word)
        else:
            joined.append(([word], changed))
    return tuple(Piece("".join(texts), changed) for texts, changed in joined)


# -- Comparing with bounded work -----------------------------------------------------------------


class _Work:
    """The number of comparisons that may still be made."""

    def __init__(self, left: int) -> None:
        self.left = left

    def allows(self, cost: int) -> bool:
        self.left -= cost
        return self.left >= 0


def _segments(
    old: Sequence[str], new: Sequence[str], work: _Work, is_junk: Callable[[str], bool] | None
) -> Iterator[Span]:
    """Yield spans (i, j, m, n): old[i:j] equals new[m:n] or is replaced by it, alternately."""
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    middle = _matches(old[start : len(old) - end], new[start : len(new) - end], work, is_junk)
    equal = [(0, 0, start), *((i + start, m + start, size) for i, m, size in middle)]
    i = m = 0
    for at, other, size in [*equal, (len(old) - end, len(new) - end, end)]:
        if (i, m) != (at, other):
            yield i, at, m, other
        i, m = at + size, other + size
        if size:
            yield at, i, other, m


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    pairs = enumerate(zip(old, new, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(old), len(new)))


def _matches(
    old: Sequence[str], new: Sequence[str], work: _Work, is_junk: Callable[[str], bool] | None
) -> list[tuple[int, int, int]]:
    """Return the blocks (i, m, size) that both have, as difflib does, until the work is used up."""
    matcher = SequenceMatcher(is_junk, old, new)
    places = _places(new, is_junk)
    costs = [0, *accumulate(1 + places.get(item, 0) for item in old)]
    waiting = deque([(0, len(old), 0, len(new))])
    matches = []
    while waiting:
        i, j, m, n = waiting.popleft()
        if i == j or m == n or not work.allows(costs[j] - costs[i]):
            continue
        at, other, size = matcher.find_longest_match(i, j, m, n)
        if size:
            matches.append((at, other, size))
            waiting += [(i, at, m, other), (at + size, j, other + size, n)]
    return sorted(matches)


def _places(new: Sequence[str], is_junk: Callable[[str], bool] | None) -> dict[str, int]:
    """Count the occurrences of each item that difflib matches: neither junk nor very frequent.

    Among 200 items or more, difflib ignores an item that makes up more than 1 % of them.
    """
    most = len(new) // 100 + 1 if len(new) >= 200 else len(new)
    counts = Counter(item for item in new if not (is_junk and is_junk(item)))
    return {item: count for item, count in counts.items() if count <= most}
