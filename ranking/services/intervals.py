"""The uncertainty of scores: intervals and rank intervals from clustered votes."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from ranking.models import Snapshot, Standing
from ranking.services.evidence import CONFIDENCE, BoardEvidence
from ranking.services.findings import ClusteredEstimate, build_findings
from ranking.stats.bootstrap import Bootstrap
from ranking.stats.intervals import Dependence, NoInterval, Sandwich
from ranking.stats.ranks import Places, independent_groups, place, rank_intervals
from ranking.stats.shrinkage import design_effects
from ranking.tallies import VoteCounts, dependence
from ranking.tallied_votes import Bools, Floats, Ints, unpack_covariance

N_THREADS = 2
QUICK_SECONDS = 2.0  # intervals that take less are computed on every refresh
REST_FACTOR = 10  # the others wait this many times as long as they took


@dataclass(frozen=True)
class Spread:
    """The interval of one score, as Elo below and above it, and its rank intervals."""

    below: float | None = None
    above: float | None = None
    standard_error: float | None = None
    rank_low: float | None = None
    rank_high: float | None = None
    sure_rank_low: float | None = None
    sure_rank_high: float | None = None


@dataclass(frozen=True, eq=False)
class MeasuredIntervals:
    """Spreads by candidate id, and the (R, R) covariance of the scores of R `candidates` (ids).

    The covariance is in Elo squared. `fields`, `settings` and `findings` go into the snapshot.
    """

    spreads: Mapping[int, Spread]
    candidates: Ints
    covariance: Floats
    fields: dict[str, Any]
    settings: dict[str, Any]
    findings: dict[str, Any] = field(default_factory=dict)


def interval_due_at(snapshot: Snapshot) -> datetime:
    """When newer intervals are due."""
    assert snapshot.measured_at is not None
    if snapshot.measured_seconds < QUICK_SECONDS:
        return snapshot.measured_at
    return snapshot.measured_at + timedelta(seconds=REST_FACTOR * snapshot.measured_seconds)


def is_due(snapshot: Snapshot | None, now: datetime) -> bool:
    """Whether to compute intervals now, rather than borrow those of this older snapshot.

    Intervals from the future were computed while the clock was ahead.
    """
    if snapshot is None or not snapshot.measured_at:
        return True
    return not snapshot.measured_at <= now < interval_due_at(snapshot)


def measure(
    evidence: BoardEvidence,
    clustered: VoteCounts,
    by_rater: VoteCounts | None,
    now: datetime,
    *,
    with_style: bool = True,
) -> MeasuredIntervals:
    """Compute intervals, ranks and findings; raises the errors of `BradleyTerry.fit`.

    `clustered`: counts by prompt. `by_rater`: of the same votes, if raters are a sample too.
    `with_style`: also the style of the answers, which takes more queries.
    """
    started = time.monotonic()
    board, candidates = evidence.board, evidence.candidates
    is_tie = evidence.both_bad_is_tie
    groups = dependence(clustered, by_rater, candidates, is_tie, evidence.capped)
    sandwich = Sandwich(CONFIDENCE, jackknifed=True).fit(*groups.groupings)
    bootstrap = Bootstrap(board.n_resamples, CONFIDENCE, board.seed, n_threads=N_THREADS)
    bootstrap.fit(sandwich.strongest_, sandwich)
    estimate = ClusteredEstimate(evidence, clustered, groups, sandwich)
    known = ~np.isnan(estimate.theta)
    covariance = sandwich.covariance_[np.ix_(known, known)] * bootstrap.model_.elo_per_theta**2
    measured = MeasuredIntervals(
        spreads=_spreads(candidates, bootstrap, estimate),
        candidates=candidates[known],
        covariance=covariance,
        fields={
            "interval_reason": interval_reason(bootstrap.reason_, known),
            "measured_digest": evidence.digest(),
            "measured_at": now,
            "measured_seconds": 0.0,
            "measured_votes": evidence.n_votes,
        },
        settings=cluster_settings(groups, sandwich.n_clusters_, candidates)
        | {"groups_met": pairs_of(candidates, groups_met(clustered, candidates, groups))},
        findings=build_findings(estimate, _places(bootstrap, estimate), with_style=with_style)
        | {"shrinkage": measured_effects(candidates, groups, sandwich)},
    )
    measured.fields["measured_seconds"] = time.monotonic() - started
    return measured


def measured_effects(candidates: Ints, groups: Dependence, sandwich: Sandwich) -> dict[str, Any]:
    """What the shrinkage of later votes needs: [candidate id, design effect], if it is known."""
    effects = np.where(groups.measurable, design_effects(sandwich), np.nan)
    pairs = zip(candidates.tolist(), effects.tolist(), strict=True)
    return {"effects": [[pk, effect] for pk, effect in pairs if not np.isnan(effect)]}


def groups_met(counts: VoteCounts, candidates: Ints, groups: Dependence) -> Ints:
    """(K,) the independent groups of each candidate's votes."""
    prompt = counts.key("prompt")
    return independent_groups(
        np.searchsorted(candidates, counts.key("first")),
        np.searchsorted(candidates, counts.key("second")),
        np.where(prompt > 0, prompt, -1),
        groups.clusters_per_candidate,
    )


def _places(bootstrap: Bootstrap, estimate: ClusteredEstimate) -> Places:
    low, high = (
        np.where(estimate.measurable, ends, np.nan) for ends in (bootstrap.low_, bootstrap.high_)
    )
    met = groups_met(estimate.clustered, estimate.evidence.candidates, estimate.groups)
    wins = estimate.battles.wins(weighted=False)
    return place(wins, bootstrap.ratings_, met, low, high, CONFIDENCE)


def interval_reason(reason: NoInterval | None, known: Bools) -> str:
    """Why no score has an interval; '' if one has. `known`: (K,) mask of known intervals."""
    if reason is None and not known.any():
        reason = NoInterval.FEW_CLUSTERS
    return reason.reason if reason else ""


def cluster_settings(groups: Dependence, n_clusters: int, candidates: Ints) -> dict[str, Any]:
    """How the votes depend on one another, as JSON. `n_clusters`: effective."""
    return {
        "clusters": groups.rule,
        "clusters_note": groups.note,
        "n_clusters": n_clusters,
        "these_raters": groups.n_raters,
        "effective": dict(groups.effective),
        "clusters_met": pairs_of(candidates, groups.clusters_per_candidate),
    }


def pairs_of(candidates: Ints, values: Ints) -> list[list[int]]:
    """[candidate id, value] of each candidate, as settings keep them."""
    pairs: list[list[int]] = np.column_stack([candidates, values]).tolist()
    return pairs


def _spreads(
    candidates: Ints, bootstrap: Bootstrap, estimate: ClusteredEstimate
) -> dict[int, Spread]:
    theta, covariance, n_clusters = (
        estimate.theta,
        estimate.sandwich.covariance_,
        estimate.n_clusters,
    )
    best, worst = rank_intervals(theta, covariance, confidence=CONFIDENCE, n_clusters=n_clusters)
    sure_best, sure_worst = rank_intervals(
        theta, covariance, simultaneous=True, confidence=CONFIDENCE, n_clusters=n_clusters
    )
    columns = (
        bootstrap.ratings_ - bootstrap.low_,
        bootstrap.high_ - bootstrap.ratings_,
        bootstrap.standard_errors_,
        best,
        worst,
        sure_best,
        sure_worst,
    )
    return spreads_of(candidates, columns, estimate.measurable)


def spreads_of(candidates: Ints, columns: Sequence[Floats], known: Bools) -> dict[int, Spread]:
    """Spreads by candidate from (K,) columns in the order of the fields; none if not `known`."""
    return {
        pk: Spread(*(None if np.isnan(column[i]) else float(column[i]) for column in columns))
        if known[i]
        else Spread()
        for i, pk in enumerate(candidates.tolist())
    }


def borrow(snapshot: Snapshot) -> MeasuredIntervals:
    """The intervals of an older snapshot, for scores that have changed since."""
    settings = (
        "clusters",
        "clusters_note",
        "n_clusters",
        "these_raters",
        "effective",
        "clusters_met",
        "groups_met",
    )
    names = ("measured_digest", "measured_at", "measured_seconds", "measured_votes")
    candidates, covariance = unpack_covariance(snapshot.matrices)
    return MeasuredIntervals(
        spreads=_spreads_of_standings(list(snapshot.standings.all())),
        candidates=candidates,
        covariance=covariance,
        fields={name: getattr(snapshot, name) for name in (*names, "interval_reason")},
        settings={name: snapshot.settings[name] for name in settings if name in snapshot.settings},
        findings=snapshot.findings,
    )


def _spreads_of_standings(standings: Sequence[Standing]) -> dict[int, Spread]:
    """Spreads by candidate; ranks are among those with a score, as they were measured."""
    ranks = [row.rank for row in standings if row.score is not None and row.rank is not None]
    above = min(ranks, default=1) - 1
    return {row.candidate_id: _spread_of(row, above) for row in standings}


def _spread_of(standing: Standing, above: int) -> Spread:
    score, low, high = standing.score, standing.low, standing.high
    if score is None:
        return Spread()

    def within(rank: int | None) -> float | None:
        return None if rank is None else max(rank - above, 1)

    return Spread(
        below=None if low is None else score - low,
        above=None if high is None else high - score,
        standard_error=standing.standard_error,
        rank_low=within(standing.rank_low),
        rank_high=within(standing.rank_high),
        sure_rank_low=within(standing.sure_rank_low),
        sure_rank_high=within(standing.sure_rank_high),
    )
