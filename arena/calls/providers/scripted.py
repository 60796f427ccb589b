"""A judge that is no model: it reads the fenced answers and decides by arithmetic.

It exists so that the demo and the tests run without any key. The same texts always get the same
reply; the model's name is the seed. It likes answers that take up the words of the prompt, with
seeded noise, and now and then it does what real judges do: it prefers whatever comes first,
forgets its verdict, or declines.
"""

import hashlib
import re

from arena.calls.providers.base import Reply, Request, TooLong

FLIPS = 0.08
UNREADABLE = 0.02
REFUSALS = 0.01
TIE_WITHIN = 0.06
NOISE = 0.5
CONTEXT = 400_000
FENCED = re.compile(r"<([a-z-]+?)-([0-9a-f]{8,})>\n(.*?)\n</\1-\2>", re.DOTALL)
VERDICT = re.compile(r"VERDICT-[0-9a-f]{8,}")
WORD = re.compile(r"\w{4,}")


class ScriptedProvider:
    """Deterministic, without a network, and not a real judge."""

    def complete(self, request: Request) -> Reply:
        """Return the reply that the digest of the request's fenced texts decides."""
        asked = "\n".join(message.content for message in request.messages)
        if len(asked) > CONTEXT:
            raise TooLong(f"More than {CONTEXT} characters.")
        text = _answer(request.model, asked)
        return Reply(
            text=text,
            model=request.model,
            fingerprint="scripted",
            tokens_in=len(asked) // 4,
            tokens_out=len(text) // 4,
        )


def _answer(seed: str, asked: str) -> str:
    blocks = {name: text for name, _, text in FENCED.findall(asked)}
    verdict = VERDICT.search(asked)
    if verdict is None or not {"answer-a", "answer-b"} <= blocks.keys():
        return "Scripted, not a real model: this request holds no two fenced answers to compare."
    prompt, first, second = blocks.get("prompt", ""), blocks["answer-a"], blocks["answer-b"]
    mood = _fraction(seed, "mood", prompt, first, second)
    if mood < REFUSALS:
        return "I'm sorry, but I can't assist with that."
    scores = _quality(seed, prompt, first), _quality(seed, prompt, second)
    reason = f"Scripted, not a real model. Answer A scores {scores[0]:.2f}, B {scores[1]:.2f}."
    if mood < REFUSALS + UNREADABLE:
        return f"{reason} Both have their merits, and it depends on the reader."
    letter = _letter(*scores)
    if mood > 1 - FLIPS:
        letter, reason = "A", f"{reason} The first answer makes the first impression."
    return f"{reason}\n\n{verdict.group()}: {letter}"


def _letter(first: float, second: float) -> str:
    if abs(first - second) < TIE_WITHIN:
        return "TIE"
    return "A" if first > second else "B"


def _quality(seed: str, prompt: str, answer: str) -> float:
    """Share of the prompt's longer words that the answer takes up, plus seeded noise."""
    wanted = set(WORD.findall(prompt.lower()))
    found = wanted & set(WORD.findall(answer.lower()))
    noise = _fraction(seed, "quality", prompt, answer)
    return len(found) / max(1, len(wanted)) + NOISE * noise


def _fraction(*parts: str) -> float:
    """Return a number in [0, 1) decided by `parts` alone."""
    digest = hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64
