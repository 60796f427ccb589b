"""Differences between two versions of a text, by line and by word."""

import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate, groupby

from arena.prompting.templates import Kind, Span, Words

WORK = 6_000_000  # comparisons of lines or words: about a second
ALIKE = 0.4  # two blocks with a smaller share of common words are shown as different as a whole
_SPACED = re.compile(r"\s*(?:\w+|[^\w\s])|\s+")  # words with the space before them
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
    old, new = _lines_of(before), _lines_of(after)
    if old == new:
        return []
    work = _Work(WORK)
    lines: list[DiffLine] = []
    for i, j, m, n in _alike_segments(old, new, work, None):
        if old[i:j] == new[m:n]:
            lines += [DiffLine("same", _word_pieces([(line, False)])) for line in old[i:j]]
        else:
            lines += _changed_lines(old[i:j], new[m:n], work)
    return list(_around_changes(lines, context))


def merged_diff(before: str, after: str) -> list[tuple[Kind, str]]:
    """Return both texts as one, in pieces that are the same, removed or added.

    Texts with few words in common are shown one after the other.
    """
    old, new = (_SPACED.findall(text.replace("\r\n", "\n")) for text in (before, after))
    spans = list(_alike_segments(old, new, _Work(WORK), None))
    common = sum(j - i for i, j, m, n in spans if old[i:j] == new[m:n])
    if 2 * common < ALIKE * (len(old) + len(new)):
        spans = [(0, len(old), 0, len(new))]
    pieces: list[tuple[Kind, str]] = []
    for i, j, m, n in spans:
        removed, added = "".join(old[i:j]), "".join(new[m:n])
        pieces += (
            [("same", added)] if removed == added else [("removed", removed), ("added", added)]
        )
    return [piece for piece in pieces if piece[1]]


def _lines_of(text: str) -> list[str]:
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


def _changed_lines(old: list[str], new: list[str], work: "_Work") -> Iterator[DiffLine]:
    removed, added = _marked_words(old, new, work)
    for words in _words_by_line(removed, len(old)):
        yield DiffLine("removed", _word_pieces(words))
    for words in _words_by_line(added, len(new)):
        yield DiffLine("added", _word_pieces(words))


def _marked_words(old: list[str], new: list[str], work: "_Work") -> tuple[Words, Words]:
    """Return the words of both blocks, each with whether it changed."""
    left, right = (_WORD.findall("\n".join(lines)) for lines in (old, new))
    removed: Words = []
    added: Words = []
    common = 0
    for i, j, m, n in _alike_segments(left, right, work, str.isspace) if old and new else ():
        changed = left[i:j] != right[m:n]
        common += 0 if changed else sum(not word.isspace() for word in left[i:j])
        removed += [(word, changed) for word in left[i:j]]
        added += [(word, changed) for word in right[m:n]]
    words = sum(not word.isspace() for word in [*left, *right])
    if 2 * common < ALIKE * words or not common:
        return [(word, False) for word in left], [(word, False) for word in right]
    return removed, added


def _words_by_line(words: Words, count: int) -> Iterator[Words]:
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


class _Work:
    """The number of comparisons that may still be made."""

    def __init__(self, left: int) -> None:
        self.left = left

    def allows(self, cost: int) -> bool:
        self.left -= cost
        return self.left >= 0


def _alike_segments(
    old: Sequence[str], new: Sequence[str], work: _Work, is_junk: Callable[[str], bool] | None
) -> Iterator[Span]:
    """Yield spans (i, j, m, n): old[i:j] equals new[m:n] or is replaced by it, alternately."""
    start = _common_words(old, new)
    end = _common_words(old[start:][::-1], new[start:][::-1])
    middle = _matches_bound(old[start : len(old) - end], new[start : len(new) - end], work, is_junk)
    equal = [(0, 0, start), *((i + start, m + start, size) for i, m, size in middle)]
    i = m = 0
    for at, other, size in [*equal, (len(old) - end, len(new) - end, end)]:
        if (i, m) != (at, other):
            yield i, at, m, other
        i, m = at + size, other + size
        if size:
            yield at, i, other, m


def _common_words(old: Sequence[str], new: Sequence[str]) -> int:
    pairs = enumerate(zip(old, new, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(old), len(new)))


def _matches_bound(
    old: Sequence[str], new: Sequence[str], work: _Work, is_junk: Callable[[str], bool] | None
) -> list[tuple[int, int, int]]:
    """Return the blocks (i, m, size) that both have, as difflib does, until the work is used up."""
    matcher = SequenceMatcher(is_junk, old, new)
    places = _counts_of_items(new, is_junk)
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


def _counts_of_items(new: Sequence[str], is_junk: Callable[[str], bool] | None) -> dict[str, int]:
    """Count the occurrences of each item that difflib matches: neither junk nor very frequent.

    Among 200 items or more, difflib ignores an item that makes up more than 1 % of them.
    """
    most = len(new) // 100 + 1 if len(new) >= 200 else len(new)
    counts = Counter(item for item in new if not (is_junk and is_junk(item)))
    return {item: count for item, count in counts.items() if count <= most}
