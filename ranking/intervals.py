"""The uncertainty of a leaderboard's scores: intervals and rank intervals from dependent votes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ranking.findings import find
from ranking.question import Evidence
from ranking.stats.bootstrap import Bootstrap
from ranking.stats.claim import Scope, claim, possible_leaders
from ranking.stats.intervals import Dependence, NoInterval, Sandwich
from ranking.stats.ranks import (
    Places,
    clear_number_one,
    direct_wins,
    independent_groups,
    leader_among,
    place,
    rank_intervals,
    simultaneous_value,
)
from ranking.stats.shrinkage import design_effects
from ranking.votes import Bools, Floats, Ints


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


@dataclass(frozen=True, eq=False)
class Measurement:
    """What a fit says about K candidates; NaN where it says nothing.

    Attributes
    ----------
    theta : (K,) strengths
    covariance, independent : (K, K) of theta, and as if all votes were independent
    ratings, low, high, errors : (K,) Elo
    n_clusters : the effective number of groups of votes
    reason : why there are no intervals, or None
    """

    theta: Floats
    covariance: Floats
    independent: Floats
    ratings: Floats
    low: Floats
    high: Floats
    errors: Floats
    n_clusters: int
    reason: NoInterval | None


def measure(evidence: Evidence) -> MeasuredIntervals:
    """Compute intervals, ranks and findings; raises the errors of `BradleyTerry.fit`."""
    question, groups = evidence.question, evidence.groups
    # With clusters of the user's choice, errors are those of textbooks.
    is_published = question.cluster == "auto"
    sandwich = Sandwich(question.confidence, jackknifed=is_published).fit(*groups.groupings)
    bootstrap = resample(evidence, sandwich)
    estimate = Measurement(
        sandwich.model_.theta_,
        sandwich.covariance_,
        sandwich.model_.covariance_,
        bootstrap.ratings_,
        bootstrap.low_,
        bootstrap.high_,
        sandwich.standard_errors_,
        sandwich.n_clusters_,
        bootstrap.reason_,
    )
    measured, places = describe(evidence, estimate, sandwich)
    measured.findings.update(find(evidence, sandwich, places))
    return measured


def resample(evidence: Evidence, sandwich: Sandwich) -> Bootstrap:
    question = evidence.question
    bootstrap = Bootstrap(question.n_resamples, question.confidence, question.seed)
    return bootstrap.fit(sandwich.strongest_, sandwich)


def describe(
    evidence: Evidence, estimate: Measurement, sandwich: Sandwich
) -> tuple[MeasuredIntervals, Places]:
    """The intervals of a fit, the ranks, who leads and by how much; `sandwich`: of the votes, for
    the shrinkage of later ones."""
    candidates, groups = evidence.candidates, evidence.groups
    confidence, ids = evidence.question.confidence, candidates.tolist()
    known = groups.measurable & ~np.isnan(estimate.theta)
    theta = np.where(known, estimate.theta, np.nan)
    # With too few groups, the covariance is unknown.
    n_clusters = estimate.n_clusters if estimate.n_clusters > 1 else None
    covariance = np.where(known[:, None] & known, estimate.covariance, np.nan)
    critical = simultaneous_value(covariance, confidence, n_clusters=n_clusters)
    marginal, sure = (
        rank_intervals(theta, covariance, False, confidence, n_clusters=n_clusters, critical=value)
        for value in (None, critical)
    )
    low, high = (np.where(known, ends, np.nan) for ends in (estimate.low, estimate.high))
    below, above = estimate.ratings - low, high - estimate.ratings
    met, battles = groups_met(evidence), groups.groupings[0]
    places = place(battles.wins(weighted=False), estimate.ratings, met, low, high, confidence)
    direct = direct_wins(battles, confidence)
    ahead = clear_number_one(places, leader_among(sure[1]), direct, evidence.active)
    could = possible_leaders(
        np.where(evidence.active, theta, np.nan), estimate.covariance, n_clusters
    )
    if np.count_nonzero(evidence.active) == 2:  # then it is the claim about the two
        first, second = np.flatnonzero(evidence.active).tolist()
        found = claim(evidence.between(ids[first], ids[second]))
        if found.is_decided and found.scope is not Scope.THESE_RATERS:
            could[[first, second]] = found.for_b > found.for_a, found.for_a > found.for_b
        else:
            could[[first, second]] = True
    elif ahead is not None and np.isnan(theta[ahead]):
        could[:] = np.arange(len(could)) == ahead  # it has won on enough prompts, at every look
    else:
        could |= (places.best == 1) & evidence.active
    leader = ahead if ahead is not None and could.sum() == 1 and could[ahead] else None
    if groups.n_raters:  # nothing is claimed about anybody but these raters
        leader = ahead = None
    elo_per_theta = sandwich.model_.elo_per_theta
    return MeasuredIntervals(
        spreads=spreads_of(candidates, (below, above, estimate.errors, *marginal, *sure), known),
        candidates=candidates[known],
        covariance=estimate.covariance[np.ix_(known, known)] * elo_per_theta**2,
        digest=evidence.digest,
        n_votes=evidence.n_votes,
        reason=interval_reason(estimate.reason, known),
        settings=group_settings(evidence, estimate.n_clusters, met) | {"critical": critical},
        findings={
            "leader": None if leader is None else ids[leader],
            "ahead": None if ahead is None else ids[ahead],
            "possible": candidates[could].tolist(),
            "opposed": opposed_pairs(direct, estimate.theta, ids),
            "shrinkage": measured_effects(candidates, groups, sandwich),
        },
    ), places


def opposed_pairs(direct: Bools, theta: Floats, ids: Sequence[int]) -> list[list[int]]:
    """[higher, lower] of each two candidates whose direct votes say the opposite of the scores."""
    higher, lower = np.nonzero(direct.T & (theta[:, None] > theta))
    return [[ids[i], ids[j]] for i, j in zip(higher.tolist(), lower.tolist(), strict=True)]


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
        np.where(prompt > 0, evidence.unit, -1),
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
