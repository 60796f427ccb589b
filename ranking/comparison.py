"""Published boards, and the comparison of two candidates on them.

Compare pages, win matrices, team decisions and the planning of judge runs take numbers from here.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from django.http import Http404

from arena.models import Arena
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
from ranking.question import Evidence
from ranking.services.claims import Kept, claim_between, read_kept
from ranking.services.votes import question_of, read
from ranking.stats.bradley_terry import WinMatrix, observed_shares
from ranking.stats.claim import (
    Claim,
    DirectVotes,
    Registration,
    Scope,
    Unit,
    Verdict,
    claim,
    decides,
    registered_claim,
    tests_of,
)
from ranking.votes import Ints, PairCounts

NOT_ON_BOARD = "It is not on this leaderboard yet."
LEADS = {Verdict.BETTER: "ahead", Verdict.WORSE: "behind"}
CHECKS = 20
FEWEST_PROMPTS = 8  # with votes; fewer decide nothing at every look


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

    @classmethod
    def of(cls, counts: PairCounts, a: int, b: int) -> "DirectRecord":
        pair = counts.where((counts.first == min(a, b)) & (counts.second == max(a, b)))
        first = int((pair["first_wins"] + pair["soft_first"]).sum())
        second = int((pair["second_wins"] + pair["soft_second"]).sum())
        wins, losses = (first, second) if a < b else (second, first)
        ties, both_bad = int((pair["ties"] + pair["soft_ties"]).sum()), int(pair["both_bad"].sum())
        return cls(wins, losses, ties, both_bad)


@dataclass(frozen=True, eq=False)
class PublishedPairs:
    """The votes between all pairs of K candidates.

    Attributes
    ----------
    candidates : (K,) ids, ascending
    counts : a row per pair with votes; `both_bad_is_tie` says whether "both bad" is a tie
    """

    candidates: Ints
    counts: PairCounts
    both_bad_is_tie: bool

    @cached_property
    def observed(self) -> WinMatrix:
        """(K, K): the row's share of the points against the column, and the votes."""
        return observed_shares(self.counts.battles(self.candidates, self.both_bad_is_tie))


def read_pairs(board: PublishedBoard) -> PublishedPairs | None:
    """One query; None if the snapshot was published without matrices, or has been replaced."""
    if board.snapshot is None:
        return None
    matrices = SnapshotMatrices.objects.filter(snapshot=board.snapshot).first()
    if matrices is None:
        return None
    settings = board.snapshot.settings
    ids = sorted(standing.candidate_id for standing in board.standings)
    return PublishedPairs(
        candidates=np.array(ids, np.int64),
        counts=matrices.pairs,
        both_bad_is_tie=settings["both_bad"] == BothBad.TIE,
    )


@dataclass(frozen=True)
class StyleDifference:
    """The difference in style-controlled scores, in Elo, at this count of votes. The interval is
    conservative: its error is the sum of both, because the covariance of these scores is not
    stored."""

    elo: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class CandidateDifference:
    """A candidate compared with a baseline by the votes of one leaderboard.

    Attributes
    ----------
    claim : what the votes between the two allow to be said of the candidate
    votes, between : counted votes of the candidate on the leaderboard, and between the two
    both_bad : "both bad" votes between the two that do not count
    score : how far its score is ahead, in Elo; None if either has none
    style : the difference in style-controlled scores, if the leaderboard has them
    family : how many candidates are compared with the baseline at once
    holds_together : whether what is decided also holds with all of these taken together
    """

    claim: Claim
    votes: int = 0
    between: int = 0
    both_bad: int = 0
    score: float | None = None
    style: StyleDifference | None = None
    family: int = 1
    holds_together: bool = False

    @property
    def is_decided(self) -> bool:
        return self.claim.is_decided

    @property
    def lead(self) -> str:
        """As the API, webhooks and stored decisions have it."""
        if self.claim.win_rate is None:
            return "not_comparable"
        return LEADS.get(self.claim.verdict, "open")

    @property
    def chance(self) -> float | None:
        """The probability that the candidate is better, with a flat prior of its win rate."""
        claim = self.claim
        if claim.win_rate is None:
            return None
        return claim.for_b / (claim.for_b + claim.for_a)

    @property
    def elo(self) -> float | None:
        """The win rate in Elo; None if it is 0 or 1."""
        return as_elo(self.claim.win_rate)

    @property
    def low(self) -> float | None:
        return as_elo(self.claim.low)

    @property
    def high(self) -> float | None:
        return as_elo(self.claim.high)

    @property
    def these_raters(self) -> int:
        """The number of raters, if the claim is about these people only; else 0."""
        return self.claim.n_raters if self.claim.scope is Scope.THESE_RATERS else 0

    @property
    def votes_to_go(self) -> int | None:
        """How many more votes between the two decide; None if no number is known to."""
        missing = self.claim.missing
        if missing is None or missing.unit not in (Unit.PROMPTS, Unit.VOTES):
            return None
        return missing.number

    @property
    def groups_to_go(self) -> int:
        """The fewest further prompts before anything can be decided, however one-sided."""
        return max(FEWEST_PROMPTS - self.claim.n_prompts, 0) if not self.is_decided else 0


def as_elo(share: float | None) -> float | None:
    if share is None or not 0 < share < 1:
        return None
    return 400 * math.log10(share / (1 - share))


@dataclass(frozen=True)
class DifferenceBoard:
    """A leaderboard's current snapshot with what comparisons need: standings by candidate, the
    votes that it counts, between the candidates that were asked for, and kept claims."""

    snapshot: Snapshot
    standings: Mapping[int, Standing]
    evidence: Evidence
    kept: Kept = field(default_factory=dict)

    @property
    def raters(self) -> str:
        return self.snapshot.board.raters

    @property
    def category(self) -> str:
        return self.snapshot.board.category

    @cached_property
    def findings(self) -> Findings:
        return Findings.of(self.snapshot)

    def claim(self, candidate: int, baseline: int) -> Claim:
        """What is said of a candidate, compared with another."""
        first, second = sorted((candidate, baseline))
        kept = self.kept.get((self.snapshot.board_id, first, second))
        return claim_between(self.evidence, candidate, baseline, kept)

    def is_decided(self, candidate: int, baseline: int) -> bool:
        """Whether `claim` is, without its interval and forecast, for many pairs at once."""
        if (self.snapshot.board_id, *sorted((candidate, baseline))) in self.kept:
            return self.claim(candidate, baseline).is_decided
        votes = self.evidence.between(candidate, baseline)
        return bool(len(votes.score)) and decides(tests_of(votes)[0])

    def claims_over_time(self, candidate: int, baseline: int) -> list[tuple[int, Claim]]:
        """The claim after each of at most CHECKS parts of the votes between the two, and how many
        votes these are; what was decided stays so."""
        pair = self.evidence.between(candidate, baseline)
        size = len(pair.score)
        step = max(1, -(-size // CHECKS))
        found, earlier = [], None
        for end in [*range(step, size, step), size] if size else []:
            earlier = claim(pair.first(end), earlier)
            found.append((end, earlier))
        return found

    def difference(self, candidate: int, baseline: int) -> CandidateDifference:
        """Compare the candidates with these two different ids."""
        record, is_tie = self.record(candidate, baseline), self.evidence.question.both_bad_is_tie
        scores = [self.standings[pk].score for pk in (candidate, baseline) if pk in self.standings]
        one, other = scores if len(scores) == 2 else (None, None)
        return CandidateDifference(
            self.claim(candidate, baseline),
            votes=self.votes(candidate),
            between=self.votes_between(candidate, baseline),
            both_bad=0 if is_tie else record.both_bad,
            score=None if one is None or other is None else one - other,
            style=self._style_difference(candidate, baseline),
        )

    def votes(self, pk: int) -> int:
        """The candidate's votes that count."""
        standing = self.standings.get(pk)
        return standing.votes if standing else 0

    def votes_between(self, candidate: int, baseline: int) -> int:
        """The votes between the two that count."""
        record = self.record(candidate, baseline)
        is_tie = self.evidence.question.both_bad_is_tie
        return record.wins + record.losses + record.ties + (record.both_bad if is_tie else 0)

    def record(self, candidate: int, baseline: int) -> DirectRecord:
        return DirectRecord.of(self.evidence.pairs, candidate, baseline)

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


@dataclass(frozen=True)
class DifferenceBoards:
    """The requested board (None before the first), and all boards of the same raters, the one for
    all prompts first; `snapshots` are all current ones of the arena."""

    query: BoardQuery
    chosen: DifferenceBoard | None
    boards: list[DifferenceBoard]
    snapshots: list[Snapshot]


def read_difference_boards(
    arena: Any, query: BoardQuery, among: Collection[int], retry: bool = True
) -> DifferenceBoards:
    """Read boards with the votes among these candidates, and again if a refresh replaces a snapshot
    meanwhile. A category without votes is taken as all prompts."""
    snapshots = list(Snapshot.objects.current().of_arena(arena))
    chosen = choose_snapshot(snapshots, query) or choose_snapshot(
        snapshots, BoardQuery(query.raters)
    )
    if chosen is None:
        return DifferenceBoards(query, None, [], snapshots)
    same = [s for s in snapshots if s.board.raters == chosen.board.raters]
    boards = load_difference_boards(arena, same, among)
    if retry and not all(board.standings for board in boards.values()):
        return read_difference_boards(arena, query, among, retry=False)
    query = BoardQuery(chosen.board.raters, chosen.board.category)
    return DifferenceBoards(query, boards[chosen.pk], list(boards.values()), snapshots)


def load_difference_boards(
    arena: Arena, snapshots: Iterable[Snapshot], among: Collection[int]
) -> dict[int, DifferenceBoard]:
    """Boards of an arena by the ids of their snapshots, in that order."""
    by_id = {snapshot.pk: snapshot for snapshot in snapshots}
    standings: dict[int, dict[int, Standing]] = {pk: {} for pk in by_id}
    for standing in Standing.objects.filter(snapshot__in=by_id, candidate__in=among):
        standings[standing.snapshot_id][standing.candidate_id] = standing
    table = read(arena, among) if by_id else None
    kept = read_kept([snapshot.board_id for snapshot in by_id.values()], among)
    boards = {}
    for pk, snapshot in by_id.items():
        assert table is not None
        published = table.where(table.pk <= snapshot.last_vote_id)
        evidence = Evidence.of(published, question_of(snapshot.board, arena))
        boards[pk] = DifferenceBoard(snapshot, standings[pk], evidence, kept)
    return boards


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


def claim_of_people(
    votes: Sequence[tuple[float, int, int]],
    kept: Claim | None,
    margin: float | None,
    family: int,
) -> Claim:
    """What people's votes between two allow to be said; `votes` are (score, prompt, rater), with
    scores from -1 to 1. The rest is as for `claim`."""
    columns = [np.array([vote[n] for vote in votes], np.float64) for n in range(3)]
    score, prompt, rater = columns[0], *(column.astype(np.int64) for column in columns[1:])
    return claim(DirectVotes(score, prompt, rater), kept, margin, family)


def claim_of_registered(
    scores: Sequence[float | None], registration: Registration, margin: float | None
) -> Claim:
    """What a registered run allows to be said; None is a prompt without a verdict."""
    values = np.array([np.nan if score is None else score for score in scores], np.float64)
    return registered_claim(values, registration, margin)
