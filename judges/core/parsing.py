"""Parsers of judges' replies. Total: any text gives a ReadReply, and none raises.

Only an unambiguous verdict, in the form that was asked for, is a verdict. Everything else is
unreadable or a refusal: never a tie, and never the first letter that comes along.
"""

import json
import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

# Part of a judge's digest: another way of reading makes another judge.
PARSER_VERSION = 2
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
    """Return the result for an empty or far too long reply; None for any other."""
    if not reply.strip():
        return unreadable("The reply is empty.")
    if len(reply) > LONGEST_REPLY:
        return unreadable(f"The reply is longer than {LONGEST_REPLY} characters.")
    return None


def without_verdict(reply: str, cut_off: bool, asked_for: str) -> ReadReply:
    """Classify a reply without a verdict; `asked_for` names what it should end with."""
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


# -- A last line `VERDICT-<nonce>: ...` ------------------------------------------------------------

# The nonce is the call's own, and no other verdict with it may appear anywhere in the reply.
# Answers cannot contain the nonce, so a verdict in a quoted answer is never taken for the judge's.

EXPECTED_LINE = "the verdict line that was asked for"
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
        return without_verdict(reply, cut_off, EXPECTED_LINE)
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


# -- Prometheus formats: `Feedback: ... [RESULT] 4` ------------------------------------------------

# These models were trained without a nonce, so the rule is strict: the last `[RESULT]` is followed
# by the verdict and nothing but decoration, and no other `[RESULT]` gives another verdict.

MARK = re.compile(r"\[ ?result ?\]")
BETWEEN = rf"{EDGES}[:=]?{EDGES}"
EXPECTED_RESULT = "[RESULT] and the verdict that was asked for"


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
        return without_verdict(reply, cut_off, EXPECTED_RESULT)
    said = re.compile(rf"{BETWEEN}{value}")
    if any((other := said.match(text, mark.end())) and other[1] != last[1] for mark in marks):
        return unreadable("The reply holds different results.")
    if cut_off:
        return unreadable("The reply was cut off, so its verdict may not be complete.")
    return last[1].strip(EDGE)


# -- Soft verdicts from log probabilities ----------------------------------------------------------

Form = Literal["line", "prometheus", "json"]
LEAST_KNOWN = 0.5
MOST_UNSURE = 0.01
EDGE_OF_TOKEN = f"{EDGE}:=\n\t"


class TokenProbability(Protocol):
    """A token of a reply: its natural logarithm of probability, and the likeliest in its place."""

    @property
    def token(self) -> str: ...
    @property
    def logprob(self) -> float: ...
    @property
    def top(self) -> tuple[tuple[str, float], ...]: ...


def read_soft_verdict(
    tokens: Sequence[TokenProbability],
    labels: Sequence[str],
    verdict: str,
    *,
    form: Form = "line",
    nonce: str = "",
) -> dict[str, float] | None:
    """Return the probability of each label in the place where the reply says `verdict`.

    labels: the verdicts that were offered: A, B and TIE, or the entries of a scale.
    verdict: the label that the parser read; the reply must end with it.

    The probabilities are those of the verdict's first token, normalised over the labels (Liu et
    al. 2023, "G-Eval", section 2, for scores); a label that is not among the likeliest tokens has
    0. None where that place cannot be found, where the known labels have less than half of the
    probability there, where tokens that could begin several labels have more than a hundredth,
    and where no token in that place begins `verdict`.
    """
    token = _token_of_verdict(tokens, _marker(form, nonce), verdict)
    if token is None:
        return None
    mass, unsure = _masses(dict(token.top) | {token.token: token.logprob}, labels)
    known = math.fsum(mass.values())
    if known < LEAST_KNOWN or unsure > MOST_UNSURE or not mass[verdict]:
        return None
    return {label: mass[label] / known for label in labels}


def _marker(form: Form, nonce: str) -> str:
    if form == "json":
        return rf'"verdict"\s*+:{EDGES}'
    if form == "prometheus":
        return rf"\[RESULT\]{EDGES}[:=]?{EDGES}(?:(?:score|rating|response|answer)\b)?{EDGES}"
    return rf"VERDICT-{re.escape(nonce)}{EDGES}:{EDGES}"


def _token_of_verdict(
    tokens: Sequence[TokenProbability], marker: str, verdict: str
) -> TokenProbability | None:
    """Return the token in which the verdict begins, if the reply ends with it."""
    text = "".join(token.token for token in tokens)
    places = [match.end() for match in re.finditer(marker, text, re.IGNORECASE)]
    if not places or fold_label(text[places[-1] :].rstrip(". \n")) != fold_label(verdict):
        return None
    start = 0
    for token in tokens:
        start += len(token.token)
        if places[-1] < start:
            return token
    return None


def _masses(
    top: Mapping[str, float], labels: Sequence[str]
) -> tuple[defaultdict[str, float], float]:
    """Return the probability of each label, and that of tokens which could begin several."""
    mass: defaultdict[str, float] = defaultdict(float)
    for token, logprob in top.items():
        label = _label_begun(token, labels)
        if label is not None and logprob <= 0:
            mass[label] += math.exp(logprob)
    return mass, mass.pop("", 0.0)


def _label_begun(token: str, labels: Sequence[str]) -> str | None:
    """Return the label that `token` begins, "" if it could begin several, None for none."""
    piece = fold_label(token.strip(EDGE_OF_TOKEN))
    begun = [label for label in labels if piece and fold_label(label).startswith(piece)]
    if token.rstrip(EDGE_OF_TOKEN) != token:  # nothing of the label can follow
        begun = [label for label in begun if fold_label(label) == piece]
    if len(begun) > 1:
        return ""
    return begun[0] if begun else None


# -- JSON objects ----------------------------------------------------------------------------------

ProtocolName = Literal["pairwise", "direct", "listwise"]
FENCED = re.compile(r"\A```(?:json)?[ \t]*\n(.*)\n[ \t]*```\Z", re.DOTALL | re.IGNORECASE)
EXPECTED_OBJECT = "the JSON object that was asked for, alone"
NOT_OFFERED = "The verdict in the JSON object is none of those that were asked for."


def parse_structured(
    reply: str,
    protocol: ProtocolName,
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
        return without_verdict(reply, cut_off, EXPECTED_OBJECT)
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
        return without_verdict(str(reply), cut_off, EXPECTED_OBJECT)
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
