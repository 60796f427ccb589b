"""Combined leaderboards: people decide the scores, and trusted judges narrow the intervals.

The judges here are trusted juries or, if no jury is trusted, trusted judges; never both, because a
jury repeats what its members say. Human and LLM votes are never pooled. On prompts and pairs that
both have voted on, the judges' mean is compared with human votes; the error measured there corrects
the judges' other verdicts on prompts of the same category. See
`ranking.stats.ppi.PredictionPowered`. While nobody is trusted, the leaderboard repeats the one of
human votes, number for number.
"""

import numpy as np

from ranking.intervals import MeasuredIntervals, Measurement, describe, resample
from ranking.question import NARROWING, Evidence
from ranking.stats.arrays import summed
from ranking.stats.intervals import Sandwich
from ranking.stats.judged import Labelled, Unlabelled
from ranking.stats.ppi import PredictionPowered
from ranking.votes import BOTH_BAD


def combine(evidence: Evidence) -> tuple[PredictionPowered, MeasuredIntervals]:
    """Fit people's votes and the trusted judges'; raises the errors of `BradleyTerry.fit`."""
    confidence = evidence.question.confidence
    labelled, unlabelled, n_judged = _samples(evidence)
    crossed = Sandwich(confidence, jackknifed=True).fit(*evidence.groups.groupings)
    bootstrap = resample(evidence, crossed)
    model = PredictionPowered(confidence).fit(labelled, unlabelled, crossed, bootstrap)
    estimate = Measurement(
        model.theta_,
        model.covariance_,
        model.people_.model_.covariance_,
        model.ratings_,
        model.low_,
        model.high_,
        model.standard_errors_,
        model.people_.n_clusters_,
        model.reason_,
    )
    measured, _ = describe(evidence, estimate, crossed)
    measured.settings["interval"] = "prediction-powered (PPI++), bootstrap scaled to its errors"
    moved = model.ratings_ - model.people_.ratings_
    most = None if np.isnan(moved).all() else int(np.nanargmax(np.abs(moved)))
    before, after = model.people_.standard_errors_, model.standard_errors_
    both = ~(np.isnan(before) | np.isnan(after))
    narrower = float(1 - np.mean(after[both] / before[both])) if both.any() else None
    measured.findings["combined"] = {
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
    return model, measured


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
    alone = ~np.isin(judged, voted[is_judged]) & (judged >= 0)
    of_prompt, pair = np.divmod(judged[alone], size**2)
    units = evidence.table.documents_of(np.concatenate([prompts, of_prompt]))
    labelled = Labelled.from_arrays(
        by_prompt.first,
        by_prompt.second,
        by_prompt.score,
        np.where(is_judged, np.append(means, np.nan)[at], np.nan),
        weight=by_prompt.count * by_prompt.weight,
        cluster=units[: len(prompts)],
        n_candidates=size,
        stratum=evidence.table.categories_of(prompts),
    )
    unlabelled = Unlabelled.from_arrays(
        pair // size,
        pair % size,
        means[alone],
        cluster=units[len(prompts) :],
        n_candidates=size,
        stratum=evidence.table.categories_of(of_prompt),
    )
    return labelled, unlabelled, len(votes)
