"""A leaderboard as a function of votes: no database, no clock.

Everything that a page, an export, `manage.py rank` and `manage.py verify` say about scores comes
from here.
"""

from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.metadata import version
from itertools import pairwise
from math import isnan, nan
from typing import Any

import numpy as np

from arena.outcomes import VOTES_PER_CANDIDATE
from ranking.anchor import move
from ranking.combined import combine
from ranking.findings import named_votes
from ranking.intervals import MeasuredIntervals, Spread, measure
from ranking.question import COMBINED, Evidence, Question
from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry, largest_difference
from ranking.stats.elo import Elo
from ranking.stats.intervals import MIN_CLUSTERS
from ranking.stats.ranks import Places, clearly_below, place, simultaneous_value, tiers
from ranking.stats.shrinkage import Shrinkage
from ranking.votes import Floats, Ints, VoteTable

FAVOURABLE = 10  # networks without which a leader must still be first
MAX_DIFFERENCE = 0.01  # Elo; two packages that differ by more are not both right
LIBRARIES = ("numpy", "scipy", "choix")


class CrossCheckError(Exception):
    """choix and Ringside's fit disagree, so the scores must not be published."""


@dataclass
class RankedCandidate:
    """One candidate's row: the fields of a `ranking.models.Standing`; None is unknown."""

    candidate_id: int
    status: str
    reason: str
    votes: int
    wins: int
    losses: int
    ties: int
    win_rate: float | None
    both_bad_rate: float | None
    score: float | None
    low: float | None
    high: float | None
    standard_error: float | None
    rank: float | None
    rank_low: float | None
    rank_high: float | None
    sure_rank_low: float | None
    sure_rank_high: float | None
    shrunk: float | None
    shrunk_low: float | None
    shrunk_high: float | None
    elo: float | None


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """What the votes say about the candidates of a question.

    Attributes
    ----------
    rows : by candidate id
    fields : numbers of votes and the like, as a snapshot has them
    settings, findings : how it was made, and what else was found, as JSON
    evidence : the votes that answer the question
    measured : the intervals, perhaps of earlier votes
    model : the fit behind the scores
    """

    rows: list[RankedCandidate]
    fields: dict[str, Any]
    settings: dict[str, Any]
    findings: dict[str, Any]
    evidence: Evidence
    measured: MeasuredIntervals
    model: BradleyTerry


def leaderboard(
    votes: VoteTable, question: Question, measured: MeasuredIntervals | None = None
) -> Leaderboard:
    """Rank the candidates by the votes that the question is about.

    `measured`: the intervals of earlier votes, to be kept; a combined leaderboard has none to keep,
    because its scores need them. Raises NotConvergedError, and CrossCheckError if choix disagrees.
    """
    return fit_leaderboard(Evidence.of(votes, question), measured)


def fit_leaderboard(evidence: Evidence, measured: MeasuredIntervals | None = None) -> Leaderboard:
    """`leaderboard`, for votes that were chosen already."""
    if evidence.question.raters == COMBINED:
        combined, measured = combine(evidence)
        model, ratings, elo = combined.people_.model_, combined.ratings_, {}
        difference = cross_check(evidence.by_prompt, model)
    else:
        model = BradleyTerry().fit(evidence.battles)
        ratings, elo = model.ratings_, rate(evidence)
        difference = cross_check(evidence.battles, model)
        measured = measured or measure(evidence)
    shrinkage, places = (
        _shrink_scores(evidence, measured),
        _place_candidates(evidence, ratings, measured),
    )
    findings = measured.findings | _find_claims(evidence, places, measured)
    rows = _ranked_candidates(evidence, model, ratings, measured, places, shrinkage, elo)
    if findings["ahead"] is None:
        _share_first_place(rows)
    anchor, offset = _find_offset(evidence, ratings)
    for row in rows:
        move(row, offset)
    placed_tiers = _tiers(evidence, places, measured, ratings, findings["ahead"])
    return Leaderboard(
        rows=rows,
        fields={
            "n_votes": evidence.n_votes,
            "n_both_bad": int(evidence.pairs["both_bad"].sum()),
            "n_raters": n_known(evidence.votes.rater),
            "n_prompts": n_known(evidence.votes.prompt),
            "last_vote_id": int(evidence.votes.pk.max(initial=0)),
            "choix_difference": difference,
            "interval_reason": measured.reason,
        },
        settings=_leaderboard_settings(evidence)
        | measured.settings
        | {
            "center": BradleyTerry.center + offset,
            "anchor": anchor,
            "evidence": _sufficiency(evidence, measured),
            "left_out": evidence.left_out(),
            "named": named_votes(evidence),
        }
        | ({"merged": sorted(evidence.table.merged.items())} if evidence.table.merged else {})
        | (
            {"judges": evidence.names_of_raters(evidence.votes)}
            if evidence.question.raters in ("judges", "juries")
            else {}
        ),
        findings=findings
        | {
            "capped": [list(pair) for pair in evidence.caps.raters.items()],
            "tiers": placed_tiers,
            "neighbours": _neighbours(rows, placed_tiers),
            "shrinkage": {
                **findings.get("shrinkage", {}),
                "deviation": shrinkage.deviation_,
            },
        },
        evidence=evidence,
        measured=measured,
        model=model,
    )


def n_known(ids: Ints) -> int:
    """How many different ids there are; 0 is unknown."""
    return len(np.unique(ids[ids > 0]))


def cross_check(battles: Battles, model: BradleyTerry) -> float:
    """Return the largest difference from choix, in Elo. Raises CrossCheckError if it is large."""
    difference = largest_difference(battles, model)
    if not difference <= MAX_DIFFERENCE:
        raise CrossCheckError(
            f"choix differs by {difference:.4f} Elo (the limit for publishing is {MAX_DIFFERENCE})"
        )
    return difference


def rate(evidence: Evidence) -> dict[int, float]:
    """Online Elo ratings in vote order, by candidate id."""
    chosen, ids = evidence.scored, evidence.candidates.tolist()
    left, right = evidence.left[chosen], evidence.right[chosen]
    model = Elo().fit(left, right, evidence.votes.score[chosen], len(ids))
    return {pk: float(model.ratings_[i]) for i, pk in enumerate(ids) if model.votes_[i]}


def _find_offset(evidence: Evidence, ratings: Floats) -> tuple[dict[str, Any] | None, float]:
    """The anchor as JSON, and how far it moves all scores: 0 without one that can be used."""
    anchor = evidence.question.anchor
    if anchor is None:
        return None, 0.0
    why = _why_unusable(anchor.candidate, evidence, ratings)
    at = np.flatnonzero(evidence.candidates == anchor.candidate)
    offset = 0.0 if why else anchor.score - float(ratings[at[0]])
    return {"candidate": anchor.candidate, "score": anchor.score, "reason": why}, offset


def _why_unusable(candidate: int, evidence: Evidence, ratings: Floats) -> str:
    """Why the scale can't be fixed at it, a key of WHY_UNUSABLE; '' if it can."""
    if candidate in evidence.table.merged:
        return "merged"
    if candidate not in evidence.table.names:
        return "gone"
    if candidate in evidence.table.archived:
        return "archived"
    at = np.flatnonzero(evidence.candidates == candidate)[0]
    if not (evidence.scored & ((evidence.left == at) | (evidence.right == at))).any():
        return "no_votes"
    return "unconnected" if isnan(ratings[at]) else ""


def _find_claims(evidence: Evidence, places: Places, measured: MeasuredIntervals) -> dict[str, Any]:
    """Who leads clearly, at every look, and who is ahead at this count, unless newer votes or
    archiving have undone that; who could be the best; the candidates that stand apart with as much
    evidence; and the archived ones.
    """
    ids, active = evidence.candidates, evidence.active

    def still(name: str) -> int | None:
        # What the votes claim is kept, for later votes that borrow these intervals.
        claimed = measured.findings.get(f"claimed_{name}", measured.findings.get(name))
        at = np.flatnonzero(ids == claimed).tolist()  # it may have left
        return int(ids[at[0]]) if at and places.allow(at[0], active) else None

    claimed = {name: still(name) for name in ("leader", "ahead")}
    first = claimed["leader"] or claimed["ahead"]
    is_provisional = first is not None and not _stands_without_networks(evidence, first)
    is_doubtful = first is not None and not _stands_without_groups(evidence, first)
    is_named = not (is_provisional or is_doubtful)
    return {
        **(claimed if is_named else dict.fromkeys(claimed)),
        **{f"claimed_{name}": pk for name, pk in claimed.items()},
        "provisional": first if is_provisional else None,
        "is_under_review": bool(evidence.question.reviews),
        "possible": [pk for pk in measured.findings.get("possible") or () if pk in ids[active]],
        "apart": ids[places.apart & evidence.active].tolist(),
        "archived": evidence.archived,
    }


def _stands_without_networks(evidence: Evidence, candidate: int) -> bool:
    """Whether a leader is still first without the networks that favour it most, or leads by
    verified people's votes alone. Always, where not everybody's votes count.

    The claim is not tested again on the votes that are left: they were chosen by their outcome, so
    that it would hardly ever hold for 40 raters on 30 networks.
    """
    question, networks = evidence.question, evidence.votes.network
    if not question.is_open or not networks.any():
        return True
    place = int(np.searchsorted(evidence.candidates, candidate))
    strength = _strengths(evidence)
    gap = strength[evidence.left] - strength[evidence.right]
    surplus = evidence.votes.score - 1 / (1 + np.exp(-gap))
    sign = (evidence.left == place).astype(np.float64) - (evidence.right == place)
    weight = 1.0 if evidence.caps.weight is None else evidence.caps.weight
    favour = np.where(evidence.scored & (networks > 0), weight * sign * surplus, 0.0)
    of_networks = np.bincount(networks, favour)[1:]
    kept = ~np.isin(networks, 1 + np.argsort(-of_networks)[:FAVOURABLE])
    if _is_first(evidence.up_to(kept), candidate):
        return True
    verified = Evidence.of(evidence.table, replace(question, raters="verified", is_open=False))
    return bool(verified.n_votes) and measure(verified).findings["leader"] == candidate


def _stands_without_groups(evidence: Evidence, candidate: int) -> bool:
    """Whether no group under review favours a leader, and it is first without their votes.

    Otherwise a dozen votes for the last candidate would be enough to unname the first.
    """
    reviews, merged = evidence.question.reviews, evidence.table.merged
    favoured = {merged.get(it.candidate, it.candidate) for it in reviews if not it.loses}
    if not reviews or candidate in favoured:
        return not reviews
    suspects = [rater for review in reviews for rater in review.raters]
    return _is_first(evidence.up_to(~np.isin(evidence.votes.rater, suspects)), candidate)


def _is_first(evidence: Evidence, candidate: int) -> bool:
    """Whether no active candidate is stronger by these votes."""
    place = int(np.searchsorted(evidence.candidates, candidate))
    rest = np.nan_to_num(_strengths(evidence), nan=-np.inf)
    return bool(rest[place] > -np.inf and rest[place] >= rest[evidence.active].max())


def _strengths(evidence: Evidence) -> Floats:
    """(K,) shrunk log-odds, also of those that never lost; NaN without votes."""
    return Shrinkage(evidence.question.confidence).fit(evidence.grouped(None)).theta_


def _sufficiency(evidence: Evidence, measured: MeasuredIntervals) -> dict[str, Any]:
    """How many votes a ranking needs, and whether there are enough votes and prompts for one."""
    scored = evidence.scored
    n_voted = len(np.union1d(evidence.left[scored], evidence.right[scored]))
    # Each vote counts for two candidates.
    needed = -(-VOTES_PER_CANDIDATE * max(n_voted, 2) // 2)
    prompts = measured.settings.get("effective", {}).get("prompts")
    few_prompts = prompts is not None and prompts < MIN_CLUSTERS
    enough = evidence.n_votes >= needed and not few_prompts
    return {"needed": needed, "few_prompts": few_prompts, "enough": enough}


def _tiers(
    evidence: Evidence,
    places: Places,
    measured: MeasuredIntervals,
    ratings: Floats,
    ahead: int | None,
) -> list[list[int]]:
    """The ids of the candidates with intervals, by tier; open intervals are among them. If nobody
    is ahead, nobody is alone in the first tier."""
    ends = (_column(evidence, measured, name) for name in ("sure_rank_low", "sure_rank_high"))
    best, worst = places.among_all(*ends)
    placed = np.flatnonzero(~np.isnan(worst) & ~np.isnan(places.rank))
    order = placed[np.argsort(places.rank[placed], kind="stable")]
    _, place_of, at = np.intersect1d(evidence.candidates, measured.candidates, return_indices=True)
    covariance = np.full((len(ratings), len(ratings)), nan)
    covariance[np.ix_(place_of, place_of)] = measured.covariance[np.ix_(at, at)]
    critical = measured.settings.get("critical") or simultaneous_value(covariance)
    below = clearly_below(ratings, covariance, critical)
    # Beside a candidate without a score, the possible ranks tell.
    is_open = np.isnan(ratings)
    below |= (is_open[:, None] | is_open) & (best > worst[:, None])
    number = tiers(below[np.ix_(order, order)])
    tiers_of_ids: list[list[int]] = [
        evidence.candidates[order[number == n]].tolist() for n in np.unique(number)
    ]
    if len(tiers_of_ids) > 1 and len(tiers_of_ids[0]) == 1 and ahead is None:
        tiers_of_ids[:2] = [tiers_of_ids[0] + tiers_of_ids[1]]
    return tiers_of_ids


def _neighbours(rows: list[RankedCandidate], tiers: list[list[int]]) -> list[dict[str, Any]]:
    """Each two candidates with scores that are next to one another, and whether their tiers differ.

    The number of votes that would separate them is what a claim about the two says.
    """
    tier = {pk: number for number, ids in enumerate(tiers) for pk in ids}
    scored = [row for row in rows if row.score is not None]
    scored.sort(key=lambda row: row.score or 0.0, reverse=True)
    return [
        {
            "upper": upper.candidate_id,
            "lower": lower.candidate_id,
            "separated": tier.get(upper.candidate_id) != tier.get(lower.candidate_id),
            "votes": None,
            "words": "",
        }
        for upper, lower in pairwise(scored)
    ]


def _shrink_scores(evidence: Evidence, measured: MeasuredIntervals) -> Shrinkage:
    """Shrunk scores; design effects, and the deviation of older intervals, are as measured."""
    stored = measured.findings.get("shrinkage", {})
    effects = dict(stored.get("effects", []))
    effect = np.array([effects.get(pk, nan) for pk in evidence.candidates.tolist()], np.float64)
    confidence = evidence.question.confidence
    return Shrinkage(confidence, stored.get("deviation")).fit(evidence.battles, effect)


def _share_first_place(rows: list[RankedCandidate]) -> None:
    """If nobody is ahead, at least two ranges of ranks include the first rank."""
    ranked = sorted((row for row in rows if row.rank), key=lambda row: row.rank or 0)
    first, second, *_ = *(row for row in ranked if row.sure_rank_low), None, None
    second = second or next((row for row in ranked if row is not first), None)
    if first and second and first.sure_rank_high == 1:
        first.sure_rank_high = max(second.rank or 2, 2)
        second.sure_rank_low = second.sure_rank_low and 1


def _leaderboard_settings(evidence: Evidence) -> dict[str, Any]:
    """The settings that were used, as pages show them."""
    question, caps = evidence.question, evidence.caps
    return {
        "method": "Bradley-Terry, a tie as half a win for each side",
        "scale": BradleyTerry.scale,
        "elo_k": Elo.k,
        "elo_start": Elo.start,
        "interval": "one-step cluster bootstrap, bias-corrected",
        "confidence": question.confidence,
        "n_resamples": question.n_resamples,
        "seed": question.seed,
        "both_bad": question.both_bad,
        "capped_raters": caps.n_raters,
        "capped_networks": caps.n_networks,
        "network_share": question.network_share,
        "is_open": question.is_open,
        "capped_at": caps.share,
        "mean_weight": evidence.mean_weight,
        "documents": evidence.n_documents,
        "versions": _library_versions(),
    }


@cache
def _library_versions() -> dict[str, str]:
    return {name: version(name) for name in LIBRARIES}


def _place_candidates(evidence: Evidence, ratings: Floats, measured: MeasuredIntervals) -> Places:
    """Place the candidates, including those without a score, by their scores and intervals."""
    met = dict(measured.settings.get("groups_met", []))
    return place(
        evidence.battles.wins(weighted=False),
        ratings,
        np.array([met.get(pk, 0) for pk in evidence.candidates.tolist()], np.int64),
        ratings - _column(evidence, measured, "below"),
        ratings + _column(evidence, measured, "above"),
        evidence.question.confidence,
        BradleyTerry.scale,
    )


def _column(evidence: Evidence, measured: MeasuredIntervals, name: str) -> Floats:
    """(K,) one of the numbers of the candidates' spreads; NaN if unknown."""
    spreads = (measured.spreads.get(pk, Spread()) for pk in evidence.candidates.tolist())
    values = (getattr(spread, name) for spread in spreads)
    return np.array([nan if value is None else value for value in values], np.float64)


def _ranked_candidates(
    evidence: Evidence,
    model: BradleyTerry,
    ratings: Floats,
    measured: MeasuredIntervals,
    places: Places,
    shrinkage: Shrinkage,
    elo: dict[int, float],
) -> list[RankedCandidate]:
    names = [field.name for field in fields(Spread)]
    column = {name: _column(evidence, measured, name) for name in names}
    ranks = places.among_all(column["rank_low"], column["rank_high"])
    sure = places.among_all(column["sure_rank_low"], column["sure_rank_high"])
    wins, losses, ties, both_bad, votes, points = _vote_totals(evidence)
    decided = wins + losses + ties
    is_scored = ~np.isnan(ratings)
    numbers = {
        "win_rate": _rate(points, votes),
        "both_bad_rate": _rate(both_bad, decided + both_bad),
        "score": ratings,
        # Without a score, the interval is open on one side.
        "low": np.where(is_scored, ratings - column["below"], places.low),
        "high": np.where(is_scored, ratings + column["above"], places.high),
        "standard_error": np.where(is_scored, column["standard_error"], nan),
        "rank": places.rank,
        "rank_low": ranks[0],
        "rank_high": ranks[1],
        "sure_rank_low": sure[0],
        "sure_rank_high": sure[1],
        "shrunk": shrinkage.ratings_,
        "shrunk_low": shrinkage.low_,
        "shrunk_high": shrinkage.high_,
    }
    return [
        RankedCandidate(
            candidate_id=pk,
            status=model.status_[i].value,
            reason=model.status_[i].reason,
            votes=int(votes[i]),
            wins=int(wins[i]),
            losses=int(losses[i]),
            ties=int(ties[i]),
            elo=elo.get(pk),
            **{
                name: None if isnan(values[i]) else float(values[i])
                for name, values in numbers.items()
            },
        )
        for i, pk in enumerate(evidence.candidates.tolist())
    ]


def _vote_totals(evidence: Evidence) -> tuple[Any, ...]:
    """(K,) wins, losses, ties, "both bad", votes and points of each candidate."""
    pairs, size = evidence.pairs, len(evidence.candidates)
    first, second = (
        np.searchsorted(evidence.candidates, side) for side in (pairs.first, pairs.second)
    )

    def total(of_first: Ints | Floats, of_second: Ints | Floats) -> Floats:
        both = np.bincount(first, of_first, size) + np.bincount(second, of_second, size)
        return both.astype(np.float64)

    is_tie = evidence.question.both_bad_is_tie
    won = pairs["first_wins"] + pairs["soft_first"]
    lost = pairs["second_wins"] + pairs["soft_second"]
    ties = pairs["ties"] + pairs["soft_ties"]
    votes, points = pairs.scored(is_tie), pairs.wins_of_first(is_tie)
    return (
        total(won, lost),
        total(lost, won),
        total(ties, ties),
        total(pairs["both_bad"], pairs["both_bad"]),
        total(votes, votes),
        total(points, votes - points),
    )


def _rate(part: Floats, whole: Floats) -> Floats:
    return np.where(whole > 0, part / np.maximum(whole, 1), nan)
