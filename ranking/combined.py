"""Combined leaderboards: people decide the scores, and trusted judges narrow the intervals.

The judges here are trusted juries or, if no jury is trusted, trusted judges; never both, because a
jury repeats what its members say. Human and LLM votes are never pooled. On prompts and pairs that
both have voted on, the judges' mean is compared with human votes; the error measured there corrects
the judges' other verdicts on prompts of the same category. See
`ranking.stats.ppi.PredictionPowered`. While nobody is trusted, the leaderboard repeats the one of
human votes, number for number.
"""

import numpy as np

from ranking.findings import opposed_pairs
from ranking.intervals import (
    N_THREADS,
    MeasuredIntervals,
    group_settings,
    groups_met,
    interval_reason,
    measured_effects,
    spreads_of,
)
from ranking.question import NARROWING, Evidence
from ranking.stats.arrays import summed
from ranking.stats.bootstrap import Bootstrap
from ranking.stats.differences import neighbour_findings, neighbours
from ranking.stats.intervals import Sandwich, known_among
from ranking.stats.judged import Labelled, Unlabelled
from ranking.stats.ppi import PredictionPowered
from ranking.stats.ranks import clear_number_one, direct_wins, leader_among, place, rank_intervals
from ranking.votes import BOTH_BAD, Floats, Ints


def combine(evidence: Evidence) -> tuple[PredictionPowered, MeasuredIntervals]:
    """Fit people's votes and the trusted judges'; raises the errors of `BradleyTerry.fit`."""
    question, candidates, groups = evidence.question, evidence.candidates, evidence.groups
    labelled, unlabelled, n_judged = _samples(evidence)
    crossed = Sandwich(question.confidence, jackknifed=True).fit(*groups.groupings)
    bootstrap = Bootstrap(
        question.n_resamples, question.confidence, question.seed, n_threads=N_THREADS
    )
    bootstrap.fit(crossed.strongest_, crossed)
    model = PredictionPowered(question.confidence).fit(labelled, unlabelled, crossed, bootstrap)
    theta = np.where(groups.measurable, model.theta_, np.nan)
    known = ~np.isnan(theta)
    # With too few clusters, the covariance is unknown.
    n_clusters = model.people_.n_clusters_ if model.people_.n_clusters_ > 1 else None
    ranks = [
        rank_intervals(
            theta, model.covariance_, simultaneous, question.confidence, n_clusters=n_clusters
        )
        for simultaneous in (False, True)
    ]
    columns = [
        model.ratings_ - model.low_,
        model.high_ - model.ratings_,
        model.standard_errors_,
        *ranks[0],
        *ranks[1],
    ]
    met = groups_met(evidence)
    elo_per_theta = model.people_.model_.elo_per_theta
    return model, MeasuredIntervals(
        spreads=spreads_of(candidates, columns, known),
        candidates=candidates[known],
        covariance=model.covariance_[np.ix_(known, known)] * elo_per_theta**2,
        digest=evidence.digest,
        n_votes=evidence.n_votes,
        reason=interval_reason(model.reason_, known),
        settings={"interval": "prediction-powered (PPI++), bootstrap scaled to its errors"}
        | group_settings(evidence, model.people_.n_clusters_, met),
        findings=_find(evidence, model, theta, n_clusters, ranks[1][1], met)
        | {
            "combined": _describe(evidence, model, n_judged),
            "shrinkage": measured_effects(candidates, groups, crossed),
        },
    )


def _samples(evidence: Evidence) -> tuple[Labelled, Unlabelled, int]:
    """Human votes with the judges' mean on the same prompt and pair; the remaining verdicts; and
    how many votes of judges there are."""
    votes, by_prompt = evidence.judged, evidence.by_prompt
    votes = votes.where((votes.outcome != BOTH_BAD) & (votes.prompt > 0))
    size = len(evidence.candidates)
    on_board = np.isin(votes.left, evidence.candidates) & np.isin(votes.right, evidence.candidates)
    left, right = (np.searchsorted(evidence.candidates, side) for side in (votes.left, votes.right))
    flip = left > right
    first, second = np.minimum(left, right), np.maximum(left, right)
    # Equal numbers: the same prompt and the same two candidates.
    unit = np.where(on_board, (votes.prompt * size + first) * size + second, -1)
    judged, of_vote = np.unique(unit, return_inverse=True)
    n_votes = np.bincount(of_vote, minlength=len(judged))
    means = summed(of_vote, np.where(flip, 1 - votes.score, votes.score), len(judged)) / n_votes
    means[judged < 0] = np.nan
    assert by_prompt.cluster is not None
    prompts = np.unique(evidence.prompt_codes[evidence.scored])[by_prompt.cluster]
    voted = (prompts * size + by_prompt.first) * size + by_prompt.second
    at = np.searchsorted(judged, voted)
    is_judged = (np.append(judged, -1)[at] == voted) & (prompts > 0)
    labelled = Labelled.from_arrays(
        by_prompt.first,
        by_prompt.second,
        by_prompt.score,
        np.where(is_judged, np.append(means, np.nan)[at], np.nan),
        weight=by_prompt.count * by_prompt.weight,
        cluster=prompts,
        n_candidates=size,
        stratum=evidence.table.categories_of(prompts),
    )
    alone = ~np.isin(judged, voted[is_judged]) & (judged >= 0)
    of_prompt, pair = np.divmod(judged[alone], size**2)
    unlabelled = Unlabelled.from_arrays(
        pair // size,
        pair % size,
        means[alone],
        cluster=of_prompt,
        n_candidates=size,
        stratum=evidence.table.categories_of(of_prompt),
    )
    return labelled, unlabelled, len(votes)


def _find(
    evidence: Evidence,
    model: PredictionPowered,
    theta: Floats,
    n_clusters: int | None,
    worst: Floats,
    met: Ints,
) -> dict[str, object]:
    """The leader and the neighbours. `worst`: (K,) the worst simultaneous ranks."""
    confidence, battles = evidence.question.confidence, evidence.groups.groupings[0]
    low, high = (np.where(np.isnan(theta), np.nan, ends) for ends in (model.low_, model.high_))
    places = place(battles.wins(weighted=False), model.ratings_, met, low, high, confidence)
    direct = direct_wins(battles, confidence)
    leader = clear_number_one(places, leader_among(worst), direct, evidence.active)
    if evidence.groups.n_raters:  # nothing is claimed about anybody but these raters
        leader = None
    order = neighbours(
        model.theta_,
        known_among(model.covariance_, ~np.isnan(theta)),
        model.people_.model_.covariance_,
        confidence,
        n_clusters,
        direct=direct,
    )
    ids = evidence.candidates.tolist()
    return {
        "leader": None if leader is None else ids[leader],
        "neighbours": neighbour_findings(order, ids),
        "opposed": opposed_pairs(direct, model.theta_, ids),
    }


def _describe(evidence: Evidence, model: PredictionPowered, n_judged: int) -> dict[str, object]:
    """The judges, and what they changed compared with human votes alone."""
    moved = model.ratings_ - model.people_.ratings_
    most = None if np.isnan(moved).all() else int(np.nanargmax(np.abs(moved)))
    before, after = model.people_.standard_errors_, model.standard_errors_
    known = ~(np.isnan(before) | np.isnan(after))
    narrower = float(1 - np.mean(after[known] / before[known])) if known.any() else None
    return {
        "trusted": True,
        "raters": NARROWING[evidence.narrowing],
        "names": evidence.names_of_raters(evidence.judged),
        "lambda": model.lambda_,
        "gain": None if np.isnan(model.gain_) else model.gain_,
        "narrower": narrower,  # the average relative reduction of the human intervals' widths
        "moved_most": None if most is None else int(evidence.candidates[most]),
        "moved_by": None if most is None else float(moved[most]),
        "n_judge_votes": n_judged,
        "reason": model.no_gain_.reason if model.no_gain_ else "",
        "left_out": evidence.candidates[model.left_out_].tolist(),
    }
