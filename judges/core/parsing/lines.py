"""Verdicts on a last line `VERDICT-<nonce>: ...` with the nonce of this very call.

No other verdict with that nonce may stand anywhere in the reply. Answers cannot hold the nonce,
so a verdict within an answer that the judge quotes is never taken for the judge's own.
"""

import re
from collections.abc import Callable, Sequence

from judges.core.parsing.replies import (
    EDGE,
    EDGES,
    LETTERS,
    Order,
    ReadReply,
    any_label,
    complete_order,
    fold,
    label_of,
    unreadable,
    useless,
    without_verdict,
)

ASKED_FOR = "the verdict line that was asked for"
QUOTE_MARK = re.compile(r"\A[> ]+")
IN_ANGLES = re.compile(r"<([^<>]*)>")
# One letter after another; each step between them is one of these two signs.
CHAIN = rf"[a-z](?!\w)(?:{EDGES}[>=]{EDGES}[a-z](?!\w))*+"
WITHOUT_EDGES = str.maketrans("", "", EDGE)
Meaning = Callable[[str], ReadReply]


def parse_pairwise(reply: str, nonce: str, *, cut_off: bool = False) -> ReadReply:
    """Read which of two responses is better: `VERDICT-<nonce>: A`, `B` or `TIE`."""

    def meaning(value: str) -> ReadReply:
        return ReadReply("done", outcome=LETTERS[value.upper()])

    return _parse(reply, nonce, any_label(LETTERS), meaning, cut_off)


def parse_direct(
    reply: str, nonce: str, labels: Sequence[str], *, cut_off: bool = False
) -> ReadReply:
    """Read the label that one response gets: `VERDICT-<nonce>: 3`."""

    def meaning(value: str) -> ReadReply:
        label = label_of(value, labels)
        if label is None:
            return unreadable("The verdict could be more than one entry of the scale.")
        return ReadReply("done", label=label)

    return _parse(reply, nonce, any_label(labels), meaning, cut_off)


def parse_listwise(reply: str, nonce: str, n: int, *, cut_off: bool = False) -> ReadReply:
    """Read the order of `n` responses, 26 at most: `VERDICT-<nonce>: B > A = C`."""

    def meaning(value: str) -> ReadReply:
        order = order_of(value, n)
        if order is None:
            return unreadable(f"The verdict does not name each of the {n} answers once.")
        return ReadReply("done", order=order)

    return _parse(reply, nonce, CHAIN, meaning, cut_off)


def order_of(chain: str, n: int) -> Order | None:
    """Return the order that "b > a = c" stands for; None unless each answer is named once."""
    groups = [group.split("=") for group in fold(chain).split(">")]
    letters = [[letter.strip(EDGE) for letter in group] for group in groups]
    if not all(re.fullmatch("[a-z]", letter) for group in letters for letter in group):
        return None
    return complete_order([[ord(letter) - ord("a") for letter in group] for group in letters], n)


def _parse(reply: str, nonce: str, value: str, meaning: Meaning, cut_off: bool) -> ReadReply:
    """Read a reply whose verdict is a `value` (a regular expression for folded text)."""
    if trouble := useless(reply):
        return trouble
    lines = [line for line in map(_plain, reply.splitlines()) if line.strip(f"{EDGE}.~-")]
    verdict = rf"verdict-{re.escape(nonce.lower())}{EDGES}:{EDGES}({value})"
    found = {match.translate(WITHOUT_EDGES) for match in re.findall(verdict, "\n".join(lines))}
    if not found:
        return without_verdict(reply, cut_off, ASKED_FOR)
    last = re.fullmatch(rf"{EDGES}{verdict}{EDGES}\.?{EDGES}", lines[-1])
    if len(found) > 1:
        return unreadable("The reply holds different verdicts.")
    if last is None:
        return unreadable("The verdict does not stand alone on the last line.")
    if cut_off:
        return unreadable("The reply was cut off, so its verdict may not be complete.")
    return meaning(last.group(1))


def _plain(line: str) -> str:
    return IN_ANGLES.sub(r" \1 ", QUOTE_MARK.sub("", fold(line)))
