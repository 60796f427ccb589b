"""Published boards, and the comparison of two candidates on them.

Compare pages, win matrices, team decisions and the planning of judge runs take numbers from here.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
from django.http import Http404

from ranking.board_data import (
    LONG_TEXTS,
    BoardLinks,
    BoardQuery,
    Findings,
    choose_snapshot,
    is_replaced,
    parse_id,
    read_snapshots,
)
from ranking.models import BothBad, Counted, Raters, Snapshot, SnapshotMatrices, Standing
from ranking.stats.battles import Battles, expected_score
from ranking.stats.bradley_terry import BradleyTerry, WinMatrix, observed_shares
from ranking.stats.differences import (
    MOST_VOTES,
    CompleteSeparation,
    Difference,
    Lead,
    SequentialTest,
    StyleDifference,
    compare,
    neighbours,
)
from ranking.stats.intervals import MIN_CLUSTERS
from ranking.votes import Floats, Ints, PairCounts

OPPOSED = "Their direct votes contradict their scores."
NOT_ON_BOARD = "It is not on this leaderboard yet."
STILL_COUNTING = "The votes of each pair are still being counted. Reload this page in a minute."
WITHOUT_ERROR = frozenset({Lead.FEW_CLUSTERS, Lead.NO_VARIATION, Lead.NOT_COMPARABLE})


@dataclass(frozen=True)
class PublishedBoard(BoardLinks):
    """A published board for pages other than its own; `standings` by rank, then by name."""

    standings: list[Standing]

    @property
    def is_combined(self) -> bool:
        return self.query.raters == Counted.COMBINED

    @property
    def voters(self) -> str:
        """Whose votes the pairs contain: people's on combined boards."""
        return Raters.PEOPLE.value if self.is_combined else self.query.raters


def read_published(arena: Any, query: BoardQuery, retry: bool = True) -> PublishedBoard:
    """Read a board in two queries, and again if a refresh replaces the snapshot meanwhile.

    Raises Http404 for unknown categories.
    """
    snapshots, snapshot = read_snapshots(arena, query)
    if snapshot is None:
        return PublishedBoard(arena, query, None, snapshots, [])
    standings = list(standings_with_candidates([snapshot]))
    for row in standings if snapshot.lacks_votes else ():  # nobody has a rank yet
        row.rank = row.sure_rank_low = row.sure_rank_high = None
    standings.sort(key=lambda row: (row.rank or 10**9, str(row.candidate).casefold(), row.pk))
    if retry and is_replaced(snapshot, standings):
        return read_published(arena, query, retry=False)
    query = replace(query, raters=snapshot.board.raters)
    return PublishedBoard(arena, query, snapshot, snapshots, standings)


def standings_with_candidates(snapshots: Collection[Snapshot]) -> Iterable[Standing]:
    """The standings of these snapshots with their candidates, but not the candidates' prompts."""
    standings = Standing.objects.filter(snapshot__in=snapshots).select_related("candidate")
    return standings.defer(*(f"candidate__{name}" for name in LONG_TEXTS))


@dataclass(frozen=True)
class DirectRecord:
    """The votes between a and b, seen from a; a soft verdict counts for the side it favours."""

    wins: int
    losses: int
    ties: int
    both_bad: int


@dataclass(frozen=True, eq=False)
class PublishedPairs:
    """The votes between all pairs of K candidates, and the uncertainty of the scores.

    Attributes
    ----------
    candidates : (K,) ids, ascending
    theta : (K,) natural log-odds, NaN for the unranked
    covariance : (K, K) of theta; NaN where unknown
    counts : a row per pair with votes; `both_bad_is_tie` says whether "both bad" is a tie
    scale : Elo points for odds of 10 to 1
    weight : of a vote, on average: below 1 where raters or networks are capped
    """

    candidates: Ints
    theta: Floats
    covariance: Floats
    counts: PairCounts
    both_bad_is_tie: bool
    scale: float
    weight: float = 1.0

    @classmethod
    def of(
        cls, snapshot: Snapshot, standings: Iterable[Standing], matrices: SnapshotMatrices
    ) -> "PublishedPairs":
        settings = snapshot.settings
        elo_per_theta = settings["scale"] / math.log(10)
        by_id = sorted(standings, key=lambda standing: standing.candidate_id)
        candidates = np.array([standing.candidate_id for standing in by_id], np.int64)
        scores = np.array([standing.score for standing in by_id], np.float64)  # None is NaN
        return cls(
            candidates=candidates,
            theta=(scores - settings["center"]) / elo_per_theta,
            covariance=matrices.covariance_among(candidates) / elo_per_theta**2,
            counts=matrices.pairs,
            both_bad_is_tie=settings["both_bad"] == BothBad.TIE,
            scale=settings["scale"],
            weight=settings.get("mean_weight", 1.0),
        )

    @cached_property
    def battles(self) -> Battles:
        return self.counts.battles(self.candidates, self.both_bad_is_tie)

    @cached_property
    def observed(self) -> WinMatrix:
        """(K, K): the row's share of the points against the column, and the votes."""
        return observed_shares(self.battles)

    @cached_property
    def independent(self) -> Floats:
        """(K, K): covariance of theta with votes taken as independent; NaN for the unranked."""
        covariance: Floats = BradleyTerry().fit(self.battles, start=self.theta).covariance_
        return covariance / self.weight

    def index(self, pk: int) -> int | None:
        """A candidate's index in the arrays; None if it is not on the board."""
        return next(iter(np.flatnonzero(self.candidates == pk).tolist()), None)

    def independent_variance(self, i: int, j: int) -> float | None:
        """Variance of theta_i - theta_j with votes taken as independent; None without scores."""
        if np.isnan(self.theta[[i, j]]).any():
            return None
        covariance = self.independent
        return float(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j])

    def record(self, a: int, b: int) -> DirectRecord:
        """The votes between the candidates with these ids."""
        counts = self.counts
        pair = counts.where((counts.first == min(a, b)) & (counts.second == max(a, b)))
        first = int((pair["first_wins"] + pair["soft_first"]).sum())
        second = int((pair["second_wins"] + pair["soft_second"]).sum())
        wins, losses = (first, second) if a < b else (second, first)
        ties, both_bad = int((pair["ties"] + pair["soft_ties"]).sum()), int(pair["both_bad"].sum())
        return DirectRecord(wins, losses, ties, both_bad)


def read_pairs(board: PublishedBoard) -> PublishedPairs | None:
    """One query; None if the snapshot was published without matrices, or has been replaced."""
    if board.snapshot is None:
        return None
    matrices = SnapshotMatrices.objects.filter(snapshot=board.snapshot).first()
    return PublishedPairs.of(board.snapshot, board.standings, matrices) if matrices else None


class UnscoredSide(StrEnum):
    """Which of the two has no score."""

    NOBODY = ""
    CANDIDATE = "candidate"
    BASELINE = "baseline"


@dataclass(frozen=True)
class CandidateDifference:
    """How far a candidate is ahead of a baseline on one board; None if unknown.

    Attributes
    ----------
    lead : what the 95 % interval says; without one, `reason` says why, and `blamed` which side
        lacks a score; also `reason` if it is open because direct votes say the opposite
    is_decided : whether the lead is conclusive, however often it was checked
    elo, low, high : the difference, in Elo, and its interval
    wins, wins_low, wins_high : how often the candidate is preferred, from 0 to 1
    chance : the probability that the candidate is better, from 0 to 1
    log_evidence : the logarithm of the e-value of a difference
    family : how many candidates are compared with the baseline at once
    votes, between : counted votes of the candidate on the board, and between the two
    both_bad : "both bad" votes between the two that do not count
    votes_to_go : how many more between the two until the lead is conclusive, if the difference
        stays the same; MOST_VOTES for as many or more
    groups_to_go : the fewest new groups (prompts, if votes are grouped by prompt) that these must
        be in
    n_groups : the number of groups with votes of whichever has fewer; None if not stored
    these_raters : the number of raters, if the result is about them only; else 0
    is_shut_out : whether one has won every vote between the two, so that there is no interval
    style : the difference in style-controlled scores, if the board has them
    """

    lead: Lead
    is_decided: bool = False
    elo: float | None = None
    low: float | None = None
    high: float | None = None
    wins: float | None = None
    wins_low: float | None = None
    wins_high: float | None = None
    chance: float | None = None
    log_evidence: float = -math.inf
    family: int = 1
    votes: int = 0
    between: int = 0
    both_bad: int = 0
    votes_to_go: int | None = None
    groups_to_go: int = 0
    n_groups: int | None = None
    these_raters: int = 0
    is_shut_out: bool = False
    reason: str = ""
    blamed: UnscoredSide = UnscoredSide.NOBODY
    style: StyleDifference | None = None


@dataclass(frozen=True)
class DifferenceBoard:
    """A board's current snapshot with what comparisons need: standings by candidate, and `pairs`,
    None while they are being counted."""

    snapshot: Snapshot
    standings: Mapping[int, Standing]
    pairs: PublishedPairs | None

    @property
    def raters(self) -> str:
        return self.snapshot.board.raters

    @property
    def category(self) -> str:
        return self.snapshot.board.category

    @cached_property
    def findings(self) -> Findings:
        return Findings.of(self.snapshot)

    def difference(
        self,
        candidate: int,
        baseline: int,
        *,
        forecast: bool = True,
        once: bool = False,
        burden: float = 1.0,
    ) -> CandidateDifference:
        """Compare the candidates with these two different ids; `forecast`: also the votes to go.

        Intervals hold at every check, as the decision does; with `once`, for a single check only.
        `burden`: the burden of proof, as in `ranking.stats.differences.burdens`.
        """
        if unscored := self._unscored(candidate, baseline):
            result = self._complete_separation(candidate, baseline, burden) or unscored
        elif self.pairs is None:
            result = CandidateDifference(Lead.NOT_COMPARABLE, reason=STILL_COUNTING)
        else:
            result = self._measured_difference(
                self.pairs, candidate, baseline, forecast, once, burden
            )
        counted, both_bad = self._count_between(candidate, baseline)
        return replace(
            result,
            votes=self.votes(candidate),
            between=counted,
            both_bad=both_bad,
            these_raters=self.snapshot.settings.get("these_raters", 0),
        )

    def votes(self, pk: int) -> int:
        """The candidate's votes that count."""
        standing = self.standings.get(pk)
        return standing.votes if standing else 0

    def votes_between(self, candidate: int, baseline: int) -> int:
        """The votes between the two that count."""
        return self._count_between(candidate, baseline)[0]

    def record(self, candidate: int, baseline: int) -> DirectRecord:
        if self.pairs is None:
            return DirectRecord(0, 0, 0, 0)
        return self.pairs.record(candidate, baseline)

    def win_rate(self, candidate: int, baseline: int) -> float | None:
        """The candidate's share of the points between the two, from 0 to 1; None without votes."""
        places = self._pair_index(candidate, baseline)
        if self.pairs is None or places is None or not self.pairs.observed.votes[places]:
            return None
        return float(self.pairs.observed.share[places])

    def votes_to_separate(self, candidate: int, baseline: int) -> str:
        """How many more votes between the two would give a clear lead, as in "Lead over next".

        "about 120 more votes"; '' for a clear lead, or without a forecast.
        """
        for pair in self.findings.neighbours.values():
            if {pair.upper, pair.lower} == {candidate, baseline}:
                return pair.words if pair.votes else ""
        places = self._pair_index(candidate, baseline)
        opposed = {(candidate, baseline), (baseline, candidate)} & self.findings.opposed
        if self.pairs is None or places is None or opposed:
            return ""
        two = np.array(places)
        if np.isnan(self.pairs.theta[two]).any():
            return ""
        result = neighbours(
            self.pairs.theta[two],
            self.pairs.covariance[np.ix_(two, two)],
            self.pairs.independent[np.ix_(two, two)],
            self.snapshot.settings["confidence"],
            self.snapshot.settings.get("n_clusters"),
        )[0]
        return result.words if result.votes else ""

    def evidence_share(self, candidate: int, baseline: int) -> float | None:
        """The share of the evidence on the difference that direct votes provide, from 0 to 1.

        This is the leverage of these votes: each of the n adds p (1 - p) along e_i - e_j to the
        information 1 / v, where v is the variance of the difference with all votes taken as
        independent. The rest comes through other candidates.
        """
        places = self._pair_index(candidate, baseline)
        if self.pairs is None or places is None:
            return None
        i, j = places
        variance = self.pairs.independent_variance(i, j)
        if variance is None:
            return None
        p = float(expected_score(self.pairs.theta[i] - self.pairs.theta[j]))
        n = int(self.pairs.observed.votes[i, j])
        return min(1.0, n * p * (1 - p) * variance * self.pairs.weight)

    def _pair_index(self, candidate: int, baseline: int) -> tuple[int, int] | None:
        if self.pairs is None:
            return None
        i, j = self.pairs.index(candidate), self.pairs.index(baseline)
        return None if i is None or j is None else (i, j)

    def _count_between(self, candidate: int, baseline: int) -> tuple[int, int]:
        """The counted votes between the two, and the "both bad" votes that do not count."""
        record = self.record(candidate, baseline)
        decided = record.wins + record.losses + record.ties
        if self.pairs and self.pairs.both_bad_is_tie:
            return decided + record.both_bad, 0
        return decided, record.both_bad

    def _unscored(self, candidate: int, baseline: int) -> CandidateDifference | None:
        """The result if one of the two has no score; None if both have one."""
        for pk, side in ((candidate, UnscoredSide.CANDIDATE), (baseline, UnscoredSide.BASELINE)):
            if reason := why_unscored(self.standings.get(pk)):
                return CandidateDifference(Lead.NOT_COMPARABLE, reason=reason, blamed=side)
        return None

    def _complete_separation(
        self, candidate: int, baseline: int, burden: float
    ) -> CandidateDifference | None:
        """The result if one side won every vote between the two (at least one); else None."""
        prompts = self._separated_prompts.get((min(candidate, baseline), max(candidate, baseline)))
        if prompts is None or self.pairs is None:
            return None
        test = CompleteSeparation(prompts, self.snapshot.settings["confidence"], burden)
        has_won = self.record(candidate, baseline).wins > 0
        side = Lead.AHEAD if has_won else Lead.BEHIND
        return CandidateDifference(
            side if test.is_beyond_chance else Lead.OPEN,
            test.is_decided,
            wins=1.0 if has_won else 0.0,
            chance=test.chance if has_won else 1 - test.chance,
            log_evidence=test.log_evidence,
            votes_to_go=test.prompts_to_go,
            groups_to_go=test.prompts_to_go,
            is_shut_out=True,
        )

    @cached_property
    def _separated_prompts(self) -> dict[tuple[int, int], int]:
        """The number of prompts on which a pair met, if one won every vote and one has no score."""
        stored = self.snapshot.settings.get("prompts_met", [])
        return {(low, high): prompts for low, high, prompts in stored}

    def _measured_difference(
        self,
        pairs: PublishedPairs,
        candidate: int,
        baseline: int,
        forecast: bool,
        once: bool,
        burden: float,
    ) -> CandidateDifference:
        settings = self.snapshot.settings
        i, j = np.searchsorted(pairs.candidates, [candidate, baseline]).tolist()
        n_groups = self._count_groups(candidate, baseline)
        difference = self._score_difference(pairs, i, j, n_groups)
        result = CandidateDifference(
            difference.lead,
            elo=_finite(difference.elo),
            low=_finite(difference.low),
            high=_finite(difference.high),
            wins=_finite(difference.probability),
            wins_low=_finite(difference.probability_low),
            wins_high=_finite(difference.probability_high),
            style=self._style_difference(candidate, baseline),
        )
        if difference.lead in WITHOUT_ERROR:
            to_go = 0
            if n_groups is not None:
                best = CompleteSeparation(n_groups, settings["confidence"], burden)
                to_go = best.prompts_to_go
            return replace(result, reason=difference.lead.reason, groups_to_go=to_go)
        variance = pairs.independent_variance(i, j)
        independent = variance if variance and 0 < variance < math.inf else 0.0
        test = SequentialTest.measured(
            difference.elo * self._theta_per_elo,
            difference.standard_error * self._theta_per_elo,
            independent,
            n_groups,
            settings["confidence"],
            burden,
        )
        votes_to_go = None
        if forecast and independent:
            votes = test.votes_to_go(independent)
            votes_to_go = MOST_VOTES if votes is None else votes
        two = (candidate, baseline) if difference.elo > 0 else (baseline, candidate)
        if two in self.findings.opposed:
            result = replace(result, lead=Lead.OPEN, reason=OPPOSED)
        else:
            result = replace(
                result,
                is_decided=test.is_decided and result.lead is not Lead.OPEN,
                chance=test.chance_ahead,
                log_evidence=test.log_evidence,
                votes_to_go=votes_to_go,
            )
        result = replace(result, groups_to_go=test.clusters_to_go, n_groups=test.n_clusters)
        return result if once else self._at_every_check(result, test)

    def _score_difference(
        self, pairs: PublishedPairs, i: int, j: int, n_groups: int | None
    ) -> Difference:
        """With the board's degrees of freedom, unless one of the two has few votes of its own."""
        settings = self.snapshot.settings
        has_few = n_groups is not None and n_groups < MIN_CLUSTERS
        return compare(
            pairs.theta,
            pairs.covariance,
            i,
            j,
            settings["confidence"],
            n_groups if has_few else settings.get("n_clusters"),
            pairs.scale,
        )

    def _at_every_check(
        self, result: CandidateDifference, test: SequentialTest
    ) -> CandidateDifference:
        """The result with the intervals of the confidence sequence.

        They contain 0, and a share of one half, unless the lead is decided. With too few groups to
        decide anything they have no bounds.
        """
        style = result.style
        if style is not None:
            n_clusters = self.snapshot.settings.get("n_clusters")
            style = style.at_every_check(test, n_clusters, self._theta_per_elo)
        if test.clusters_to_go:
            return replace(result, low=None, high=None, wins_low=0.0, wins_high=1.0, style=style)
        ends = [test.gap - test.radius, test.gap + test.radius]
        if not result.is_decided:
            ends = [min(ends[0], 0.0), max(ends[1], 0.0)]
        low, high = (_finite(end / self._theta_per_elo) for end in ends)
        wins_low, wins_high = expected_score(np.array(ends)).tolist()
        return replace(
            result, low=low, high=high, wins_low=wins_low, wins_high=wins_high, style=style
        )

    @property
    def _theta_per_elo(self) -> float:
        return math.log(10) / float(self.snapshot.settings["scale"])

    def _count_groups(self, candidate: int, baseline: int) -> int | None:
        """The number of groups with votes on the candidate that has fewer; None if not stored."""
        settings = self.snapshot.settings
        by_candidate = dict(settings.get("clusters_met", []))
        stored = [settings.get("n_clusters"), *map(by_candidate.get, (candidate, baseline))]
        return min((n for n in stored if n is not None), default=None)

    def _style_difference(self, candidate: int, baseline: int) -> StyleDifference | None:
        scores = self.findings.style_scores
        a, b = scores.get(candidate), scores.get(baseline)
        if a is None or b is None or a.score is None or b.score is None:
            return None
        if a.low is None or a.high is None or b.low is None or b.high is None:
            return StyleDifference(a.score - b.score, None, None)
        return StyleDifference(a.score - b.score, a.low - b.high, a.high - b.low)


def why_unscored(standing: Standing | None) -> str:
    """Why a candidate has no score; '' if it has one."""
    if standing is None:
        return NOT_ON_BOARD
    return standing.reason if standing.score is None else ""


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class DifferenceBoards:
    """The requested board (None before the first), and all boards of the same raters, the one for
    all prompts first; `snapshots` are all current ones of the arena."""

    query: BoardQuery
    chosen: DifferenceBoard | None
    boards: list[DifferenceBoard]
    snapshots: list[Snapshot]


def read_difference_boards(arena: Any, query: BoardQuery, retry: bool = True) -> DifferenceBoards:
    """Read boards in three queries, and again if a refresh replaces a snapshot meanwhile. A
    category without votes is taken as all prompts."""
    snapshots = list(Snapshot.objects.current().of_arena(arena))
    chosen = choose_snapshot(snapshots, query) or choose_snapshot(
        snapshots, BoardQuery(query.raters)
    )
    if chosen is None:
        return DifferenceBoards(query, None, [], snapshots)
    boards = load_difference_boards(s for s in snapshots if s.board.raters == chosen.board.raters)
    if retry and not all(board.standings for board in boards.values()):
        return read_difference_boards(arena, query, retry=False)
    query = BoardQuery(chosen.board.raters, chosen.board.category)
    return DifferenceBoards(query, boards[chosen.pk], list(boards.values()), snapshots)


def load_difference_boards(snapshots: Iterable[Snapshot]) -> dict[int, DifferenceBoard]:
    """Boards by the ids of their snapshots, in that order; two queries."""
    by_id = {snapshot.pk: snapshot for snapshot in snapshots}
    standings: dict[int, dict[int, Standing]] = {pk: {} for pk in by_id}
    for standing in Standing.objects.filter(snapshot__in=by_id):
        standings[standing.snapshot_id][standing.candidate_id] = standing
    matrices = {row.snapshot_id: row for row in SnapshotMatrices.objects.filter(snapshot__in=by_id)}
    return {
        pk: DifferenceBoard(
            snapshot,
            standings[pk],
            PublishedPairs.of(snapshot, standings[pk].values(), matrices[pk])
            if pk in matrices and standings[pk]
            else None,
        )
        for pk, snapshot in by_id.items()
    }


@dataclass(frozen=True)
class ChosenPair:
    """The two candidate ids in the URL; None if missing."""

    a: int | None
    b: int | None

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> "ChosenPair":
        """Parse URL parameters; raises Http404 for an invalid id."""
        texts = [parameters.get(name, "") for name in ("a", "b")]
        a, b = ids = [parse_id(text) for text in texts]
        if any(text and pk is None for text, pk in zip(texts, ids, strict=True)):
            raise Http404("There is no such candidate.")
        return cls(a, b)
