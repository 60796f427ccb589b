"""Soft verdicts: the probability of each label, from the tokens of a reply."""

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from judges.core.parsing import EDGE, EDGES, fold_label

Form = Literal["line", "prometheus", "json"]
LEAST_KNOWN = 0.5
MOST_UNSURE = 0.01
EDGE_OF_TOKEN = f"{EDGE}:=\n\t"


class TokenProbability(Protocol):
    """A token of a reply: the natural logarithm of its probability, and the likeliest
    alternatives."""

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

    The probabilities are those of the verdict's first token, normalised over the labels (Liu et al.
    2023, "G-Eval", section 2, for scores); a label that is not among the likeliest tokens has 0.
    None if that place cannot be found, if the known labels have less than half of the probability
    there, if tokens that could begin several labels have more than a hundredth, or if no token
    there begins `verdict`.
    """
    token = _token_of_verdict(tokens, _marker(form, nonce), verdict)
    if token is None:
        return None
    mass, unsure = _masses(dict(token.top) | {token.token: token.logprob}, labels)
    total = math.fsum(mass.values())
    if total < LEAST_KNOWN or unsure > MOST_UNSURE or not mass[verdict]:
        return None
    return {label: mass[label] / total for label in labels}


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
