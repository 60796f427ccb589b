"""Parsers of judges' replies. Total: any text gives a ReadReply, and none raises.

Only an unambiguous verdict, in the form that was asked for, is a verdict. Everything else is
unreadable or a refusal: never a tie, and never the first letter that appears.
"""

import html
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from judges.core.doubts import (
    CROSSED_OUT,
    NOUN,
    PERHAPS,
    PICTURES,
    PRIVATE,
    REFUSALS,
    Kind,
    doubt_after,
    doubt_before,
    final_text,
    name_of,
    takes_back,
    thinks_on,
)

# Part of a judge's digest: another way of reading makes another judge.
PARSER_VERSION = 3
LONGEST_REPLY = 50_000
REFUSAL_WITHIN = 400
Outcome = Literal["left", "right", "tie"]
State = Literal["done", "unreadable", "refused"]
Order = tuple[tuple[int, ...], ...]
LETTERS: dict[str, Outcome] = {"A": "left", "B": "right", "TIE": "tie"}
# What models put around a verdict: emphasis, code, headings, quotes, brackets, table bars. Not
# "~", which strikes out, and nothing that can be part of a number ("-", ".", "/").
EDGE = " *_`#\"'“”„‟‘’‚‛«»‹›【】()[]{}|\\"
EDGES = f"[{re.escape(EDGE)}]*+"
MINUS = {"−": "-"}
# NFKC would turn "4²" into "42": superscript and subscript digits are separated from their
# neighbours.
RAISED = {digit: f"^{digit}" for digit in "⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉"}
BEFORE_FOLDING = str.maketrans(MINUS | RAISED)
APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "ʼ": "'"})


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
    return _spell_out(text).casefold()


def _spell_out(text: str) -> str:
    """Return `text` in one line and NFKC, without invisible characters; capitals stay."""
    composed = unicodedata.normalize("NFKC", text.translate(BEFORE_FOLDING))
    return " ".join("".join(map(_shown, composed)).split())


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
    spelled = [label for label in labels if fold_label(label) == fold_label(text)]
    return spelled[0] if len(spelled) == 1 else None


def any_label(labels: Iterable[str]) -> str:
    """Return a regular expression for any of `labels` in a folded text, the longest first."""
    words = sorted({fold_label(label) for label in labels} - {""}, key=len, reverse=True)
    return f"(?:{'|'.join(map(re.escape, words)) or '(?!)'})(?!(?!分)\\w)"


def complete_order(groups: Sequence[Iterable[int]], n: int) -> Order | None:
    """Return `groups` as an order of the positions 0 to n - 1; None unless each is there once."""
    order = tuple(tuple(sorted(group)) for group in groups)
    positions = sorted(position for group in order for position in group)
    return order if positions == list(range(n)) else None


# The nonce is the call's own, and answers cannot contain it, so a verdict in a quoted answer is
# never taken for the judge's. The last line with the nonce counts, unless words around it leave it
# in doubt (doubts.py says which do), or another line with the nonce gives another verdict: lines
# next to it (the list of forms, repeated), or one above it that is not taken back in between.

EXPECTED_LINE = "the requested verdict line"
SEVERAL = "The reply contains different verdicts."
BEFORE = "The words before the verdict may change its meaning."
AFTER = "The words after the verdict may change its meaning."
QUOTE_MARK = re.compile(r"\A[> ]+")
IN_ANGLES = re.compile(r"<([^<>]*)>")
# Tags that decorate. A lone <B> may be a verdict, and <del> and <!-- take back what they enclose.
TAGS = re.compile(
    r"</?(?:strong|em|i|u|p|br|span|div|code|pre|h[1-6]|td|tr|verdict|score|rating|answer|output"
    r"|json|final)\s*/?>|<b>(?=.*</b>)|</b>"
)
LATEX = re.compile(r"\\(?:boxed|text(?:bf|it|tt|rm)?|math(?:bf|rm|tt)|mathbf)(?=\{)|\$")
TABLE_BAR = re.compile(r"(VERDICT-\w+\s*)\|", re.IGNORECASE)
UNDERSCORES = re.compile(r"(?<![^\W_])_{1,3}|_{1,3}(?![^\W_])")
WITHOUT_EDGES = str.maketrans("", "", EDGE)
# One letter after another; each step between them is one of these two signs.
OF_LIST = r"(?:(?:answer|response)\s)?"
CHAIN = rf"[a-z](?!\w)(?:{EDGES}[>=]{EDGES}{OF_LIST}[a-z](?!\w))*+"
# Between mark and verdict: a sign, decoration, and a few words, but nothing that crosses out.
SEPARATOR = r"(?:[:=]{1,2}|[-=]?>|→|➡|[—–]|-(?= )|is\b)"
THE_BETTER = (
    rf"(?:i (?:choose|chose|prefer|pick|give (?:this|it)|rate (?:this(?: {NOUN})?|it)(?: as)?) "
    rf"|choose |the (?:better|best|winning|preferred) {NOUN} is "
    r"|(?:it'?s |it is |this is )?an? (?=tie\b))"
)
BEFORE_VALUE = (
    rf"(?:[{re.escape(EDGE)}]|{PICTURES})*?{THE_BETTER}?"
    rf"(?:{NOUN}{EDGES}(?:of (?=\d)|:|=|is )?{EDGES})?(?:an? (?=\d))?"
    r"(?:(?:one|two|three|four|five|six|seven|eight|nine|ten)\W{1,3}(?=\d))?"
)
# A or B, but not the article. Chinese and Japanese put no space beside it.
APART = r"(?<![a-z0-9_À-ɏ]){}(?![a-z0-9_À-ɏ])"
LETTER = APART.format(r"((?-i:[ABb]|a(?=\W*\Z|\W*[/|,>=]))|tied?)")
NAMED_CHOICE = re.compile(rf"(?:(?:the )?{NOUN}\W{{1,3}})?{LETTER}", re.IGNORECASE)
VERB_OR_END = r"(?=\W*\Z|\W*[.,;:\n)]| (?:is|was|has|had|\w+s|\w+ed)\b)"
OTHERWISE = (
    r"\b(?:d(?:ie|er|as) andere|l'autre|[el][al] otr[ao]|[ao] outr[ao]|l'altr[ao]|друг(?:ой|ая))\b"
    "|另一个|另一個|もう一方|他の回答|다른"
)
OTHER_NAMES = {
    name: re.compile(rf"\b(?:the )?{words}\b|\bthe {alone}{VERB_OR_END}|{signs}", re.IGNORECASE)
    for name, words, alone, signs in (
        ("A", rf"first (?:{NOUN}|one)", "(?:former|first)", "第一个(?:答案|回答)|前者"),
        ("B", rf"second (?:{NOUN}|one)", "(?:latter|second)", "第二个(?:答案|回答)|后者|後者"),
        ("", rf"(?:other|alternative) {NOUN}", "other(?: one)?", OTHERWISE),
    )
}
# "A" at the beginning of a sentence may be an article, unless a verb follows.
ARTICLE = re.compile(
    r"((?:\A|[.!?:\n(–—-])[\s*_\"'(]{0,4})A(?= (?!(?:is|was|has|had|does|did|gave|wins?|won|and|or"
    r"|over|\w+s|\w+ed|\w+ly|ist|hat|war|est|es|é|è|ha|tiene|tem)\b)\w)"
)
NO_COUNT = r"(?! (?!points|pts|stars|is|was|as|has|this)[a-z]+s\b)"  # "all 3 laws"
LEVEL = rf"(?:(?:level|step|rank|stage|{NOUN})\W{{1,2}})?"
OF_SCALE = re.compile(r"(?i)\bscale\b[^.\n\d]{0,20}\d+(?:\.\d+)? ?(?:to|-|–) ?\d+(?:\.\d+)?")


@dataclass(frozen=True)
class _Verdicts:
    """The verdicts of a protocol.

    value: a regular expression for a verdict in a folded text. named: how words name a verdict, in
    capitals; the first group is the verdict alone. place: where the verdict (the first) puts what
    the second names, from 0, the best or the chosen one; None if that is no name. kind: what words
    around a verdict are compared with. plain: words without what merely repeats the verdict, and
    with the names that `named` knows.
    """

    value: str
    named: re.Pattern[str]
    meaning: Callable[[str], ReadReply]
    place: Callable[[str, str], int | None]
    kind: Callable[[str], Kind]
    plain: Callable[[str, str], str]

    def with_names(self, value: str, words: str) -> str:
        """Return `words`, folded, with the names of answers as `name_of` gives them."""

        def name(match: re.Match[str]) -> str:
            label = fold_label(match[1])
            place = self.place(value, label)
            return match[0] if place is None else name_of(place, ord(label[0]))

        words = self.named.sub(name, self.plain(value, words))
        return words.casefold().translate(APOSTROPHES)

    def doubt(self, value: str, before: str, after: str, above: str = "") -> str:
        """Return why the words around a verdict leave it in doubt; "" if they do not."""
        kind = self.kind(value)
        before, above, after = (self.with_names(value, words) for words in (before, above, after))
        if doubt_before(kind, before, above):
            return BEFORE
        return AFTER if doubt_after(kind, after) else ""


def parse_pairwise(reply: str, nonce: str, *, cut_off: bool = False) -> ReadReply:
    """Read which of two responses is better: `VERDICT-<nonce>: A`, `B` or `TIE`."""
    return _parse(reply, nonce, _choices(), cut_off)


def _choices() -> _Verdicts:
    def meaning(value: str) -> ReadReply:
        return ReadReply("done", outcome=LETTERS[value.upper()])

    def place(value: str, label: str) -> int | None:
        if value == "tie":
            return None if label in ("tie", "tied") else 0
        return int(label != value)

    def plain(value: str, words: str) -> str:
        words = ARTICLE.sub(rf"\1{PERHAPS}", words)
        for name, other_name in OTHER_NAMES.items():
            words = other_name.sub(name or ("B" if value == "a" else "A"), words)
        return words

    return _Verdicts(
        any_label(LETTERS),
        NAMED_CHOICE,
        meaning,
        place,
        lambda value: "tie" if value == "tie" else "comparison",
        plain,
    )


def parse_direct(
    reply: str, nonce: str, labels: Sequence[str], *, cut_off: bool = False
) -> ReadReply:
    """Read the label that one response gets: `VERDICT-<nonce>: 3`; `labels` go up to the best."""
    return _parse(reply, nonce, _scores(labels), cut_off)


def _scores(labels: Sequence[str]) -> _Verdicts:
    def meaning(value: str) -> ReadReply:
        label = label_of(value, labels)
        if label is None:
            return unreadable("The verdict could be more than one entry of the scale.")
        return ReadReply("done", label=label)

    def plain(value: str, words: str) -> str:
        words = OF_SCALE.sub(" ", repeats.sub("", words))
        if value in folded and not value[-1:].isdigit():  # "good (level 3 of 4)"
            rank = folded.index(value) + 1
            words = re.sub(rf"\A(\W{{0,9}}){LEVEL}{rank}{out_of}?(?!\w|[.,]\d)", r"\1", words)
        return words

    folded = [fold_label(label) for label in labels]
    last = re.escape(folded[-1]) if labels else "(?!)"
    best = rf"(?:{last}|{len(labels)})"
    out_of = rf"(?:{EDGES}(?:/|(?:out )?of|de|von|sur|su){EDGES}{best}(?!\w|[.,]\d))"
    repeats = re.compile(rf"\A(?:\.0+(?![\w.,]))?{out_of}?", re.IGNORECASE)
    number = r"\d+(?:[.,]\d+)?" if any(label[-1:].isdigit() for label in labels) else r"\d+"
    named = re.compile(
        rf"(?:\ban? )?(?<!\w)(?<!\A[.,])({any_label(labels)}|{number}){NO_COUNT}{out_of}?",
        re.IGNORECASE,
    )
    return _Verdicts(
        any_label(labels),
        named,
        meaning,
        lambda value, label: int(label != value),
        lambda value: "score",
        plain,
    )


def parse_listwise(reply: str, nonce: str, n: int, *, cut_off: bool = False) -> ReadReply:
    """Read the order of `n` responses, 26 at most: `VERDICT-<nonce>: B > A = C`."""
    return _parse(reply, nonce, _orders(n), cut_off)


def _orders(n: int) -> _Verdicts:
    def meaning(value: str) -> ReadReply:
        order = order_of(value, n)
        if order is None:
            return unreadable(f"The verdict does not name each of the {n} answers once.")
        return ReadReply("done", order=order)

    def place(value: str, label: str) -> int | None:
        groups = re.sub(OF_LIST, "", value).split(">")
        return next((place for place, group in enumerate(groups) if label in group), len(groups))

    # "I" is a word, and letters beyond the last answer are none of its names.
    last = "A-" + chr(ord("A") + max(0, min(n, 26) - 1))
    letter = APART.format(rf"(?!I\b(?! [>=]))([{last}])")
    named = re.compile(rf"(?:(?i:{NOUN})\W{{1,3}})?{letter}")
    return _Verdicts(
        CHAIN,
        named,
        meaning,
        place,
        lambda value: "comparison" if ">" in value else "tie",
        lambda value, words: ARTICLE.sub(rf"\1{PERHAPS}", words),
    )


def order_of(chain: str, n: int) -> Order | None:
    """Return the order that "b > a = c" stands for; None unless each answer is named once."""
    groups = [group.split("=") for group in re.sub(OF_LIST, "", fold(chain)).split(">")]
    letters = [[letter.strip(EDGE) for letter in group] for group in groups]
    if not all(re.fullmatch("[a-z]", letter) for group in letters for letter in group):
        return None
    return complete_order([[ord(letter) - ord("a") for letter in group] for group in letters], n)


@dataclass(frozen=True)
class _MarkedLine:
    """A line with the nonce: its verdicts, and the words before and after them."""

    values: tuple[str, ...]
    before: str
    after: str

    @property
    def different(self) -> set[str]:
        return {value.translate(WITHOUT_EDGES) for value in self.values}


def _parse(reply: str, nonce: str, verdicts: _Verdicts, cut_off: bool) -> ReadReply:
    if trouble := useless(reply):
        return trouble
    text, is_open = final_text(reply), thinks_on(reply)
    mark = rf"verdict[ _‐–—{{-]{{0,3}}{re.escape(nonce.lower())}(?!\w)}}?"
    value = rf"{mark}{EDGES}{SEPARATOR}{BEFORE_VALUE}({verdicts.value})"
    lines = _lines(text, re.compile(rf"{mark}{EDGES}:?{EDGES}\Z"))
    verdict = re.compile(rf"{value}|({mark})")
    marked = {
        place: _read_line(line, verdict)
        for place, line in enumerate(lines)
        if re.search(mark, line.casefold())
    }
    if not marked:
        return without_verdict(text, cut_off, EXPECTED_LINE)
    last = max(marked)
    if doubt := _doubt(marked, last, lines, verdicts) or _other_verdict(marked, lines, verdicts):
        return unreadable(doubt)
    if cut_off or is_open:
        return unreadable("The reply was cut off, so its verdict may not be complete.")
    return verdicts.meaning(marked[last].values[0])


def _lines(text: str, mark_alone: re.Pattern[str]) -> list[str]:
    """Return the lines with words in them; a mark without its verdict takes the line below it."""
    lines: list[str] = []
    for line in map(_plain, text.splitlines()):
        if not line.strip(f"{EDGE}.~-"):
            continue
        if lines and mark_alone.search(lines[-1].casefold()):
            lines[-1] = f"{lines[-1].rstrip(f'{EDGE}:')}: {line}"
        else:
            lines.append(line)
    return lines


def _plain(line: str) -> str:
    """Return a line without quote marks, tags and what LaTeX and tables put around a verdict."""
    line = html.unescape(QUOTE_MARK.sub("", _spell_out(line))).replace("<!--", "~~")
    line = TAGS.sub(" ", re.sub(f"[{PRIVATE}]", " ", line))
    line = TABLE_BAR.sub(r"\1: ", LATEX.sub(" ", line))
    return IN_ANGLES.sub(r" \1 ", UNDERSCORES.sub(" ", line))


def _read_line(line: str, verdict: re.Pattern[str]) -> _MarkedLine:
    folded = line.casefold()
    matches = list(verdict.finditer(folded))
    capitals = line if len(line) == len(folded) else folded
    values = tuple((match[1] or "").strip(EDGE) for match in matches)
    return _MarkedLine(values, capitals[: matches[0].start()], capitals[matches[-1].end() :])


def _doubt(
    marked: dict[int, _MarkedLine], place: int, lines: list[str], verdicts: _Verdicts
) -> str:
    """Return why the verdict in a line, with the text around it, is not certain; "" if it is."""
    line = marked[place]
    if not line.values[0]:
        return "The verdict line names none of the possible verdicts."
    if len(line.different) > 1:
        return SEVERAL
    above = lines[place - 1] if place and place - 1 not in marked else ""
    closing = "\n".join(lines[place + 1 :]) if place == max(marked) else ""
    return verdicts.doubt(line.values[0], line.before, f"{line.after}\n{closing}", above)


def _other_verdict(marked: dict[int, _MarkedLine], lines: list[str], verdicts: _Verdicts) -> str:
    """Return SEVERAL if another line with the nonce gives another verdict that still stands.

    Lines next to each other that give several are the list of forms, repeated: no verdict of theirs
    counts. Neither does a line that lists the alternatives, or one that was taken back below.
    """
    listing = re.compile(rf"(?:\W|\b(?:or|oder|ou|o|and)\b)*{verdicts.named.pattern}")

    def is_between(place: int) -> bool:  # as "To choose B, write:" is, below "To choose A, write:"
        led = [place > 1 and lines[each].rstrip(EDGE).endswith(":") for each in (place, place - 2)]
        return len(lines[place].strip(EDGE)) <= 4 or all(led)

    runs: list[list[int]] = []
    for place, line in marked.items():
        if len(line.different) > 1 or listing.match(line.after) or CROSSED_OUT.search(line.before):
            continue
        if not runs or not all(map(is_between, range(runs[-1][-1] + 1, place))):
            runs.append([])
        runs[-1].append(place)
    last = max(marked)
    for run in reversed(runs):
        given = {value for place in run for value in marked[place].different} - {""}
        if given <= marked[last].different or (len(given) > 1 and run[-1] != last):
            continue
        if run[-1] == last or not _doubt(marked, run[-1], lines, verdicts):
            return "" if takes_back("\n".join(lines[run[-1] + 1 : last])) else SEVERAL
    return ""


# These models were trained without a nonce, so the rule is strict: the last `[RESULT]` is followed
# by the verdict and nothing but decoration, and no other `[RESULT]` gives another verdict.

MARK = re.compile(r"\[ ?result ?\]")
BETWEEN = rf"{EDGES}[:=]?{EDGES}"
DECORATED = rf"(?:[{re.escape(EDGE)}]|{PICTURES})*+"
EXPECTED_RESULT = "[RESULT] and one of the possible verdicts"


def parse_prometheus_score(
    reply: str, labels: Sequence[str], *, cut_off: bool = False
) -> ReadReply:
    """Read `[RESULT] 4`, also as `(4)`, `Score 4` or `4/5`; `labels` go from worst to best."""
    best = re.escape(fold_label(labels[-1])) if labels else "(?!)"
    value = rf"(?:(?:score|rating|level)\b{BETWEEN})?({any_label(labels)})"
    tail = rf"{value}(?:{EDGES}(?:/|out of){EDGES}{best}(?!\w))?"
    result = _last_result(reply, value, tail, cut_off)
    return result if isinstance(result, ReadReply) else _scores(labels).meaning(result)


def parse_prometheus_pairwise(reply: str, *, cut_off: bool = False) -> ReadReply:
    """Read `[RESULT] A` or `B`, also as `Response A`. The format knows no tie."""
    value = rf"(?:(?:response|answer)\b{BETWEEN})?([ab](?!\w))"
    result = _last_result(reply, value, value, cut_off)
    return result if isinstance(result, ReadReply) else _choices().meaning(result)


def _last_result(reply: str, value: str, tail: str, cut_off: bool) -> str | ReadReply:
    """Return the folded verdict after the last mark, or what the reply means without one."""
    if trouble := useless(reply):
        return trouble
    text = fold(final_text(reply))
    marks = list(MARK.finditer(text))
    whole = re.compile(rf"{BETWEEN}{tail}{DECORATED}\.?{DECORATED}")
    last = marks and whole.fullmatch(text, marks[-1].end())
    if not last:
        return without_verdict(final_text(reply), cut_off, EXPECTED_RESULT)
    pattern = re.compile(rf"{BETWEEN}{value}")
    if any((other := pattern.match(text, mark.end())) and other[1] != last[1] for mark in marks):
        return unreadable("The reply contains different results.")
    before, after = text[: marks[-1].start()], text[last.end(1) :]
    is_quoted = re.search('["”]', after) and not re.search(
        '["“]', text[len(before.rstrip()) - 1 : last.start(1)]
    )
    if is_quoted:
        return unreadable(BEFORE)
    if cut_off:
        return unreadable("The reply was cut off, so its verdict may not be complete.")
    return last[1].strip(EDGE)


ProtocolName = Literal["pairwise", "direct", "listwise"]
FENCED = re.compile(r"\A```(?:json)?[ \t]*\n(.*)\n[ \t]*```\Z", re.DOTALL | re.IGNORECASE)
FENCES = re.compile(r"(?:```|~~~)(?:json\w?)?", re.IGNORECASE)
NAMED = re.compile(rf"\A{EDGES}{NOUN}[\s:]*(?=\w)", re.IGNORECASE)
LAST_COMMA = re.compile(r",(?=\s*\}\s*\Z)")
MOST_BRACES = 100
EXPECTED_OBJECT = "the requested JSON object"
NOT_OFFERED = "The verdict in the JSON object is not one of the possible verdicts."


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
    content, before, after = _object(reply)
    if content is None:
        return without_verdict(reply, cut_off, EXPECTED_OBJECT)
    verdicts = {"pairwise": _choices(), "direct": _scores(labels), "listwise": _orders(n)}[protocol]
    value = fold_label(_value(content.get("verdict"), protocol))
    if not re.fullmatch(verdicts.value, value):
        return unreadable(NOT_OFFERED)
    doubt = verdicts.doubt(value, before, after)
    return unreadable(doubt) if doubt else verdicts.meaning(value)


def _object(reply: str) -> tuple[dict[str, Any] | None, str, str]:
    """Return the JSON object that a reply is, or the only one in its text, and the words around."""
    text = final_text(reply)
    for whole in (reply.strip(), text.strip()):
        fenced = FENCED.match(whole)
        try:
            content = DECODER.decode(LAST_COMMA.sub("", fenced[1] if fenced else whole))
        except (ValueError, RecursionError):
            continue
        return content if isinstance(content, dict) else None, "", ""
    return (None, "", "") if thinks_on(reply) else _only_object(text)


def _only_object(text: str) -> tuple[dict[str, Any] | None, str, str]:
    end = begin = text.find("{")
    for _ in range(MOST_BRACES):
        try:
            content, end = DECODER.raw_decode(text, begin)
            break
        except (ValueError, RecursionError):
            begin = text.find("{", begin + 1)
            if begin < 0:
                break
    before, after = (
        "\n".join(map(_plain, FENCES.sub("", part).splitlines()))
        for part in (text[:begin], text[end:])
    )
    if end == begin or "{" in f"{before}{after}" or not isinstance(content, dict):
        return None, "", ""
    return content, before.rstrip().rpartition("\n")[2], after


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a key that appears twice, regardless of capitals: the second would win unnoticed."""
    if len({key.casefold() for key, _ in pairs}) < len(pairs):
        raise ValueError("a key comes twice")
    return {key.casefold(): value for key, value in pairs}


DECODER = json.JSONDecoder(object_pairs_hook=_without_doubles)


def _value(verdict: Any, protocol: ProtocolName) -> str:
    """Return the `verdict` of an object as a line would have it; "" if it can be none."""
    if protocol == "listwise" and isinstance(verdict, list):
        groups = [group if isinstance(group, list) else [group] for group in verdict]
        is_order = all(
            isinstance(letter, str) and len(fold_label(letter)) == 1
            for group in groups
            for letter in group
        )
        return " > ".join(map(" = ".join, groups)) if is_order else ""
    return NAMED.sub("", str(verdict)) if type(verdict) in (str, int) else ""
