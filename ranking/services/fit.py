"""The fit of one board's tally, and the fields of its snapshot. Writes nothing."""

from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from math import isnan, nan
from typing import Any

import numpy as np

from arena.outcomes import VOTES_PER_CANDIDATE
from ranking.models import SnapshotMatrices, Standing
from ranking.services.evidence import CONFIDENCE, BoardEvidence
from ranking.services.intervals import MeasuredIntervals, Spread
from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry, largest_difference
from ranking.stats.connectivity import Status
from ranking.stats.elo import Elo
from ranking.stats.intervals import MIN_CLUSTERS
from ranking.stats.ranks import LEVEL, Places, place, tiers
from ranking.stats.shrinkage import Shrinkage
from ranking.tallies import UNIT
from ranking.tallied_votes import Floats, Ints, pack_covariance

MAX_DIFFERENCE = 0.01  # Elo; two packages that differ by more are not both right
LIBRARIES = ("numpy", "scipy", "choix")


class CrossCheckError(Exception):
    """choix and Ringside's fit disagree, so the scores must not be published."""


@dataclass(frozen=True, eq=False)
class Scores:
    """(K,) ratings in Elo, K statuses, and the largest difference from choix in Elo."""

    ratings: Floats
    status: tuple[Status, ...]
    difference: float


@dataclass(frozen=True, eq=False)
class FittedBoard:
    """The fields of a snapshot and its rows, not saved yet."""

    fields: dict[str, Any]
    standings: list[Standing]
    matrices: SnapshotMatrices


@dataclass(frozen=True, eq=False)
class Record:
    """Per candidate, (K,): outcomes of its votes, and votes and points in the fit."""

    wins: Ints
    losses: Ints
    ties: Ints
    both_bad: Ints
    votes: Ints
    points: Floats


def fit(evidence: BoardEvidence) -> Scores:
    """Fit the scores. Raises NotConvergedError, and CrossCheckError if choix disagrees."""
    battles = evidence.battles
    model = BradleyTerry().fit(battles)
    return Scores(model.ratings_, model.status_, cross_check(battles, model))


def cross_check(battles: Battles, model: BradleyTerry) -> float:
    """Return the largest difference from choix, in Elo. Raises CrossCheckError if it is large."""
    difference = largest_difference(battles, model)
    if not difference <= MAX_DIFFERENCE:
        raise CrossCheckError(
            f"choix differs by {difference:.4f} Elo (the limit for publishing is {MAX_DIFFERENCE})"
        )
    return difference


def compose(
    evidence: BoardEvidence, scores: Scores, measured: MeasuredIntervals, elo: dict[int, float]
) -> FittedBoard:
    """Put scores, intervals and Elo ratings together."""
    shrinkage, places = _shrink(evidence, measured), place_candidates(evidence, scores, measured)
    claims = _claims(evidence, scores, places, measured)
    measured = replace(measured, findings=measured.findings | claims)
    fields = {
        "digest": evidence.digest(),
        "n_votes": evidence.n_votes,
        "n_both_bad": int(evidence.counts["both_bad"].sum()),
        "n_raters": evidence.n_raters,
        "n_prompts": evidence.n_prompts,
        "last_vote_id": evidence.last_vote_id,
        "choix_difference": scores.difference,
        "settings": _settings(evidence)
        | measured.settings
        | {"evidence": _sufficiency(evidence, measured)},
        "findings": measured.findings
        | {
            "capped": [list(pair) for pair in evidence.capped.weights.items()],
            "tiers": _tiers(evidence, places, measured),
            "shrinkage": {**_shrinkage(measured), "deviation": shrinkage.deviation_},
        },
        **measured.fields,
    }
    matrices = SnapshotMatrices(
        cells=evidence.counts.pack(),
        **pack_covariance(measured.candidates, measured.covariance),
    )
    standings = _standings(evidence, scores, measured, places, elo)
    if measured.findings.get("leader") is None:
        _share_first_place(standings)
    for i, standing in enumerate(standings):
        standing.shrunk = _number(shrinkage.ratings_[i])
        standing.shrunk_low = _number(shrinkage.low_[i])
        standing.shrunk_high = _number(shrinkage.high_[i])
    return FittedBoard(fields, standings, matrices)


def _claims(
    evidence: BoardEvidence, scores: Scores, places: Places, measured: MeasuredIntervals
) -> dict[str, Any]:
    """The clear leader and the leads over the next, without those undone by newer votes or by
    archiving; the candidates that stand apart with as much evidence; and the archived ones.
    """
    leader, ids = measured.findings.get("leader"), evidence.candidates
    at = int(np.searchsorted(ids, leader or 0))
    if leader is not None and not places.allow(at, evidence.active):
        leader = None
    apart = ids[places.apart & evidence.active].tolist()
    ratings = dict(zip(ids.tolist(), scores.ratings.tolist(), strict=True))
    leads = [
        pair
        for pair in measured.findings.get("neighbours") or ()
        if ratings.get(pair["upper"], nan) > ratings.get(pair["lower"], nan) - LEVEL
    ]
    archived = list(evidence.archived)
    return {"leader": leader, "apart": apart, "archived": archived, "neighbours": leads}


def _sufficiency(evidence: BoardEvidence, measured: MeasuredIntervals) -> dict[str, Any]:
    """How many votes a ranking needs, and whether there are enough votes and prompts for one."""
    counts = evidence.scored(evidence.counts) > 0
    voted = np.union1d(evidence.counts.key("first")[counts], evidence.counts.key("second")[counts])
    # Each vote counts for two candidates.
    needed = -(-VOTES_PER_CANDIDATE * max(len(voted), 2) // 2)
    prompts = measured.settings.get("effective", {}).get("prompts")
    few_prompts = prompts is not None and prompts < MIN_CLUSTERS
    enough = evidence.n_votes >= needed and not few_prompts
    return {"needed": needed, "few_prompts": few_prompts, "enough": enough}


def _tiers(evidence: BoardEvidence, places: Places, measured: MeasuredIntervals) -> list[list[int]]:
    """The ids of the candidates with intervals, by tier; open intervals are among them. Without a
    clear leader, nobody is alone in the first tier."""
    spreads = [measured.spreads.get(pk, Spread()) for pk in evidence.candidates.tolist()]
    worst = _column(spreads, "sure_rank_high") + places.n_above + places.maybe_below
    worst = np.where(np.isnan(places.worst), worst, places.worst)
    known = np.flatnonzero(~np.isnan(worst) & ~np.isnan(places.rank))
    order = known[np.argsort(places.rank[known], kind="stable")]
    number = tiers(worst[order])
    tiers_of_ids: list[list[int]] = [
        evidence.candidates[order[number == n]].tolist() for n in np.unique(number)
    ]
    if (
        len(tiers_of_ids) > 1
        and len(tiers_of_ids[0]) == 1
        and measured.findings.get("leader") is None
    ):
        tiers_of_ids[:2] = [tiers_of_ids[0] + tiers_of_ids[1]]
    return tiers_of_ids


def _shrink(evidence: BoardEvidence, measured: MeasuredIntervals) -> Shrinkage:
    """Shrunk scores; design effects, and the deviation of older intervals, are as measured."""
    stored = _shrinkage(measured)
    effects = dict(stored.get("effects", []))
    known = np.array([effects.get(pk, np.nan) for pk in evidence.candidates.tolist()], np.float64)
    return Shrinkage(CONFIDENCE, stored.get("deviation")).fit(evidence.battles, known)


def _shrinkage(measured: MeasuredIntervals) -> dict[str, Any]:
    return dict(measured.findings.get("shrinkage", {}))


def _share_first_place(standings: list[Standing]) -> None:
    """Without a clear leader, at least two ranges of ranks include the first rank."""
    ranked = sorted((row for row in standings if row.rank), key=lambda row: row.rank or 0)
    first, second, *_ = *(row for row in ranked if row.sure_rank_low), None, None
    second = second or next((row for row in ranked if row is not first), None)
    if first and second and first.sure_rank_high == 1:
        first.sure_rank_high = max(second.rank or 2, 2)
        second.sure_rank_low = second.sure_rank_low and 1


def _settings(evidence: BoardEvidence) -> dict[str, Any]:
    """The settings that were used, as pages show them."""
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
        "capped_raters": evidence.capped.n_raters,
        "capped_networks": evidence.capped.n_networks,
        "network_share": evidence.network_share,
        "capped_at": evidence.capped.share,
        "mean_weight": evidence.mean_weight,
        "versions": _versions(),
    }


@cache
def _versions() -> dict[str, str]:
    return {name: version(name) for name in LIBRARIES}


def record(evidence: BoardEvidence) -> Record:
    """Count the outcomes of each candidate's votes."""
    counts, size = evidence.counts, len(evidence.candidates)
    first = np.searchsorted(evidence.candidates, counts.key("first"))
    second = np.searchsorted(evidence.candidates, counts.key("second"))

    def total(of_first: Ints | Floats, of_second: Ints | Floats) -> Any:
        both = np.bincount(first, of_first, size) + np.bincount(second, of_second, size)
        return both if of_first.dtype.kind == "f" else both.astype(np.int64)

    won = counts["first_wins"] + counts["soft_first"]
    lost = counts["second_wins"] + counts["soft_second"]
    ties = counts["ties"] + counts["soft_ties"]
    scored = evidence.scored(counts)
    halves = counts["ties"] + counts["both_bad"] if evidence.both_bad_is_tie else counts["ties"]
    points = counts["first_wins"] + halves / 2 + counts["soft_points"] / UNIT
    return Record(
        wins=total(won, lost),
        losses=total(lost, won),
        ties=total(ties, ties),
        both_bad=total(counts["both_bad"], counts["both_bad"]),
        votes=total(scored, scored),
        points=total(points, scored - points),
    )


def _standings(
    evidence: BoardEvidence,
    scores: Scores,
    measured: MeasuredIntervals,
    places: Places,
    elo: dict[int, float],
) -> list[Standing]:
    totals = record(evidence)
    decided = totals.wins + totals.losses + totals.ties
    columns = {
        "score": scores.ratings,
        "rank": places.rank,
        "win_rate": _rate(totals.points, totals.votes),
        "both_bad_rate": _rate(totals.both_bad, decided + totals.both_bad),
    }
    counted = {name: getattr(totals, name) for name in ("wins", "losses", "ties", "votes")}
    ranges = _rank_ranges(places, evidence.candidates, measured)
    return [
        Standing(
            candidate_id=pk,
            status=scores.status[i].value,
            reason=scores.status[i].reason,
            elo=elo.get(pk),
            **{name: _number(values[i]) for name, values in columns.items()},
            **{name: int(values[i]) for name, values in counted.items()},
            **_interval(scores.ratings[i], measured.spreads.get(pk, Spread()), places, i),
            **{name: _number(values[i]) for name, values in ranges.items()},
        )
        for i, pk in enumerate(evidence.candidates.tolist())
    ]


def place_candidates(
    evidence: BoardEvidence, scores: Scores, measured: MeasuredIntervals
) -> Places:
    """Place the candidates, including those without a score, by their scores and intervals."""
    battles, ratings = evidence.battles, scores.ratings
    met = dict(measured.settings.get("groups_met", []))
    spreads = [measured.spreads.get(pk, Spread()) for pk in evidence.candidates.tolist()]
    return place(
        battles.wins(weighted=False),
        ratings,
        np.array([met.get(pk, 0) for pk in evidence.candidates.tolist()], np.int64),
        ratings - _column(spreads, "below"),
        ratings + _column(spreads, "above"),
        CONFIDENCE,
        BradleyTerry.scale,
    )


def _column(spreads: list[Spread], name: str) -> Floats:
    values = [getattr(spread, name) for spread in spreads]
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _interval(score: float, spread: Spread, places: Places, i: int) -> dict[str, float | None]:
    """The fields of the interval around a score; open on one side without one."""
    if isnan(score):
        return {"low": _number(places.low[i]), "high": _number(places.high[i])}
    ends = {
        "low": None if spread.below is None else score - spread.below,
        "high": None if spread.above is None else score + spread.above,
    }
    return ends | {"standard_error": spread.standard_error}


def _rank_ranges(
    places: Places, candidates: Ints, measured: MeasuredIntervals
) -> dict[str, Floats]:
    """The columns of the ranks' ranges."""
    spreads = [measured.spreads.get(pk, Spread()) for pk in candidates.tolist()]
    columns = {}
    for kind in ("", "sure_"):
        best, worst = places.among_all(
            _column(spreads, f"{kind}rank_low"), _column(spreads, f"{kind}rank_high")
        )
        columns[f"{kind}rank_low"], columns[f"{kind}rank_high"] = best, worst
    return columns


def _rate(part: Ints | Floats, whole: Ints) -> Floats:
    return np.where(whole > 0, part / np.maximum(whole, 1), np.nan)


def _number(value: float) -> float | None:
    return None if isnan(value) else float(value)
