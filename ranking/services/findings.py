"""What the votes say besides scores: who leads surely, what is open, how fragile it is, style."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from ranking.services import styles
from ranking.services.evidence import CONFIDENCE, Evidence
from ranking.stats import (
    Battles,
    BradleyTerry,
    Neighbours,
    NotConverged,
    RaoKupper,
    Sandwich,
    StyledBradleyTerry,
    clear_leader,
    measure_fragility,
    neighbours,
    nominal_agreement,
    style_differences,
    transitivity,
)
from ranking.stats.intervals import known_among
from ranking.tallies import Cells, clusters_of, outcome_rows, pair_battles
from ranking.votes import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class Estimate:
    """The votes of a board by cluster, and the robust fit to them.

    `told` (K,): who is `measurable`.
    """

    evidence: Evidence
    clustered: Cells
    battles: Battles
    sandwich: Sandwich
    told: Bools

    @property
    def model(self) -> BradleyTerry:
        return self.sandwich.model_

    @property
    def theta(self) -> Floats:
        """(K,) strengths; NaN for the unranked, and for those whose error is not known."""
        return np.where(self.told, self.model.theta_, np.nan)

    @property
    def covariance(self) -> Floats:
        """(K, K) of the strengths; NaN where `theta` is."""
        return known_among(self.sandwich.covariance_, self.told)

    @property
    def n_clusters(self) -> int | None:
        """None where there are too few to estimate anything: then the covariance is not known."""
        return self.sandwich.n_clusters_ if self.sandwich.n_clusters_ > 1 else None

    def candidate(self, place: int | None) -> int | None:
        """The id of the candidate at a place of the arrays."""
        return None if place is None else int(self.evidence.candidates[place])


def find(estimate: Estimate) -> dict[str, Any]:
    """Everything that a snapshot keeps beside its standings, as JSON."""
    pairs = pair_battles(
        estimate.evidence.cells, estimate.evidence.candidates, estimate.evidence.both_bad_is_tie
    )
    leader = clear_leader(
        estimate.theta,
        estimate.sandwich.covariance_,
        CONFIDENCE,
        n_clusters=estimate.n_clusters,
    )
    return {
        "leader": estimate.candidate(leader),
        "neighbours": _neighbours(estimate),
        "fragility": _fragility(estimate, pairs),
        "agreement": _agreement(estimate.clustered),
        "transitivity": _transitivity(pairs),
        "ties": _ties(pairs),
        "style": _style(estimate),
    }


def _neighbours(estimate: Estimate) -> list[dict[str, Any]]:
    found = neighbours(
        estimate.model.theta_,
        estimate.covariance,
        estimate.model.covariance_,
        CONFIDENCE,
        estimate.n_clusters,
    )
    return told(found, estimate.evidence.candidates.tolist())


def told(order: Iterable[Neighbours], ids: Sequence[int]) -> list[dict[str, Any]]:
    """Neighbours as a snapshot keeps them, by the ids of the candidates."""
    return [
        {
            "upper": ids[two.upper],
            "lower": ids[two.lower],
            "separated": two.separated,
            "votes": two.votes,
            "words": two.words,
        }
        for two in order
    ]


def _fragility(estimate: Estimate, pairs: Battles) -> dict[str, Any]:
    found = measure_fragility(pairs)
    return {
        "words": found.words,
        "votes": found.votes,
        "of": found.of,
        "top": estimate.candidate(found.top),
        "rival": estimate.candidate(found.rival),
        "confirmed": found.confirmed,
    }


def _agreement(clustered: Cells) -> dict[str, Any] | None:
    """How far votes on one prompt and pair agree; None where nobody voted on the same."""
    known = clustered.where(clustered.key("prompt") > 0)
    counts = np.column_stack(
        [
            known["first_wins"] + known["soft_first"],
            known["second_wins"] + known["soft_second"],
            known["ties"] + known["soft_ties"],
        ]
    )
    all_three, decisive = nominal_agreement(counts), nominal_agreement(counts[:, :2])
    if not all_three.n_pairs:
        return None
    return {
        "share": _number(all_three.share),
        "n_pairs": all_three.n_pairs,
        "alpha": _number(all_three.alpha),
        "decisive_share": _number(decisive.share),
        "decisive_n_pairs": decisive.n_pairs,
    }


def _transitivity(pairs: Battles) -> dict[str, Any]:
    found = transitivity(pairs.wins())
    return {
        "share": _number(found.share),
        "triads": found.triads,
        "transitive": found.transitive,
    }


def _ties(pairs: Battles) -> dict[str, Any] | None:
    """The tie model; None where soft verdicts say more than win, tie or loss, or it has no answer:
    no scores wait for it."""
    if not np.isin(pairs.score, (0.0, 0.5, 1.0)).all():
        return None
    try:
        found = RaoKupper().fit(pairs)
    except NotConverged:
        return None
    return {
        "eta": _number(found.eta_),
        "error": _number(found.eta_error_),
        "reason": found.reason_.reason if found.reason_ else "",
    }


# -- Style -----------------------------------------------------------------------------------------


def _style(estimate: Estimate) -> dict[str, Any] | None:
    """Scores among answers of one style; None where no votes are on counted answers."""
    cells = estimate.clustered.where(estimate.clustered.key("prompt") > 0)
    answers, counts = styles.read_styles(estimate.evidence.board.arena_id)
    first, second = (_places(answers, cells, side) for side in ("first", "second"))
    there = (first >= 0) & (second >= 0)
    if not there.any():
        return None
    cells, first, second = cells.where(there), first[there], second[there]
    rows = outcome_rows(cells, estimate.evidence.both_bad_is_tie)
    candidates, groups = estimate.evidence.candidates, clusters_of(cells).codes
    differences = style_differences(counts[first], counts[second])
    model = StyledBradleyTerry(confidence=CONFIDENCE)
    try:
        found = model.fit(
            np.searchsorted(candidates, cells.key("first"))[rows.cell],
            np.searchsorted(candidates, cells.key("second"))[rows.cell],
            rows.score,
            differences[rows.cell],
            cluster=None if groups is None else groups[rows.cell],
            n_candidates=len(candidates),
            count=rows.count,
        )
    except NotConverged:
        return None
    return {
        "features": _coefficients(found),
        "scores": _scores(candidates, found, estimate.told),
        "reason": found.reason_.reason if found.reason_ else "",
        "n_votes": int(rows.count.sum()),
    }


def _places(answers: Ints, cells: Cells, side: str) -> Ints:
    """Where the answer of each cell's candidate stands among the answers; -1 where it does not."""
    if not len(answers):
        return np.full(len(cells), -1)
    span = int(max(answers[:, 1].max(), cells.key(side).max(initial=0))) + 1
    known = answers[:, 0] * span + answers[:, 1]
    wanted = cells.key("prompt") * span + cells.key(side)
    place = np.searchsorted(known, wanted).clip(max=len(known) - 1)
    return np.where(known[place] == wanted, place, -1)


def _coefficients(found: StyledBradleyTerry) -> list[dict[str, Any]]:
    """In Elo: what a standard deviation of the feature moves."""
    points = found.scale / np.log(10)
    return [
        {
            "name": name,
            "label": label,
            "coefficient": _number(found.coefficients_[i] * points),
            "low": _number(found.coefficient_low_[i] * points),
            "high": _number(found.coefficient_high_[i] * points),
            "deviation": _number(found.deviations_[i]),
            "reason": status.reason if (status := found.coefficient_status_[i]) else "",
        }
        for i, (name, label) in enumerate(styles.FEATURES.items())
    ]


def _scores(candidates: Ints, found: StyledBradleyTerry, told: Bools) -> dict[str, Any]:
    return {
        str(pk): {
            "score": _number(found.ratings_[i]),
            "low": _number(found.low_[i]) if told[i] else None,
            "high": _number(found.high_[i]) if told[i] else None,
        }
        for i, pk in enumerate(candidates.tolist())
        if isfinite(found.ratings_[i])
    }


def _number(value: float) -> float | None:
    return float(value) if isfinite(value) else None
