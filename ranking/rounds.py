"""A round: ten votes of a rater in an arena, and what they moved."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property

import numpy as np
from django.utils.formats import number_format
from django.utils.translation import gettext

from arena.models import Arena, Candidate, Outcome, Rater, Vote
from arena.outcomes import LEFT, RIGHT, VOTES_IN_A_ROUND
from ranking.claim_words import MOST_WORTHWHILE
from ranking.comparison import DifferenceBoard, load_difference_boards
from ranking.models import BothBad, Raters, Snapshot, Standing
from ranking.question import Evidence
from ranking.raters import FEWEST_OTHERS, count_others, rank_range, votes_to_own_ranking
from ranking.services.votes import read_only
from ranking.stats.claim import Claim, Scope, Unit
from ranking.templatetags.ranking_tags import grouped
from ranking.votes import LEFT as ON_LEFT
from ranking.votes import RIGHT as ON_RIGHT

LONGEST = timedelta(hours=2)  # a round that took longer was interrupted; how long says nothing
MOST_PAIRS, MOST_ROWS = 3, 4
MOST_CHOICES = 5


@dataclass(frozen=True)
class Round:
    """The votes of a rater's round in their order: ten, or fewer in the last one."""

    arena: Arena
    rater: Rater
    number: int
    is_last: bool
    votes: list[Vote]

    @property
    def is_complete(self) -> bool:
        return len(self.votes) == VOTES_IN_A_ROUND

    @property
    def minutes(self) -> int | None:
        """How long it took, from 1; None if it was interrupted."""
        first, last = self.votes[0], self.votes[-1]
        took = last.cast_at - (first.comparison.issued_at or first.cast_at)
        return max(1, round(took.total_seconds() / 60)) if took < LONGEST else None

    @property
    def uncounted(self) -> int:
        return sum(vote.uncounted is not None for vote in self.votes)

    @property
    def named(self) -> list[Vote]:
        """Those whose candidates may be named."""
        return [vote for vote in self.votes if not vote.hides_names]

    @cached_property
    def counted(self) -> list[Vote]:
        """Those that the leaderboard counts, or will."""
        return [vote for vote in self.named if vote.uncounted is None]


def find_round(arena: Arena, rater: Rater, number: int) -> Round | None:
    """None if the rater has not begun it."""
    votes = Vote.objects.revealed().filter(arena=arena, rater=rater).order_by("pk")
    last = -(-votes.count() // VOTES_IN_A_ROUND)
    if not 1 <= number <= last:
        return None
    votes = votes.select_related("comparison__left", "comparison__right", "comparison__run")
    first = VOTES_IN_A_ROUND * (number - 1)
    chosen = list(votes[first : first + VOTES_IN_A_ROUND])
    return Round(arena, rater, number, number == last, chosen)


@dataclass(frozen=True)
class Interval:
    """Of a win rate, from 0 to 100."""

    low: float
    high: float

    @classmethod
    def of(cls, claim: Claim) -> "Interval":
        """From 0 to 100 without votes."""
        if claim.low is None or claim.high is None:
            return cls(0.0, 100.0)
        return cls(100 * claim.low, 100 * claim.high)

    @property
    def width(self) -> float:
        return self.high - self.low

    def words(self, digits: int) -> str:
        low, high = (number_format(round(end, digits), digits) for end in (self.low, self.high))
        return gettext("{low}–{high}%").format(low=low, high=high)


@dataclass(frozen=True)
class PairMove:
    """What is known of two candidates without the round's votes and with them: how often `ahead`
    beats `behind`.

    `to_go`, `to_go_before`: the votes that settle it; None where votes alone are not known to.
    """

    ahead: Candidate
    behind: Candidate
    claim: Claim
    claim_before: Claim
    to_go: int | None
    to_go_before: int | None

    @property
    def before(self) -> Interval:
        return Interval.of(self.claim_before)

    @property
    def after(self) -> Interval:
        return Interval.of(self.claim)

    @property
    def words(self) -> tuple[str, str]:
        """The intervals, with a decimal only where the whole numbers are the same."""
        digits = int(self.before.words(0) == self.after.words(0))
        return self.before.words(digits), self.after.words(digits)

    @property
    def is_visible(self) -> bool:
        before, after = self.words
        return before != after or self.is_settled_now

    @property
    def change(self) -> float:
        """How many points wider the interval is; below 0 it is narrower."""
        return self.after.width - self.before.width

    @property
    def is_settled_now(self) -> bool:
        return self.claim.is_decided and not self.claim_before.is_decided

    @property
    def is_closer(self) -> bool:
        """Whether there is more evidence for either of the two than before."""
        before = max(self.claim_before.for_a, self.claim_before.for_b)
        return max(self.claim.for_a, self.claim.for_b) > before

    @property
    def state(self) -> str:
        """In a few words."""
        if self.is_settled_now:
            settled = (
                gettext("Settled now: {name} is better, for raters like these")
                if self.claim.scope is Scope.RATERS
                else gettext("Settled now: {name} is better, for those who voted")
            )
            return settled.format(name=self.ahead)
        is_narrower = self.change < 0
        if self.claim.is_decided and is_narrower:
            return gettext("Settled before; now a narrower interval")
        if self.claim.is_decided:
            return gettext("Settled before; now a wider interval")
        if self.is_closer:
            return gettext("Closer to a decision")
        if is_narrower:
            return gettext("A narrower interval, but further from a decision")
        return gettext("Further from a decision")

    @property
    def votes_to_go(self) -> str:
        """Before and now: "370 → 362"; '' if votes cannot settle it now."""
        known = [number for number in (self.to_go_before, self.to_go) if number]
        return " → ".join(map(grouped, known)) if self.to_go else ""


@dataclass(frozen=True)
class RankMove:
    """The ranks that a candidate could have, of `n`, before the round and now."""

    candidate: Candidate
    best: int
    worst: int
    best_before: int
    worst_before: int
    n: int

    @property
    def before(self) -> str:
        return rank_range(self.best_before, self.worst_before)

    @property
    def after(self) -> str:
        return rank_range(self.best, self.worst)

    @property
    def is_closer(self) -> bool:
        return self.change < 0

    @property
    def change(self) -> int:
        """How many more ranks are possible."""
        return (self.worst - self.best) - (self.worst_before - self.best_before)

    @property
    def cells(self) -> list[str]:
        """Of each rank: whether it is possible now, was before, or neither."""
        return [
            "now"
            if self.best <= rank <= self.worst
            else "before"
            if self.best_before <= rank <= self.worst_before
            else ""
            for rank in range(1, self.n + 1)
        ]


@dataclass(frozen=True)
class Since:
    """The leaderboard before a round, and how many votes it counts more by now."""

    at: datetime
    votes: int
    own: int


@dataclass(frozen=True)
class Moves:
    """What a round moved on the leaderboard of people's votes in all categories.

    `is_waiting`: the leaderboard has not counted all of its votes yet, so nothing else is known.
    `undecided`: how many of the votes were on pairs that are still undecided.
    """

    is_waiting: bool = False
    pairs: Sequence[PairMove] = ()
    ranks: Sequence[RankMove] = ()
    since: Since | None = None
    undecided: int = 0


def read_moves(played: Round) -> Moves:
    if not played.counted:
        return Moves()
    arena = played.arena
    current = Snapshot.objects.current().of_arena(arena)
    snapshot = current.filter(board__raters=Raters.PEOPLE, board__category="").first()
    if snapshot is None or snapshot.last_vote_id < played.counted[-1].pk:
        return Moves(is_waiting=True)
    candidates = {
        one.pk: one
        for vote in played.named
        for one in (vote.comparison.left, vote.comparison.right)
    }
    (board,) = load_difference_boards(arena, [snapshot], candidates).values()
    ranks, since = _rank_moves(played, board, candidates)
    pairs = _pair_moves(played, board, candidates)[:MOST_PAIRS]
    ranks = ranks[: MOST_ROWS - len(pairs)]
    return Moves(
        pairs=pairs,
        ranks=ranks,
        since=since if ranks else None,
        undecided=sum(
            not board.is_decided(vote.comparison.left_id, vote.comparison.right_id)
            for vote in played.named
        ),
    )


def _pair_moves(
    played: Round, board: DifferenceBoard, candidates: dict[int, Candidate]
) -> list[PairMove]:
    """The pairs whose intervals are visibly others without the round's votes; those that were
    settled first, then by how much the width has changed."""
    table = board.evidence.table
    others = table.where(~np.isin(table.pk, [vote.pk for vote in played.counted]))
    without = replace(board, evidence=Evidence.of(others, board.evidence.question))
    pairs = {
        (min(ids), max(ids))
        for vote in played.counted
        if (ids := (vote.comparison.left_id, vote.comparison.right_id))
    }
    shared = {
        (low, high): n
        for low, high, n in played.arena.pairs.filter(
            low__in=candidates, high__in=candidates
        ).values_list("low", "high", "shared_prompts")
    }
    moves = []
    for low, high in sorted(pairs):
        after, before = board.claim(low, high), without.claim(low, high)
        ahead, behind = low, high
        if after.win_rate is not None and after.win_rate < 0.5:
            ahead, behind, after, before = high, low, after.reversed, before.reversed
        prompts = shared.get((low, high), 0)
        moves.append(
            PairMove(
                candidates[ahead],
                candidates[behind],
                after,
                before,
                _votes_to_go(after, prompts),
                _votes_to_go(before, prompts),
            )
        )
    visible = [move for move in moves if move.is_visible]
    return sorted(visible, key=lambda move: (not move.is_settled_now, -abs(move.change)))


def _votes_to_go(claim: Claim, prompts: int) -> int | None:
    """The votes that settle it, if votes can: where the claim lacks prompts, each vote must be on
    another one, and the arena may have too few."""
    missing = claim.missing
    if missing is None or missing.number is None or missing.number > MOST_WORTHWHILE:
        return None
    has_prompts = missing.unit is Unit.PROMPTS and missing.number <= prompts - claim.n_prompts
    return missing.number if has_prompts or missing.unit is Unit.VOTES else None


def _rank_moves(
    played: Round, board: DifferenceBoard, candidates: dict[int, Candidate]
) -> tuple[list[RankMove], Since | None]:
    """The round's candidates whose possible ranks have changed since the leaderboard before its
    first vote, the largest change of their number first, and how many votes came since."""
    now, first = board.snapshot, played.votes[0].cast_at
    kept = Snapshot.objects.kept().filter(board=now.board_id, published_at__lte=first)
    before = kept.order_by("-published_at").first()
    if before is None or before.lacks_votes or now.lacks_votes:
        return [], None
    ranked = Standing.objects.filter(snapshot=before, sure_rank_low__isnull=False)
    earlier = {row.candidate_id: row for row in ranked.filter(candidate__in=candidates)}
    n = Standing.objects.filter(snapshot=now, sure_rank_low__isnull=False).count()
    moves = [
        RankMove(candidates[pk], *_ranks(standing), *_ranks(earlier[pk]), n)
        for pk, standing in board.standings.items()
        if pk in earlier and standing.sure_rank_low is not None
    ]
    moves = [move for move in moves if move.before != move.after]
    own = Vote.objects.live().listed().filter(arena=played.arena, rater=played.rater)
    own = own.filter(pk__gt=before.last_vote_id, pk__lte=now.last_vote_id)
    if now.settings["both_bad"] != BothBad.TIE:
        own = own.exclude(outcome=Outcome.BOTH_BAD)
    since = Since(before.published_at, now.n_votes - before.n_votes, own.count())
    if since.votes < max(since.own, 1):  # others' votes have been voided: that moved ranks, too
        return [], None
    return sorted(moves, key=lambda move: -abs(move.change)), since


def _ranks(standing: Standing) -> tuple[int, int]:
    assert standing.sure_rank_low is not None
    assert standing.sure_rank_high is not None
    return standing.sure_rank_low, standing.sure_rank_high


SIGNS = {"agree": "✓", "differ": "≠", "few": "?", "hidden": "–"}


@dataclass(frozen=True)
class AgreementMark:
    """Whether a vote agrees with what most others chose on the same two answers.

    `state`: "agree", "differ", "few" (fewer than FEWEST_OTHERS) or "hidden". `most`: what most of
    them chose, if that is something else: a candidate, or an outcome that favours neither.
    """

    number: int
    vote: Vote
    state: str
    most: Candidate | str = ""

    @property
    def sign(self) -> str:
        return SIGNS[self.state]

    @property
    def words(self) -> str:
        if self.state == "agree":
            return gettext("you agreed")
        if self.state == "few":
            return gettext("too few others voted")
        if self.state == "hidden":
            at_limit = gettext("Names not shown: limit per network and hour")
            waiting = gettext("Names hidden until everyone has voted")
            return at_limit if self.vote.names_withheld else waiting
        if self.most == Outcome.TIE:
            return gettext("most chose a tie")
        if self.most == Outcome.BOTH_BAD:
            return gettext("most found both bad")
        return gettext("most chose {name}").format(name=self.most)


def read_marks(played: Round) -> list[AgreementMark]:
    """One for each vote, in order; one query."""
    found = count_others(played.named, played.rater)
    marks = []
    for number, vote in enumerate(played.votes, start=1):
        counts, comparison = found.get(vote.pk, Counter()), vote.comparison
        if vote.hides_names:
            marks.append(AgreementMark(number, vote, "hidden"))
        elif counts.total() < FEWEST_OTHERS:
            marks.append(AgreementMark(number, vote, "few"))
        elif counts[vote.outcome] == max(counts.values()):
            marks.append(AgreementMark(number, vote, "agree"))
        else:
            ((most, _),) = counts.most_common(1)
            sides = {LEFT: comparison.left, RIGHT: comparison.right}
            marks.append(AgreementMark(number, vote, "differ", sides.get(most, most)))
    return marks


@dataclass(frozen=True)
class OwnChoice:
    """How often a rater chose a candidate's answer, of the times it was shown."""

    candidate: Candidate
    chosen: int
    shown: int


@dataclass(frozen=True)
class OwnChoices:
    """A rater's choices in an arena, from all `votes` that count, those chosen most often first;
    `to_go`: how many more votes a ranking of the rater's own needs."""

    best: list[OwnChoice]
    others: int
    votes: int
    to_go: int


def read_choices(arena: Arena, rater: Rater) -> OwnChoices:
    own = Vote.objects.live().known_to_rater().filter(arena=arena, rater=rater)
    table = read_only(arena, own)
    shown: Counter[int] = Counter()
    chosen: Counter[int] = Counter()
    for left, right, outcome in zip(table.left, table.right, table.outcome, strict=True):
        shown.update((int(left), int(right)))
        if outcome in (ON_LEFT, ON_RIGHT):
            chosen[int(left if outcome == ON_LEFT else right)] += 1
    # One of one says less than nine of ten: as if each had been chosen once in two times before.
    order = sorted(shown, key=lambda pk: (-(chosen[pk] + 1) / (shown[pk] + 2), pk))[:MOST_CHOICES]
    named = arena.candidates.revealed().in_bulk(order)
    best = [OwnChoice(named[pk], chosen[pk], shown[pk]) for pk in order if pk in named]
    to_go = votes_to_own_ranking(table.pairs())
    return OwnChoices(best, len(shown) - len(best), len(table), to_go)
