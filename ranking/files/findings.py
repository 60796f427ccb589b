"""What the votes of a file say besides scores, in the words of the boards' own findings."""

from math import isnan
from typing import Any

import numpy as np

from ranking.files.board import FileBoard
from ranking.files.reading import FileVotes, Floats, Ints
from ranking.stats import (
    Battles,
    Elo,
    RaoKupper,
    neighbours,
    nominal_agreement,
    transitivity,
)

DIGITS = 6


def find(board: FileBoard) -> dict[str, Any]:
    """Everything beside the standings, as JSON; null is what the votes do not tell."""
    votes, battles = board.votes, board.battles
    return {
        "clear_leader": _name(board, board.leader),
        "neighbours": _neighbours(board),
        "fragility": _fragility(board),
        "agreement": _agreement(votes),
        "transitivity": _transitivity(battles),
        "ties": _ties(battles),
    }


def elo(votes: FileVotes) -> list[float | None]:
    """(K,) online Elo in the order of the file; None for those without votes."""
    found = Elo().fit(votes.left, votes.right, votes.score, len(votes.names))
    return [
        known(rating) if n else None for rating, n in zip(found.ratings_, found.votes_, strict=True)
    ]


def known(value: float) -> float | None:
    """A number with as many digits as are worth writing; None for NaN."""
    return None if isnan(value) else round(float(value), DIGITS)


def _name(board: FileBoard, place: int | None) -> str | None:
    return None if place is None else board.votes.names[place]


def _neighbours(board: FileBoard) -> list[dict[str, Any]]:
    model = board.bootstrap.model_
    told = neighbours(
        model.theta_,
        board.covariance,
        model.covariance_,
        board.settings.confidence,
        board.n_clusters,
    )
    return [
        {
            "upper": _name(board, two.upper),
            "lower": _name(board, two.lower),
            "separated": two.separated,
            "votes": two.votes,
            "words": two.words,
        }
        for two in told
    ]


def _fragility(board: FileBoard) -> dict[str, Any]:
    found = board.fragility
    return {
        "votes": found.votes,
        "of": found.of,
        "rival": _name(board, found.rival),
        "words": found.words,
    }


def _agreement(votes: FileVotes) -> dict[str, Any] | None:
    """How far votes on one prompt and pair agree; None where no two are on the same."""
    told = votes.prompt >= 0
    counts = _units(votes.prompt[told], votes.left[told], votes.right[told], votes.score[told])
    all_three, decisive = nominal_agreement(counts), nominal_agreement(counts[:, :2])
    if not all_three.n_pairs:
        return None
    return {
        "share": known(all_three.share),
        "n_pairs": all_three.n_pairs,
        "alpha": known(all_three.alpha),
        "decisive_share": known(decisive.share),
        "decisive_n_pairs": decisive.n_pairs,
    }


def _units(prompt: Ints, left: Ints, right: Ints, score: Floats) -> Ints:
    """(U, 3): per prompt and pair, the votes for its one, for its other, and the ties."""
    low, high = np.minimum(left, right), np.maximum(left, right)
    for_low = np.where(left < right, score, 1 - score)
    outcome = np.select([for_low > 0.5, for_low < 0.5], [0, 1], 2)
    units, code = np.unique(np.column_stack([prompt, low, high]), axis=0, return_inverse=True)
    cell = np.bincount(code.reshape(-1) * 3 + outcome, minlength=3 * len(units))
    counts: Ints = cell.reshape(-1, 3)
    return counts


def _transitivity(battles: Battles) -> dict[str, Any]:
    found = transitivity(battles.wins())
    return {"share": known(found.share), "triads": found.triads, "transitive": found.transitive}


def _ties(battles: Battles) -> dict[str, Any] | None:
    """The tie model; None where soft verdicts say more than win, tie or loss."""
    if not np.isin(battles.score, (0.0, 0.5, 1.0)).all():
        return None
    found = RaoKupper().fit(battles)
    return {
        "eta": known(found.eta_),
        "error": known(found.eta_error_),
        "log_likelihood": known(found.log_likelihood_),
        "reason": found.reason_.reason if found.reason_ else "",
    }
