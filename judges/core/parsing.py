"""The reader of judges' replies. Total: any text gives a ReadReply, and none raises.

A reply is a JSON object that holds to a schema, or reasons with the verdict alone on the last line,
beside the call's code. Everything else is unreadable or a refusal: never a tie, and never the first
letter that appears. Nothing here understands words, so nothing is guessed from them.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

# Raise it when a rule changes that the corpus does not show: another reader makes other judges.
RULES = 1
LONGEST_REPLY = 50_000
REFUSAL_WITHIN = 400
Outcome = Literal["left", "right", "tie"]
State = Literal["done", "unreadable", "refused"]
Order = tuple[tuple[int, ...], ...]
ProtocolName = Literal["pairwise", "direct", "listwise"]
LETTERS: dict[str, Outcome] = {"A": "left", "B": "right", "TIE": "tie"}
# What models put around a verdict: emphasis, code, headings, quotes, brackets. Not "~", which
# strikes out, and nothing that can be part of a number ("-", ".", "/").
EDGE = " *_`#\"'“”„‟‘’‚‛«»‹›【】()[]{}|\\"
EDGES = f"[{re.escape(EDGE)}]*+"
BETWEEN = rf"{EDGES}[:=]?{EDGES}"
# NFKC would turn "4²" into "42": raised and lowered digits are kept apart from their neighbours.
BEFORE_FOLDING = str.maketrans(
    {"−": "-"} | {digit: f"^{digit}" for digit in "⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉"}
)


@dataclass(frozen=True)
class ReadReply:
    """What a reply means. Exactly one of the four verdicts is set when `state` is "done".

    outcome: of two responses as shown; left is the first one.
    label: of one response; spelled as the scale spells it.
    order: of several responses, best to worst: groups of positions as shown, from 0, each group
        a tie.
    met: for each item of a checklist, whether it is met.
    note: for people: why there is no verdict.
    """

    state: State
    outcome: Outcome | None = None
    label: str | None = None
    order: Order | None = None
    met: tuple[bool, ...] | None = None
    note: str = ""


def unreadable(note: str) -> ReadReply:
    return ReadReply("unreadable", note=note)


def fold(text: str) -> str:
    """Return `text` in one line, lower case and NFKC, without invisible characters."""
    composed = unicodedata.normalize("NFKC", text.translate(BEFORE_FOLDING))
    return " ".join("".join(map(_shown, composed)).split()).casefold()


def _shown(character: str) -> str:
    category = unicodedata.category(character)
    return "" if category == "Cf" else " " if category == "Cc" else character


def fold_label(label: str) -> str:
    """Return what a label looks like in a folded text, without decoration around it."""
    return fold(label).strip(EDGE)


def _any_of(labels: Iterable[str]) -> str:
    """Return a regular expression for any of `labels` in a folded text, the longest first."""
    words = sorted({fold_label(label) for label in labels} - {""}, key=len, reverse=True)
    return "|".join(map(re.escape, words)) or "(?!)"


# What models think, or write before their final channel, is not part of the reply.
THOUGHT = r"(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis)\s*>"
THOUGHT_ENDS = re.compile(
    rf"</{THOUGHT}|\[/think\]|◁/think▷|<\|channel\|>\s*final\s*<\|message\|>", re.IGNORECASE
)
THOUGHT_BEGINS = re.compile(
    rf"<{THOUGHT}|\[think\]|◁think▷|<\|channel\|>\s*(?:analysis|commentary)\b", re.IGNORECASE
)
END_TOKENS = re.compile(
    r"</s>|<\|[a-z0-9_ ]{1,30}\|>|<｜[^｜<>]{1,30}｜>|<(?:end_of_turn|eos|eot|pad)>", re.IGNORECASE
)


def final_text(reply: str) -> str:
    """Return a reply without the model's thinking and the tokens that end it.

    If the thinking never ends, nothing after it is left.
    """
    text = reply[[0, *(tag.end() for tag in THOUGHT_ENDS.finditer(reply))][-1] :]
    if begun := THOUGHT_BEGINS.search(text):
        text = text[: begun.start()]
    return END_TOKENS.sub("\n", text)


# In the first words of a reply. In other languages a refusal is unreadable: missing data as well.
REFUSALS = re.compile(
    r"\b(?:i|we)(?: can't| cannot| won't| will not|(?: am|'m) (?:not able|unable) to"
    r"| must decline to| decline to| must refuse to| refuse to|(?: am|'m) not comfortable)"
    r" (?:assist|assess|help|comply|judg|compar|evaluat|rat|engag|continu|answer|fulfil|respond"
    r"|proceed|grad|scor|choos)"
)


def _useless(reply: str) -> ReadReply | None:
    if not reply.strip():
        return unreadable("The reply is empty.")
    if len(reply) > LONGEST_REPLY:
        return unreadable(f"The reply is longer than {LONGEST_REPLY} characters.")
    return None


def _without_verdict(reply: str, cut_off: bool, asked_for: str) -> ReadReply:
    """Classify a reply without a verdict; `asked_for` names what it should end with."""
    if REFUSALS.search(reply[:REFUSAL_WITHIN].lower().replace("’", "'")):
        return ReadReply("refused", note="The model declined to judge.")
    if cut_off:
        return unreadable("The reply was cut off before a verdict.")
    return unreadable(f"The reply does not end with {asked_for}.")


# The code is the call's own, and answers cannot contain it, so a verdict in a quoted answer is
# never taken for the judge's. Its line must hold the verdict alone and be the last one.

EXPECTED_LINE = "the requested verdict line"
CUT_OFF = "The reply was cut off, so its verdict may not be complete."
DRAWN = " -*_=`#"  # lines of these alone are rules and fences
LEAD = rf"[{re.escape(' -*_`#' + chr(34))}]*+"


def parse_pairwise(reply: str, nonce: str, *, cut_off: bool = False) -> ReadReply:
    """Read which of two responses is better: `VERDICT-<nonce>: A`, `B` or `TIE`."""
    verdict = _verdict_line(
        reply, nonce, rf"(?:(?:answer|response) )?({_any_of(LETTERS)})", cut_off
    )
    return verdict if isinstance(verdict, ReadReply) else _choice(verdict)


def parse_direct(
    reply: str, nonce: str, labels: Sequence[str], *, cut_off: bool = False
) -> ReadReply:
    """Read the label that one response gets: `VERDICT-<nonce>: 3`; `labels` go up to the best."""
    verdict = _verdict_line(reply, nonce, _label_of_scale(labels), cut_off)
    return verdict if isinstance(verdict, ReadReply) else _label(verdict, labels)


def parse_listwise(reply: str, nonce: str, n: int, *, cut_off: bool = False) -> ReadReply:
    """Read the order of `n` responses, 26 at most: `VERDICT-<nonce>: B > A = C`."""
    letter = rf"{EDGES}(?:answer |response )?[a-z]{EDGES}"
    verdict = _verdict_line(reply, nonce, f"({letter}(?:[>=]{letter})*+)", cut_off)
    if isinstance(verdict, ReadReply):
        return verdict
    groups = re.sub("answer |response ", "", verdict).split(">")
    return _order([[letter.strip(EDGE) for letter in group.split("=")] for group in groups], n)


def parse_checklist(reply: str, nonce: str, n: int, *, cut_off: bool = False) -> ReadReply:
    """Read `VERDICT-<nonce> 1: YES` for each of `n` items, on the last lines of the reply.

    Unreadable unless each item has one answer, alone on its line and the same wherever it appears.
    """
    lines = _lines_of(reply, nonce, "a line with YES or NO for each item", cut_off)
    if isinstance(lines, ReadReply):
        return lines
    line = re.compile(rf"{_mark(nonce)}{EDGES}(\d{{1,3}}){EDGES}[:=]{EDGES}(yes|no)[.! *_`]*")
    if _code(nonce) not in lines[-1]:
        return unreadable("Something follows the items' answers.")
    answers: dict[int, set[str]] = {}
    for text in (text for text in lines if _code(nonce) in text):
        match = line.fullmatch(text)
        if match is None:
            return unreadable("A line with an item's answer says something other than YES or NO.")
        answers.setdefault(int(match[1]), set()).add(match[2])
    if sorted(answers) != list(range(1, n + 1)) or any(len(said) > 1 for said in answers.values()):
        return unreadable(f"The reply does not answer each of the {n} items exactly once.")
    return ReadReply("done", met=tuple("yes" in answers[number] for number in range(1, n + 1)))


def _verdict_line(reply: str, nonce: str, value: str, cut_off: bool) -> str | ReadReply:
    """Return the folded verdict on the last line (group 1 of `value`), or why there is none."""
    lines = _lines_of(reply, nonce, EXPECTED_LINE, cut_off)
    if isinstance(lines, ReadReply):
        return lines
    whole = re.compile(rf"{_mark(nonce)}{EDGES}[:=]{EDGES}{value}{EDGES}\.?{EDGES}")
    *above, last = lines
    if _code(nonce) not in last:
        return unreadable("Something follows the verdict line.")
    match = whole.fullmatch(last)
    if match is None:
        return unreadable("The last line does not hold one of the possible verdicts alone.")
    others = [whole.fullmatch(line) for line in above if _code(nonce) in line]
    if any(other is None or other[1] != match[1] for other in others):
        return unreadable("The reply contains different verdicts.")
    if above and above[-1].rstrip(EDGE).endswith(":"):
        return unreadable("The words that lead to the verdict line may make it an example.")
    return match[1].strip(EDGE)


def _lines_of(reply: str, nonce: str, asked_for: str, cut_off: bool) -> list[str] | ReadReply:
    """Return the folded lines of a whole reply with the code in one of them."""
    if trouble := _useless(reply):
        return trouble
    text = final_text(reply)
    lines = [line for line in map(fold, text.splitlines()) if line.strip(DRAWN)]
    if not any(_code(nonce) in line for line in lines):
        return _without_verdict(text, cut_off, asked_for)
    begun = [tag.start() for tag in THOUGHT_BEGINS.finditer(reply)]
    ended = [tag.end() for tag in THOUGHT_ENDS.finditer(reply)]
    if cut_off or max(begun, default=-1) >= max(ended, default=0):
        return unreadable(CUT_OFF)
    return lines


def _code(nonce: str) -> str:
    return f"verdict-{nonce.lower()}"


def _mark(nonce: str) -> str:
    return rf"{LEAD}{re.escape(_code(nonce))}"


def _choice(verdict: str) -> ReadReply:
    return ReadReply("done", outcome=LETTERS[verdict.upper()])


def _label_of_scale(labels: Sequence[str]) -> str:
    """Return a regular expression for a label, where the best one may follow as in 4/5."""
    best = re.escape(fold_label(labels[-1])) if labels else "(?!)"
    named = rf"(?:(?:score|rating|level)\b{BETWEEN})?"
    return rf"{named}({_any_of(labels)})(?:{EDGES}(?:/|out of){EDGES}{best})?"


def _label(verdict: str, labels: Sequence[str]) -> ReadReply:
    spelled = [label for label in labels if fold_label(label) == verdict]
    if len(spelled) != 1:
        return unreadable("The verdict could be more than one entry of the scale.")
    return ReadReply("done", label=spelled[0])


def _order(groups: Sequence[Iterable[str]], n: int) -> ReadReply:
    """Return groups of letters as an order of the positions 0 to n - 1, each of them once."""
    order = tuple(tuple(sorted(ord(letter) - ord("a") for letter in group)) for group in groups)
    if sorted(place for group in order for place in group) != list(range(n)) or () in order:
        return unreadable(f"The verdict does not name each of the {n} answers once.")
    return ReadReply("done", order=order)


# These models were trained without a code, so the rule is strict: the last `[RESULT]` is followed
# by the verdict and nothing but decoration, and no other `[RESULT]` gives another verdict.

MARK = re.compile(r"\[ ?result ?\]")
EXPECTED_RESULT = "[RESULT] and one of the possible verdicts"


def parse_prometheus_score(
    reply: str, labels: Sequence[str], *, cut_off: bool = False
) -> ReadReply:
    """Read `[RESULT] 4`, also as `(4)`, `Score 4` or `4/5`; `labels` go from worst to best."""
    result = _last_result(reply, _label_of_scale(labels), cut_off)
    return result if isinstance(result, ReadReply) else _label(result, labels)


def parse_prometheus_pairwise(reply: str, *, cut_off: bool = False) -> ReadReply:
    """Read `[RESULT] A` or `B`, also as `Response A`. The format knows no tie."""
    value = rf"(?:(?:response|answer)\b{BETWEEN})?([ab])"
    result = _last_result(reply, value, cut_off)
    return result if isinstance(result, ReadReply) else _choice(result)


def _last_result(reply: str, value: str, cut_off: bool) -> str | ReadReply:
    """Return the folded verdict after the last mark, or what the reply means without one."""
    if trouble := _useless(reply):
        return trouble
    text = fold(final_text(reply))
    marks = list(MARK.finditer(text))
    last = marks and re.compile(rf"{BETWEEN}{value}{EDGES}\.?{EDGES}").fullmatch(
        text, marks[-1].end()
    )
    if not last:
        return _without_verdict(text, cut_off, EXPECTED_RESULT)
    given = re.compile(rf"{BETWEEN}{value}(?!\w)")
    if any((other := given.match(text, mark.end())) and other[1] != last[1] for mark in marks):
        return unreadable("The reply contains different results.")
    opened = text[max(0, len(text[: marks[-1].start()].rstrip()) - 1) : last.start(1)]
    if re.search('["”]', text[last.end(1) :]) and not re.search('["“]', opened):
        return unreadable("The result stands in a quotation.")
    if cut_off:
        return unreadable(CUT_OFF)
    return last[1]


FENCED = re.compile(r"\A```(?:json)?[ \t]*\n(.*)\n[ \t]*```\Z", re.DOTALL | re.IGNORECASE)
EXPECTED_OBJECT = "the requested JSON object"
NOT_OFFERED = "The verdict in the JSON object is not one of the possible verdicts."
REASONED, ALONE = {"reasoning", "verdict"}, {"verdict"}


def parse_structured(reply: str, asked: "Asked", *, cut_off: bool = False) -> ReadReply:
    """Read the JSON object that a schema asked for; the object must be the whole reply.

    It has the keys `reasoning` and `verdict` alone, or `verdict` alone where it repairs a reply.
    pairwise: "A", "B" or "TIE". direct: one of the labels, as text or as an integer, or for a
    checklist an object of booleans by number. listwise: the letters of the answers from best to
    worst, where a list within the list is a tie.
    """
    if trouble := _useless(reply):
        return trouble
    content = _object(reply)
    if content is None:
        return _without_verdict(reply, cut_off, EXPECTED_OBJECT)
    if set(content) not in ((ALONE,) if asked.repairs else (REASONED, ALONE)):
        return unreadable("The JSON object has other keys than were asked for.")
    return _meaning_of(content["verdict"], asked)


def _meaning_of(verdict: Any, asked: "Asked") -> ReadReply:
    if asked.items:
        return _answers(verdict, asked.items)
    if asked.protocol == "listwise":
        groups = _groups_of(verdict)
        return unreadable(NOT_OFFERED) if groups is None else _order(groups, asked.n)
    said = fold(str(verdict)) if type(verdict) in (str, int) else ""
    if said not in map(fold, asked.labels if asked.protocol == "direct" else LETTERS):
        return unreadable(NOT_OFFERED)
    return _label(said, asked.labels) if asked.protocol == "direct" else _choice(said)


def _answers(verdict: Any, items: int) -> ReadReply:
    numbers = [str(number) for number in range(1, items + 1)]
    if not isinstance(verdict, dict) or sorted(verdict) != sorted(numbers):
        return unreadable(f"The reply does not answer each of the {items} items exactly once.")
    if not all(isinstance(said, bool) for said in verdict.values()):
        return unreadable("An item's answer is neither true nor false.")
    return ReadReply("done", met=tuple(verdict[number] for number in numbers))


def _object(reply: str) -> dict[str, Any] | None:
    """Return the JSON object that a reply is. Its strings may hold "</think>", so all of it comes
    first."""
    for text in (reply, final_text(reply)):
        fenced = FENCED.match(text.strip())
        try:
            content = DECODER.decode(fenced[1] if fenced else text.strip())
        except (ValueError, RecursionError):
            continue
        return content if isinstance(content, dict) else None
    return None


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key that appears twice: the second would win unnoticed."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key comes twice")
    return dict(pairs)


# Models write line breaks into strings as they are.
DECODER = json.JSONDecoder(object_pairs_hook=_without_doubles, strict=False)


def _groups_of(verdict: Any) -> list[list[str]] | None:
    """Return a list of letters, or of lists of letters, as groups in lower case."""
    if not isinstance(verdict, list):
        return None
    groups = [group if isinstance(group, list) else [group] for group in verdict]
    letters = [fold(letter) if isinstance(letter, str) else "" for g in groups for letter in g]
    if not all(len(letter) == 1 for letter in letters):
        return None
    return [[fold(letter) for letter in group] for group in groups]


def read_note(reply: str) -> str:
    """Return a grading note: the string of its JSON object, even if it was cut off, or the text."""
    text = final_text(reply).strip()
    if not text.startswith("{"):
        return text
    for end in ("", '"}', "}"):
        try:
            content = DECODER.decode(f"{text}{end}")
        except (ValueError, RecursionError):
            continue
        return str(content.get("note", "")).strip()
    return text


BETTER = (
    r"better|best|stronger|superior|preferable|preferred|higher|winner|wins|more (?:accurate"
    r"|complete|comprehensive|correct|detailed|helpful|informative|precise|relevant|thorough|useful)"
)
WINNER = re.compile(
    rf"\b(?:answer|response) (a|b)\b(?: is| was|'s|,)?(?: \w+){{0,3}}? (?:{BETTER})\b"
    r"|\b(?:prefer|choose|favou?r) (?:answer|response) (a|b)\b"
)


def last_named_winner(reasons: str) -> Outcome | None:
    """Return the answer that the reasons name last as the better one; None if they name none."""
    named = [next(filter(None, match.groups())) for match in WINNER.finditer(fold(reasons))]
    return LETTERS[named[-1].upper()] if named else None


@dataclass(frozen=True)
class Asked:
    """What a reply was asked for.

    labels: of the scale of a direct assessment, from worst to best. n: how many responses were
    shown. items: how many questions of a checklist. prometheus: the formats of its models.
    structured: a JSON object. repairs: the verdict alone, after a reply without one.
    """

    protocol: ProtocolName
    nonce: str
    labels: tuple[str, ...] = ()
    n: int = 2
    items: int = 0
    prometheus: bool = False
    structured: bool = False
    repairs: bool = False


def read_reply(reply: str, asked: Asked, *, cut_off: bool = False) -> ReadReply:
    """Read a reply in the form that was asked for. A server that was asked for an object and
    answered in words did not hold the model to it: that is read as text."""
    begins_object = any(
        text.lstrip().startswith(("{", "```")) for text in (reply, final_text(reply))
    )
    if asked.structured and (begins_object or asked.nonce.lower() not in reply.lower()):
        return parse_structured(reply, asked, cut_off=cut_off)
    readers: dict[str, Callable[[], ReadReply]] = {
        "items": lambda: parse_checklist(reply, asked.nonce, asked.items, cut_off=cut_off),
        "pairwise": lambda: parse_pairwise(reply, asked.nonce, cut_off=cut_off),
        "direct": lambda: parse_direct(reply, asked.nonce, asked.labels, cut_off=cut_off),
        "listwise": lambda: parse_listwise(reply, asked.nonce, asked.n, cut_off=cut_off),
        "prometheus pairwise": lambda: parse_prometheus_pairwise(reply, cut_off=cut_off),
        "prometheus direct": lambda: parse_prometheus_score(reply, asked.labels, cut_off=cut_off),
    }
    trained = "prometheus " if asked.prometheus else ""
    return readers["items" if asked.items else f"{trained}{asked.protocol}"]()


@dataclass(frozen=True)
class GoldenReply:
    """A reply of the corpus, what it was asked for, and what a careful person reads in it."""

    reply: str
    asked: Asked
    meaning: Any = None

    NONCE = "0f1e2d3c4b5a6978"

    def read(self) -> ReadReply:
        return read_reply(self.reply.replace("{V}", f"VERDICT-{self.NONCE}"), self.asked)


@cache
def golden_replies() -> tuple[GoldenReply, ...]:
    """Return the corpus on which readers are told apart."""
    text = Path(__file__).with_name("golden_replies.jsonl").read_text(encoding="utf-8")
    golden = []
    for row in map(json.loads, text.splitlines()):
        reply, meaning = row.pop("reply"), row.pop("meaning")
        labels = tuple(row.pop("labels", ()))
        asked = Asked(nonce=GoldenReply.NONCE, labels=labels, **row)
        golden.append(GoldenReply(reply, asked, meaning))
    return tuple(golden)


@cache
def reader_digest() -> str:
    """Return the SHA-256 of the reader: its rules, and what it makes of the corpus."""
    readings = [[golden.reply, astuple(golden.read())[:-1]] for golden in golden_replies()]
    return hashlib.sha256(json.dumps([RULES, readings]).encode()).hexdigest()
