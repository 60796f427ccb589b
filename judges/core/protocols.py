"""Protocols: how responses in a given order become the messages that a judge is sent."""

import re
import unicodedata
from collections.abc import Mapping

from judges.core.rubric import PLACEHOLDER, Rubric

KEPT_CONTROLS = {"\n", "\t"}
UNWANTED = {"Cc", "Cf", "Cs", "Co", "Cn"}
NONCE = re.compile(r"[0-9a-f]{8,32}")


def render_pairwise(
    rubric: Rubric, *, question: str, prompt: str, first: str, second: str, nonce: str
) -> list[tuple[str, str]]:
    """Return (role, text) messages that show `first` as Answer A and `second` as Answer B.

    Texts of strangers are normalised and fenced with `nonce`, which they cannot know. The
    template is filled in one pass, so a placeholder inside an answer stays text.
    """
    if not NONCE.fullmatch(nonce):
        raise ValueError("A nonce is 8 to 32 hexadecimal digits.")
    values = {
        "question": normalise(question),
        "prompt": fence("prompt", prompt, nonce),
        "answer_a": fence("answer-a", first, nonce),
        "answer_b": fence("answer-b", second, nonce),
        "nonce": nonce,
    }
    return [("system", _fill(rubric.system, values)), ("user", _fill(rubric.user, values))]


def fence(name: str, text: str, nonce: str) -> str:
    """Put `text` between tags that it cannot close."""
    inside = normalise(text).replace(nonce, "")
    return f"<{name}-{nonce}>\n{inside}\n</{name}-{nonce}>"


def normalise(text: str) -> str:
    """Return `text` in NFKC without control, zero-width and other invisible characters.

    For the judge only: people and exports get the text as it is.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(
        character
        for character in unicodedata.normalize("NFKC", text)
        if character in KEPT_CONTROLS or unicodedata.category(character) not in UNWANTED
    )


def _fill(template: str, values: Mapping[str, str]) -> str:
    return PLACEHOLDER.sub(lambda match: values[match.group(1)], template)
