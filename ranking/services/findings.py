"""A snapshot's findings other than scores and intervals: leader, neighbours, robustness, style
...
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, isnan
from typing import Any

import numpy as np
from django.db.models import Count, Q
from django.db.models.functions import Greatest, Least

from arena.models import Outcome, Response, Vote
from ranking.models import Counted, Raters, ResponseStyle, Standing
from ranking.services.cluster_tallies import count_by_prompt
from ranking.services.evidence import CONFIDENCE, BoardEvidence
from ranking.stats.agreement import nominal_agreement
from ranking.stats.battles import Battles
from ranking.stats.bradley_terry import BradleyTerry, NotConvergedError
from ranking.stats.connectivity import transitivity
from ranking.stats.differences import neighbour_findings, neighbours
from ranking.stats.intervals import Dependence, Sandwich, known_among
from ranking.stats.ranks import (
    Places,
    clear_leader,
    clear_number_one,
    direct_wins,
    other_groups,
    ranks,
)
from ranking.stats.robustness import measure_robustness
from ranking.stats.style import StyledBradleyTerry, style_differences
from ranking.stats.ties import RaoKupper
from ranking.tallies import VoteCounts, outcome_rows, pair_battles, prompt_codes
from ranking.tallied_votes import Bools, Floats, Ints, cast_by

# -- Style of answers ------------------------------------------------------------------------------

COUNTED_AT_ONCE = 500
WIDEST_STYLED = 2000.0  # Elo; the interval of a style-controlled score that says nothing
FEATURES = {
    "words": "Length in words",
    "headings": "Headings",
    "list_items": "List items",
    "bold": "Bold words",
}
# Markdown syntax. Code blocks are left out: a line that looks like a heading there is a comment.
FENCED = re.compile(r"^(```|~~~).*?(?:^\1|\Z)", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+\S", re.MULTILINE)
LIST_ITEM = re.compile(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+\S", re.MULTILINE)
BOLD = re.compile(r"\*\*[^*\s][^*\n]*\*\*|__[^_\s][^_\n]*__")


def count_style(text: str) -> dict[str, int]:
    """How many words, headings, list items and bold spans a Markdown text has."""
    prose = FENCED.sub("", text)
    return {
        "words": len(text.split()),
        "headings": len(HEADING.findall(prose)),
        "list_items": len(LIST_ITEM.findall(prose)),
        "bold": len(BOLD.findall(prose)),
    }


def count_missing(*, arena_id: int) -> int:
    """Count the style of the answers not counted yet; return how many."""
    total = 0
    for answers in _uncounted(arena_id):
        rows = [ResponseStyle(response_id=pk, **count_style(text)) for pk, text in answers]
        ResponseStyle.objects.bulk_create(rows, ignore_conflicts=True)
        total += len(rows)
    return total


def _uncounted(arena_id: int) -> Iterator[list[tuple[int, str]]]:
    waiting = Response.objects.filter(prompt__arena=arena_id, style=None).order_by("pk")
    last = 0
    while batch := list(waiting.filter(pk__gt=last).values_list("pk", "text")[:COUNTED_AT_ONCE]):
        yield batch
        last = batch[-1][0]


def read_styles(arena_id: int) -> tuple[Ints, Ints]:
    """(A, 2) prompt and candidate of each counted answer, in order; (A, F) its counts."""
    rows = ResponseStyle.objects.filter(response__prompt__arena=arena_id).order_by(
        "response__prompt", "response__candidate"
    )
    columns = rows.values_list("response__prompt", "response__candidate", *FEATURES)
    table = np.array(list(columns.iterator(chunk_size=10_000)), np.int64)
    table = table.reshape(-1, 2 + len(FEATURES))
    return table[:, :2], table[:, 2:]


# -- Findings --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ClusteredEstimate:
    """The votes of a board by prompt, their dependence, and the robust fit to them."""

    evidence: BoardEvidence
    clustered: VoteCounts
    groups: Dependence
    sandwich: Sandwich

    @property
    def battles(self) -> Battles:
        return self.groups.groupings[0]

    @cached_property
    def measurable(self) -> Bools:
        return self.groups.measurable

    @property
    def model(self) -> BradleyTerry:
        return self.sandwich.model_

    @property
    def theta(self) -> Floats:
        """(K,) strengths; NaN for the unranked, and where the error is unknown."""
        return np.where(self.measurable, self.model.theta_, np.nan)

    @property
    def covariance(self) -> Floats:
        """(K, K) of the strengths; NaN where `theta` is."""
        return known_among(self.sandwich.covariance_, self.measurable)

    @property
    def n_clusters(self) -> int | None:
        """The number of clusters; None if too few, so that the covariance is unknown."""
        return self.sandwich.n_clusters_ if self.sandwich.n_clusters_ > 1 else None

    def candidate(self, place: int | None) -> int | None:
        """The id of the candidate at this index."""
        return None if place is None else int(self.evidence.candidates[place])


def build_findings(
    estimate: ClusteredEstimate, places: Places, *, with_style: bool
) -> dict[str, Any]:
    """All findings of a snapshot except its standings, as JSON."""
    pairs = estimate.evidence.battles
    scored = clear_leader(
        estimate.theta,
        estimate.sandwich.covariance_,
        CONFIDENCE,
        n_clusters=estimate.n_clusters,
    )
    direct = direct_wins(estimate.battles, CONFIDENCE)
    leader = clear_number_one(places, scored, direct, estimate.evidence.active)
    if estimate.groups.n_raters:  # nothing is claimed about anybody but these raters
        leader = None
    order = neighbours(
        estimate.model.theta_,
        estimate.covariance,
        estimate.model.covariance_,
        CONFIDENCE,
        estimate.n_clusters,
        direct=direct,
    )
    ids = estimate.evidence.candidates.tolist()
    return {
        "leader": estimate.candidate(leader),
        "neighbours": neighbour_findings(order, ids),
        "opposed": opposed_pairs(direct, estimate.model.theta_, ids),
        "fragility": {} if places.n_above else _robustness(estimate, pairs),
        "agreement": _agreement(estimate.evidence, estimate.clustered),
        "transitivity": _transitivity(pairs),
        "ties": _ties(pairs),
        "style": _style(estimate) if with_style else None,
        "groups": other_groups(
            estimate.model.components_,
            estimate.groups,
            estimate.evidence.candidates.tolist(),
            CONFIDENCE,
        ),
    }


def opposed_pairs(direct: Bools, theta: Floats, ids: Sequence[int]) -> list[list[int]]:
    """[higher, lower] of each two candidates whose direct votes say the opposite of the scores."""
    higher, lower = np.nonzero(direct.T & (theta[:, None] > theta))
    return [[ids[i], ids[j]] for i, j in zip(higher.tolist(), lower.tolist(), strict=True)]


def _robustness(estimate: ClusteredEstimate, pairs: Battles) -> dict[str, Any]:
    robustness = measure_robustness(pairs)
    return {
        "words": robustness.words,
        "votes": robustness.votes,
        "of": robustness.of,
        "top": estimate.candidate(robustness.top),
        "rival": estimate.candidate(robustness.rival),
        "confirmed": robustness.confirmed,
    }


def _agreement(evidence: BoardEvidence, clustered: VoteCounts) -> dict[str, Any] | None:
    """How much votes on the same prompt and pair agree; None without two such votes."""
    counts = clustered.where(clustered.key("prompt") > 0)
    first, second = (
        evidence.alphabetical[np.searchsorted(evidence.candidates, counts.key(side))]
        for side in ("first", "second")
    )
    outcomes = np.column_stack(
        [
            counts["first_wins"] + counts["soft_first"],
            counts["second_wins"] + counts["soft_second"],
            counts["ties"] + counts["soft_ties"],
        ]
    )
    outcomes[:, :2] = np.where((first > second)[:, None], outcomes[:, 1::-1], outcomes[:, :2])
    all_three, decisive = nominal_agreement(outcomes), nominal_agreement(outcomes[:, :2])
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
    result = transitivity(pairs.wins())
    return {
        "share": _number(result.share),
        "triads": result.triads,
        "transitive": result.transitive,
    }


def _ties(pairs: Battles) -> dict[str, Any] | None:
    """The tie model; None with soft verdicts, or if it does not converge (no score needs it)."""
    if not np.isin(pairs.score, (0.0, 0.5, 1.0)).all():
        return None
    try:
        model = RaoKupper().fit(pairs)
    except NotConvergedError:
        return None
    return {
        "eta": _number(model.eta_),
        "error": _number(model.eta_error_),
        "reason": model.reason_.reason if model.reason_ else "",
    }


# -- Style -----------------------------------------------------------------------------------------


def _style(estimate: ClusteredEstimate) -> dict[str, Any] | None:
    """Style-controlled scores; None without votes on answers whose style is counted."""
    has_prompt = estimate.clustered.key("prompt") > 0
    counts = estimate.clustered.where(has_prompt)
    answers, features = read_styles(estimate.evidence.board.arena_id)
    first, second = (_places(answers, counts, side) for side in ("first", "second"))
    is_counted = (first >= 0) & (second >= 0)
    if not is_counted.any():
        return None
    counts, first, second = counts.where(is_counted), first[is_counted], second[is_counted]
    is_tie, capped = estimate.evidence.both_bad_is_tie, estimate.evidence.capped
    rows, weight = outcome_rows(counts, is_tie), None
    if capped.weights:  # the discounts are shares of all votes, also of those on unknown prompts
        discounts = capped.discounts(estimate.clustered, is_tie)[has_prompt][is_counted]
        weight = discounts[rows.place, rows.kind]
    candidates = estimate.evidence.candidates
    differences = style_differences(features[first], features[second])
    model = StyledBradleyTerry(confidence=CONFIDENCE)
    try:
        model.fit(
            np.searchsorted(candidates, counts.key("first"))[rows.place],
            np.searchsorted(candidates, counts.key("second"))[rows.place],
            rows.score,
            differences[rows.place],
            weight=weight,
            cluster=prompt_codes(counts)[rows.place],
            n_candidates=len(candidates),
            count=rows.count,
        )
    except NotConvergedError:
        return None
    wider = _widening(estimate)
    return {
        "features": _coefficients(model, wider),
        "scores": _scores(candidates, model, wider),
        "reason": model.reason_.reason if model.reason_ else "",
        "n_votes": int(rows.count.sum()),
    }


def _places(answers: Ints, counts: VoteCounts, side: str) -> Ints:
    """(M,): the row in `answers` (prompt, candidate) of each row's answer on a side, or -1."""
    if not len(answers):
        return np.full(len(counts), -1)
    span = int(max(answers[:, 1].max(), counts.key(side).max(initial=0))) + 1
    known = answers[:, 0] * span + answers[:, 1]
    wanted = counts.key("prompt") * span + counts.key(side)
    place = np.searchsorted(known, wanted).clip(max=len(known) - 1)
    return np.where(known[place] == wanted, place, -1)


def _widening(estimate: ClusteredEstimate) -> Floats:
    """(K,): how many times wider than by prompt alone, as style's are, the intervals of scores are.

    NaN for candidates without an interval.
    """
    by_prompt = Sandwich(CONFIDENCE).fit(estimate.battles)
    wider = (estimate.sandwich.high_ - estimate.sandwich.low_) / (by_prompt.high_ - by_prompt.low_)
    return np.where(estimate.measurable, np.fmax(wider, 1.0), np.nan)


def _coefficients(model: StyledBradleyTerry, wider: Floats) -> list[dict[str, Any]]:
    """The effect of one standard deviation of each feature, in Elo.

    Raters widen the intervals as much as they widen those of scores on average.
    """
    points = model.scale / np.log(10)
    known = wider[np.isfinite(wider)]
    reach = model.coefficient_high_ - model.coefficients_
    reach *= points * (known.mean() if len(known) else 1.0)
    return [
        {
            "name": name,
            "label": label,
            "coefficient": _number(effect := model.coefficients_[i] * points),
            "low": _number(effect - reach[i]),
            "high": _number(effect + reach[i]),
            "deviation": _number(model.deviations_[i]),
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
            "score": _number(model.ratings_[i]),
            "low": _number(low[i]),
            "high": _number(high[i]),
        }
        for i, pk in enumerate(candidates.tolist())
        if isfinite(model.ratings_[i]) and kept[i]
    }


def _number(value: float) -> float | None:
    return float(value) if isfinite(value) else None


# -- Complete separation ---------------------------------------------------------------------------

# If one of two candidates has won every vote between them and one has no score, the number of
# prompts replaces the interval.


def prompts_met(evidence: BoardEvidence, standings: Iterable[Standing]) -> list[list[int]]:
    """[lower id, higher id, prompts] of each such pair, at least one of them without a score.

    Unknown prompts do not count. One query, or none if all candidates have a score.
    """
    unscored = [row.candidate_id for row in standings if row.score is None and row.votes]
    pairs = _separated_pairs(evidence, np.array(unscored, np.int64))
    if not pairs:
        return []
    board = evidence.board
    votes = Vote.objects.in_tallies().filter(
        Q(comparison__left__in=unscored) | Q(comparison__right__in=unscored),
        cast_by(Raters.PEOPLE if board.raters == Counted.COMBINED else board.raters),
        arena=board.arena_id,
    )
    if board.category:
        votes = votes.filter(comparison__prompt__category=board.category)
    counted = (
        votes.exclude(outcome=Outcome.BOTH_BAD)
        .values_list(
            Least("comparison__left", "comparison__right"),
            Greatest("comparison__left", "comparison__right"),
        )
        .annotate(prompts=Count("comparison__prompt", distinct=True))
        .order_by()
    )
    return [[low, high, n] for low, high, n in counted if (low, high) in pairs]


# -- Answers that reveal their author --------------------------------------------------------------


def named_votes(evidence: BoardEvidence) -> dict[str, Any]:
    """How many counted votes are on such answers, and which candidates have another rank without
    them.

    `without` has [candidate, rank, score] for each of those; None for one without a rank. Empty if
    such votes do not count, or if the names are hidden.
    """
    board = evidence.board
    if not evidence.keeps_named:
        return {}
    own = Response.objects.filter(candidate__arena=board.arena_id, names_itself=True)
    answers = list(own.values_list("pk", flat=True))
    if not answers:
        return {}
    votes = Vote.objects.in_tallies().filter(
        Q(comparison__left_response__in=answers) | Q(comparison__right_response__in=answers),
        cast_by(Raters.PEOPLE if board.raters == Counted.COMBINED else board.raters),
        arena=board.arena_id,
        comparison__names_itself=True,
    )
    if board.category:
        votes = votes.filter(comparison__prompt__category=board.category)
    named = count_by_prompt(votes).per_pair()
    rest = VoteCounts.joined([evidence.counts, -named]).merged()
    before, after = (
        BradleyTerry().fit(pair_battles(counts, evidence.candidates, evidence.both_bad_is_tie))
        for counts in (evidence.counts, rest)
    )
    places = zip(ranks(before.ratings_), ranks(after.ratings_), after.ratings_, strict=True)
    changed = [
        [pk, None, None] if isnan(rank) else [pk, int(rank), float(score)]
        for pk, (old, rank, score) in zip(evidence.candidates.tolist(), places, strict=True)
        if old != rank and not (isnan(old) and isnan(rank))
    ]
    return {"votes": int(evidence.scored(named).sum()), "without": changed}


def _separated_pairs(evidence: BoardEvidence, unscored: Ints) -> set[tuple[int, int]]:
    counts = evidence.counts
    even = counts["ties"] + counts["soft_first"] + counts["soft_second"] + counts["soft_ties"]
    if evidence.both_bad_is_tie:
        even = even + counts["both_bad"]
    one_sided = ((counts["first_wins"] > 0) ^ (counts["second_wins"] > 0)) & (even == 0)
    first, second = counts.key("first"), counts.key("second")
    separated = one_sided & (np.isin(first, unscored) | np.isin(second, unscored))
    return set(zip(first[separated].tolist(), second[separated].tolist(), strict=True))
