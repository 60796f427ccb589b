"""From the votes of one board to everything that a snapshot says about them. Writes nothing."""

import hashlib
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from math import isnan
from typing import Any

import numpy as np

from ranking.models import Board, BothBad, Standing
from ranking.stats import (
    Battles,
    Bootstrap,
    BradleyTerry,
    Clusters,
    Elo,
    Sandwich,
    choose_clusters,
    largest_difference,
    rank_intervals,
)
from ranking.votes import BOTH_BAD, LEFT, RIGHT, TIE, UNKNOWN, Bools, Floats, Ints, Votes

FIT_VERSION = 1  # part of the digest: raise it where the same votes give other numbers
CONFIDENCE = 0.95
MAX_DIFFERENCE = 0.01  # Elo; two packages that differ by more are not both right
LIBRARIES = ("numpy", "scipy", "choix")


class SecondOpinionDiffers(Exception):
    """choix and we do not agree: nobody should read these scores."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a snapshot will say: its own fields, and its standings without their snapshot."""

    fields: dict[str, Any]
    standings: list[Standing]


@dataclass(frozen=True, eq=False)
class Tally:
    """Per candidate, over N votes: (K,) counts of what happened, and the points scored."""

    wins: Ints
    losses: Ints
    ties: Ints
    both_bad: Ints
    votes: Ints
    points: Floats


def digest(board: Board, votes: Votes) -> str:
    """A fingerprint of all that the fit depends on: equal digests give equal numbers."""
    settings = (FIT_VERSION, board.both_bad, board.n_resamples, board.seed)
    found = hashlib.sha256(repr(settings).encode())
    for column in (
        votes.candidates,
        votes.pk,
        votes.left,
        votes.right,
        votes.outcome,
        votes.score,
        votes.prompt,
        votes.rater,
    ):
        found.update(np.ascontiguousarray(column).tobytes())
    return found.hexdigest()


def in_fit(board: Board, votes: Votes) -> Bools:
    """(N,) mask of the votes that the scores stand on."""
    if board.both_bad == BothBad.TIE:
        return np.ones(len(votes), np.bool_)
    counted: Bools = votes.outcome != BOTH_BAD
    return counted


def clusters_of(counted: Votes) -> Clusters:
    """Which votes belong together; see `choose_clusters` for the rule."""
    return choose_clusters(counted.left, counted.right, counted.prompt, counted.rater)


def fit(board: Board, votes: Votes) -> Fitted:
    """Fit the board. Raises NotConverged, and SecondOpinionDiffers where choix disagrees."""
    counted = votes.where(in_fit(board, votes))
    clusters = clusters_of(counted)
    n_candidates = len(votes.candidates)
    battles = Battles.from_arrays(
        counted.left,
        counted.right,
        counted.score,
        cluster=clusters.codes,
        n_candidates=n_candidates,
    )
    bootstrap = Bootstrap(board.n_resamples, CONFIDENCE, board.seed).fit(battles)
    difference = _second_opinion(battles, bootstrap.model_)
    fields = {
        "n_votes": len(counted),
        "n_both_bad": int((votes.outcome == BOTH_BAD).sum()),
        "n_raters": len(np.unique(votes.rater)),
        "n_prompts": len(np.unique(votes.prompt[votes.prompt != UNKNOWN])),
        "last_vote_id": int(votes.pk.max(initial=0)),
        "settings": _settings(board, clusters, bootstrap.n_clusters_),
        "choix_difference": difference,
        "interval_reason": bootstrap.reason_.reason if bootstrap.reason_ else "",
    }
    elo = Elo().fit(counted.left, counted.right, counted.score, n_candidates)
    return Fitted(fields, _standings(votes, tally(votes, counted), battles, bootstrap, elo))


def tally(votes: Votes, counted: Votes) -> Tally:
    """Count, per candidate, what `votes` say; points and votes are those in the fit."""
    return Tally(
        wins=_count(votes, votes.outcome == LEFT, votes.outcome == RIGHT),
        losses=_count(votes, votes.outcome == RIGHT, votes.outcome == LEFT),
        ties=_count(votes, votes.outcome == TIE, votes.outcome == TIE),
        both_bad=_count(votes, votes.outcome == BOTH_BAD, votes.outcome == BOTH_BAD),
        votes=_count(counted, np.ones(len(counted), bool), np.ones(len(counted), bool)),
        points=_points(counted),
    )


def _points(counted: Votes) -> Floats:
    """(K,): a win 1, a tie a half, a soft verdict what it says."""
    size = len(counted.candidates)
    points: Floats = np.zeros(size)
    points += np.bincount(counted.left, counted.score, size)
    points += np.bincount(counted.right, 1 - counted.score, size)
    return points


def _count(votes: Votes, of_left: Bools, of_right: Bools) -> Ints:
    size = len(votes.candidates)
    left = np.bincount(votes.left[of_left], minlength=size)
    return left + np.bincount(votes.right[of_right], minlength=size)


def _second_opinion(battles: Battles, model: BradleyTerry) -> float:
    difference = largest_difference(battles, model)
    if not difference <= MAX_DIFFERENCE:
        raise SecondOpinionDiffers(
            f"choix differs by {difference:.4f} Elo (at most {MAX_DIFFERENCE} is published)"
        )
    return difference


def _settings(board: Board, clusters: Clusters, n_clusters: int) -> dict[str, Any]:
    """What was in force, in the words and numbers that the page shows."""
    return {
        "method": "Bradley-Terry, a tie as half a win for each side",
        "scale": BradleyTerry.scale,
        "center": BradleyTerry.center,
        "elo_k": Elo.k,
        "elo_start": Elo.start,
        "interval": "cluster bootstrap with exponential weights",
        "confidence": CONFIDENCE,
        "n_resamples": board.n_resamples,
        "seed": board.seed,
        "both_bad": board.both_bad,
        "clusters": clusters.rule,
        "clusters_note": clusters.note,
        "n_clusters": n_clusters,
        "versions": _versions(),
    }


@cache
def _versions() -> dict[str, str]:
    return {name: version(name) for name in LIBRARIES}


def _standings(
    votes: Votes, counts: Tally, battles: Battles, bootstrap: Bootstrap, elo: Elo
) -> list[Standing]:
    model = bootstrap.model_
    covariance = Sandwich(CONFIDENCE).fit(battles).covariance_
    best, worst = rank_intervals(model.theta_, covariance, confidence=CONFIDENCE)
    columns = {
        "score": model.ratings_,
        "rank": _ranks(model.ratings_),
        "rank_low": best,
        "rank_high": worst,
        "low": bootstrap.low_,
        "high": bootstrap.high_,
        "standard_error": bootstrap.standard_errors_,
        "elo": np.where(elo.votes_ > 0, elo.ratings_, np.nan),
        "win_rate": _rate(counts.points, counts.votes),
        "both_bad_rate": _rate(
            counts.both_bad, counts.wins + counts.losses + counts.ties + counts.both_bad
        ),
    }
    counted = {
        name: value for name, value in asdict(counts).items() if name not in ("points", "both_bad")
    }
    return [
        Standing(
            candidate_id=int(pk),
            status=model.status_[i].value,
            reason=model.status_[i].reason,
            **{name: _number(values[i]) for name, values in columns.items()},
            **{name: int(values[i]) for name, values in counted.items()},
        )
        for i, pk in enumerate(votes.candidates)
    ]


def _ranks(ratings: Floats) -> Floats:
    """1 and the number of those above; equal ratings share a rank; NaN for the unranked."""
    above = (ratings[None, :] > ratings[:, None]).sum(axis=1)
    return np.where(np.isnan(ratings), np.nan, 1.0 + above)


def _rate(part: Ints | Floats, whole: Ints) -> Floats:
    return np.where(whole > 0, part / np.maximum(whole, 1), np.nan)


def _number(value: float) -> float | None:
    return None if isnan(value) else float(value)
