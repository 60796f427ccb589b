"""Verdicts of the Prometheus formats: `Feedback: ... [RESULT] 4` and `Feedback: ... [RESULT] A`.

These models were trained without a nonce, so the rule is strict: after the last `[RESULT]` stands
the verdict with nothing but decoration around it, and no other `[RESULT]` says anything else.
"""

import re
from collections.abc import Sequence

from judges.core.parsing.replies import (
    EDGE,
    EDGES,
    LETTERS,
    ReadReply,
    any_label,
    fold,
    fold_label,
    label_of,
    unreadable,
    useless,
    without_verdict,
)

MARK = re.compile(r"\[ ?result ?\]")
BETWEEN = rf"{EDGES}[:=]?{EDGES}"
ASKED_FOR = "[RESULT] and the verdict that was asked for"


def parse_prometheus_score(
    reply: str, labels: Sequence[str], *, cut_off: bool = False
) -> ReadReply:
    """Read `[RESULT] 4`, also as `(4)`, `Score 4` or `4/5`; `labels` go from worst to best."""
    best = re.escape(fold_label(labels[-1])) if labels else "(?!)"
    value = rf"(?:(?:score|rating)\b{BETWEEN})?({any_label(labels)})"
    tail = rf"{value}(?:{EDGES}(?:/|out of){EDGES}{best}(?!\w))?"
    found = _last_result(reply, value, tail, cut_off)
    if isinstance(found, ReadReply):
        return found
    label = label_of(found, labels)
    if label is None:
        return unreadable("The verdict could be more than one entry of the scale.")
    return ReadReply("done", label=label)


def parse_prometheus_pairwise(reply: str, *, cut_off: bool = False) -> ReadReply:
    """Read `[RESULT] A` or `B`, also as `Response A`. The format knows no tie."""
    value = rf"(?:(?:response|answer)\b{BETWEEN})?([ab](?!\w))"
    found = _last_result(reply, value, value, cut_off)
    if isinstance(found, ReadReply):
        return found
    return ReadReply("done", outcome=LETTERS[found.upper()])


def _last_result(reply: str, value: str, tail: str, cut_off: bool) -> str | ReadReply:
    """Return the folded verdict after the last mark, or what the reply means without one."""
    if trouble := useless(reply):
        return trouble
    text = fold(reply)
    marks = list(MARK.finditer(text))
    last = marks and re.compile(rf"{BETWEEN}{tail}{EDGES}\.?{EDGES}").fullmatch(
        text, marks[-1].end()
    )
    if not last:
        return without_verdict(reply, cut_off, ASKED_FOR)
    said = re.compile(rf"{BETWEEN}{value}")
    if any((other := said.match(text, mark.end())) and other[1] != last[1] for mark in marks):
        return unreadable("The reply holds different results.")
    if cut_off:
        return unreadable("The reply was cut off, so its verdict may not be complete.")
    return last[1].strip(EDGE)
