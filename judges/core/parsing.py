"""Reading a judge's reply. Total: any text gives a ReadReply, and none raises.

A verdict is a last line `VERDICT-<nonce>: A`, `B` or `TIE` with the nonce of this very call, and
no other verdict with that nonce anywhere in the reply. Everything else is unreadable or a
refusal: never a tie, and never the first letter that comes along.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

PARSER_VERSION = 1
LONGEST_REPLY = 50_000
REFUSAL_WITHIN = 400
Outcome = Literal["left", "right", "tie"]
LETTERS: dict[str, Outcome] = {"a": "left", "b": "right", "tie": "tie"}
# What models put around a verdict: emphasis, code, quotes, brackets, headings, a full stop.
DECORATION = str.maketrans(dict.fromkeys("*_`~#>\"'“”„‟‘’‚‛«»‹›()[]{}<|\\.", ""))
APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "ʼ": "'"})
REFUSAL = re.compile(
    r"\b(i|we)( can't| cannot| can not| won't| will not| am unable to|'m unable to"
    r"|'m not able to| am not able to| must decline to| decline to)"
    r" (assist|help|comply|judge|compare|evaluate|provide|do that|engage|continue|answer|fulfil"
    r"|discuss|rate|choose|participate)"
)


@dataclass(frozen=True)
class ReadReply:
    """What a reply means. `outcome` is about the responses as shown: left is the first one."""

    state: Literal["done", "unreadable", "refused"]
    outcome: Outcome | None = None
    note: str = ""


def parse_pairwise(reply: str, nonce: str, *, cut_off: bool = False) -> ReadReply:
    """Read a pairwise judge's reply to the call whose fence was `nonce`."""
    if not reply.strip():
        return ReadReply("unreadable", note="The reply is empty.")
    if len(reply) > LONGEST_REPLY:
        return ReadReply("unreadable", note=f"The reply is longer than {LONGEST_REPLY} characters.")
    lines = [line for line in map(_plain, reply.splitlines()) if line]
    verdict = re.compile(rf"verdict-{re.escape(nonce.lower())} ?: ?(a|b|tie)(?!\w)")
    found = set(verdict.findall("\n".join(lines)))
    if len(found) > 1:
        return ReadReply("unreadable", note="The reply holds different verdicts.")
    if found and (last := verdict.fullmatch(lines[-1])):
        return ReadReply("done", outcome=LETTERS[last.group(1)])
    if found:
        return ReadReply("unreadable", note="The verdict does not stand alone on the last line.")
    return _without_verdict(reply, cut_off)


def _without_verdict(reply: str, cut_off: bool) -> ReadReply:
    if REFUSAL.search(reply[:REFUSAL_WITHIN].lower().translate(APOSTROPHES)):
        return ReadReply("refused", note="The model declined to judge.")
    if cut_off:
        return ReadReply("unreadable", note="The reply was cut off before a verdict.")
    return ReadReply(
        "unreadable", note="The reply does not end with the verdict line that was asked for."
    )


def _plain(line: str) -> str:
    """Return a line without decoration and invisible characters, folded to plain lower case."""
    folded = unicodedata.normalize("NFKC", line).translate(DECORATION)
    shown = "".join(c for c in folded if unicodedata.category(c) not in ("Cc", "Cf") or c == "\t")
    return " ".join(shown.casefold().split())
