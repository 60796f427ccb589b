"""Combined boards: people decide the scores, and trusted judges narrow the intervals.

The judges here are trusted juries or, if no jury is trusted, trusted judges; never both, because a
jury repeats what its members say. Human and LLM votes are never pooled. On prompts and pairs that
both have voted on, the judges' mean is compared with human votes; the error measured there corrects
the judges' other verdicts on prompts of the same category. See
`ranking.stats.ppi.PredictionPowered`. While nobody is trusted, the board repeats the human-votes
board, number for number.
"""

import time
from collections.abc import Callable, Iterable
from datetime import datetime

import numpy as np

from arena.models import Prompt
from ranking.models import Board, Counted, Raters, Snapshot, SnapshotMatrices
from ranking.services.evidence import CONFIDENCE, BoardEvidence, Question
from ranking.services.findings import opposed_pairs
from ranking.services.fit import FittedBoard, Scores, cross_check
from ranking.services.intervals import (
    N_THREADS,
    MeasuredIntervals,
    Spread,
    cluster_settings,
    groups_met,
    interval_reason,
    measured_effects,
    pairs_of,
    spreads_of,
)
from ranking.stats.bootstrap import Bootstrap
from ranking.stats.differences import neighbour_findings, neighbours
from ranking.stats.intervals import Dependence, Sandwich, known_among
from ranking.stats.judged import Labelled, Unlabelled
from ranking.stats.ppi import PredictionPowered
from ranking.stats.ranks import clear_leader, clear_number_one, direct_wins, place, rank_intervals
from ranking.tallies import VoteCounts, dependence, outcome_rows, prompt_codes
from ranking.tallied_votes import TRUSTED, Floats, Ints, rater_names


def combined_questions(voted: Iterable[Question]) -> set[Question]:
    """The combined boards of an arena: categories with votes by people and by judges or juries."""
    categories: dict[str, set[str]] = {}
    for raters, category in voted:
        categories.setdefault(raters, set()).add(category)
    people = categories.get(Counted.PEOPLE.value, set())
    models = (categories.get(raters, set()) for raters in (Raters.JUDGES, Raters.JURIES))
    shared = people & set().union(*models)
    return {(Counted.COMBINED.value, category) for category in shared}


# -- The fallback while nobody is trusted ----------------------------------------------------------

FIELDS = (
    "digest",
    "n_votes",
    "n_both_bad",
    "n_raters",
    "n_prompts",
    "last_vote_id",
    "settings",
    "choix_difference",
    "interval_reason",
    "measured_digest",
    "measured_at",
    "measured_seconds",
    "measured_votes",
)
# The findings that combined boards have.
FINDINGS = ("leader", "apart", "neighbours", "opposed", "tiers", "groups")


def needs_fallback(evidence: BoardEvidence) -> bool:
    """Whether this is a combined board without trusted judges or juries."""
    return evidence.board.raters == Counted.COMBINED and not evidence.narrowing


def shows(current: Snapshot, source: Snapshot) -> bool:
    """Whether the board's current snapshot is a copy of `source`."""
    digests = (current.digest, current.measured_digest)
    return digests == (source.digest, source.measured_digest)


def fallback(source: Snapshot) -> FittedBoard:
    """A copy of the human-votes snapshot, without Elo ratings."""
    fields = {name: getattr(source, name) for name in FIELDS}
    fields["findings"] = {name: source.findings.get(name) for name in FINDINGS} | {
        "combined": {"trusted": False, "lambda": 0.0, "n_judge_votes": 0}
    }
    standings = list(source.standings.all())
    for standing in standings:
        standing.pk, standing.elo, standing._state.adding = None, None, True
    matrices = SnapshotMatrices(
        cells=source.matrices.cells,
        candidates=source.matrices.candidates,
        covariance=source.matrices.covariance,
    )
    return FittedBoard(fields, standings, matrices)


# -- The fit with trusted judges -------------------------------------------------------------------


def combine(
    evidence: BoardEvidence,
    people: VoteCounts,
    by_rater: VoteCounts,
    judged: VoteCounts,
    now: datetime,
) -> tuple[Scores, MeasuredIntervals]:
    """Fit the board to human and judges' counts by prompt; `by_rater`: the human ones by rater.

    Raises NotConvergedError, and CrossCheckError if choix disagrees.
    """
    started = time.monotonic()
    people = people.where(evidence.scored(people) > 0)
    judged = judged.where((judged.decided > 0) & (judged.key("prompt") > 0))
    is_tie = evidence.both_bad_is_tie
    groups = dependence(people, by_rater, evidence.candidates, is_tie, evidence.capped)
    labelled, unlabelled = _samples(evidence, people, judged)
    if groups.rule.startswith("prompt"):  # the same votes, folded already
        vars(labelled)["battles"] = groups.groupings[0]
    crossed = Sandwich(CONFIDENCE, jackknifed=True).fit(*groups.groupings)
    board = evidence.board
    bootstrap = Bootstrap(board.n_resamples, CONFIDENCE, board.seed, n_threads=N_THREADS)
    bootstrap.fit(crossed.strongest_, crossed)
    model = PredictionPowered(CONFIDENCE).fit(labelled, unlabelled, crossed, bootstrap)
    plain = model.people_.model_
    scores = Scores(model.ratings_, plain.status_, cross_check(labelled.battles, plain))
    theta = np.where(groups.measurable, model.theta_, np.nan)
    known = ~np.isnan(theta)
    met = groups_met(people, evidence.candidates, groups)
    fields = {
        "interval_reason": interval_reason(model.reason_, known),
        "measured_digest": evidence.digest(),
        "measured_at": now,
        "measured_seconds": time.monotonic() - started,
        "measured_votes": evidence.n_votes,
    }
    return scores, MeasuredIntervals(
        spreads=_spreads(evidence.candidates, model, theta),
        candidates=evidence.candidates[known],
        covariance=model.covariance_[np.ix_(known, known)] * plain.elo_per_theta**2,
        fields=fields,
        settings={"interval": "prediction-powered (PPI++), bootstrap scaled to its errors"}
        | cluster_settings(groups, model.people_.n_clusters_, evidence.candidates)
        | {"groups_met": pairs_of(evidence.candidates, met)},
        findings=_findings(evidence, model, theta, groups, met)
        | {
            "combined": _combined_finding(evidence, model, judged),
            "shrinkage": measured_effects(evidence.candidates, groups, crossed),
        },
    )


def _samples(
    evidence: BoardEvidence, people: VoteCounts, judged: VoteCounts
) -> tuple[Labelled, Unlabelled]:
    """Human votes with the judges' mean on the same prompt and pair; the remaining verdicts."""
    rows = outcome_rows(people, evidence.both_bad_is_tie)
    weight = rows.weight(people, evidence.both_bad_is_tie, evidence.capped)
    candidates, categories = evidence.candidates, _categories(evidence.board)
    voted, scored = _cells(people, candidates), _cells(judged, candidates)
    place = _find(scored, voted)
    means = np.append(_judges_means(judged), np.nan)  # -1: none
    labelled = Labelled.from_arrays(
        np.searchsorted(candidates, people.key("first"))[rows.place],
        np.searchsorted(candidates, people.key("second"))[rows.place],
        rows.score,
        means[place][rows.place],
        weight=rows.count if weight is None else rows.count * weight,
        cluster=prompt_codes(people)[rows.place],
        n_candidates=len(candidates),
        stratum=categories(people)[rows.place],
    )
    without_votes = scored >= 0
    without_votes[place[place >= 0]] = False
    verdicts = judged.where(without_votes)
    unlabelled = Unlabelled.from_arrays(
        np.searchsorted(candidates, verdicts.key("first")),
        np.searchsorted(candidates, verdicts.key("second")),
        means[:-1][without_votes],
        cluster=verdicts.key("prompt"),
        n_candidates=len(candidates),
        stratum=categories(verdicts),
    )
    return labelled, unlabelled


def _categories(board: Board) -> Callable[[VoteCounts], Ints]:
    """Gives each row of counts the code of its prompt's category; 0 if that has none."""
    prompts = Prompt.objects.filter(arena=board.arena_id).exclude(category="").order_by("pk")
    rows = list(prompts.values_list("pk", "category"))
    ids = np.array([0, *(pk for pk, _ in rows)], np.int64)
    codes = np.unique(["", *(category for _, category in rows)], return_inverse=True)[1]

    def code(counts: VoteCounts) -> Ints:
        prompt = counts.key("prompt")
        place = np.searchsorted(ids, prompt, side="right") - 1
        return np.where(ids[place] == prompt, codes[place], 0)

    return code


def _judges_means(counts: VoteCounts) -> Floats:
    """(M,): the judges' mean score of ``first``."""
    rows = outcome_rows(counts, both_bad_is_tie=False)
    points = np.bincount(rows.place, rows.score * rows.count, len(counts))
    means: Floats = points / np.maximum(counts.decided, 1)
    return means


def _cells(counts: VoteCounts, candidates: Ints) -> Ints:
    """(M,): a number for each row's prompt and pair; -1 without a prompt, or for other pairs."""
    cell, known = counts.key("prompt"), counts.key("prompt") > 0
    for side in ("first", "second"):
        place = np.searchsorted(candidates, counts.key(side))
        known = known & (candidates.take(place, mode="clip") == counts.key(side))
        cell = cell * len(candidates) + place
    return np.where(known, cell, -1)


def _find(among: Ints, wanted: Ints) -> Ints:
    """For each wanted cell, its place among others; -1 for none."""
    order = np.argsort(among, kind="stable")  # fast, as tallies are in order
    ordered = np.append(among[order], -1)
    at = np.searchsorted(ordered[:-1], wanted)
    return np.where((ordered[at] == wanted) & (wanted >= 0), np.append(order, -1)[at], -1)


def _spreads(candidates: Ints, model: PredictionPowered, theta: Floats) -> dict[int, Spread]:
    n_clusters = _n_clusters(model)
    ranks = [
        rank_intervals(theta, model.covariance_, simultaneous, CONFIDENCE, n_clusters=n_clusters)
        for simultaneous in (False, True)
    ]
    columns = [
        model.ratings_ - model.low_,
        model.high_ - model.ratings_,
        model.standard_errors_,
        *ranks[0],
        *ranks[1],
    ]
    return spreads_of(candidates, columns, ~np.isnan(theta))


def _n_clusters(model: PredictionPowered) -> int | None:
    """The number of clusters; None if too few, so that the covariance is unknown."""
    return model.people_.n_clusters_ if model.people_.n_clusters_ > 1 else None


def _findings(
    evidence: BoardEvidence, model: PredictionPowered, theta: Floats, groups: Dependence, met: Ints
) -> dict[str, object]:
    n_clusters, plain = _n_clusters(model), model.people_.model_
    scored = clear_leader(theta, model.covariance_, CONFIDENCE, n_clusters=n_clusters)
    low, high = (np.where(np.isnan(theta), np.nan, ends) for ends in (model.low_, model.high_))
    battles = groups.groupings[0]
    places = place(battles.wins(weighted=False), model.ratings_, met, low, high, CONFIDENCE)
    direct = direct_wins(battles, CONFIDENCE)
    leader = clear_number_one(places, scored, direct, evidence.active)
    if groups.n_raters:  # nothing is claimed about anybody but these raters
        leader = None
    covariance = known_among(model.covariance_, ~np.isnan(theta))
    order = neighbours(
        model.theta_, covariance, plain.covariance_, CONFIDENCE, n_clusters, direct=direct
    )
    ids = evidence.candidates.tolist()
    return {
        "leader": None if leader is None else ids[leader],
        "neighbours": neighbour_findings(order, ids),
        "opposed": opposed_pairs(direct, model.theta_, ids),
    }


def _combined_finding(
    evidence: BoardEvidence, model: PredictionPowered, judged: VoteCounts
) -> dict[str, object]:
    """The judges, and what they changed compared with human votes alone."""
    moved = model.ratings_ - model.people_.ratings_
    most = None if np.isnan(moved).all() else int(np.nanargmax(np.abs(moved)))
    before, after = model.people_.standard_errors_, model.standard_errors_
    known = ~(np.isnan(before) | np.isnan(after))
    narrower = float(1 - np.mean(after[known] / before[known])) if known.any() else None
    return {
        "trusted": True,
        "raters": TRUSTED[evidence.narrowing],
        "names": rater_names(evidence.board.arena_id, evidence.narrowing, evidence.board.category),
        "lambda": model.lambda_,
        "gain": None if np.isnan(model.gain_) else model.gain_,
        "narrower": narrower,  # the average relative reduction of the human intervals' widths
        "moved_most": None if most is None else int(evidence.candidates[most]),
        "moved_by": None if most is None else float(moved[most]),
        "n_judge_votes": int(judged.decided.sum()),
        "reason": model.no_gain_.reason if model.no_gain_ else "",
        "left_out": evidence.candidates[model.left_out_].tolist(),
    }
