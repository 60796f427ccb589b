"""Strangers' texts made safe to show a judge: normalised, and fenced or neutralised.

For the judge only: people and exports get the texts as they are.
"""

import re
import unicodedata

KEPT_CONTROLS = {"\n", "\t"}
UNWANTED = {"Cc", "Cf", "Cs", "Co", "Cn"}
# Characters that show nothing although they count as letters or marks. The two variation
# selectors that choose between text and emoji are in use and stay.
BLANK = {*map(chr, [0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0])} | {
    *map(chr, range(0xFE00, 0xFE0E)),
    *map(chr, range(0xE0100, 0xE01F0)),
}
LINE_END = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")
# Plain letters and digits in place of these would say something else: x2 is not x².
MEANINGFUL = ("<super>", "<sub>", "<fraction>")
NONCE = re.compile(r"[0-9a-f]{8,32}")
# What the Prometheus formats mean by their marks. A heading of Markdown has a space after its
# hashes and keeps them; one that is glued, or bears a name of the format's own, does not.
RESULT = re.compile(r"\[\s*+(result)\s*+\]", re.IGNORECASE)
OWN_HEADING = re.compile(
    r"(?<!#)#{3,}+(\s*+(?:task description|the instruction to evaluate|instruction|response"
    r"|reference answer|score rubrics?|feedback)\b)",
    re.IGNORECASE,
)
GLUED_HEADING = re.compile(r"(?<!#)(#{3,}+)(?=\S)")


def check_nonce(nonce: str) -> None:
    """Raise ValueError unless `nonce` can stand in a tag."""
    if not NONCE.fullmatch(nonce):
        raise ValueError("A nonce is 8 to 32 hexadecimal digits.")


def fence(name: str, text: str, nonce: str) -> str:
    """Put `text` between tags that it cannot close."""
    return f"<{name}-{nonce}>\n{without_nonce(normalise(text), nonce)}\n</{name}-{nonce}>"


def without_nonce(text: str, nonce: str) -> str:
    """Return `text` with every `nonce` broken up, so that none is left or comes about."""
    return re.sub(re.escape(nonce), "[...]", text, flags=re.IGNORECASE)


def normalise(text: str) -> str:
    """Return `text` in NFKC without control, zero-width and other invisible characters.

    Superscripts, subscripts and fractions stay: they are seldom decoration.
    """
    text = _visible(LINE_END.sub("\n", text))
    if unicodedata.is_normalized("NFKC", text):
        return text
    staying = "".join(filter(_is_meaningful, set(text)))
    parts = re.split(f"([{staying}]+)", text) if staying else [text]
    return "".join(
        part if position % 2 else unicodedata.normalize("NFKC", part)
        for position, part in enumerate(parts)
    )


def neutralise(text: str) -> str:
    """Return `text` normalised, without what the Prometheus formats would take for their marks.

    `[RESULT]` becomes `(RESULT)`; a glued heading gets a space (`### Title`), as in Markdown; one
    named like a section of the format has two hashes instead of three. All else stays.
    """
    text = RESULT.sub(r"(\1)", normalise(text))
    return GLUED_HEADING.sub(r"\1 ", OWN_HEADING.sub(r"##\1", text))


def _visible(text: str) -> str:
    return text.translate({ord(one): None for one in set(text) if not _is_shown(one)})


def _is_shown(character: str) -> bool:
    if character in KEPT_CONTROLS:
        return True
    return unicodedata.category(character) not in UNWANTED and character not in BLANK


def _is_meaningful(character: str) -> bool:
    return unicodedata.decomposition(character).startswith(MEANINGFUL)
