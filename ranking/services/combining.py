"""The combined board: people decide, and what judges say of the same prompts narrows the interval.

Trusted juries are the judges here, or trusted judges where no jury is trusted; never both, since a
jury says what its members do. Where nobody is trusted the board is people's: see `people_alone`.
People and judges are never pooled. On a prompt and pair that both have seen, the judges' mean is
compared with people's votes; what is learnt of its error corrects the judges' other verdicts. See
`ranking.stats.PredictionPowered`.
"""

import time
from collections.abc import Iterable
from datetime import datetime

import numpy as np

from ranking.models import Counted
from ranking.services.evidence import CONFIDENCE, Evidence
from ranking.services.findings import told
from ranking.services.fitting import Scores, second_opinion
from ranking.services.measuring import Measured, Spread, told_by_id, why_unmeasured
from ranking.stats import (
    Clusters,
    Labelled,
    PredictionPowered,
    Unlabelled,
    clear_leader,
    neighbours,
    rank_intervals,
)
from ranking.stats.intervals import known_among, measurable
from ranking.tallies import Cells, clusters_of, outcome_rows
from ranking.votes import TRUSTED, Bools, Floats, Ints, rater_names

Question = tuple[str, str]  # raters, category


def questions(voted: Iterable[Question]) -> set[Question]:
    """The combined boards of an arena: where people have voted, and judges or juries too."""
    categories: dict[str, set[str]] = {}
    for raters, category in voted:
        categories.setdefault(raters, set()).add(category)
    people = categories.pop(Counted.PEOPLE.value, set())
    shared = people & set().union(*categories.values())
    return {(Counted.COMBINED.value, category) for category in shared}


def combine(
    evidence: Evidence, people: Cells, judged: Cells, now: datetime
) -> tuple[Scores, Measured]:
    """Fit the board to people's cells and judges', both by prompt. Raises as a fit does."""
    started = time.monotonic()
    people = people.where(_counted(evidence, people) > 0)
    judged = judged.where((judged.decided > 0) & (judged.key("prompt") > 0))
    clusters = clusters_of(people)
    labelled, unlabelled = _samples(evidence, people, judged, clusters)
    found = PredictionPowered(CONFIDENCE).fit(labelled, unlabelled)
    model = found.people_.model_
    scores = Scores(found.ratings_, model.status_, second_opinion(labelled.battles, model))
    met = labelled.battles.clusters_per_candidate()
    theta = np.where(measurable(labelled.battles), found.theta_, np.nan)
    inside = ~np.isnan(theta)
    fields = {
        "interval_reason": why_unmeasured(found.reason_, inside),
        "measured_digest": evidence.digest(),
        "measured_at": now,
        "measured_seconds": time.monotonic() - started,
        "measured_votes": evidence.n_votes,
    }
    return scores, Measured(
        spreads=_spreads(evidence.candidates, found, theta),
        candidates=evidence.candidates[inside],
        covariance=found.covariance_[np.ix_(inside, inside)] * model.elo_per_theta**2,
        fields=fields,
        settings={
            "interval": "prediction-powered (PPI++), cluster-robust",
            "clusters": clusters.rule,
            "clusters_note": clusters.note,
            "n_clusters": found.people_.n_clusters_,
            "clusters_met": told_by_id(met, evidence.candidates),
        },
        findings=_findings(evidence, found, theta) | {"combined": _told(evidence, found, judged)},
    )


def _counted(evidence: Evidence, cells: Cells) -> Ints:
    return cells.votes if evidence.both_bad_is_tie else cells.decided


def _samples(
    evidence: Evidence, people: Cells, judged: Cells, clusters: Clusters
) -> tuple[Labelled, Unlabelled]:
    """People's votes with the judges' mean on the same prompt and pair; and where only judges
    have been. Judges' prompts share people's clusters only where those go by prompt."""
    rows = outcome_rows(people, evidence.both_bad_is_tie)
    verdict = _means(judged)
    place = _find(judged, people)
    predicted = np.where(place >= 0, verdict[place], np.nan) if len(judged) else None
    alone = _find(people, judged) < 0
    codes = np.arange(len(people)) if clusters.codes is None else clusters.codes
    size = len(evidence.candidates)
    labelled = Labelled.from_arrays(
        _places(evidence, people, "first")[rows.cell],
        _places(evidence, people, "second")[rows.cell],
        rows.score,
        np.full(len(rows.cell), np.nan) if predicted is None else predicted[rows.cell],
        weight=rows.count,
        cluster=codes[rows.cell],
        n_candidates=size,
    )
    only = judged.where(alone & _known(evidence, judged))
    unlabelled = Unlabelled.from_arrays(
        _places(evidence, only, "first"),
        _places(evidence, only, "second"),
        verdict[alone & _known(evidence, judged)],
        cluster=_clusters_of_judged(people, codes, only, clusters),
        n_candidates=size,
    )
    return labelled, unlabelled


def _places(evidence: Evidence, cells: Cells, side: str) -> Ints:
    return np.searchsorted(evidence.candidates, cells.key(side))


def _known(evidence: Evidence, cells: Cells) -> Bools:
    """(M,) bool: whether both candidates are on people's board."""
    sides = [np.isin(cells.key(side), evidence.candidates) for side in ("first", "second")]
    both: Bools = sides[0] & sides[1]
    return both


def _means(cells: Cells) -> Floats:
    """(M,): what the judges gave to ``first`` on average."""
    rows = outcome_rows(cells, both_bad_is_tie=False)
    points = np.bincount(rows.cell, rows.score * rows.count, len(cells))
    means: Floats = points / np.maximum(cells.decided, 1)
    return means


def _find(among: Cells, wanted: Cells) -> Ints:
    """Where each cell's prompt and pair stands among merged cells; -1 where it does not."""
    if not len(among) or not len(wanted):
        return np.full(len(wanted), -1)
    names = ("prompt", "first", "second")
    both = Cells.joined([among, wanted])
    keys = np.column_stack([both.key(name) for name in names])
    code = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
    place = np.full(int(code.max()) + 1, -1)
    place[code[: len(among)]] = np.arange(len(among))
    found: Ints = place[code[len(among) :]]
    return np.where(wanted.key("prompt") > 0, found, -1)


def _clusters_of_judged(people: Cells, codes: Ints, only: Cells, clusters: Clusters) -> Ints:
    """Of people's clusters where those are prompts, else new ones: one for each cell."""
    fresh = int(codes.max(initial=0)) + 1
    if clusters.rule != "prompt":
        return fresh + np.arange(len(only))
    prompts, code = np.unique(
        np.concatenate([people.key("prompt"), only.key("prompt")]), return_inverse=True
    )
    known = np.full(len(prompts), -1)
    known[code[: len(people)]] = codes
    new = known < 0
    known[new] = fresh + np.arange(int(new.sum()))
    found: Ints = known[code[len(people) :]]
    return found


def _spreads(candidates: Ints, found: PredictionPowered, theta: Floats) -> dict[int, Spread]:
    few = found.people_.n_clusters_ if found.people_.n_clusters_ > 1 else None
    ranks = [
        rank_intervals(theta, found.covariance_, sure, CONFIDENCE, n_clusters=few)
        for sure in (False, True)
    ]
    columns = [
        found.ratings_ - found.low_,
        found.high_ - found.ratings_,
        found.standard_errors_,
        *ranks[0],
        *ranks[1],
    ]
    return {
        pk: Spread()
        if np.isnan(theta[i])
        else Spread(*(None if np.isnan(column[i]) else float(column[i]) for column in columns))
        for i, pk in enumerate(candidates.tolist())
    }


def _findings(evidence: Evidence, found: PredictionPowered, theta: Floats) -> dict[str, object]:
    """Who leads, and who is separated."""
    few = found.people_.n_clusters_ if found.people_.n_clusters_ > 1 else None
    leader = clear_leader(theta, found.covariance_, CONFIDENCE, n_clusters=few)
    model, covariance = found.people_.model_, known_among(found.covariance_, ~np.isnan(theta))
    order = neighbours(found.theta_, covariance, model.covariance_, CONFIDENCE, few)
    ids = evidence.candidates.tolist()
    return {
        "leader": None if leader is None else ids[leader],
        "neighbours": told(order, ids),
    }


def _told(evidence: Evidence, found: PredictionPowered, judged: Cells) -> dict[str, object]:
    """Who the judges were, and what they were good for: beside people's votes alone."""
    kind = TRUSTED[evidence.narrowing]
    moved = found.ratings_ - found.people_.ratings_
    most = None if np.isnan(moved).all() else int(np.nanargmax(np.abs(moved)))
    return {
        "trusted": True,
        "raters": kind,
        "names": rater_names(evidence.board.arena_id, evidence.narrowing, evidence.board.category),
        "lambda": found.lambda_,
        "gain": None if np.isnan(found.gain_) else found.gain_,
        "narrower": _narrower(found),
        "moved_most": None if most is None else int(evidence.candidates[most]),
        "moved_by": None if most is None else float(moved[most]),
        "n_judge_votes": int(judged.decided.sum()),
        "reason": found.no_gain_.reason if found.no_gain_ else "",
    }


def _narrower(found: PredictionPowered) -> float | None:
    """The share of its width that people's interval lost, on average; None without intervals."""
    before, after = found.people_.standard_errors_, found.standard_errors_
    known = ~(np.isnan(before) | np.isnan(after))
    return float(1 - np.mean(after[known] / before[known])) if known.any() else None
