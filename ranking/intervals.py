"""The uncertainty of a leaderboard's scores: intervals and rank intervals from dependent votes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ranking.findings import RobustEstimate, find
from ranking.question import Evidence
from ranking.stats.bootstrap import Bootstrap
from ranking.stats.intervals import Dependence, NoInterval, Sandwich
from ranking.stats.ranks import independent_groups, leader_among, place, rank_intervals
from ranking.stats.shrinkage import design_effects
from ranking.votes import Bools, Floats, Ints

N_THREADS = 2


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
    """What is known about the uncertainty of scores, perhaps those of earlier votes.

    Attributes
    ----------
    spreads : by candidate id
    candidates : (R,) ids of those in the covariance
    covariance : (R, R) of their scores, Elo squared
    digest, n_votes : of the evidence that was measured
    reason : why no score has an interval; "" if one has
    settings, findings : what pages show beside them, as JSON
    """

    spreads: Mapping[int, Spread]
    candidates: Ints
    covariance: Floats
    digest: str
    n_votes: int
    reason: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    findings: dict[str, Any] = field(default_factory=dict)


def measure(evidence: Evidence) -> MeasuredIntervals:
    """Compute intervals, ranks and findings; raises the errors of `BradleyTerry.fit`."""
    question, candidates, groups = evidence.question, evidence.candidates, evidence.groups
    # With clusters of the user's choice, errors are those of textbooks.
    is_published = question.cluster == "auto"
    confidence = question.confidence
    sandwich = Sandwich(confidence, jackknifed=is_published).fit(*groups.groupings)
    bootstrap = Bootstrap(question.n_resamples, confidence, question.seed, n_threads=N_THREADS)
    bootstrap.fit(sandwich.strongest_, sandwich)
    estimate = RobustEstimate(evidence, sandwich)
    theta = estimate.theta
    ranks = [
        rank_intervals(
            theta,
            sandwich.covariance_,
            simultaneous,
            confidence,
            n_clusters=estimate.n_clusters,
        )
        for simultaneous in (False, True)
    ]
    known = ~np.isnan(theta)
    errors = bootstrap if is_published else sandwich
    columns = (
        bootstrap.ratings_ - bootstrap.low_,
        bootstrap.high_ - bootstrap.ratings_,
        errors.standard_errors_,
        *ranks[0],
        *ranks[1],
    )
    low, high = (
        np.where(groups.measurable, ends, np.nan) for ends in (bootstrap.low_, bootstrap.high_)
    )
    met = groups_met(evidence)
    wins = groups.groupings[0].wins(weighted=False)
    places = place(wins, bootstrap.ratings_, met, low, high, confidence)
    return MeasuredIntervals(
        spreads=spreads_of(candidates, columns, groups.measurable),
        candidates=candidates[known],
        covariance=sandwich.covariance_[np.ix_(known, known)] * bootstrap.model_.elo_per_theta**2,
        digest=evidence.digest,
        n_votes=evidence.n_votes,
        reason=interval_reason(bootstrap.reason_, known),
        settings=group_settings(evidence, sandwich.n_clusters_, met),
        findings=find(estimate, places, leader_among(ranks[1][1]))
        | {"shrinkage": measured_effects(candidates, groups, sandwich)},
    )


def measured_effects(candidates: Ints, groups: Dependence, sandwich: Sandwich) -> dict[str, Any]:
    """What the shrinkage of later votes needs: [candidate id, design effect], if it is known."""
    effects = np.where(groups.measurable, design_effects(sandwich), np.nan)
    pairs = zip(candidates.tolist(), effects.tolist(), strict=True)
    return {"effects": [[pk, effect] for pk, effect in pairs if not np.isnan(effect)]}


def groups_met(evidence: Evidence) -> Ints:
    """(K,) the independent groups of each candidate's votes."""
    prompt = evidence.votes.prompt
    return independent_groups(
        evidence.left,
        evidence.right,
        np.where(prompt > 0, prompt, -1),
        evidence.groups.clusters_per_candidate,
    )


def interval_reason(reason: NoInterval | None, known: Bools) -> str:
    """Why no score has an interval; '' if one has. `known`: (K,) mask of known intervals."""
    if reason is None and not known.any():
        reason = NoInterval.FEW_CLUSTERS
    return reason.reason if reason else ""


def group_settings(evidence: Evidence, n_clusters: int, met: Ints) -> dict[str, Any]:
    """How the votes depend on one another, as JSON. `n_clusters`: effective; `met`: `groups_met`"""
    groups, candidates = evidence.groups, evidence.candidates
    return {
        "clusters": groups.rule,
        "clusters_note": groups.note if evidence.question.cluster == "auto" else "",
        "n_clusters": n_clusters,
        "these_raters": groups.n_raters,
        "effective": dict(groups.effective),
        "clusters_met": np.column_stack([candidates, groups.clusters_per_candidate]).tolist(),
        "groups_met": np.column_stack([candidates, met]).tolist(),
    }


def spreads_of(candidates: Ints, columns: Sequence[Floats], known: Bools) -> dict[int, Spread]:
    """Spreads by candidate from (K,) columns in the order of the fields; none if not `known`."""
    return {
        pk: Spread(*(None if np.isnan(column[i]) else float(column[i]) for column in columns))
        if known[i]
        else Spread()
        for i, pk in enumerate(candidates.tolist())
    }
