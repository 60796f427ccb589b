"""Log probabilities of a scripted reply: all but certain, except where the verdict stands."""

import math
import re

from arena.calls.providers.base import TokenLogprob
from arena.calls.providers.scripted.deciding import Decided

PIECE = re.compile(r"\s*\w+|\s*[^\w\s]|\s+")
ALL_BUT_CERTAIN = -0.001


def tokens_of(text: str, decided: Decided | None) -> tuple[TokenLogprob, ...]:
    """Cut `text` into tokens, which put together are the text again.

    A label of several words has no token of its own, and so no alternatives.
    """
    pieces = PIECE.findall(text)
    chances = decided.chances if decided else {}
    verdict = decided.verdict if decided else ""
    last = max((i for i, piece in enumerate(pieces) if piece.strip() == verdict), default=-1)
    return tuple(
        _uncertain(piece, verdict, chances) if i == last and chances else _certain(piece)
        for i, piece in enumerate(pieces)
    )


def _certain(piece: str) -> TokenLogprob:
    return TokenLogprob(piece, ALL_BUT_CERTAIN, ((piece, ALL_BUT_CERTAIN),))


def _uncertain(piece: str, verdict: str, chances: dict[str, float]) -> TokenLogprob:
    space = piece[: -len(verdict)]
    ranked = sorted(chances.items(), key=lambda item: -item[1])
    top = tuple((space + label, math.log(max(chance, 1e-12))) for label, chance in ranked)
    return TokenLogprob(piece, math.log(chances[verdict]), top)
