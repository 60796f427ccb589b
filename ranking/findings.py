"""What a leaderboard says besides scores, intervals and leads: robustness, agreement, style, and
so on.
"""

from collections.abc import Sequence
from math import isfinite, isnan
from typing import Any

import numpy as np

from ranking.question import Evidence
from ranking.stats.agreement import nominal_agreement
from ranking.stats.arrays import codes
from ranking.stats.bradley_terry import BradleyTerry, NotConvergedError
from ranking.stats.connectivity import transitivity
from ranking.stats.intervals import Sandwich
from ranking.stats.ranks import (
    Places,
    clearly_below,
    other_groups,
    rank_intervals,
    ranks,
    simultaneous_value,
    tiers,
)
from ranking.stats.robustness import leave_one_out, measure_robustness
from ranking.stats.style import StyledBradleyTerry, style_differences
from ranking.votes import BOTH_BAD, LEFT, RIGHT, TIE, Floats, Ints

WIDEST_STYLED = 2000.0  # Elo; the interval of a style-controlled score that says nothing
FEATURES = {
    "words": "Length in words",
    "headings": "Headings",
    "list_items": "List items",
    "bold": "Bold words",
}


def find(evidence: Evidence, sandwich: Sandwich, places: Places) -> dict[str, Any]:
    """All that needs no intervals, as JSON."""
    battles, ids = evidence.battles, evidence.candidates.tolist()
    result = transitivity(battles.wins())
    return {
        "fragility": {} if places.n_above else _robustness(evidence, sandwich, ids),
        "agreement": _agreement(evidence),
        "transitivity": {
            "share": _finite(result.share),
            "triads": result.triads,
            "transitive": result.transitive,
        },
        "style": _style_findings(evidence, sandwich),
        "groups": other_groups(
            sandwich.model_.components_, evidence.groups, ids, evidence.question.confidence
        ),
    }


def _robustness(evidence: Evidence, sandwich: Sandwich, ids: Sequence[int]) -> dict[str, Any]:
    """How few votes would change number one, and whether one rater or prompt less would."""
    robustness = measure_robustness(evidence.battles, sandwich.model_)
    without = {}
    prompts = "documents" if evidence.n_documents else "prompts"
    for name, known in (("raters", evidence.votes.rater), (prompts, evidence.votes.prompt)):
        grouping = evidence.by_document if name != "raters" else evidence.grouped(known)
        if known.all() and len(known) and (found := leave_one_out(grouping, sandwich.model_)):
            rival = None if found.rival is None else ids[found.rival]
            without[name] = {"of": found.groups, "changes": found.changes, "rival": rival}
    return {
        "words": robustness.words,
        "votes": robustness.votes,
        "of": robustness.of,
        "top": None if robustness.top is None else ids[robustness.top],
        "rival": None if robustness.rival is None else ids[robustness.rival],
        "confirmed": robustness.confirmed,
        "without_one": without,
    }


def _agreement(evidence: Evidence) -> dict[str, Any] | None:
    """How much votes on the same prompt and pair agree; None without two such votes."""
    chosen = (evidence.votes.prompt > 0) & (evidence.votes.outcome != BOTH_BAD)
    prompt, outcome = evidence.votes.prompt[chosen], evidence.votes.outcome[chosen]
    left, right = (evidence.alphabetical[side[chosen]] for side in (evidence.left, evidence.right))
    size = len(evidence.candidates)
    unit = (prompt * size + np.minimum(left, right)) * size + np.maximum(left, right)
    code, n_units = codes(unit)
    outcome = np.where((left > right) & (outcome != TIE), LEFT + RIGHT - outcome, outcome)
    outcomes = np.bincount(code * 3 + outcome, minlength=3 * n_units).reshape(-1, 3)
    all_three, decisive = nominal_agreement(outcomes), nominal_agreement(outcomes[:, :2])
    if not all_three.n_pairs:
        return None
    return {
        "share": _finite(all_three.share),
        "n_pairs": all_three.n_pairs,
        "alpha": _finite(all_three.alpha),
        "decisive_share": _finite(decisive.share),
        "decisive_n_pairs": decisive.n_pairs,
    }


def _style_findings(evidence: Evidence, sandwich: Sandwich) -> dict[str, Any] | None:
    """Style-controlled scores; None without votes on answers whose style is counted."""
    table = evidence.table
    votes, candidates = evidence.votes, evidence.candidates
    span = int(max(candidates.max(initial=0), table.answers.max(initial=0))) + 1
    known = table.answers[:, 0] * span + table.answers[:, 1]

    def answers(prompt: Ints, candidate: Ints) -> Ints:
        """The places of answers in the table, -1 for those whose style is not counted."""
        wanted = prompt * span + candidate
        place = np.searchsorted(known, wanted)
        return np.where(np.append(known, -1)[place] == wanted, place, -1)

    chosen = (votes.prompt > 0) & evidence.scored
    for side in (votes.left, votes.right):
        chosen &= answers(votes.prompt, side) >= 0
    if not chosen.any():
        return None
    prompts = np.unique(votes.prompt[chosen])
    rows = evidence.grouped(votes.prompt, among=chosen)
    assert rows.cluster is not None
    of_sides = (
        table.features[answers(prompts[rows.cluster], candidates[side])]
        for side in (rows.first, rows.second)
    )
    model = StyledBradleyTerry(confidence=evidence.question.confidence)
    try:
        model.fit(
            rows.first,
            rows.second,
            rows.score,
            style_differences(*of_sides),
            weight=rows.weight,
            cluster=votes.documents_of(prompts)[rows.cluster],
            n_candidates=len(candidates),
            count=rows.count,
        )
    except NotConvergedError:
        return None
    wider = _widening(evidence, sandwich)
    scores = _scores(candidates, model, wider)
    return {
        "features": _coefficients(model, wider),
        "scores": scores,
        "tiers": _place_styled(candidates, model, wider, scores),
        "reason": model.reason_.reason if model.reason_ else "",
        "n_votes": rows.n_votes,
    }


def _widening(evidence: Evidence, sandwich: Sandwich) -> Floats:
    """(K,): how many times wider than by prompt alone, as style's are, the intervals of scores are.

    NaN for candidates without an interval.
    """
    by_prompt = Sandwich(evidence.question.confidence).fit(evidence.groups.groupings[0])
    wider = (sandwich.high_ - sandwich.low_) / (by_prompt.high_ - by_prompt.low_)
    return np.where(evidence.groups.measurable, np.fmax(wider, 1.0), np.nan)


def _coefficients(model: StyledBradleyTerry, wider: Floats) -> list[dict[str, Any]]:
    """The effect of one standard deviation of each feature, in Elo.

    Raters widen the intervals as much as they widen those of scores on average.
    """
    points = model.scale / np.log(10)
    finite = wider[np.isfinite(wider)]
    reach = model.coefficient_high_ - model.coefficients_
    reach *= points * (finite.mean() if len(finite) else 1.0)
    return [
        {
            "name": name,
            "label": label,
            "coefficient": _finite(effect := model.coefficients_[i] * points),
            "low": _finite(effect - reach[i]),
            "high": _finite(effect + reach[i]),
            "deviation": _finite(model.deviations_[i]),
            "reason": status.reason if (status := model.coefficient_status_[i]) else "",
        }
        for i, (name, label) in enumerate(FEATURES.items())
    ]


def _scores(candidates: Ints, model: StyledBradleyTerry, wider: Floats) -> dict[str, Any]:
    """Their intervals, like those of the scores, are wider than by prompt alone.

    A score is left out if its interval is so wide that the votes hardly tell style from quality.
    """
    low, high = (
        model.ratings_ + wider * (end - model.ratings_) for end in (model.low_, model.high_)
    )
    width = high - low
    unmeasured = np.isnan(width) & ~(width > WIDEST_STYLED).any()
    kept = unmeasured | (width <= WIDEST_STYLED)
    return {
        str(pk): {
            "score": _finite(model.ratings_[i]),
            "low": _finite(low[i]),
            "high": _finite(high[i]),
        }
        for i, pk in enumerate(candidates.tolist())
        if isfinite(model.ratings_[i]) and kept[i]
    }


def _place_styled(
    candidates: Ints, model: StyledBradleyTerry, wider: Floats, scores: dict[str, Any]
) -> list[list[int]]:
    """Add the possible ranks to style-controlled scores; the ids of the candidates by tier."""
    kept = np.array([str(pk) in scores for pk in candidates.tolist()], np.bool_)
    wider = np.where(kept, wider, np.nan)
    covariance = model.covariance_ * wider[:, None] * wider
    n_clusters = model.n_clusters_ if model.n_clusters_ > 1 else None
    theta = np.where(np.isnan(covariance.diagonal()), np.nan, model.theta_)
    critical = simultaneous_value(covariance, model.confidence, n_clusters=n_clusters)
    best, worst = rank_intervals(theta, covariance, critical=critical)
    for i in np.flatnonzero(~np.isnan(best)).tolist():
        scores[str(candidates[i])] |= {"rank_low": int(best[i]), "rank_high": int(worst[i])}
    order = np.argsort(-theta)[: np.count_nonzero(~np.isnan(theta))]
    below = clearly_below(theta[order], covariance[np.ix_(order, order)], critical)
    number = tiers(below)
    return [candidates[order[number == n]].tolist() for n in np.unique(number)]


def _finite(value: float) -> float | None:
    return float(value) if isfinite(value) else None


def named_votes(evidence: Evidence) -> dict[str, Any]:
    """How many counted votes are on answers that reveal their author, and which candidates have
    another rank without them.

    `without` has [candidate, rank, score] for each of those; None for one without a rank. Empty if
    such votes do not count, or there are none.
    """
    named = evidence.votes.named
    if not (evidence.question.keeps_named and named.any()):
        return {}
    before, after = (
        BradleyTerry().fit(evidence.grouped(None, weighted=False, among=chosen))
        for chosen in (None, ~named)
    )
    places = zip(ranks(before.ratings_), ranks(after.ratings_), after.ratings_, strict=True)
    changed = [
        [pk, None, None] if isnan(rank) else [pk, int(rank), float(score)]
        for pk, (old, rank, score) in zip(evidence.candidates.tolist(), places, strict=True)
        if old != rank and not (isnan(old) and isnan(rank))
    ]
    return {"votes": int((named & evidence.scored).sum()), "without": changed}
