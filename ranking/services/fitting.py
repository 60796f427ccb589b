"""From the tallies of one board to everything that a snapshot says. Writes nothing."""

from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from math import isnan
from typing import Any

import numpy as np

from ranking.matrices import pack_covariance
from ranking.models import SnapshotMatrices, Standing
from ranking.services.evidence import CONFIDENCE, Evidence
from ranking.services.measuring import Measured, Spread
from ranking.stats import Battles, BradleyTerry, Elo, Status, largest_difference
from ranking.tallies import UNIT, Cells, pair_battles
from ranking.votes import Floats, Ints

MAX_DIFFERENCE = 0.01  # Elo; two packages that differ by more are not both right
LIBRARIES = ("numpy", "scipy", "choix")


class SecondOpinionDiffers(Exception):
    """choix and we do not agree: nobody should read these scores."""


@dataclass(frozen=True, eq=False)
class Scores:
    """(K,) ratings in Elo, why each is missing where it is, and how far choix is from them."""

    ratings: Floats
    status: tuple[Status, ...]
    difference: float


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a snapshot will say: its own fields, and the rows that will belong to it."""

    fields: dict[str, Any]
    standings: list[Standing]
    matrices: SnapshotMatrices


@dataclass(frozen=True, eq=False)
class Record:
    """Per candidate, (K,): what happened in its votes, and the points scored in the fit."""

    wins: Ints
    losses: Ints
    ties: Ints
    both_bad: Ints
    votes: Ints
    points: Floats


def fit(evidence: Evidence) -> Scores:
    """Fit the scores. Raises NotConverged, and SecondOpinionDiffers where choix disagrees."""
    battles = pair_battles(evidence.cells, evidence.candidates, evidence.both_bad_is_tie)
    model = BradleyTerry().fit(battles)
    return Scores(model.ratings_, model.status_, second_opinion(battles, model))


def second_opinion(battles: Battles, model: BradleyTerry) -> float:
    """The largest difference in Elo from choix. Raises SecondOpinionDiffers."""
    difference = largest_difference(battles, model)
    if not difference <= MAX_DIFFERENCE:
        raise SecondOpinionDiffers(
            f"choix differs by {difference:.4f} Elo (at most {MAX_DIFFERENCE} is published)"
        )
    return difference


def compose(
    evidence: Evidence, scores: Scores, measured: Measured, elo: dict[int, float]
) -> Fitted:
    """Put together what the scores, the intervals and Elo say."""
    fields = {
        "digest": evidence.digest(),
        "n_votes": evidence.n_votes,
        "n_both_bad": int(evidence.cells["both_bad"].sum()),
        "n_raters": evidence.n_raters,
        "n_prompts": evidence.n_prompts,
        "last_vote_id": evidence.last_vote_id,
        "choix_difference": scores.difference,
        "settings": _settings(evidence) | measured.settings,
        "findings": measured.findings,
        **measured.fields,
    }
    matrices = SnapshotMatrices(
        cells=evidence.cells.pack(),
        **pack_covariance(measured.candidates, measured.covariance),
    )
    return Fitted(fields, _standings(evidence, scores, measured, elo), matrices)


def _settings(evidence: Evidence) -> dict[str, Any]:
    """What was in force, in the words and numbers that the page shows."""
    return {
        "method": "Bradley-Terry, a tie as half a win for each side",
        "scale": BradleyTerry.scale,
        "center": BradleyTerry.center,
        "elo_k": Elo.k,
        "elo_start": Elo.start,
        "interval": "cluster bootstrap with exponential weights",
        "confidence": CONFIDENCE,
        "n_resamples": evidence.board.n_resamples,
        "seed": evidence.board.seed,
        "both_bad": evidence.board.both_bad,
        "versions": _versions(),
    }


@cache
def _versions() -> dict[str, str]:
    return {name: version(name) for name in LIBRARIES}


def record(evidence: Evidence) -> Record:
    """Count, per candidate, what its votes say; points and votes are those in the fit."""
    cells, size = evidence.cells, len(evidence.candidates)
    first = np.searchsorted(evidence.candidates, cells.key("first"))
    second = np.searchsorted(evidence.candidates, cells.key("second"))

    def total(of_first: Ints | Floats, of_second: Ints | Floats) -> Any:
        both = np.bincount(first, of_first, size) + np.bincount(second, of_second, size)
        return both if of_first.dtype.kind == "f" else both.astype(np.int64)

    won = cells["first_wins"] + cells["soft_first"]
    lost = cells["second_wins"] + cells["soft_second"]
    ties = cells["ties"] + cells["soft_ties"]
    counted = cells.votes if evidence.both_bad_is_tie else cells.decided
    points = _points_of_first(cells, evidence.both_bad_is_tie)
    return Record(
        wins=total(won, lost),
        losses=total(lost, won),
        ties=total(ties, ties),
        both_bad=total(cells["both_bad"], cells["both_bad"]),
        votes=total(counted, counted),
        points=total(points, counted - points),
    )


def _points_of_first(cells: Cells, both_bad_is_tie: bool) -> Floats:
    """A win 1, a tie a half, a soft verdict what it says."""
    ties = cells["ties"] + cells["both_bad"] if both_bad_is_tie else cells["ties"]
    points: Floats = cells["first_wins"] + ties / 2 + cells["soft_points"] / UNIT
    return points


def _standings(
    evidence: Evidence, scores: Scores, measured: Measured, elo: dict[int, float]
) -> list[Standing]:
    counts = record(evidence)
    decided = counts.wins + counts.losses + counts.ties
    columns = {
        "score": scores.ratings,
        "rank": _ranks(scores.ratings),
        "win_rate": _rate(counts.points, counts.votes),
        "both_bad_rate": _rate(counts.both_bad, decided + counts.both_bad),
    }
    counted = {name: getattr(counts, name) for name in ("wins", "losses", "ties", "votes")}
    n_ranked = int((~np.isnan(columns["rank"])).sum())
    return [
        Standing(
            candidate_id=pk,
            status=scores.status[i].value,
            reason=scores.status[i].reason,
            elo=elo.get(pk),
            **{name: _number(values[i]) for name, values in columns.items()},
            **{name: int(values[i]) for name, values in counted.items()},
            **_around(scores.ratings[i], measured.spreads.get(pk, Spread())),
            **_rank_ranges(columns["rank"][i], n_ranked, measured.spreads.get(pk, Spread())),
        )
        for i, pk in enumerate(evidence.candidates.tolist())
    ]


def _around(score: float, spread: Spread) -> dict[str, float | None]:
    """The interval around a score; nothing around one that is not known."""
    if isnan(score):
        return {}
    ends = {
        "low": None if spread.below is None else score - spread.below,
        "high": None if spread.above is None else score + spread.above,
    }
    return ends | {"standard_error": spread.standard_error}


def _rank_ranges(rank: float, n_ranked: int, spread: Spread) -> dict[str, float | None]:
    """The ranges of its rank; borrowed ones are stretched to the rank that it has by now."""
    if isnan(rank):
        return {}
    return {
        "rank_low": None if spread.rank_low is None else min(spread.rank_low, rank),
        "rank_high": _within(spread.rank_high, rank, n_ranked),
        "sure_rank_low": None if spread.sure_rank_low is None else min(spread.sure_rank_low, rank),
        "sure_rank_high": _within(spread.sure_rank_high, rank, n_ranked),
    }


def _within(worst: float | None, rank: float, n_ranked: int) -> float | None:
    return None if worst is None else min(max(worst, rank), n_ranked)


def _ranks(ratings: Floats) -> Floats:
    """1 and the number of those above; equal ratings share a rank; NaN for the unranked."""
    above = (ratings[None, :] > ratings[:, None]).sum(axis=1)
    return np.where(np.isnan(ratings), np.nan, 1.0 + above)


def _rate(part: Ints | Floats, whole: Ints) -> Floats:
    return np.where(whole > 0, part / np.maximum(whole, 1), np.nan)


def _number(value: float) -> float | None:
    return None if isnan(value) else float(value)
