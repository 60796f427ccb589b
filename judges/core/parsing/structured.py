"""Verdicts in JSON: an object with a `verdict`, or the ordered models of a function call."""

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from judges.core.parsing.lines import order_of
from judges.core.parsing.replies import (
    LETTERS,
    Order,
    ReadReply,
    complete_order,
    fold_label,
    label_of,
    unreadable,
    useless,
    without_verdict,
)

Protocol = Literal["pairwise", "direct", "listwise"]
FENCED = re.compile(r"\A```(?:json)?[ \t]*\n(.*)\n[ \t]*```\Z", re.DOTALL | re.IGNORECASE)
ASKED_FOR = "the JSON object that was asked for, alone"
NOT_OFFERED = "The verdict in the JSON object is none of those that were asked for."


def parse_structured(
    reply: str,
    protocol: Protocol,
    *,
    labels: Sequence[str] = (),
    n: int = 2,
    cut_off: bool = False,
) -> ReadReply:
    """Read a JSON object whose `verdict` answers `protocol`; the object must be the whole reply.

    pairwise: "A", "B" or "TIE". direct: one of `labels`, as text or as an integer. listwise: the
    letters of `n` answers from best to worst, where a list within the list is a tie, or
    "B > A = C".
    """
    if trouble := useless(reply):
        return trouble
    found = _object(reply)
    if found is None:
        return without_verdict(reply, cut_off, ASKED_FOR)
    verdict = found.get("verdict")
    if protocol == "listwise":
        order = _order(verdict, n)
        return ReadReply("done", order=order) if order else unreadable(NOT_OFFERED)
    label = label_of(_text(verdict), labels if protocol == "direct" else LETTERS)
    if label is None:
        return unreadable(NOT_OFFERED)
    if protocol == "direct":
        return ReadReply("done", label=label)
    return ReadReply("done", outcome=LETTERS[label])


def parse_ordered_models(
    reply: str | Mapping[str, Any], models: Sequence[str], *, cut_off: bool = False
) -> ReadReply:
    """Read `ordered_models: [{model, rank}, ...]`, the arguments of a function call.

    `models` are the names that the responses went by, in the order shown; capitals count. Rank 1
    is the best, and equal ranks are a tie.
    """
    if isinstance(reply, str) and (trouble := useless(reply)):
        return trouble
    found = _object(reply) if isinstance(reply, str) else reply
    if found is None:
        return without_verdict(str(reply), cut_off, ASKED_FOR)
    order = _ranked(found.get("ordered_models"), models)
    if order is None:
        return unreadable(f"The ordered models are not each of {', '.join(models)} with a rank.")
    return ReadReply("done", order=order)


def _object(reply: str) -> dict[str, Any] | None:
    """Return the JSON object that a reply is, fenced as code or not."""
    text = reply.strip()
    fenced = FENCED.match(text)
    try:
        found = json.loads(fenced[1] if fenced else text, object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key that comes twice, in whatever capitals: the second would win unseen."""
    if len({key.casefold() for key, _ in pairs}) < len(pairs):
        raise ValueError("a key comes twice")
    return dict(pairs)


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str | int) else ""


def _order(verdict: Any, n: int) -> Order | None:
    if isinstance(verdict, str):
        return order_of(verdict, n)
    if not isinstance(verdict, list):
        return None
    groups = [group if isinstance(group, list) else [group] for group in verdict]
    letters = [[fold_label(_text(letter)) for letter in group] for group in groups]
    if any(len(letter) != 1 for group in letters for letter in group):
        return None
    return order_of(" > ".join("=".join(group) for group in letters), n)


def _ranked(rows: Any, models: Sequence[str]) -> Order | None:
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for row in rows if isinstance(rows, list) else []:
        model, rank = (row.get("model"), row.get("rank")) if isinstance(row, dict) else ("", 0)
        if model not in models or type(rank) is not int or rank < 1:
            return None
        groups[rank].append(models.index(model))
    return complete_order([groups[rank] for rank in sorted(groups)], len(models))
