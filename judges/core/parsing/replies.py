"""What a reply can mean, and how every parser folds a text and tells why there is no verdict."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

LONGEST_REPLY = 50_000
REFUSAL_WITHIN = 400
Outcome = Literal["left", "right", "tie"]
State = Literal["done", "unreadable", "refused"]
Order = tuple[tuple[int, ...], ...]
LETTERS: dict[str, Outcome] = {"A": "left", "B": "right", "TIE": "tie"}
# What models put around a verdict: emphasis, code, headings, quotes, brackets, table bars. Not
# "~", which strikes out, and nothing that can be part of a number ("-", ".", "/").
EDGE = " *_`#\"'“”„‟‘’‚‛«»‹›()[]{}|\\"
EDGES = f"[{re.escape(EDGE)}]*+"
MINUS = {"−": "-"}
# NFKC would turn "4²" into "42": raised and lowered digits are kept apart from those beside them.
RAISED = {digit: f"^{digit}" for digit in "⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉"}
BEFORE_FOLDING = str.maketrans(MINUS | RAISED)
APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "ʼ": "'"})
REFUSALS = re.compile(
    r"\b(?:i|we)(?: can't| cannot| can not| won't| will not| am unable to|'m unable to"
    r"|'m not able to| am not able to| must decline to| decline to)"
    r" (?:assist|help|comply|judge|compare|evaluate|provide|do that|engage|continue|answer|fulfil"
    r"|discuss|rate|choose|participate)"
    r"|\b(?:ich kann|ich möchte) (?:dabei|das|dies|diese|dieser|hierbei|ihnen|dir)\b.{0,40}\bnicht"
    r"|\bje (?:ne peux|ne suis) pas\b.{0,20}\b(?:aider|évaluer|juger|comparer|répondre|mesure)"
    r"|\bno puedo (?:ayudar|evaluar|juzgar|comparar|responder|asistir)"
    r"|\bnão posso (?:ajudar|avaliar|julgar|comparar|responder)"
    r"|\bnon posso (?:aiutar|valutare|giudicare|confrontare|rispondere)"
    r"|\bя не могу (?:помочь|оценить|судить|сравнить|ответить|выполнить)"
    r"|(?:我)?(?:无法|不能)(?:协助|帮助|评判|评价|比较|回答|满足)|お手伝いできません|お答えできません"
)


@dataclass(frozen=True)
class ReadReply:
    """What a reply means. Exactly one of the three verdicts is set when `state` is "done".

    outcome: of two responses as shown; left is the first one.
    label: of one response; spelled as the scale spells it.
    order: of several responses, best to worst: groups of positions as shown, from 0, each group
        a tie.
    note: for people: why there is no verdict.
    """

    state: State
    outcome: Outcome | None = None
    label: str | None = None
    order: Order | None = None
    note: str = ""


def unreadable(note: str) -> ReadReply:
    return ReadReply("unreadable", note=note)


def useless(reply: str) -> ReadReply | None:
    """Return what an empty or an endless reply means; None for any other."""
    if not reply.strip():
        return unreadable("The reply is empty.")
    if len(reply) > LONGEST_REPLY:
        return unreadable(f"The reply is longer than {LONGEST_REPLY} characters.")
    return None


def without_verdict(reply: str, cut_off: bool, asked_for: str) -> ReadReply:
    """Return what a reply means that holds no verdict; `asked_for` says what it should hold."""
    if REFUSALS.search(reply[:REFUSAL_WITHIN].lower().translate(APOSTROPHES)):
        return ReadReply("refused", note="The model declined to judge.")
    if cut_off:
        return unreadable("The reply was cut off before a verdict.")
    return unreadable(f"The reply does not end with {asked_for}.")


def fold(text: str) -> str:
    """Return `text` in one line, lower case and NFKC, without invisible characters."""
    folded = unicodedata.normalize("NFKC", text.translate(BEFORE_FOLDING)).casefold()
    return " ".join("".join(map(_shown, folded)).split())


def _shown(character: str) -> str:
    if character.isascii() and character.isprintable():
        return character
    category = unicodedata.category(character)
    return "" if category == "Cf" else " " if category == "Cc" else character


def fold_label(label: str) -> str:
    """Return what a label looks like in a folded text, without decoration around it."""
    return fold(label).strip(EDGE)


def label_of(text: str, labels: Iterable[str]) -> str | None:
    """Return the one label that `text`, folded or not, spells; None for none or several."""
    found = [label for label in labels if fold_label(label) == fold_label(text)]
    return found[0] if len(found) == 1 else None


def any_label(labels: Iterable[str]) -> str:
    """Return a regular expression for any of `labels` in a folded text, the longest first."""
    words = sorted({fold_label(label) for label in labels} - {""}, key=len, reverse=True)
    return f"(?:{'|'.join(map(re.escape, words)) or '(?!)'})(?!\\w)"


def complete_order(groups: Sequence[Iterable[int]], n: int) -> Order | None:
    """Return `groups` as an order of the positions 0 to n - 1; None unless each is there once."""
    order = tuple(tuple(sorted(group)) for group in groups)
    positions = sorted(position for group in order for position in group)
    return order if positions == list(range(n)) else None
