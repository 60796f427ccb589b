"""How sure the scores are: intervals and ranks from the votes in their clusters."""

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from ranking.cadence import due_at
from ranking.matrices import unpack_covariance
from ranking.models import Snapshot
from ranking.services.evidence import CONFIDENCE, Evidence
from ranking.services.findings import Estimate, find
from ranking.stats import Bootstrap, Clusters, NoInterval, Sandwich, rank_intervals
from ranking.stats.intervals import measurable
from ranking.tallies import Cells, clustered_battles
from ranking.votes import Bools, Floats, Ints

N_THREADS = 2


@dataclass(frozen=True)
class Spread:
    """What chance may have done to one score: Elo below and above it, and ranks; None unknown."""

    below: float | None = None
    above: float | None = None
    standard_error: float | None = None
    rank_low: float | None = None
    rank_high: float | None = None
    sure_rank_low: float | None = None
    sure_rank_high: float | None = None


@dataclass(frozen=True, eq=False)
class Measured:
    """Spreads by candidate id; the covariance (R, R) of the scores of R `candidates`, in Elo."""

    spreads: Mapping[int, Spread]
    candidates: Ints
    covariance: Floats
    fields: dict[str, Any]
    settings: dict[str, Any]
    findings: dict[str, Any] = field(default_factory=dict)


def is_due(snapshot: Snapshot | None, now: datetime) -> bool:
    """Whether intervals are to be made now, or are borrowed from this older snapshot."""
    return snapshot is None or not snapshot.measured_at or now >= due_at(snapshot)


def measure(evidence: Evidence, clustered: Cells, now: datetime) -> Measured:
    """Make intervals and ranks. Raises as `BradleyTerry.fit` does."""
    started = time.monotonic()
    board, candidates = evidence.board, evidence.candidates
    battles, clusters = clustered_battles(clustered, candidates, evidence.both_bad_is_tie)
    bootstrap = Bootstrap(board.n_resamples, CONFIDENCE, board.seed, n_threads=N_THREADS)
    bootstrap.fit(battles)
    sandwich = Sandwich(CONFIDENCE).fit(battles)
    estimate = Estimate(evidence, clustered, battles, sandwich, measurable(battles))
    inside = ~np.isnan(estimate.theta)
    inner = sandwich.covariance_[np.ix_(inside, inside)] * bootstrap.model_.elo_per_theta**2
    measured = Measured(
        spreads=_spreads(candidates, bootstrap, estimate),
        candidates=candidates[inside],
        covariance=inner,
        fields={
            "interval_reason": why_unmeasured(bootstrap.reason_, inside),
            "measured_digest": evidence.digest(),
            "measured_at": now,
            "measured_seconds": 0.0,
            "measured_votes": evidence.n_votes,
        },
        settings=_settings(clusters, bootstrap.n_clusters_)
        | {"clusters_met": told_by_id(battles.clusters_per_candidate(), candidates)},
        findings=find(estimate),
    )
    measured.fields["measured_seconds"] = time.monotonic() - started
    return measured


def why_unmeasured(reason: NoInterval | None, inside: Bools) -> str:
    """Why no score has an interval; '' where one has."""
    if reason is None and not inside.any():
        reason = NoInterval.FEW_CLUSTERS
    return reason.reason if reason else ""


def told_by_id(met: Ints, candidates: Ints) -> list[list[int]]:
    """In how many clusters each candidate has votes, as JSON keeps it: [id, clusters] each."""
    return np.column_stack([candidates, met]).tolist()


def _spreads(candidates: Ints, bootstrap: Bootstrap, estimate: Estimate) -> dict[int, Spread]:
    theta, covariance, few = estimate.theta, estimate.sandwich.covariance_, estimate.n_clusters
    best, worst = rank_intervals(theta, covariance, confidence=CONFIDENCE, n_clusters=few)
    sure_best, sure_worst = rank_intervals(
        theta, covariance, simultaneous=True, confidence=CONFIDENCE, n_clusters=few
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
    return {
        pk: Spread(*(_known(column[i]) for column in columns)) if estimate.told[i] else Spread()
        for i, pk in enumerate(candidates.tolist())
    }


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _settings(clusters: Clusters, n_clusters: int) -> dict[str, Any]:
    return {
        "clusters": clusters.rule,
        "clusters_note": clusters.note,
        "n_clusters": n_clusters,
    }


def borrow(snapshot: Snapshot) -> Measured:
    """What an older snapshot's intervals said, for scores that have moved on since."""
    settings = ("clusters", "clusters_note", "n_clusters", "clusters_met")
    names = ("measured_digest", "measured_at", "measured_seconds", "measured_votes")
    candidates, covariance = unpack_covariance(snapshot.matrices)
    return Measured(
        spreads={row.candidate_id: _spread(row) for row in snapshot.standings.all()},
        candidates=candidates,
        covariance=covariance,
        fields={name: getattr(snapshot, name) for name in (*names, "interval_reason")},
        settings={name: snapshot.settings[name] for name in settings if name in snapshot.settings},
        findings=snapshot.findings,
    )


def _spread(row: Any) -> Spread:
    known = row.score is not None and row.low is not None
    own = {name: getattr(row, name) for name in asdict(Spread()) if name not in ("below", "above")}
    return Spread(
        below=row.score - row.low if known else None,
        above=row.high - row.score if known else None,
        **own,
    )
