"""Which style coefficients the votes can tell at all, before any of them is fitted."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ranking.stats.columns import Floats
from ranking.stats.concave import shared_information

NOTHING = 1e-9  # of a feature's own information: what is less is rounding
TAKES_PART = 1e-6  # of a mixture of length 1


class NoStyle(StrEnum):
    """Why a style coefficient, or scores without style, cannot be known."""

    CONSTANT = "constant"
    COLLINEAR = "collinear"
    OF_CANDIDATES = "of_candidates"
    SEPARATED = "separated"

    @property
    def reason(self) -> str:
        """One sentence for a page."""
        return _REASONS[self]


_REASONS = {
    NoStyle.CONSTANT: "It is the same in every vote.",
    NoStyle.COLLINEAR: "It follows from other features, so none of them can be told apart.",
    NoStyle.OF_CANDIDATES: "It follows from who answers, so style and strength cannot be told "
    "apart.",
    NoStyle.SEPARATED: "Style and strength explain the votes without error, so no finite "
    "coefficients fit best.",
}


@dataclass(frozen=True)
class Identified:
    """``status``: (F,) the reason against each coefficient, or None; ``fitted``: the places of
    features that span the same as all; ``strengths``: whether scores are known beside them."""

    status: tuple[NoStyle | None, ...]
    fitted: list[int]
    strengths: bool


def identify(information: Floats, n_strengths: int) -> Identified:
    """Judge by the information (K + F, K + F) at any finite parameters; no feature is all 0.

    A mixture of features on which there is no information beside the strengths is one that the
    candidates determine, or nothing at all; the two differ in the mixture's own information.
    """
    own = information[n_strengths:, n_strengths:]
    unit = np.sqrt(own.diagonal())
    scaled = np.outer(unit, unit)
    rest, own = shared_information(information, n_strengths) / scaled, own / scaled
    values, vectors = np.linalg.eigh(rest)
    blind = vectors[:, values < NOTHING]
    kept = blind.T @ own @ blind
    weights, mixtures = np.linalg.eigh(kept)
    of_candidates = blind @ mixtures[:, weights > NOTHING]
    status = tuple(
        NoStyle.OF_CANDIDATES if one else NoStyle.COLLINEAR if other else None
        for one, other in zip(_part(of_candidates), _part(blind), strict=True)
    )
    return Identified(status, _span(rest), not of_candidates.size)


def _part(mixtures: Floats) -> list[bool]:
    """Which features take part in any of the mixtures, (F, M)."""
    return [bool(row @ row > TAKES_PART**2) for row in mixtures]


def _span(rest: Floats) -> list[int]:
    """The first features on which there is information beside those before them."""
    chosen: list[int] = []
    for place in range(len(rest)):
        among = rest[np.ix_(chosen, chosen)]
        cross = rest[chosen, place]
        new = rest[place, place] - (cross @ np.linalg.solve(among, cross) if chosen else 0.0)
        if new > NOTHING:
            chosen.append(place)
    return chosen
